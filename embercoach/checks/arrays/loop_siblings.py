"""LOOP-001: parts of one result of which a loop renews some, and goes on with the first others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import bound_by, contents_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.syntax.trees import DEFINITIONS
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.contents import Contents
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: Characters of a name that a message quotes.
_LONGEST = 24


class _Part(NamedTuple):
    """A name that holds a part of a call's result: which call, and which part of it."""

    name: str
    part: str
    callee: str
    call: cst.Call
    statement: cst.Assign


@check("LOOP-001")
def stale_parts(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``logits, hidden = model(x)``, and in a loop ``logits, _ = model(y)`` and ``hidden``."""
    for function in module.functions:
        body = function.node.body
        if not isinstance(body, cst.IndentedBlock):
            continue
        contents = contents_of(body, DEFINITIONS)
        loops = contents.of(cst.For, cst.While)
        if loops:
            parts = list(_parts(contents))
            for loop in loops:
                yield from _in_loop(loop, parts, contents, module)


def _in_loop(
    loop: cst.BaseCompoundStatement, parts: list[_Part], contents: Contents, module: Module
) -> Iterator[Report]:
    inside = contents_of(loop.body)
    if any(isinstance(node, (cst.For, cst.While)) for node in contents.above(loop)):
        return  # what an outer loop renews is renewed
    renewed = [part for part in parts if part.statement in inside]
    if not renewed:
        return
    bound = {name for one in inside.of(cst.Assign, cst.For) for name in bound_by(one)}
    bound |= {one.name.value for one in inside.of(cst.FunctionDef)}
    before = [part for part in parts if part.statement not in inside]
    for part in before:
        if part.name in bound or not inside.uses(part.name):
            continue
        for new in renewed:
            sibling = next(
                (
                    old
                    for old in before
                    if old.call is part.call
                    and (old.name, old.part, old.callee) == (new.name, new.part, new.callee)
                ),
                None,
            )
            if sibling is not None and new.call is not part.call:
                yield _stale(part, new, inside, module)
                break


def _stale(part: _Part, new: _Part, inside: Contents, module: Module) -> Report:
    read = inside.uses(part.name)[0]
    name, other = quoted(part.name, _LONGEST), quoted(new.name, _LONGEST)
    return Report.in_file(
        module,
        read,
        "LOOP-001",
        message=f"`{name}` is that of before the loop, which renews `{other}` alone",
        help=f"Assign `{name}` where the loop assigns `{other}`",
        related=(
            Stop(part.statement, part.statement, "both are parts of this result"),
            Stop(new.statement, new.statement, "the loop renews one of them here"),
        ),
    )


def _parts(contents: Contents) -> Iterator[_Part]:
    """Yield the names that hold parts of results: by unpacking, or as an attribute or an item."""
    results: dict[str, cst.Call] = {}
    for statement in contents.of(cst.Assign):
        target, value = statement.targets[0].target, statement.value
        if isinstance(value, cst.Call) and isinstance(target, cst.Name):
            results[target.value] = value
        elif isinstance(value, cst.Call) and isinstance(target, cst.Tuple):
            for index, element in enumerate(target.elements):
                if isinstance(element.value, cst.Name):
                    yield from _part(element.value.value, str(index), value, statement)
        elif isinstance(target, cst.Name):
            found = _taken(value)
            if found is not None and found[0] in results:
                yield from _part(target.value, found[1], results[found[0]], statement)


def _part(name: str, part: str, call: cst.Call, statement: cst.Assign) -> Iterator[_Part]:
    callee = last_name(call)
    if callee and name != "_":
        yield _Part(name, part, callee, call, statement)


def _taken(value: cst.BaseExpression) -> tuple[str, str] | None:
    """Return the name and the attribute or item of ``result.logits[:, -1]`` and ``result[0]``."""
    part: str | None = None
    while isinstance(value, (cst.Attribute, cst.Subscript)):
        if isinstance(value, cst.Attribute):
            part = value.attr.value
        elif len(value.slice) == 1 and isinstance(value.slice[0].slice, cst.Index):
            index = value.slice[0].slice.value
            part = index.value if isinstance(index, cst.Integer) else part
        value = value.value
    return (value.value, part) if part and isinstance(value, cst.Name) else None
