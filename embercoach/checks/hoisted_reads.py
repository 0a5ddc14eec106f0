"""Fixes of HOST-PULL-001 and 008: one ``.tolist()`` before a loop instead of a read per element.

All of them are unsafe: they read the whole array, also where the loop stops early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import children, target_names, walk
from embercoach.analysis.value_sources import Source, sources_of
from embercoach.analysis.values.joins import as_array
from embercoach.checks.read_syntax import (
    clauses,
    comprehension_of,
    comprehensions_around,
    counters,
    fresh,
    loops_around,
    names_tested,
    parents,
    read_before,
    stored,
    stored_in_comprehensions,
)
from embercoach.checks.registry import ProposedFix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Array

#: Expressions that ``.tolist()`` can follow without parentheses.
PRIMARIES = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)


def element_fix(
    module: Module,
    place: FactPlace,
    subject: cst.Subscript,
    array: Array,
    *,
    replaced: cst.CSTNode,
    is_row: bool = False,
) -> ProposedFix | None:
    """Replace ``x[i].item()`` by ``x_values[i]``, with ``x_values = x.tolist()`` before the loop.

    Args:
        module: the module of the read.
        place: its place.
        subject: the element, ``x[i]`` or ``x[i, 0]``.
        array: the element's value.
        replaced: the expression that becomes ``x_values[i]``.
        is_row: the element is a row, read by ``.tolist()``.
    """
    base, indices = _indexed(subject)
    if not isinstance(base, cst.Name) or indices is None:
        return None
    if not is_row and array.shape is not None and array.shape.sizes != ():
        return None  # a list has no `.item()`
    if not are_host_ints(module, place, subject, indices):
        return None
    before = before_loops(module, place, subject, base.value)
    value = (
        None
        if before is None
        else read_before(place.function, before, base.value, f"{base.value}.tolist()")
    )
    name = fresh(module, f"{base.value}_values")
    if before is None or value is None or name is None:
        return None
    element = name + "".join(f"[{module.parsed.code(index)}]" for index in indices)
    return _read_once(((replaced, element),), before, f"{name} = {value}")


def _read_once(
    edits: tuple[tuple[cst.CSTNode, str], ...], before: cst.CSTNode, line: str
) -> ProposedFix:
    return ProposedFix("Read the array once, before the loop", False, edits, ((before, line),))


def are_host_ints(
    module: Module, place: FactPlace, node: cst.CSTNode, indices: list[cst.BaseExpression]
) -> bool:
    """Return whether indices at a place are Python ints: of ``range``, counted, or literals."""
    body = module.tree if place.function is None else place.function.node.body
    binders = _binders(module, place, node)
    ints = {name for binder in binders for name in _range_names(binder)} | counters(body)
    return all(_is_host_int(index, ints) for index in indices)


def before_loops(
    module: Module, place: FactPlace, node: cst.CSTNode, *names: str
) -> cst.CSTNode | None:
    """The outermost loop around a place, or statement with a comprehension, that keeps names."""
    before: cst.CSTNode | None = None
    for loop in reversed(loops_around(module, place)):
        if not stored(loop).isdisjoint(names):
            break
        before = loop
    statement = place.statement
    bound = stored_in_comprehensions(statement) if comprehensions_around(statement, node) else None
    if bound is not None and not bound.isdisjoint(names):
        return None
    return before or (None if bound is None else statement)


def _binders(
    module: Module, place: FactPlace, node: cst.CSTNode
) -> list[cst.For | cst.While | cst.CompFor]:
    """The loops and the clauses of comprehensions around a node, outermost first."""
    inner = comprehensions_around(place.statement, node)
    return [*loops_around(module, place), *(clause for one in inner for clause in clauses(one))]


def row_index(module: Module, place: FactPlace, row: cst.Name) -> tuple[str, str] | None:
    """The array and the index of its row: ``("x", "i")`` in ``for i, row in enumerate(x)``."""
    for binder in reversed(_binders(module, place, row)):
        if isinstance(binder, cst.While) or row.value not in target_names(binder.target):
            continue
        source, target = binder.iter, binder.target
        counted = list(_range_names(binder))
        if not counted or not isinstance(target, cst.Tuple) or not isinstance(source, cst.Call):
            return None
        if isinstance(binder, cst.For) and row.value in stored(binder.body):
            return None
        array = source.args[0].value if len(source.args) == 1 else None
        is_row = len(target.elements) == 2 and target.elements[1].value.deep_equals(row)
        if is_row and isinstance(array, cst.Name) and is_array(module, place, array):
            return array.value, counted[0]
        return None
    return None


def is_array(module: Module, place: FactPlace, node: cst.BaseExpression) -> bool:
    """Return whether an expression is certainly an array, not a list of them."""
    sources = sources_of(module)
    ends = sources.ends(Source(node, place.statement, place.function, module))
    calls = calls_of(module)
    return bool(ends) and all(
        as_array(calls[end.node].result if end.node in calls else sources.value(end)) is not None
        for end in ends
    )


def row_fix(
    module: Module, place: FactPlace, row: cst.Name, replaced: cst.CSTNode
) -> ProposedFix | None:
    """Replace ``row.tolist()`` by ``x_values[i]`` in ``for i, row in enumerate(x)``."""
    found = row_index(module, place, row)
    if found is None:
        return None
    array, index = found
    before = before_loops(module, place, row, array)
    value = (
        None if before is None else read_before(place.function, before, array, f"{array}.tolist()")
    )
    name = fresh(module, f"{array}_values")
    if before is None or value is None or name is None:
        return None
    return _read_once(((replaced, f"{name}[{index}]"),), before, f"{name} = {value}")


def invariant_fix(
    module: Module, place: FactPlace, call: cst.Call, subject: cst.BaseExpression
) -> ProposedFix | None:
    """Move ``x[1:].tolist()`` out of loops and comprehensions that don't change it."""
    base = subject.value if isinstance(subject, cst.Subscript) else subject
    if not isinstance(base, cst.Name) or any(isinstance(node, cst.Call) for node in walk(subject)):
        return None
    used = {node.value for node in walk(subject) if isinstance(node, cst.Name)}
    before = before_loops(module, place, call, *used)
    if before is None or (used - {base.value}) & names_tested(before):
        return None
    value = read_before(place.function, before, base.value, module.parsed.code(call))
    name = fresh(module, f"{base.value}_list" if _is_list(call) else f"{base.value}_value")
    if value is None or name is None:
        return None
    return _read_once(((call, name),), before, f"{name} = {value}")


