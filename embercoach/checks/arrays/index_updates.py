"""INDEX-002 and INDEX-003: writes to copies of parts, and updates through repeated indices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import reads_of
from embercoach.analysis.dataflow.reaching import Binding, last_name
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import (
    Callee,
    Source,
    Sources,
    argument_of,
    sources_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import is_scalar
from embercoach.analysis.syntax.trees import dotted, targets_of
from embercoach.analysis.values.facts import (
    ArrayIndexFact,
    BinaryFact,
    Fact,
    FactPlace,
    ItemStoreFact,
    LocalCall,
)
from embercoach.analysis.values.lattice import Array, as_array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLS, MOST_STEPS
from embercoach.checks.arrays.argument_changes import argument_updates, is_discarded
from embercoach.checks.registry import ProposedFix, Report, check

#: Methods whose results are views in NumPy, and copies in MLX.
VIEWS = frozenset(
    ["reshape", "transpose", "squeeze", "flatten", "swapaxes", "moveaxis", "diagonal", "view"]
)
MESSAGE = "a part of an mx.array is a copy: the write is lost"
HELP = "Write to the array itself: `a[i, j] = v`"


@check("INDEX-002")
def chained_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``a[0][1] = 7``, ``a.reshape(-1)[0] = 7``, ``row = a[0]; row[1] = 7``."""
    base = fact.node.value
    if _is_part(sources_of(module).of(fact, base), module):
        change = _in_one(fact.node, fact.place, module)
        yield Report.at(fact, message=MESSAGE, help=HELP, change=change, subject=base)
    elif isinstance(base, cst.Name) and _is_unread_part(base.value, fact, module):
        yield Report.at(fact, message=MESSAGE, help=HELP, subject=base)


