"""Whether a payload of the cache is what an inspection writes: its shapes, types and ranges."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_args

from embercoach.engine.suppression.directives import Kind as DirectiveKind
from embercoach.quoting import MOST_SAID
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.engine.inspection import Kind

#: Lines, columns and offsets are below this.
MOST = 1 << 31
_DIRECTIVES = frozenset(get_args(DirectiveKind))


def content_of(kind: Kind, payload: bytes) -> Any:
    """The content of a payload, None unless an inspection of that kind may have written it."""
    try:
        content = json.loads(payload.decode())
    except (ValueError, RecursionError):
        return None
    if kind == "checked":
        return content if _is_list(content, 4) and _is_report(*content) else None
    if kind == "skipped":
        return content if content == [] else None
    if kind == "broken" and _is_list(content, 4):
        line, column, message, cell = content
        sound = _are_counts(line, column) and _is_said(message)
        return content if sound and (cell is None or _are_counts(cell)) else None
    return None


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
    return all(type(value) is int and least <= value < MOST for value in values)


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MOST_SAID and value == escaped(value)


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _are(values: Any, sound: Callable[[Any], bool]) -> bool:
    return isinstance(values, list) and all(map(sound, values))
