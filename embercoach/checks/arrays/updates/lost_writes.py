"""INDEX-002: writes to parts of arrays, which are copies."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import Callee, Source, argument_of, sources_of
from embercoach.analysis.syntax.trees import dotted, small_statements, walk
from embercoach.analysis.values.lattice import as_array
from embercoach.checks.arrays.updates.argument_changes import updates
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.reaching import Binding
    from embercoach.analysis.dataflow.value_sources import Sources
    from embercoach.analysis.facts.facts import (
        BinaryFact,
        Fact,
        FactPlace,
        ItemStoreFact,
        LocalCall,
    )
    from embercoach.analysis.project.module import Module

#: Methods whose results are views in NumPy, and copies in MLX.
VIEWS = frozenset(
    ["reshape", "transpose", "squeeze", "flatten", "swapaxes", "moveaxis", "diagonal", "view"]
)
#: A name with more bindings is not looked at.
MOST_BINDINGS = 64
MESSAGE = "a part of an mx.array is a copy: the write is lost"
HELP = "Write to the array itself: `a[i, j] = v`"


@check("INDEX-002")
def chained_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``a[0][1] = 7``, ``a.reshape(-1)[0] = 7``, ``row = a[0]; row[1] = 7``."""
    base = fact.node.value
    if _is_part(_source(fact, base, module), module):
        change = _in_one(fact.node, fact.place, module)
        yield Report.at(fact, "INDEX-002", message=MESSAGE, help=HELP, change=change, subject=base)
    elif isinstance(base, cst.Name) and _is_unread_part(base.value, fact, module):
        yield Report.at(fact, "INDEX-002", message=MESSAGE, help=HELP, subject=base)


