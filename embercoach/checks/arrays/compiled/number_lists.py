"""Lists of Python numbers that differ, in whatever function or file they are made.

``varying`` asks it what a loop walks over, or what a changing index selects from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import dotted, small_statements, walk
from embercoach.analysis.value_sources import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source


def made_of(node: cst.BaseExpression, place: FactPlace, module: Module) -> list[Source]:
    """The expressions that make a list, other than the expression that is asked for."""
    sources = sources_of(module)
    ends = sources.ends(place_source(node, place, module))
    return [] if any(end.node is node for end in ends) else ends


def place_source(node: cst.BaseExpression, place: FactPlace, module: Module) -> Source:
    """An expression of a place."""
    return sources_of(module).at_place(node, place)


def place_of(end: Source, around: FactPlace) -> FactPlace:
    """The place of an expression in its own function, in no loop."""
    return around._replace(statement=end.statement, function=end.function, loops=0, loop=None)


class Item(NamedTuple):
    """An expression of the items of a list, and names of integers that it may use."""

    node: cst.BaseExpression
    place: FactPlace
    module: Module
    integers: frozenset[str]


def items_of(
    iterable: cst.BaseExpression, index: int | None, place: FactPlace, module: Module
) -> Iterator[Item]:
    """Yield the expressions of what a loop's target takes; nothing where they are not known."""
    while isinstance(iterable, cst.Subscript) and isinstance(iterable.slice[0].slice, cst.Slice):
        iterable = iterable.value
    if isinstance(iterable, cst.Call) and iterable.args and isinstance(iterable.func, cst.Name):
        given = [a.value for a in iterable.args if a.keyword is None]
        name = iterable.func.value
        is_zip = name == "zip" and index is not None and index < len(given)
        if is_zip or (name == "enumerate" and index == 1) or name in ("pairwise", "reversed"):
            inner = given[index or 0] if is_zip else given[0]
            yield from items_of(inner, None, place, module)
            return
    is_made = isinstance(iterable, (cst.ListComp, cst.GeneratorExp))
    ends = [place_source(iterable, place, module)] if is_made else made_of(iterable, place, module)
    for end in ends or [place_source(iterable, place, module)]:
        made = end.node
        if isinstance(made, cst.Call):
            yield from _yielded(end, place)
        if isinstance(made, (cst.ListComp, cst.GeneratorExp)):
            counted, target = made.for_in.iter, made.for_in.target
            names = {n.value for n in (*walk(counted), target) if isinstance(n, cst.Name)}
            is_range = isinstance(counted, cst.Call) and dotted(counted.func) == "range"
            integers = frozenset(names if is_range else ())
            yield Item(made.elt, place_of(end, place), end.module, integers)
        yield from _appended(end, place)


def _yielded(end: Source, around: FactPlace) -> Iterator[Item]:
    """The expressions that a generator yields in loops."""
    for callee in sources_of(end.module).callees(end):
        function = callee.function
        if isinstance(function.node, cst.Lambda):
            continue
        layout = layout_of(function.module, function)
        for statement in small_statements(function.node.body):
            node = statement.value if isinstance(statement, cst.Expr) else None
            loop = next(layout.loops(statement), None)
            value = node.value if isinstance(node, cst.Yield) else None
            if loop is not None and isinstance(value, cst.BaseExpression):
                place = around._replace(statement=statement, function=function, loop=loop, loops=1)
                yield Item(value, place, function.module, frozenset())


def _appended(end: Source, around: FactPlace) -> Iterator[Item]:
    """The expressions that loops append to a list that was empty."""
    function, node = end.function, end.node
    if not isinstance(node, cst.List) or node.elements or function is None:
        return
    if isinstance(function.node, cst.Lambda) or not isinstance(end.statement, cst.Assign):
        return
    names = {dotted(target.target) for target in end.statement.targets}
    layout = layout_of(end.module, function)
    for statement in small_statements(function.node.body):
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        if call.func.attr.value != "append" or dotted(call.func.value) not in names:
            continue
        loop = next(layout.loops(statement), None)
        if loop is not None and call.args:
            place = place_of(end, around)._replace(statement=statement, loop=loop, loops=1)
            yield Item(call.args[0].value, place, end.module, frozenset())
