"""Suppressions that suppress nothing (NOQA-001) or name no rule (NOQA-002)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.config.errors import nearest
from embercoach.engine.directives import CODES, Directive, Item
from embercoach.finding import Edit, Fix, RawFinding
from embercoach.rulebook import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

UNUSED, UNKNOWN = CODES


def report(
    directive: Directive,
    used: AbstractSet[Item],
    enabled: AbstractSet[str],
    known: AbstractSet[str],
) -> Iterator[RawFinding]:
    """What is wrong with a suppression.

    Args:
        directive: a suppression of a file that was checked.
        used: its items that suppressed a finding.
        enabled: the codes selected for the file; of others nobody knows whether they would fire.
        known: all codes that checks report.
    """
    rules = known - set(CODES)
    if directive.kind == "noqa" and directive.blanket:
        return  # other linters use it too
    idle = []
    for item in directive.items:
        named = {code for code in rules if item.names(code)}
        if named and named <= enabled and item not in used:
            idle.append(item)
        elif not named and not any(item.names(code) for code in CODES):
            yield from _unknown(directive, item, known)
    if idle or (directive.blanket and rules <= enabled):
        yield _unused(directive, idle)


def _unused(directive: Directive, idle: list[Item]) -> RawFinding:
    kept = [item.word for item in directive.items if item not in idle]
    names = ", ".join(f"`{item.word}`" for item in idle)
    what = f"{names} {'suppresses' if len(idle) == 1 else 'suppress'}" if idle else "it suppresses"
    where = "in this file" if directive.kind == "ignore-file" else "here"
    fix = Fix("Remove the unused suppression", safe=True, edits=(directive.edit(kept),))
    return _finding(
        directive,
        UNUSED,
        f"unused suppression: {what} nothing {where}",
        "remove it: it would hide a finding that comes later",
        fix,
    )


def _unknown(directive: Directive, item: Item, known: AbstractSet[str]) -> Iterator[RawFinding]:
    if item.word.upper().startswith(SIMULATED):
        yield _finding(
            directive,
            UNKNOWN,
            f"`{item.word}` is found by running the kernel, so that a comment suppresses nothing",
            "allow its kind under [tool.embercoach.simulator], or with the marker embercoach_allow",
            None,
        )
        return
    families = {code.rpartition("-")[0] for code in known}
    near = nearest(item.word, known | families)
    foreign = directive.kind == "noqa" and not (near and "-" in item.word)
    if foreign:
        return  # another linter's
    fix = near and Fix(f"Write {near}", safe=False, edits=(Edit(item.start, item.end, near),))
    yield _finding(
        directive,
        UNKNOWN,
        f"unknown rule `{item.word}` in a suppression: it suppresses nothing",
        f"did you mean `{near}`?" if near else "`embercoach rules` lists the rules",
        fix or None,
    )


def _finding(
    directive: Directive, code: str, message: str, advice: str, fix: Fix | None
) -> RawFinding:
    return RawFinding(
        code=code,
        line=directive.line,
        column=directive.column,
        end_line=directive.line,
        end_column=directive.end_column,
        message=message,
        help=advice,
        context="default",
        fix=fix,
    )