def _is_list(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "tolist"


def iteration_fix(module: Module, place: FactPlace, variable: cst.Name) -> ProposedFix | None:
    """Replace ``for v in x: v.item()`` by ``for v in x.tolist(): v``."""
    inner = [
        clause
        for one in comprehensions_around(place.statement, variable)
        for clause in clauses(one)
    ]
    for binder in (*reversed(inner), *reversed(loops_around(module, place))):
        if isinstance(binder, cst.While):
            continue
        for target, source in _pairs(binder.target, binder.iter):
            if variable.value in target_names(target):
                return _iteration(module, place, binder, target, source)
    return None


def _iteration(
    module: Module,
    place: FactPlace,
    binder: cst.For | cst.CompFor,
    target: cst.BaseExpression,
    source: cst.BaseExpression,
) -> ProposedFix | None:
    if not isinstance(source, PRIMARIES):
        return None
    scope: cst.CSTNode = binder if isinstance(binder, cst.For) else place.statement
    edits: list[tuple[cst.CSTNode, str]] = [(source, f"{module.parsed.code(source)}.tolist()")]
    names = set(target_names(target))
    above = parents(scope)
    for node in _uses(binder, place, names):
        parent = above.get(node)
        if isinstance(parent, cst.Arg):
            call = above.get(parent)
            if isinstance(call, cst.Call) and _is_cast(call):
                continue
        elif isinstance(parent, cst.FormattedStringExpression):
            continue
        elif isinstance(parent, cst.Attribute) and parent.attr.value in ("item", "tolist"):
            call = above.get(parent)
            if isinstance(call, cst.Call) and not call.args:
                edits.append((call, node.value))
                continue
        return None
    return ProposedFix("Iterate over one `.tolist()` of the array", False, tuple(edits))


def _uses(binder: cst.For | cst.CompFor, place: FactPlace, names: set[str]) -> Iterator[cst.Name]:
    """The uses of a loop's variables that still hold what the loop bound."""
    if isinstance(binder, cst.CompFor):
        whole = comprehension_of(place.statement, binder)
        roots = children(whole) if whole is not None else []
        skipped = {id(node) for node in walk(binder.target)}
        for root in roots:
            for node in walk(root):
                if isinstance(node, cst.Name) and node.value in names and id(node) not in skipped:
                    yield node
        return
    left = set(names)
    for statement in binder.body.body:
        rebound: set[str] = set()
        skipped = set()
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Assign):
                    for one in small.targets:
                        rebound |= set(target_names(one.target))
                        skipped |= {id(n) for n in walk(one.target) if isinstance(n, cst.Name)}
        for node in walk(statement):
            if isinstance(node, cst.Name) and node.value in left and id(node) not in skipped:
                yield node
        left -= rebound


