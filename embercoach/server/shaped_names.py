"""The names of a document's arrays, as an editor shows their shapes: inlay hints and hovers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from embercoach.engine.name_shapes import NameShape
    from embercoach.server.editor import Positions
    from embercoach.server.wire import Hover, InlayHint, Position, Range

#: Names of a document whose shapes are shown.
MOST_NAMES = 20_000
#: The kind of an inlay hint that is a type.
_TYPE = 1
#: Characters of a shape that are shown, and the shape of an array of which nothing is known.
MOST_OF_SHAPE = 120
NOTHING_KNOWN = "[...]"
_SEPARATOR = "\n\n---\n\n"


class ShapedName(NamedTuple):
    """A name, or a ``return``, with the array that it is.

    Attributes:
        line: of the name, from 0.
        start: its first character.
        end: after its last; both in the units of the editor.
        name: as it is written.
        text: the dtype and the sizes.
        is_hint: whether an inlay hint shows it: it is assigned here, and something is known.
        assigned_at: the line that assigns it, if it is read here, from 1; else 0.
        made_at: the line of the call or operation that makes the array; 0 if unknown.
    """

    line: int
    start: int
    end: int
    name: str
    text: str
    is_hint: bool
    assigned_at: int
    made_at: int

    @property
    def range(self) -> Range:
        """The place as the protocol has it."""
        return {
            "start": {"line": self.line, "character": self.start},
            "end": {"line": self.line, "character": self.end},
        }


def placed_names(found: Iterable[NameShape], positions: Positions) -> list[ShapedName]:
    """Return names with shapes, which are in the order of the text, in the units of the editor."""
    placed = []
    for line, group in groupby(found, key=lambda one: one.line):
        names = list(group)
        ends = positions.characters(line, [at for n in names for at in (n.column, n.end_column)])
        for name, start, end in zip(names, ends[::2], ends[1::2], strict=True):
            array = name.array
            shown = ShapedName(
                line - 1,
                start,
                end,
                name.name,
                quoted(array.text, MOST_OF_SHAPE),
                is_hint=bool(array.name) and not name.is_read and array.text != NOTHING_KNOWN,
                assigned_at=array.line if name.is_read else 0,
                made_at=array.made_at,
            )
            placed.append(shown)
    return placed


def inlay_hints(names: Sequence[ShapedName], place: Range) -> list[InlayHint]:
    """Return the hints in a range, at the ends of the names, which are in the order of the text."""
    start, end = _key(place["start"]), _key(place["end"])
    within = names[bisect_left(names, start[:1]) : bisect_right(names, end)]
    return [
        {
            "position": one.range["end"],
            "label": f": {one.text}",
            "kind": _TYPE,
        }
        for one in within
        if one.is_hint and start <= (one.line, one.end) <= end
    ]


def with_shape(hover: Hover | None, names: Sequence[ShapedName], place: Position) -> Hover | None:
    """Return a hover with the shape of the name at a place, if there is one."""
    at = bisect_right(names, (*_key(place), float("inf"))) - 1
    if at < 0 or not _is_at(names[at], place):
        return hover
    one = names[at]
    facts = [
        f"{word} at line {line}"
        for word, line in (("assigned", one.assigned_at), ("made", one.made_at))
        if line
    ]
    text = f"```python\n{one.name}: {one.text}\n```"
    if facts:
        text += f"\n\n{', '.join(facts)}"
    if hover is None:
        return {"contents": {"kind": "markdown", "value": text}, "range": one.range}
    value = f"{text}{_SEPARATOR}{hover['contents']['value']}"
    return {**hover, "contents": {"kind": "markdown", "value": value}}


def _is_at(name: ShapedName, place: Position) -> bool:
    return name.line == place["line"] and name.start <= place["character"] <= name.end


def _key(place: Position) -> tuple[int, int]:
    return place["line"], place["character"]
