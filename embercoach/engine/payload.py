"""Inspections as the cache stores them: JSON, validated when it is read."""

from __future__ import annotations

import json
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, get_args

from embercoach.engine.inspection import Inspection
from embercoach.engine.problem import Problem
from embercoach.engine.suppression.directives import Directive, Item
from embercoach.engine.suppression.directives import Kind as DirectiveKind
from embercoach.finding import Edit, Finding, Fix, Step
from embercoach.notebooks.cell_lines import CellTable
from embercoach.quoting import MOST_SAID
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.engine.inspection import Kind

#: Lines, columns and offsets are at most this; `suppressions.LAST_LINE` is the largest.
MOST = 1 << 31
_DIRECTIVES = frozenset(get_args(DirectiveKind))
#: Fields of findings and of problems that are stored: those that the engine sets are not.
_OF_FINDING = slice(0, 11)
_STORED: dict[type, Callable[[Any], Any]] = {
    Finding: attrgetter(*Finding.__slots__[_OF_FINDING]),
    Problem: attrgetter("line", "column", "message", "cell"),
    CellTable: attrgetter("numbers", "first_lines"),
    **{one: attrgetter(*one.__slots__) for one in (Edit, Fix, Directive, Item)},
    Step: attrgetter("line", "column", "end_line", "end_column", "message"),
}


def stored(inspection: Inspection) -> bytes:
    """The payload of an inspection."""
    content: Any = []
    if inspection.kind == "checked":
        problem = inspection.problem and inspection.problem.message
        content = [inspection.findings, inspection.directives, inspection.cells, problem]
    elif inspection.problem is not None:
        content = inspection.problem
    return json.dumps(content, separators=(",", ":"), default=_fields).encode()


def _fields(one: object) -> Any:
    return _STORED[type(one)](one)


def restored(kind: Kind, digest: str, payload: bytes) -> Inspection | None:
    """The inspection of a payload, None unless an inspection of that kind may have written it."""
    try:
        content = json.loads(payload.decode())
    except (ValueError, RecursionError):
        return None
    if kind == "skipped" and content == []:
        return Inspection(kind, digest)
    if kind == "broken" and _is_problem(content):
        return Inspection(kind, digest, problem=Problem("", *content))
    if kind == "checked" and _is_list(content, 4) and _is_report(*content):
        findings, directives, cells, message = content
        return Inspection(
            kind,
            digest,
            findings=tuple(map(_finding, findings)),
            directives=tuple(map(_directive, directives)),
            cells=cells and CellTable(*map(tuple, cells)),
            problem=None if message is None else Problem("", 1, 1, message),
        )
    return None


def _finding(value: list[Any]) -> Finding:
    *fields, fix, flow, related = value
    if fix is not None:
        title, safe, edits = fix
        fix = Fix(title, safe, tuple([Edit(*edit) for edit in edits]))
    arguments: list[Any] = [*fields, fix, _steps(flow), _steps(related)]
    return Finding(*arguments)


def _steps(values: list[Any]) -> tuple[Step, ...]:
    return tuple([Step(*value) for value in values])


def _directive(value: list[Any]) -> Directive:
    *fields, items, blanket, spans = value
    listed = tuple([Item(*item) for item in items])
    arguments: list[Any] = [*fields, listed, blanket, tuple(map(tuple, spans))]
    return Directive(*arguments)


def _is_problem(value: Any) -> bool:
    if not _is_list(value, 4):
        return False
    line, column, message, cell = value
    return _are_counts(line, column) and _is_said(message) and (cell is None or _are_counts(cell))


def _is_report(findings: Any, directives: Any, cells: Any, problem: Any) -> bool:
    return (
        _are(findings, _is_finding)
        and _are(directives, _is_directive)
        and (cells is None or (_is_list(cells, 2) and _are_cells(*cells)))
        and (problem is None or _is_said(problem))
    )


def _is_finding(value: Any) -> bool:
    if not _is_list(value, 11):
        return False
    code, *place, message, advice, context, fix, flow, related = value
    return (
        isinstance(code, str)
        and _is_place(place)
        and _is_said(message)
        and _is_said(advice)
        and isinstance(context, str)
        and (fix is None or _is_fix(fix))
        and _are(flow, _is_step)
        and _are(related, _is_step)
    )


def _is_step(value: Any) -> bool:
    return _is_list(value, 5) and _is_place(value[:4]) and _is_said(value[4])


def _is_place(value: list[Any]) -> bool:
    return _are_counts(*value) and value[:2] <= value[2:]


def _is_fix(value: Any) -> bool:
    if not _is_list(value, 3):
        return False
    title, safe, edits = value
    return _is_said(title) and isinstance(safe, bool) and _are(edits, _is_edit)


def _is_edit(value: Any) -> bool:
    return _is_list(value, 3) and _is_span(value[:2], 0) and isinstance(value[2], str)


def _is_directive(value: Any) -> bool:
    if not _is_list(value, 10):
        return False
    kind, line, column, end, removal, removal_end, remains, items, blanket, spans = value
    return (
        isinstance(kind, str)
        and kind in _DIRECTIVES
        and _are_counts(line, column, end)
        and _is_span([removal, removal_end], 0)
        and isinstance(remains, str)
        and _are(items, _is_item)
        and isinstance(blanket, bool)
        and _are(spans, lambda span: _is_list(span, 2) and _is_span(span, 1))
    )


def _is_item(value: Any) -> bool:
    return _is_list(value, 3) and isinstance(value[0], str) and _is_span(value[1:], 0)


def _are_cells(numbers: Any, first_lines: Any) -> bool:
    return (
        isinstance(numbers, list)
        and isinstance(first_lines, list)
        and len(numbers) == len(first_lines) > 0
        and _are_counts(*numbers, *first_lines)
        and all(one < other for one, other in pairwise(numbers))
        and all(one <= other for one, other in pairwise(first_lines))
    )


def _is_span(value: list[Any], least: int) -> bool:
    return _are_counts(*value, least=least) and value[0] <= value[1]


def _are_counts(*values: Any, least: int = 1) -> bool:
    # No ``isinstance``: a bool is an int.
    return all(type(value) is int and least <= value <= MOST for value in values)


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MOST_SAID and value == escaped(value)


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _are(values: Any, sound: Callable[[Any], bool]) -> bool:
    return isinstance(values, list) and all(map(sound, values))
