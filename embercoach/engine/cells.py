"""Findings and suppressions of a notebook's module, mapped to its cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.engine.suppression.directives import Directive
    from embercoach.finding import Finding, Step
    from embercoach.notebooks.cell_lines import CellTable
    from embercoach.notebooks.cell_module import Notebook

_WHOLE_FILE = ("ignore-file", "skip-file")


def fitted(findings: Iterable[Finding], notebook: Notebook) -> tuple[Finding, ...]:
    """Findings without the fixes that can't be made in the notebook's file."""
    from embercoach.notebooks.editing import fix_in_file

    return tuple(
        finding
        if finding.fix is None or fix_in_file(finding.fix, notebook)
        else replace(finding, fix=None)
        for finding in findings
    )


def kept_within(directives: Iterable[Directive], table: CellTable) -> tuple[Directive, ...]:
    """Suppressions that end with their cell: one in its last line is not for the next cell."""
    return tuple(
        directive if directive.kind in _WHOLE_FILE else _kept_within(directive, table)
        for directive in directives
    )


def _kept_within(directive: Directive, table: CellTable) -> Directive:
    cell, _ = table.place(directive.line)
    spans = tuple(
        (low, high)
        for low, high in directive.spans
        if table.place(low)[0] == cell == table.place(high)[0]
    )
    return replace(directive, spans=spans)


def placed(findings: Iterable[Finding], table: CellTable) -> list[Finding]:
    """Findings at lines of a notebook's module as findings at lines of its cells."""
    return [
        replace(
            _placed(finding, table),
            flow=tuple(_placed(step, table) for step in finding.flow),
            related=tuple(_placed(step, table) for step in finding.related),
        )
        for finding in findings
    ]


_Placed = TypeVar("_Placed", "Finding", "Step")


def _placed(one: _Placed, table: CellTable) -> _Placed:
    cell, line = table.place(one.line)
    end_line, end_column = table.end(one.line, one.end_line, one.end_column)
    return replace(one, cell=cell, line=line, end_line=end_line, end_column=end_column)
