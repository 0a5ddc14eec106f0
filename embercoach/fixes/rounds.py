"""Fix, check again, fix what the new text shows, until nothing is left to fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.fixes.application import apply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embercoach.finding import Fix

ROUNDS = 10


class BrokenSourceError(Exception):
    """A text that does not parse any more; says why."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A text after fixing. ``trouble`` says why fixing stopped early; the text is sound anyway."""

    text: str
    applied: tuple[Fix, ...]
    trouble: str | None


def settle(
    text: str,
    proposals: Callable[[str], Sequence[Fix]],
    newline: str = "\n",
    first: Sequence[Fix] | None = None,
    rounds: int = ROUNDS,
) -> Settled:
    """Apply fixes round by round.

    Args:
        text: the source to fix; it must parse.
        proposals: the fixes for a text. Raises BrokenSourceError where the text does not parse.
        newline: the file's line end.
        first: the fixes for the source itself, if known.
        rounds: how often at most.
    """
    done: list[Fix] = []
    fixes = proposals(text) if first is None else first
    seen = {text}
    for _ in range(rounds):
        new, applied = apply(text, fixes, newline)
        if not applied or new == text:
            return Settled(text, tuple(done), None)
        if new in seen:
            return Settled(text, tuple(done), f"fixes undo each other: {_titles(applied)}")
        try:
            fixes = proposals(new)
        except BrokenSourceError as error:
            trouble = f"a fix would break the file ({error}); left out: {_titles(applied)}"
            return Settled(text, tuple(done), trouble)
        text = new
        seen.add(text)
        done += applied
    if fixes:
        return Settled(text, tuple(done), f"fixes don't settle in {rounds} rounds")
    return Settled(text, tuple(done), None)


def _titles(fixes: Sequence[Fix]) -> str:
    return ", ".join(sorted({fix.title for fix in fixes}))
