"""Suppressions that suppress nothing (NOQA-001) or name no rule (NOQA-002)."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.config.errors import Vocabulary
from embercoach.engine.suppression.directives import CODES, Directive, Item, words_for
from embercoach.finding import Edit, Finding, Fix
from embercoach.rulebook import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

UNUSED, UNKNOWN = CODES
#: Unknown words of a suppression for which the nearest code is looked up.
_MOST_CORRECTED = 100


def report(
    directive: Directive,
    used: AbstractSet[Item],
    enabled: AbstractSet[str],
    known: frozenset[str],
) -> Iterator[Finding]:
    """Findings about a suppression.

    Args:
        directive: a suppression of a file that was checked.
        used: its items that suppressed a finding.
        enabled: the codes selected for the file; suppressions of others are not judged.
        known: all codes that checks report.
    """
    if directive.kind == "noqa" and directive.blanket:
        return  # other linters use it too
    rules, by_word = _by_word(known)
    idle = []
    unknown = 0
    for item in directive.items:
        named = by_word.get(item.word.upper(), frozenset())
        if named and named <= enabled and item not in used:
            idle.append(item)
        elif not named and not any(item.word.upper() in words_for(code) for code in CODES):
            unknown += 1
            near = _words(known).nearest(item.word) if unknown <= _MOST_CORRECTED else None
            yield from _unknown(directive, item, near)
    if idle or (directive.blanket and rules <= enabled):
        yield _unused(directive, idle)


@lru_cache(maxsize=1)
def _by_word(known: frozenset[str]) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
    """The codes of the rules, in all and by the word that selects them."""
    rules = known - set(CODES)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for code in rules:
        for word in words_for(code):
            found[word].add(code)
    return rules, {word: frozenset(codes) for word, codes in found.items()}


@lru_cache(maxsize=1)
def _words(known: frozenset[str]) -> Vocabulary:
    return Vocabulary(known | {code.rpartition("-")[0] for code in known})


def _unused(directive: Directive, idle: list[Item]) -> Finding:
    gone = set(idle)
    kept = [item.word for item in directive.items if item not in gone]
    of = f" of {_names(idle)}" if idle else ""
    where = " in this file" if directive.kind == "ignore-file" else ""
    fix = Fix("Remove the unused suppression", safe=True, edits=(directive.edit(kept),))
    return _finding(
        directive,
        UNUSED,
        f"unused suppression{of}{where}",
        "Remove it, as it would hide a later finding",
        fix,
    )


def _names(items: list[Item]) -> str:
    """The first two names, and the number of the others."""
    names = ", ".join([f"`{item.word}`" for item in items[:2]])
    return names if len(items) <= 2 else f"{names} and {len(items) - 2} more"


def _unknown(directive: Directive, item: Item, near: str | None) -> Iterator[Finding]:
    if item.word.upper().startswith(SIMULATED):
        yield _finding(
            directive,
            UNKNOWN,
            f"`{item.word}` is a simulator rule, which comments do not suppress",
            "Allow its kind under [tool.embercoach.simulator], or with the marker embercoach_allow",
            None,
        )
        return
    foreign = directive.kind == "noqa" and not (near and "-" in item.word)
    if foreign:
        return  # another linter's
    fix = near and Fix(f"Write {near}", safe=False, edits=(Edit(item.start, item.end, near),))
    yield _finding(
        directive,
        UNKNOWN,
        f"unknown rule `{item.word}` in a suppression",
        f"Did you mean `{near}`?" if near else "Run `embercoach rules` to list the rules",
        fix or None,
    )


def _finding(
    directive: Directive, code: str, message: str, advice: str, fix: Fix | None
) -> Finding:
    return Finding(
        code=code,
        line=directive.line,
        column=directive.column,
        end_line=directive.line,
        end_column=directive.end_column,
        message=message,
        help=advice,
        fix=fix,
    )
