"""The names of a file's arrays with their shapes, for the command line and the language server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.analysis.shapes.node_shapes import AssignedShape, assigned_shapes
from embercoach.analysis.syntax.name_reads import name_reads
from embercoach.analysis.syntax.parse import SyntaxProblem, reading
from embercoach.analysis.work import WorkExceededError
from embercoach.fixes.source_file import LineIndex

if TYPE_CHECKING:
    from embercoach.analysis.project.project import Project

#: A place in bytes, as ``ast`` counts: line, column, column after the end.
_Place = tuple[int, int, int]


class NameShape(Struct, frozen=True):
    """A name in the text, or a ``return``, and the array that it is.

    Attributes:
        line: of the name.
        column: of its first character; both from 1, in characters.
        end_column: after its last character.
        array: the shape, and where it is assigned.
        is_read: whether the name is read here; else it is assigned.
    """

    line: int
    column: int
    end_column: int
    array: AssignedShape
    is_read: bool = False

    @property
    def name(self) -> str:
        """The name; ``return`` for what a function returns."""
        return self.array.name or "return"


def name_shapes(
    source: str, path: Path, project: Project, *, with_reads: bool = False
) -> tuple[NameShape, ...]:
    """Return the names of a Python file that are assigned arrays, in the order of the text.

    Args:
        source: of the file.
        path: of the file, absolute.
        project: that the file's imports are read by.
        with_reads: also list names that are read, with the array assigned last in their function.

    Raises:
        SyntaxProblem: the source does not parse, or nests too deeply to be analysed.
        WorkExceededError: it exceeds the work budget.
    """
    with reading(source):
        module = project.open(path, source)
        arrays = assigned_shapes(module)
        places = [((one.line, one.column, one.end_column), one, False) for one in arrays]
        if with_reads and arrays and module.shape_source is not None:
            assigned = {(one.line, one.column): one for one in arrays}
            places += [
                ((*read.place, read.end_column), assigned[read.binding], True)
                for read in name_reads(module.shape_source.tree)
                if read.binding in assigned
            ]
    project.release()
    return tuple(_in_characters(places, LineIndex(source)))


def name_shapes_if_sound(
    source: str, path: Path, project: Project, *, with_reads: bool = False
) -> tuple[NameShape, ...]:
    """Return the same; none where the source has a problem that its check reports."""
    try:
        return name_shapes(source, path, project, with_reads=with_reads)
    except (SyntaxProblem, WorkExceededError):
        return ()


def _in_characters(
    places: Iterable[tuple[_Place, AssignedShape, bool]], index: LineIndex
) -> Iterator[NameShape]:
    ordered = sorted(places, key=lambda one: one[0])
    for line, group in groupby(ordered, key=lambda one: one[0][0]):
        text, found = index.line(line), list(group)
        if text.isascii():
            columns = [place[1:] for place, _, _ in found]
        else:
            columns = list(_character_columns(text.encode(), [place for place, _, _ in found]))
        for (start, end), (_, array, is_read) in zip(columns, found, strict=True):
            yield NameShape(line, start + 1, end + 1, array, is_read)


def _character_columns(line: bytes, places: Iterable[_Place]) -> Iterator[tuple[int, int]]:
    """Columns in characters of places of one line, which follow each other."""
    at = characters = 0
    for _, start, end in places:
        characters += len(line[at:start].decode())
        before, at = characters, end
        characters += len(line[start:end].decode())
        yield before, characters
