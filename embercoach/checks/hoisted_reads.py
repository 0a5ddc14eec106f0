"""Fixes of HOST-PULL-001 and 008: one ``.tolist()`` before a loop instead of a read per element.

All of them are unsafe: they read the whole array, also where the loop stops early.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import assigned_to, layout_of
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import shape_at
from embercoach.analysis.syntax.trees import dotted, parameters_of, target_names
from embercoach.analysis.values.facts import FactPlace, calls_of
from embercoach.analysis.values.lattice import Array, as_array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.registry import ProposedFix

COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


def may_be_none(module: Module, function: FunctionInfo | None, name: str) -> bool:
    """Test whether a scope tests a name itself, or whether its parameter has a default."""
    if function is None:
        return name in _tested(module.tree)
    defaults = (p.default for p in parameters_of(function.node.params) if p.name.value == name)
    return any(default is not None for default in defaults) or name in _tested(function.node.body)


@kept_for_file
def _tested(body: cst.CSTNode) -> frozenset[str]:
    """Return the names whose own truth a body tests, or that it compares with None."""
    found: list[cst.CSTNode] = []
    for node in contents_of(body):
        if isinstance(node, (cst.If, cst.IfExp, cst.While, cst.Assert)):
            found.append(node.test)
        elif isinstance(node, cst.BooleanOperation):
            found += (node.left, node.right)
        elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            found.append(node.expression)
        elif isinstance(node, cst.Comparison) and "None" in (
            dotted(target.comparator) for target in node.comparisons
        ):
            found.append(node.left)
    return frozenset(node.value for node in found if isinstance(node, cst.Name))


def comprehensions_around(statement: cst.CSTNode, node: cst.CSTNode) -> list[cst.BaseComp]:
    """Return the comprehensions of a statement that evaluate a node repeatedly, outermost first."""
    if not isinstance(statement, cst.BaseSmallStatement):
        return []
    found: list[cst.BaseComp] = []
    inner = once = node
    for above in contents_of(statement).above(node):
        inner, below = above, inner
        if isinstance(inner, (cst.Lambda, cst.FunctionDef)):
            return []
        if isinstance(inner, cst.CompFor) and below is inner.iter:
            once = inner
        if isinstance(inner, COMPREHENSIONS) and inner.for_in is not once:
            found.insert(0, inner)
    return found


def clauses(comprehension: cst.BaseComp) -> Iterator[cst.CompFor]:
    """Yield the ``for`` clauses of a comprehension, outermost first."""
    clause: cst.CompFor | None = comprehension.for_in
    while clause is not None:
        yield clause
        clause = clause.inner_for_in


def comprehension_of(statement: cst.CSTNode, clause: cst.CompFor) -> cst.CSTNode | None:
    """Return the comprehension that has a clause."""
    above = contents_of(statement).above(clause)
    return next((node for node in above if isinstance(node, COMPREHENSIONS)), None)


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
    binders = _binders(module, place, subject)
    ints = {name for binder in binders for name in _range_names(binder)}
    if not all(_is_host_int(index, ints) for index in indices):
        return None
    before = _before_loops(module, place, subject, base.value)
    name = f"{base.value}_values"
    if before is None or name in module.source or may_be_none(module, place.function, base.value):
        return None
    if not is_row and shape_at(module, subject):
        return None  # a list has no `.item()`
    element = name + "".join(f"[{module.parsed.code(index)}]" for index in indices)
    line = f"{name} = {base.value}.tolist()"
    return ProposedFix(
        "Read the array once, before the loop", False, ((replaced, element),), ((before, line),)
    )


def _before_loops(
    module: Module, place: FactPlace, node: cst.CSTNode, name: str
) -> cst.CSTNode | None:
    """The outermost loop around a place, or statement with a comprehension, that keeps a name."""
    before: cst.CSTNode | None = None
    if comprehensions_around(place.statement, node):
        if name in contents_of(place.statement).stored:
            return None
        before = place.statement
    for loop in layout_of(module, place.function).loops(place.statement):
        if name in contents_of(loop).stored:
            break
        before = loop
    return before


def _binders(
    module: Module, place: FactPlace, node: cst.CSTNode
) -> list[cst.For | cst.While | cst.CompFor]:
    """Return the loops and the clauses of comprehensions around a node, innermost first."""
    inner = comprehensions_around(place.statement, node)
    found = [clause for one in inner for clause in clauses(one)]
    return [*reversed(found), *layout_of(module, place.function).loops(place.statement)]


def is_array(module: Module, place: FactPlace, node: cst.BaseExpression) -> bool:
    """Return whether an expression is certainly an array, not a list of them."""
    sources = sources_of(module)
    ends = sources.ends(Source(node, place.statement, place.function, module))
    calls = calls_of(module)
    return bool(ends) and all(
        as_array(calls[end.node].result if end.node in calls else sources.value(end)) is not None
        for end in ends
    )


def iteration_fix(module: Module, place: FactPlace, variable: cst.Name) -> ProposedFix | None:
    """Replace ``for v in x: v.item()`` by ``for v in x.tolist(): v``."""
    for binder in _binders(module, place, variable):
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
    inside = contents_of(scope)
    for node in _uses(binder, place, names):
        parent = inside.parent_of(node)
        if isinstance(parent, cst.Arg):
            call = inside.parent_of(parent)
            if isinstance(call, cst.Call) and _is_cast(call):
                continue
        elif isinstance(parent, cst.FormattedStringExpression):
            continue
        elif isinstance(parent, cst.Attribute) and parent.attr.value in ("item", "tolist"):
            call = inside.parent_of(parent)
            if isinstance(call, cst.Call) and not call.args:
                edits.append((call, node.value))
                continue
        return None
    return ProposedFix("Iterate over one `.tolist()` of the array", False, tuple(edits))


def _uses(binder: cst.For | cst.CompFor, place: FactPlace, names: set[str]) -> Iterator[cst.Name]:
    """Yield the uses of a loop's variables that still hold what the loop bound."""
    if isinstance(binder, cst.CompFor):
        whole = comprehension_of(place.statement, binder)
        for node in () if whole is None else contents_of(whole).of(cst.Name):
            if node.value in names and node not in contents_of(binder.target):
                yield node
        return
    left = set(names)
    for statement in binder.body.body:
        simple = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
        targets = [target for small in simple for target in assigned_to(small)]
        for node in contents_of(statement).of(cst.Name):
            if node.value in left and not any(node in contents_of(one) for one in targets):
                yield node
        left.difference_update(name for target in targets for name in target_names(target))


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
    """Get the array and the indices of ``x[i]``, ``x[i, j]`` and ``x[i][j]``; None for a slice."""
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
    if not isinstance(binder, cst.For) or counter.value not in contents_of(binder.body).stored:
        yield counter.value
