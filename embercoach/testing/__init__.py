"""Tests of rule pages, for EmberCoach's own rules and for those of plugins.

The package is imported by tests alone. :func:`page_tests` is stable and documented in
``docs/own-rules.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from embercoach.plugins.loading import make_plugin, register
from embercoach.rulebook import FIX
from embercoach.testing.rule_pages import (
    Block,
    Page,
    execute,
    fix_errors,
    form_errors,
    lint,
    read_page,
)

if TYPE_CHECKING:
    from embercoach.api import RuleSet

__all__ = ["PageTest", "page_tests"]


@dataclass(frozen=True, slots=True)
class PageTest:
    """A test of a page; a test runner calls it.

    Attributes:
        name: the page, and the part of it that is tested.
        run: raises AssertionError if the page is incorrect, or the error of an example.
    """

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Run the test."""
        self.run()

    def __str__(self) -> str:
        """Return the name."""
        return self.name


def page_tests(rules: RuleSet) -> list[PageTest]:
    """Return the tests of a plugin's pages: form, evidence, examples and fixes.

    Each bad example must have findings of the page's rule, and none of the plugin's other rules;
    each good example must have none of the plugin's.
    The rules become this process's only plugin.

    Raises:
        PluginError: the rules cannot be used.
        ValueError: a page has an example in another language.
    """
    register([make_plugin("under test", "", rules)])
    pages = [read_page(path) for path in sorted(rules.pages.glob("*.md")) if path.stem != "README"]
    return [test for page in pages for test in _tests(page)]


def _tests(page: Page) -> Iterator[PageTest]:
    yield PageTest(f"{page.path.stem}:form", partial(_require_form, page))
    yield PageTest(f"{page.path.stem}:fix", partial(_require_fixes, page))
    for block in page.blocks:
        if block.section == "Bad":
            yield PageTest(block.label, partial(_require_codes, block, {page.rule.code}))
        if block.section in ("Good", FIX):
            yield PageTest(block.label, partial(_require_codes, block, set()))
        if block.section != "Bad" and block.language == "python":
            yield PageTest(f"{block.label}:run", partial(execute, block))


def _require_form(page: Page) -> None:
    errors = form_errors(page)
    if errors:
        raise AssertionError(f"{page.path}: {'; '.join(errors)}")


def _require_fixes(page: Page) -> None:
    found = [finding for block in page.blocks_of("Bad") for finding in lint(block)]
    fixes = [one.fix for one in found if one.code == page.rule.code]
    errors = fix_errors(page, {fix.safe for fix in fixes if fix is not None})
    if errors:
        raise AssertionError(f"{page.path}: {'; '.join(errors)}")


def _require_codes(block: Block, expected: set[str]) -> None:
    # Not those of EmberCoach's own rules, which differ by release.
    prefix = block.path.stem.partition("-")[0]
    codes = {one.code for one in lint(block) if one.code.startswith(f"{prefix}-")}
    if codes != expected:
        said = ", ".join(sorted(codes)) or "none"
        should = ", ".join(sorted(expected)) or "none"
        raise AssertionError(f"{block.path}:{block.line}: findings must be {should}, got {said}")