@check("INDEX-002")
def update_of_part(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``row = a[0]; row += 1``."""
    name = fact.left.node
    if fact.in_place and isinstance(name, cst.Name) and _is_unread_part(name.value, fact, module):
        yield Report.at(fact, "INDEX-002", message=MESSAGE, help=HELP, subject=name)


@check("INDEX-002")
def write_by_function(fact: LocalCall, module: Module) -> Iterator[Report]:
    """``clear(cache[slot])``, where the function writes to its parameter."""
    statement, function = fact.place.statement, fact.function
    is_statement = isinstance(statement, cst.Expr) and statement.value is fact.node
    if not is_statement or isinstance(function.node, cst.Lambda):
        return
    source = _source(fact, fact.node, module)
    for parameter in function.parameters:
        given = argument_of(source, Callee(function, fact.is_bound), parameter.name)
        if given is None or given.statement is not statement or not _is_part(given, module):
            continue
        reaching = scope_of(module, function).reaching
        for inner in small_statements(function.node.body):
            held = reaching.before(inner, parameter.name) or ()
            is_given = bool(held) and all(binding.kind == "parameter" for binding in held)
            if is_given and updates(inner, parameter.name):
                node = given.node
                yield Report.at(fact, "INDEX-002", node=node, message=MESSAGE, help=HELP)
                break


def _source(fact: Fact, node: cst.BaseExpression, module: Module) -> Source:
    return Source(node, fact.place.statement, fact.place.function, module)


def _is_part(source: Source, module: Module) -> bool:
    """Return whether an expression computes a new array that is a part or a view in NumPy.

    A call does if every result of the function or method is such a part.
    """
    if not isinstance(source.node, (cst.Call, cst.Attribute)):
        return source.node in module.array_parts
    sources = sources_of(module)
    if _is_view(source, sources) or _is_transposed(source, sources):
        return True
    ends = sources.ends(source)
    return bool(ends) and all(
        end.node is not source.node and (_is_element(end, sources) or _is_view(end, sources))
        for end in ends
    )


def _is_element(source: Source, sources: Sources) -> bool:
    """Return whether an expression is an item or a slice of an array."""
    node = source.node
    if not isinstance(node, cst.Subscript):
        return False
    if node in source.module.array_parts:
        return True
    return source.module.is_shared and as_array(sources.value(source.at(node.value))) is not None


def _is_view(source: Source, sources: Sources) -> bool:
    """Return whether an expression calls a method whose result is a view in NumPy."""
    node = source.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value not in VIEWS:
        return False
    call = sources.library_call(source)
    return call is not None and call.name == f"mlx.core.{node.func.attr.value}"


def _is_transposed(source: Source, sources: Sources) -> bool:
    """Return whether an expression is ``x.T`` of an array."""
    node = source.node
    if not isinstance(node, cst.Attribute) or node.attr.value != "T":
        return False
    return as_array(sources.value(source.at(node.value))) is not None


def _is_unread_part(name: str, fact: Fact, module: Module) -> bool:
    """Return whether a name holds parts of arrays, and nothing ever reads it."""
    place = fact.place
    function = place.function
    if function is None or name in function.global_names:
        return False
    bindings = scope_of(module, function).reaching.bindings.get(name, ())
    held = [binding for binding in bindings if binding.kind != "updated"]
    if (
        not held
        or len(bindings) > MOST_BINDINGS
        or not all(_binds_part(binding, place, module) for binding in held)
    ):
        return False
    return name in _unread(module, function)


def _binds_part(binding: Binding, place: FactPlace, module: Module) -> bool:
    if binding.kind == "element":
        return binding.name in place.array_names
    if binding.kind != "assigned" or binding.value is None:
        return False
    return _is_part(Source(binding.value, binding.statement, place.function, module), module)


@lru_cache(maxsize=8)
def _unread(module: Module, function: FunctionInfo) -> frozenset[str]:
    """The names of a function that are only bound, written to, updated and evaluated."""
    written: set[int] = set()
    names: set[str] = set()
    read: set[str] = set()
    for node in walk(function.node):
        written.update(id(part) for part in _not_read(node))
        targets: list[cst.CSTNode] = []
        if isinstance(node, cst.Assign):
            targets = [target.target for target in node.targets]
        elif isinstance(node, (cst.AugAssign, cst.For)):
            targets = [node.target]
        while targets:
            target = targets.pop()
            if isinstance(target, cst.Tuple):
                targets += [element.value for element in target.elements]
            while isinstance(target, cst.Subscript):
                target = target.value
            if isinstance(target, cst.Name):
                names.add(target.value)
                written.add(id(target))
        written.update(id(part) for part in _read_for_itself(node))
        if isinstance(node, cst.Name) and id(node) not in written:
            read.add(node.value)
    return frozenset(names - read)


def _read_for_itself(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The names in ``row -= mx.mean(row)`` and ``row[0] = row[1]`` that are only read for them."""
    if isinstance(node, cst.AugAssign):
        target: cst.BaseExpression = node.target
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
        if not isinstance(target, cst.Subscript):
            return
    else:
        return
    while isinstance(target, cst.Subscript):
        target = target.value
    if isinstance(target, cst.Name):
        for inner in walk(node.value):
            if isinstance(inner, cst.Name) and inner.value == target.value:
                yield inner


def _not_read(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The parts of a node that read no name: of attributes, keywords, and ``mx.eval(row)``."""
    if isinstance(node, cst.Attribute):
        yield node.attr
    elif isinstance(node, cst.Arg) and node.keyword is not None:
        yield node.keyword
    elif isinstance(node, cst.Call) and (dotted(node.func) or "").endswith(".eval"):
        yield from (argument.value for argument in node.args)


def _in_one(node: cst.Subscript, place: FactPlace, module: Module) -> ProposedFix | None:
    """``a[i][j]`` as ``a[i, j]``, if the first index is one of whole numbers."""
    inner = node.value
    if not isinstance(inner, cst.Subscript) or not all(
        _is_whole(element.slice, place) for element in inner.slice
    ):
        return None
    indices = [module.parsed.code(element.slice) for element in (*inner.slice, *node.slice)]
    text = f"{module.parsed.code(inner.value)}[{', '.join(indices)}]"
    return ProposedFix("Index in one step", False, ((node, text),))


def _is_whole(index: cst.BaseSlice, place: FactPlace) -> bool:
    if not isinstance(index, cst.Index):
        return False
    value = index.value
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus):
        value = value.expression
    if isinstance(value, cst.Name):
        return value.value in place.loop_names and value.value not in place.array_names
    return isinstance(value, cst.Integer)
