"""Fixes to new source, round by round until nothing is left to fix, and as a diff."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.fixes.source_file import LineIndex

if TYPE_CHECKING:
    from embercoach.finding import Fix


def unified(before: str, after: str, path: str) -> str:
    """Return a unified diff that ``patch`` and ``git apply`` accept; empty for equal texts."""
    import difflib

    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(list(_lines(before)), list(_lines(after)), path, path)
    )


def _lines(text: str) -> Iterator[str]:
    # A diff tool's lines end at "\n" alone; a "\r" before it belongs to the line.
    starts = [s for s in LineIndex(text).starts if s == 0 or text[s - 1] == "\n"]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if start < end:
            yield text[start:end]


_Span = tuple[int, int, str]


def apply(source: str, fixes: Iterable[Fix], newline: str = "\n") -> tuple[str, tuple[Fix, ...]]:
    r"""Apply as many fixes as go together, first come first served by place.

    A fix is applied whole or not at all. Two fixes go together if no edit of one overlaps or, as
    an insertion, touches an edit of the other. Whole lines may be inserted at one place. Equal
    fixes, and equal insertions of whole lines (an import), are applied once.

    Args:
        source: text that the edits' offsets refer to.
        fixes: proposed fixes in any order.
        newline: the file's line end; ``\n`` in an edit's text becomes it.

    Returns:
        The new text, and the fixes that are in it.

    Raises:
        ValueError: an edit lies outside of the source, or a fix overlaps itself.
    """
    taken: list[_Span] = []
    seen: dict[tuple[_Span, ...], bool] = {}
    applied = []
    for fix in sorted(fixes, key=_place):
        spans = tuple(sorted(((e.start, e.end, e.text) for e in fix.edits), key=_extent))
        _validate(spans, len(source), fix)
        if spans not in seen:
            new = [span for span in spans if not (_is_line(span) and span in taken)]
            seen[spans] = not any(_conflicts(span, taken) for span in new)
            if seen[spans]:
                for span in new:
                    insort(taken, span, key=_extent)
        if seen[spans] and spans:
            applied.append(fix)
    return _rewritten(source, taken, newline), tuple(applied)


def _place(fix: Fix) -> tuple[int, int, str]:
    starts = [edit.start for edit in fix.edits]
    ends = [edit.end for edit in fix.edits]
    return (min(starts, default=0), max(ends, default=0), fix.title)


def _extent(span: _Span) -> tuple[int, int]:
    # Insertions of one fix at one place keep their order: their text is not part of the key.
    return span[:2]


def _validate(spans: tuple[_Span, ...], length: int, fix: Fix) -> None:
    previous = 0
    for start, end, _ in spans:
        if not previous <= start <= end <= length:
            raise ValueError(f"the fix {fix.title!r} has edits that overlap or lie outside")
        previous = end


def _is_line(span: _Span) -> bool:
    start, end, text = span
    return start == end and text.endswith("\n")


def _conflicts(span: _Span, taken: list[_Span]) -> bool:
    # Taken spans don't overlap each other, so only the neighbours can be in the way; several
    # may start at one place (insertions of one fix), hence the walk.
    index = bisect_left(taken, _extent(span), key=_extent)
    for other in reversed(taken[:index]):
        if _touch(other, span):
            return True
        if other[1] < span[0]:
            break
    for other in taken[index:]:
        if _touch(other, span):
            return True
        if other[0] > span[1]:
            break
    return False


def _touch(one: _Span, other: _Span) -> bool:
    if one[:2] == other[:2] and _is_line(one) and _is_line(other):
        return False
    if one[0] == one[1] or other[0] == other[1]:
        return one[0] <= other[1] and other[0] <= one[1]
    return one[0] < other[1] and other[0] < one[1]


def _rewritten(source: str, spans: list[_Span], newline: str) -> str:
    parts = []
    position = 0
    for start, end, text in spans:
        parts.append(source[position:start])
        parts.append(_in_lines(text, newline))
        position = end
    parts.append(source[position:])
    return "".join(parts)


def _in_lines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline) if newline != "\n" else text


def deletion_of_line(source: str, start: int, end: int) -> tuple[int, int]:
    """Widen a deletion to its whole line with the line end, if nothing else is there."""
    left = start
    while left and source[left - 1] in " \t\f":
        left -= 1
    right = end
    while right < len(source) and source[right] in " \t\f":
        right += 1
    alone = left == 0 or source[left - 1] in "\r\n"
    if not alone or (right < len(source) and source[right] not in "\r\n"):
        return start, end
    if source.startswith("\r\n", right):
        return left, right + 2
    return left, min(right + 1, len(source))


ROUNDS = 10


class BrokenSourceError(Exception):
    """A text that does not parse any more; says why."""


class Settled(Struct, frozen=True):
    """A text after fixing. ``trouble`` says why fixing stopped early; the text is sound anyway."""

    text: str
    applied: tuple[Fix, ...]
    trouble: str | None


def settle(
    text: str,
    proposals: Callable[[str], Sequence[Fix]],
    newline: str = "\n",
    rounds: int = ROUNDS,
) -> Settled:
    """Apply fixes round by round.

    Args:
        text: the source to fix; it must parse.
        proposals: the fixes for a text. Raises BrokenSourceError where the text does not parse.
        newline: the file's line end.
        rounds: how often at most.
    """
    done: list[Fix] = []
    fixes = proposals(text)
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