@check("INDEX-002")
def update_of_part(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``row = a[0]; row += 1``."""
    name = fact.left.node
    if fact.in_place and isinstance(name, cst.Name) and _is_unread_part(name.value, fact, module):
        yield Report.at(fact, message=MESSAGE, help=HELP, subject=name)


@check("INDEX-002")
def write_by_function(fact: LocalCall, module: Module) -> Iterator[Report]:
    """``clear(cache[slot])``, where the function writes to its parameter."""
    if not is_discarded(fact):
        return
    source = sources_of(module).of(fact, fact.node)
    for name in argument_updates(fact.function):
        given = argument_of(source, Callee(fact.function, fact.is_bound), name)
        if given is None or given.statement is not source.statement:
            continue
        if _is_part(given, module):
            yield Report.at(fact, node=given.node, message=MESSAGE, help=HELP)


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
        or len(bindings) > MOST_STEPS
        or not all(_binds_part(binding, place, module) for binding in held)
    ):
        return False
    return all(_is_for(name, reader) for reader in reads_of(module, function).get(name, ()))


def _binds_part(binding: Binding, place: FactPlace, module: Module) -> bool:
    if binding.kind == "element":
        return binding.name in place.array_names
    if binding.kind != "assigned" or binding.value is None:
        return False
    return _is_part(Source(binding.value, binding.statement, place.function, module), module)


def _is_for(name: str, reader: cst.CSTNode) -> bool:
    """Test for ``row -= mx.mean(row)``, ``row[0] = row[1]`` and ``mx.eval(row)``.

    They read what a name holds for itself alone.
    """
    if isinstance(reader, cst.Expr):
        call = reader.value
        return isinstance(call, cst.Call) and (dotted(call.func) or "").endswith(".eval")
    targets = [*targets_of(reader)]
    root: cst.CSTNode = targets[0] if len(targets) == 1 else reader
    is_update = isinstance(root, cst.Subscript) or isinstance(reader, cst.AugAssign)
    while isinstance(root, cst.Subscript):
        root = root.value
    return is_update and isinstance(root, cst.Name) and root.value == name


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


#: Methods of ``x.at[index]`` by operator.
METHODS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
#: Functions of NumPy, MLX and Python that compute indices without repetitions.
UNIQUE = frozenset(
    [
        *("arange", "argsort", "argpartition", "permutation", "range", "sample", "shuffle"),
        *("where", "nonzero", "flatnonzero", "argwhere", "unique", "enumerate", "set"),
    ]
)
#: Conversions, which keep the elements, and the elements' order or not.
CONVERSIONS = frozenset(["array", "asarray", "astype", "list", "tuple", "sorted"])
#: Functions whose results repeat, as a rule.
REPEATING = frozenset(
    [
        *("randint", "categorical", "floor", "round", "searchsorted", "digitize", "repeat", "tile"),
        *("astype", "floor_divide", "remainder", "argmax", "argmin"),
    ]
)
#: Names of indices that repeat, as a rule: others may have been made unique elsewhere.
REPEATING_NAMES = frozenset(
    [
        *("labels", "tokens", "token_ids", "input_ids", "ids", "classes", "bins", "segments"),
        *("segment_ids", "cells", "targets", "y", "batch", "groups", "edges", "senders"),
        *("receivers", "where"),
    ]
)
#: Functions whose results are filled with one number.
FILLED = frozenset(["zeros", "zeros_like", "ones", "ones_like", "full", "full_like"])
#: Reductions, whose results without an axis are single indices.
SINGLE = frozenset(["argmax", "argmin", "max", "min", "sum", "item", "len", "int"])


@check("INDEX-003")
def repeated_update(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``a[index] += v``, ``a[index] = a[index] + v``."""
    method = METHODS.get(fact.operator)
    target = None if method is None else _target(fact)
    if target is None or target not in module.array_parts:
        return
    found = array_indices(module)
    given = (e.slice.value for e in target.slice if isinstance(e.slice, cst.Index))
    indices = [index for node in given if (index := found.get(node)) is not None]
    if not indices or not all(_may_repeat(index, module) for index in indices):
        return
    counts = _accumulates(fact, target, module)
    if not counts and not any(_repeats(index, module) for index in indices):
        return
    yield Report.at(
        fact,
        node=target,
        message="an update through an index array counts repeated indices once",
        help=f"Use `x = x.at[index].{method}(value)`, which accumulates",
        change=_with_at(fact, target, str(method), module),
        subject=target.value,
    )


def _target(fact: BinaryFact) -> cst.Subscript | None:
    """Return the elements that are updated: of ``a[i] += v``, or of ``a[i] = a[i] + v``."""
    if fact.in_place:
        return fact.left.node if isinstance(fact.left.node, cst.Subscript) else None
    statement = fact.place.statement
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return None
    target = statement.targets[0].target
    if len(statement.targets) != 1 or not isinstance(target, cst.Subscript):
        return None
    return target if target.deep_equals(fact.left.node) else None


class ArrayIndex(NamedTuple):
    """An array that is an index of another."""

    node: cst.BaseExpression
    array: Array
    place: FactPlace


@kept_for_file
def array_indices(module: Module) -> dict[cst.CSTNode, ArrayIndex]:
    """Return the arrays that are indices of arrays in a file, by their nodes."""
    found: dict[cst.CSTNode, ArrayIndex] = {}
    for fact in module.facts():
        if isinstance(fact, ArrayIndexFact):
            for node, value in filter(None, fact.indices):
                array = as_array(value)
                if array is not None:
                    found[node] = ArrayIndex(node, array, fact.place)
    return found


def _may_repeat(index: ArrayIndex, module: Module) -> bool:
    """Return whether an index is an array of which nothing shows that its elements differ."""
    array = index.array
    if array.dtype == "bool":
        return False
    name = index.node.value if isinstance(index.node, cst.Name) else None
    if name is not None and (name in index.place.array_names or "mask" in name):
        return False
    sources = _sources(index.node, index.place, module)
    return (
        all(_may_hold_repeated(s.node) for s in sources)
        and not any(_is_distinct(s, module) for s in sources)
        and not is_scalar(module, index.node)
    )


def _sources(node: cst.BaseExpression, place: FactPlace, module: Module) -> list[Source]:
    """Get the expressions that compute a value, those that callers in this file pass among them."""
    start = Source(node, place.statement, place.function, module)
    return sources_of(module).ends(start, through_callers=True) or [start]


def _computed(
    node: cst.BaseExpression, place: FactPlace, module: Module
) -> list[cst.BaseExpression]:
    return [source.node for source in _sources(node, place, module)]


def _is_distinct(source: Source, module: Module, conversions: int = 0) -> bool:
    """Return whether an index is converted from keys of a dictionary, or from a set."""
    node = source.node
    if isinstance(node, (cst.Dict, cst.DictComp, cst.Set, cst.SetComp)):
        return conversions > 0
    if not isinstance(node, cst.Call) or conversions > MOST_CALLS:
        return False
    name, method = last_name(node), isinstance(node.func, cst.Attribute)
    if name == "keys" or (conversions and name in UNIQUE):
        return True
    if name not in CONVERSIONS:
        return False
    if name == "astype" and method:
        data: cst.BaseExpression | None = node.func.value  # type: ignore[attr-defined]
    else:
        data = node.args[0].value if node.args and not node.args[0].star else None
    if data is None:
        return False
    inner = sources_of(module).ends(source.at(data), through_callers=True)
    return bool(inner) and all(_is_distinct(one, module, conversions + 1) for one in inner)


def _may_hold_repeated(source: cst.BaseExpression) -> bool:
    if isinstance(source, cst.Subscript):
        return _is_column(source)  # others are perhaps a single index
    calls = {last_name(call): call for call in contents_of(source).calls}
    if not UNIQUE.isdisjoint(calls):
        return False
    if _lists_numbers(source) and not _lists_twice(source):
        return False
    outer = last_name(source) if isinstance(source, cst.Call) else None
    return outer not in SINGLE or any(_takes_axis(node) for node in calls.values())


def _is_column(source: cst.Subscript) -> bool:
    """``edges[:, 1]``."""
    kinds = {type(element.slice) for element in source.slice}
    return kinds == {cst.Slice, cst.Index}


def _takes_axis(node: cst.Call) -> bool:
    return any(arg.keyword is not None and arg.keyword.value == "axis" for arg in node.args)


def _repeats(index: ArrayIndex, module: Module) -> bool:
    """Return whether an index array is made in a way that repeats numbers."""
    return any(_holds_repeated(node) for node in _computed(index.node, index.place, module))


def _holds_repeated(source: cst.BaseExpression) -> bool:
    if _lists_numbers(source):
        return _lists_twice(source)
    contents = contents_of(source)
    if not REPEATING.isdisjoint(map(last_name, contents.calls)):
        return True
    operators = (node.operator for node in contents.of(cst.BinaryOperation))
    return any(isinstance(operator, (cst.FloorDivide, cst.Modulo)) for operator in operators)


def _lists_numbers(source: cst.CSTNode) -> bool:
    """Return whether an expression is ``mx.array`` of a list."""
    if not isinstance(source, cst.Call) or last_name(source) != "array" or not source.args:
        return False
    return isinstance(source.args[0].value, (cst.List, cst.Tuple))


def _lists_twice(source: cst.CSTNode) -> bool:
    """Return whether a number is written twice in an expression."""
    numbers = [node.value for node in contents_of(source).of(cst.Integer)]
    return len(set(numbers)) < len(numbers)


def _accumulates(fact: BinaryFact, target: cst.Subscript, module: Module) -> bool:
    """Return whether an update counts, or adds to what was just filled with one number.

    Where no index repeats, there is no need to do either.
    """
    if fact.operator not in "+-":
        return False
    added = _computed(fact.right.node, fact.place, module)
    if any(isinstance(node, (cst.Integer, cst.Float)) or _is_filled(node) for node in added):
        return True
    starts = _computed(target.value, fact.place, module)
    if fact.place.loops or not any(map(_is_filled, starts)):
        return False
    indices = (e.slice for e in target.slice if isinstance(e.slice, cst.Index))
    return any(not REPEATING_NAMES.isdisjoint(contents_of(index).names) for index in indices)


def _is_filled(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and last_name(node) in FILLED


def _with_at(
    fact: BinaryFact, target: cst.Subscript, method: str, module: Module
) -> ProposedFix | None:
    """``a = a.at[index].add(v)``, for a name."""
    if not isinstance(target.value, cst.Name):
        return None
    name = target.value.value
    indices = ", ".join(module.parsed.code(element.slice) for element in target.slice)
    value = module.parsed.code(fact.right.node)
    text = f"{name} = {name}.at[{indices}].{method}({value})"
    return ProposedFix("Accumulate with .at", False, ((fact.place.statement, text),))
