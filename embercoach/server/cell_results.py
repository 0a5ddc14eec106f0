"""The result of a notebook, as its cells and as its file have it; made in workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from embercoach.report.locations import region_in_file, start_in_file
from embercoach.report.outcome import SourceTexts
from embercoach.server.document import Document
from embercoach.server.editor_positions import Positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.finding import Finding, Problem, Step
    from embercoach.server.analysis import Checked

_Placed = TypeVar("_Placed", "Finding", "Step")


class CellPlaces(Struct, frozen=True):
    """A cell's URI and positions."""

    uri: str
    positions: Positions


def cell_places(document: Document, encoding: str) -> tuple[CellPlaces, ...]:
    """The places of all cells of an open notebook."""
    return tuple(CellPlaces(cell.uri, Positions(cell.text, encoding)) for cell in document.cells)


def parts(checked: Checked) -> Iterator[Checked]:
    """The result of each cell, in the coordinates of the cell; that of another document itself."""
    if not checked.document.cells:
        yield checked
        return
    for number in range(1, len(checked.document.cells) + 1):
        yield part(checked, number)


def part_of(checked: Checked, uri: str) -> Checked:
    """The result of the document or the cell with a URI."""
    uris = [cell.uri for cell in checked.document.cells]
    return part(checked, uris.index(uri) + 1) if uri in uris else checked


def part(checked: Checked, number: int) -> Checked:
    """The result of a cell, counted from 1. Problems of the notebook are in its first cell."""
    document, result = checked.document, checked.result
    cell = document.cells[number - 1]
    one = replace(
        result,
        findings=tuple(found for found in result.findings if found.cell == number),
        problems=tuple(
            problem if problem.cell == number else replace(problem, line=1, column=1)
            for problem in result.problems
            if (problem.cell or 1) == number
        ),
    )
    return replace(
        checked,
        document=Document(cell.uri, document.path, cell.version, cell.text),
        positions=checked.cells[number - 1].positions,
        result=one,
        notebook=document,
    )


def in_file(checked: Checked) -> Checked:
    """The result of a notebook's file, in the coordinates of its JSON."""
    path = str(checked.document.path)
    sources = SourceTexts({path: checked.document.text})

    def placed(one: _Placed) -> _Placed:
        line, column, end_line, end_column = region_in_file(path, one, sources)
        return replace(
            one, cell=None, line=line, column=column, end_line=end_line, end_column=end_column
        )

    def problem_placed(problem: Problem) -> Problem:
        line, column = start_in_file(problem, sources)
        return replace(problem, cell=None, line=line, column=column)

    result = replace(
        checked.result,
        findings=tuple(
            replace(
                placed(finding),
                flow=tuple(map(placed, finding.flow)),
                related=tuple(map(placed, finding.related)),
            )
            for finding in checked.result.findings
        ),
        problems=tuple(map(problem_placed, checked.result.problems)),
    )
    return replace(checked, result=result)
