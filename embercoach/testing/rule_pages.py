"""Rule pages as tests see them: sections, and blocks of code, to be linted and run."""

from __future__ import annotations

import sys
import types
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from embercoach.checks import Project, check_metal, check_objective_c, check_source
from embercoach.rulebook import FIX, Rule, pages_directory, parse_page

if TYPE_CHECKING:
    from embercoach.finding import Finding

#: The headings in their order; two of them may be missing.
SECTIONS = ("Bad", "Good", FIX, "What it reports", "Why it hurts", "Evidence", "References")
OPTIONAL = frozenset({FIX, "References"})
CODE_SECTIONS = ("Bad", "Good", FIX, "Evidence")
#: Sections whose blocks run, and that have no block of another language.
PYTHON_SECTIONS = frozenset({FIX, "Evidence"})
#: How the text under "How to fix" without a block begins.
NOT_EXECUTED = "Not executed: "
#: What a block under Bad or Good may be fenced as.
LINTED = frozenset({"python", "metal", "objective-c++"})


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its section, its first line in the file (from 1), its code and language."""

    path: Path
    section: str
    line: int
    code: str
    language: str = "python"

    @property
    def label(self) -> str:
        """The page, section and line: the name of a test."""
        return f"{self.path.stem}:{self.section.lower()}:{self.line}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page's metadata, and what its text is made of.

    ``remedy`` is the first paragraph under "How to fix", empty without one.
    """

    path: Path
    rule: Rule
    sections: tuple[str, ...]
    blocks: tuple[Block, ...]
    remedy: str = ""

    def blocks_of(self, section: str) -> tuple[Block, ...]:
        """Return the blocks of a section."""
        return tuple(block for block in self.blocks if block.section == section)


def page_paths() -> list[Path]:
    """Return the pages of EmberCoach's own rules."""
    return sorted(path for path in pages_directory().glob("*.md") if path.stem != "README")


def read_page(path: Path) -> Page:
    """Read and parse a page; raises as :func:`page_of`."""
    return page_of(path.read_text(encoding="utf-8"), path)


def page_of(text: str, path: Path) -> Page:
    """Parse a page.

    Raises:
        RulePageError: its top or its metadata breaks the form.
        ValueError: a code section holds a block that is not fenced as ``python``, nor, under Bad
            or Good, as a language that is linted.
    """
    rule = parse_page(text, path)
    section, remedy = "", ""
    sections: list[str] = []
    blocks: list[Block] = []
    # Blocks are enough, and they take half of the time.
    tokens = MarkdownIt().disable("inline").parse(rule.page)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.tag == "h2" and token.nesting == 1 and following is not None:
            section = following.content
            sections.append(section)
        elif token.type == "paragraph_open" and section == FIX and following is not None:
            remedy = remedy or following.content
        elif token.type in ("fence", "code_block") and section in CODE_SECTIONS:
            line = (token.map or [0])[0] + 2
            language = token.info.strip() if token.type == "fence" else ""
            if language not in (("python",) if section in PYTHON_SECTIONS else LINTED):
                raise ValueError(f"{path}:{line}: a block under '{section}' is not ```python")
            blocks.append(Block(path, section, line, token.content, language))
    return Page(path, rule, tuple(sections), tuple(blocks), remedy)


def form_errors(page: Page) -> list[str]:
    """Return the errors of a page's form, in words; none for a correct page."""
    errors = []
    if page.sections != tuple(s for s in SECTIONS if s in page.sections or s not in OPTIONAL):
        errors.append(f"the sections are {', '.join(page.sections)}")
    if not page.rule.code.lower().startswith(f"{page.rule.family}-"):
        errors.append(f"the family is '{page.rule.family}'")
    required = [name for name in CODE_SECTIONS if name not in OPTIONAL]
    errors += [f"no block under '{name}'" for name in required if not page.blocks_of(name)]
    if FIX in page.sections and bool(page.blocks_of(FIX)) == page.remedy.startswith(NOT_EXECUTED):
        errors.append(f"needs a block under '{FIX}', or a reason after '{NOT_EXECUTED}'")
    return errors


@cache
def _project() -> Project:
    """Return one for all blocks: those that import EmberCoach would read it again for each."""
    return Project()


def lint(block: Block) -> tuple[Finding, ...]:
    """Return all findings of the checks in a block, of whatever severity.

    Raises:
        AssertionError: a check raised, or exceeded its budget.
    """
    if block.language == "metal":
        report = check_metal(block.code)
    elif block.language == "objective-c++":
        report = check_objective_c(block.code)
    else:
        report = check_source(block.code, Path("example.py"), _project())
    if report.problem is not None:
        raise AssertionError(f"{block.path}:{block.line}: {report.problem}")
    return report.findings


def fix_errors(page: Page, kinds: AbstractSet[bool]) -> list[str]:
    """The error of a page whose ``fix`` differs from its bad examples'; none for a correct page.

    Args:
        page: of the rule.
        kinds: whether the fixes of the rule's findings are safe.
    """
    expected: dict[str, list[set[bool]]] = {"none": [set()], "safe": [{True}], "unsafe": [{False}]}
    if kinds in expected.get(page.rule.fix, [{True}, {False}, {True, False}]):
        return []
    found = " and ".join("safe" if kind else "unsafe" for kind in sorted(kinds)) or "none"
    return [f"fix is '{page.rule.fix}', and the fixes of the bad examples are {found}"]


def execute(block: Block) -> None:
    """Run a block as a separate module; its tracebacks point into the page."""
    name = f"page_{block.path.stem.replace('-', '_').lower()}_{block.line}"
    module = types.ModuleType(name)
    code = compile("\n" * (block.line - 1) + block.code, str(block.path), "exec")
    sys.modules[name] = module  # dataclasses and pickle look their module up
    try:
        exec(code, module.__dict__)
    finally:
        del sys.modules[name]