def _is_cast(call: cst.Call) -> bool:
    func = call.func
    return (
        isinstance(func, cst.Name)
        and func.value in ("int", "float", "bool")
        and len(call.args) == 1
    )


def _pairs(
    target: cst.BaseExpression, source: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Pair the parts of a target with what they walk over, through ``zip`` and ``enumerate``."""
    if isinstance(source, cst.Call) and isinstance(source.func, cst.Name):
        function = source.func.value
        plain = all(not a.star for a in source.args)
        parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else []
        values = [a.value for a in source.args if a.keyword is None]
        if function == "enumerate" and plain and len(parts) == 2 and values:
            yield from _pairs(parts[1], values[0])
            return
        if function == "zip" and plain and len(parts) == len(values):
            for part, value in zip(parts, values, strict=True):
                yield from _pairs(part, value)
            return
        if function in ("enumerate", "zip"):
            return
    yield target, source


def _indexed(
    subject: cst.BaseExpression,
) -> tuple[cst.BaseExpression, list[cst.BaseExpression] | None]:
    """The array and the indices of ``x[i]``, ``x[i, j]`` and ``x[i][j]``; None for a slice."""
    found: list[cst.BaseExpression] = []
    while isinstance(subject, cst.Subscript):
        here: list[cst.BaseExpression] = []
        for element in subject.slice:
            if not isinstance(element.slice, cst.Index) or element.slice.star is not None:
                return subject, None
            value = element.slice.value
            if isinstance(value, cst.Tuple):
                here += [one.value for one in value.elements]
            else:
                here.append(value)
        found = here + found
        subject = subject.value
    return subject, found


def _is_host_int(node: cst.BaseExpression, ranges: set[str]) -> bool:
    if isinstance(node, cst.Integer):
        return True
    if isinstance(node, cst.Name):
        return node.value in ranges
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus) and _is_host_int(node.expression, ranges)
    return (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, (cst.Add, cst.Subtract))
        and _is_host_int(node.left, ranges)
        and _is_host_int(node.right, ranges)
    )


def _range_names(binder: cst.CSTNode) -> Iterator[str]:
    """The variables of a loop that are Python ints: of ``range``, or counted by ``enumerate``."""
    if not isinstance(binder, (cst.For, cst.CompFor)):
        return
    source, target = binder.iter, binder.target
    if not isinstance(source, cst.Call) or not isinstance(source.func, cst.Name):
        return
    counter: cst.BaseExpression | None = None
    if source.func.value == "range":
        counter = target
    elif source.func.value == "enumerate" and isinstance(target, cst.Tuple) and target.elements:
        counter = target.elements[0].value
    if not isinstance(counter, cst.Name):
        return
    if not isinstance(binder, cst.For) or counter.value not in stored(binder.body):
        yield counter.value
