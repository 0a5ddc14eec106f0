"""Values of expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from embercoach.analysis.shapes import attributes, function_runs
from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_FLOAT,
    ANY_STR,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    HostArray,
    ShapedArray,
    weak_kind,
)
from embercoach.analysis.shapes.host_arrays import host_item
from embercoach.analysis.shapes.interpreter import Machine, ShapeCall, ShapeSite, assign, evaluates
from embercoach.analysis.shapes.library_functions import as_array
from embercoach.analysis.shapes.operations import (
    MOST_ITEMS,
    binary,
    compared,
    dict_entries,
    iterated_items,
    negated,
    same_item,
    truth_of,
)
from embercoach.analysis.shapes.path_conditions import assume
from embercoach.analysis.shapes.path_states import Frame, next_serials
from embercoach.analysis.shapes.python_values import (
    DictReference,
    Entries,
    FunctionValue,
    Items,
    Iterator,
    LibraryName,
    ListReference,
    ObjectReference,
    Options,
    Place,
    SuperValue,
    Truth,
    bounded,
    one_of,
    options_of,
)
from embercoach.analysis.shapes.requirements import axis_symbols
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    SizeExpr,
    multiply,
    subtract,
    symbol,
)
from embercoach.analysis.shapes.table.array_members import ArrayAt
from embercoach.analysis.shapes.table_calls import (
    as_integer,
    call_table,
    new_dict,
    new_list,
)
from embercoach.analysis.shapes.value_joins import is_invariant, joined_values


@evaluates(ast.Constant)
def _constant(machine: Machine, frame: Frame, node: ast.Constant) -> Any:
    value = node.value
    if type(value) is int and abs(value) > 1 << 62:
        return ANY_INT
    if type(value) is bytes:
        return UNKNOWN
    return value


@evaluates(ast.Name)
def _name(machine: Machine, frame: Frame, node: ast.Name) -> Any:
    name = node.id
    names = frame.names
    if name in names:
        value = names[name]
    else:
        found = frame.find(name)
        if found is None:
            return function_runs.builtin(name)
        value = found.names[name]
    if type(value) is Place:
        return machine.heap.value(value)
    return value


@evaluates(ast.Attribute)
def _attribute(machine: Machine, frame: Frame, node: ast.Attribute) -> Any:
    owner = machine.evaluate(frame, node.value)
    return attributes.attribute_of(ShapeSite(machine, frame, node), owner, node.attr)


@evaluates(ast.BinOp)
def _binary(machine: Machine, frame: Frame, node: ast.BinOp) -> Any:
    left = machine.evaluate(frame, node.left)
    right = machine.evaluate(frame, node.right)
    return binary(ShapeSite(machine, frame, node), type(node.op), left, right)


@evaluates(ast.UnaryOp)
def _unary(machine: Machine, frame: Frame, node: ast.UnaryOp) -> Any:
    value = machine.heap.value(machine.evaluate(frame, node.operand))
    kind = type(node.op)
    if kind is ast.Not:
        return negated(truth_of(machine, value))
    if type(value) is ShapedArray:
        if kind is ast.UAdd:
            return value
        name = "mlx.core.negative" if kind is ast.USub else "mlx.core.array.__invert__"
        return call_table(ShapeSite(machine, frame, node), name, (value,))
    number = as_integer(machine, value)
    if number is not None:
        if kind is ast.USub:
            return multiply(number, -1)
        return subtract(-1, number) if kind is ast.Invert else number
    if type(value) is float:
        return -value if kind is ast.USub else value
    return ANY_FLOAT if weak_kind(value) == "float" else UNKNOWN


@evaluates(ast.BoolOp)
def _boolean(machine: Machine, frame: Frame, node: ast.BoolOp) -> Any:
    """``a and b``, ``a or b``: later operands are evaluated where the earlier ones lead to them."""
    is_and = type(node.op) is ast.And
    saved = machine.heap.snapshot(frame)
    results: list[Any] = []
    invariant = True
    for operand in node.values:
        value = machine.evaluate(frame, operand)
        truth = truth_of(machine, value)
        if truth is (not is_and):  # it decides
            results.append(value)
            break
        if truth is is_and and operand is not node.values[-1]:
            continue
        results.append(value)
        if operand is not node.values[-1]:
            invariant = invariant and is_invariant(machine.heap.value(value))
            assume(machine, frame, operand, is_and, truth)
    machine.heap.restore(frame, saved)
    if len(results) == 1:
        return results[0]
    if not is_and and len(results) == 2:
        # ``x or default``: ``None`` and zero don't remain of ``x``.
        first = [v for v in options_of(results[0]) if v is not None and v is not False]
        if not first:
            return results[1]
        results = [*first, results[1]]
    if all(type(v) is bool or v is ANY_BOOL or type(v) is Truth for v in results):
        return results[0] if len(results) == 1 else ANY_BOOL
    return joined_values(results, is_invariant=invariant)


@evaluates(ast.Compare)
def _compare(machine: Machine, frame: Frame, node: ast.Compare) -> Any:
    left = machine.evaluate(frame, node.left)
    results: list[Any] = []
    for operator, comparator in zip(node.ops, node.comparators, strict=True):
        right = machine.evaluate(frame, comparator)
        results.append(compared(ShapeSite(machine, frame, node), type(operator), left, right))
        left = right
    if len(results) == 1:
        return results[0]
    if False in [r for r in results if type(r) is bool]:
        return False
    return True if all(r is True for r in results) else ANY_BOOL


@evaluates(ast.IfExp)
def _conditional(machine: Machine, frame: Frame, node: ast.IfExp) -> Any:
    truth = truth_of(machine, machine.evaluate(frame, node.test))
    if type(truth) is bool:
        return machine.evaluate(frame, node.body if truth else node.orelse)
    heap = machine.heap
    start = heap.snapshot(frame)
    values, states = [], []
    for branch, holds in ((node.body, True), (node.orelse, False)):
        heap.restore(frame, start if not holds else start.copy())
        if not assume(machine, frame, node.test, holds, truth):
            continue
        values.append(heap.value(machine.evaluate(frame, branch)))
        states.append(heap.snapshot(frame))
    if not values:
        return UNKNOWN
    if len(values) == 1:
        heap.restore(frame, states[0])
        return values[0]
    if states[0].facts.failed is not states[1].facts.failed:
        values = [values[1 if states[0].facts.failed else 0]]
    heap.restore(frame, heap.join(states[0], states[1]))
    return joined_values(values, is_invariant=is_invariant(truth))


@evaluates(ast.Tuple)
def _tuple(machine: Machine, frame: Frame, node: ast.Tuple) -> Any:
    items = sequence_items(machine, frame, node.elts)
    return UNKNOWN if items.items is None else bounded(items.items)


@evaluates(ast.List)
def _list(machine: Machine, frame: Frame, node: ast.List) -> Any:
    return new_list(machine, sequence_items(machine, frame, node.elts))


@evaluates(ast.Set)
def _set(machine: Machine, frame: Frame, node: ast.Set) -> Any:
    items = sequence_items(machine, frame, node.elts)
    return UNKNOWN if items.items is None else items.items


def sequence_items(machine: Machine, frame: Frame, nodes: list[ast.expr]) -> Items:
    """Return the items of a display, with ``*parts`` in it."""
    found: list[Any] = []
    is_known = True
    for node in nodes:
        if type(node) is ast.Starred:
            held = _spread(machine, frame, node)
            is_known = is_known and held.items is not None
            found += (held.common,) if held.items is None else held.items
        else:
            found.append(machine.evaluate(frame, node))
    if is_known:
        return Items(tuple(found))
    return Items(None, found[0] if all(item is found[0] for item in found) else UNKNOWN)


def _spread(machine: Machine, frame: Frame, node: ast.Starred) -> Items:
    """Return the items of ``*value``; axes that are unknown are one of a tuple's."""
    value = machine.heap.value(machine.evaluate(frame, node.value))
    return Items(value) if type(value) is tuple else iterated_items(machine, value)


@evaluates(ast.Dict)
def _dict(machine: Machine, frame: Frame, node: ast.Dict) -> Any:
    known: dict[Any, Any] = {}
    is_open = False
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = machine.evaluate(frame, value_node)
        if key_node is None:
            held = dict_entries(machine, value)
            known.update(held.known)
            is_open = is_open or held.is_open
            continue
        key = machine.heap.value(machine.evaluate(frame, key_node))
        if type(key) in (str, int):
            known[key] = value
        else:
            is_open = True
    return new_dict(machine, Entries(known, is_open))


@evaluates(ast.JoinedStr)
def _formatted(machine: Machine, frame: Frame, node: ast.JoinedStr) -> Any:
    parts: list[str] = []
    for piece in node.values:
        if type(piece) is ast.Constant:
            parts.append(str(piece.value))
            continue
        assert isinstance(piece, ast.FormattedValue)
        value = machine.heap.value(machine.evaluate(frame, piece.value))
        if type(value) not in (str, int) or piece.format_spec is not None or piece.conversion > 0:
            return ANY_STR
        parts.append(str(value))
    text = "".join(parts)
    return text if len(text) < 1000 else ANY_STR


@evaluates(ast.Lambda)
def _lambda(machine: Machine, frame: Frame, node: ast.Lambda) -> Any:
    return function_runs.function_of(machine, frame, node)


@evaluates(ast.Starred, ast.Await)
def _held(machine: Machine, frame: Frame, node: ast.Starred | ast.Await) -> Any:
    machine.evaluate(frame, node.value)
    return UNKNOWN


@evaluates(ast.NamedExpr)
def _walrus(machine: Machine, frame: Frame, node: ast.NamedExpr) -> Any:
    value = machine.evaluate(frame, node.value)
    assign(machine, frame, node.target, value)
    return frame.names.get(node.target.id, value)


@evaluates(ast.Yield, ast.YieldFrom)
def _yield(machine: Machine, frame: Frame, node: ast.Yield | ast.YieldFrom) -> Any:
    if node.value is not None:
        value = machine.heap.value(machine.evaluate(frame, node.value))
        if type(node) is ast.Yield and frame.returns is not None:
            frame.yielded.append(value)
        elif frame.returns is not None:
            site = ShapeSite(machine, frame, node)
            held = iterated_items(machine, attributes.iterable_of(site, value))
            frame.yielded += (held.common,) if held.items is None else held.items
    return UNKNOWN


@evaluates(ast.Call)
def _call(machine: Machine, frame: Frame, node: ast.Call) -> Any:
    func = node.func
    if type(func) is ast.Name and func.id == "super" and not node.args:
        return _super(frame)
    if type(func) is ast.Attribute:
        owner = machine.evaluate(frame, func.value)
        callee = attributes.attribute_of(ShapeSite(machine, frame, func), owner, func.attr)
        if callee is UNKNOWN or type(callee) is Place:
            callee = function_runs.method_of_unknown(owner, func, callee)
    else:
        callee = machine.evaluate(frame, func)
    call = ShapeCall(machine, frame, node, *call_arguments(machine, frame, node))
    return function_runs.call_any(call, callee)


def _super(frame: Frame) -> Any:
    at: Frame | None = frame
    while at is not None and (at.function is None or at.function.cls is None):
        at = at.outer
    if at is None or at.function is None or not isinstance(at.function.node, ast.FunctionDef):
        return UNKNOWN
    parameters = [*at.function.node.args.posonlyargs, *at.function.node.args.args]
    owner = at.names.get(parameters[0].arg, UNKNOWN) if parameters else UNKNOWN
    assert at.function.cls is not None
    return SuperValue(at.function.cls, owner)


def call_arguments(
    machine: Machine, frame: Frame, node: ast.Call
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Return the arguments of a call, and whether these are all."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    is_complete = True
    for argument in node.args:
        if type(argument) is ast.Starred:
            held = _spread(machine, frame, argument)
            if held.items is None:
                is_complete = False
                break
            positional += held.items
        else:
            positional.append(machine.evaluate(frame, argument))
    for keyword in node.keywords:
        value = machine.evaluate(frame, keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
            continue
        given = dict_entries(machine, value)
        if given.is_open or not all(type(k) is str for k in given.known):
            is_complete = False
        else:
            keywords.update(given.known)
    return tuple(positional), keywords, is_complete


# -- subscripts ------------------------------------------------------------------------------


@evaluates(ast.Slice)
def _slice(machine: Machine, frame: Frame, node: ast.Slice) -> Any:
    parts = [
        None if part is None else machine.heap.value(machine.evaluate(frame, part))
        for part in (node.lower, node.upper, node.step)
    ]
    return slice(*parts)


@evaluates(ast.Subscript)
def _subscript(machine: Machine, frame: Frame, node: ast.Subscript) -> Any:
    owner = machine.heap.value(machine.evaluate(frame, node.value))
    index = machine.heap.value(machine.evaluate(frame, node.slice))
    return subscript_of(ShapeSite(machine, frame, node), owner, index)


def subscript_of(site: ShapeSite, owner: Any, index: Any) -> Any:
    """``owner[index]``."""
    handler = _SUBSCRIPTS.get(type(owner))
    return UNKNOWN if handler is None else handler(site, owner, index)


def _of_options(site: ShapeSite, owner: Options, index: Any) -> Any:
    found = [subscript_of(site, option, index) for option in owner.values if option is not None]
    return joined_values(found) if found else UNKNOWN


def _of_array(site: ShapeSite, owner: ShapedArray | ArrayAt, index: Any) -> Any:
    kind = "array" if type(owner) is ShapedArray else "ArrayAt"
    return call_table(site, f"mlx.core.{kind}.__getitem__", (owner, index))


def _of_dict(site: ShapeSite, owner: DictReference, index: Any) -> Any:
    held = site.heap.read(owner.number)
    if type(held) is not Entries:
        return UNKNOWN
    if type(index) in (str, int):
        return held.known.get(index, UNKNOWN)
    functions = list(held.known.values())
    if held.is_open or not all(type(one) in (LibraryName, FunctionValue) for one in functions):
        return UNKNOWN
    return one_of(functions) if functions else UNKNOWN  # a choice by name


def _of_object(site: ShapeSite, owner: ObjectReference, index: Any) -> Any:
    if type(index) is str and owner.library:
        return attributes.attribute_of(site, owner, index)
    method = attributes.member_of(owner, "__getitem__")
    if method is not None:
        return site.call(method, (index,))
    if attributes.is_named_tuple(owner.cls):
        items = iterated_items(site.machine, owner).items
        return UNKNOWN if items is None else _of_tuple(site, items, index)
    return UNKNOWN


def _of_place(site: ShapeSite, owner: Place, index: Any) -> Any:
    """Return an item of a setting: a setting as well; part of what must be an array."""
    if not owner.is_setting:
        if owner.scope is None or not _is_of_axes(index) or site.frame.may_see_other_arrays():
            return UNKNOWN
        return _of_array(site, as_array(site.machine, owner), index)
    if type(index) not in (int, str, SizeExpr):
        return UNKNOWN
    return site.machine.part_of(owner, f"[{index!r}]", f"{owner.name}[{index}]")


def _is_of_axes(index: Any) -> bool:
    """Return whether an index is one that arrays alone take: ``x[:, None]``."""
    return type(index) is tuple and any(
        type(one) is slice or one is None or one is Ellipsis for one in index
    )


def _of_string(site: ShapeSite, owner: str, index: Any) -> Any:
    in_range = type(index) is int and -len(owner) <= index < len(owner)
    return owner[index] if in_range else UNKNOWN


def _of_tuple(site: ShapeSite, owner: tuple[Any, ...], index: Any) -> Any:
    places = [at for at, item in enumerate(owner) if type(item) is AxesSymbol]
    if not places:
        if type(index) is int and -len(owner) <= index < len(owner):
            return owner[index]
        if type(index) is slice and all(type(v) in (int, type(None)) for v in _parts(index)):
            return owner[index]
        return ANY_INT if owner and all(weak_kind(v) == "int" for v in owner) else UNKNOWN
    return _item_of_open_tuple(site.machine, owner, index, places[0])


def _parts(index: slice) -> tuple[Any, Any, Any]:
    return index.start, index.stop, index.step


def _item_of_open_tuple(machine: Machine, owner: tuple[Any, ...], index: Any, place: int) -> Any:
    """Return an item or a slice of a shape of which some axes are unknown."""
    after = len(owner) - place - 1
    if type(index) is int:
        if 0 <= index < place or -after <= index < 0:
            return owner[index]
        return _split_off(machine, owner, index, place, is_ahead=index == 0)
    if type(index) is slice and index.step is None:
        start, stop = index.start, index.stop
        if type(start) in (int, type(None)) and type(stop) in (int, type(None)):
            first = 0 if start is None else start
            if stop is not None and stop < -after and stop >= -8:
                _split_off(machine, owner, stop, place)
                owner = machine.heap.value(owner)
            elif first > place and first <= 8:
                _split_off(machine, owner, first - 1, place)
                owner = machine.heap.value(owner)
            elif stop is not None and place < stop <= 8:
                _split_off(machine, owner, stop - 1, place, is_ahead=stop > 1)
                owner = machine.heap.value(owner)
            return _slice_of_open_tuple(owner, first, stop)
    return (AxesSymbol(),) if type(index) is slice else ANY_INT


def _slice_of_open_tuple(owner: tuple[Any, ...], first: int, stop: int | None) -> Any:
    places = [at for at, item in enumerate(owner) if type(item) is AxesSymbol]
    if not places:
        return owner[first:stop]
    place, after = places[0], len(owner) - places[0] - 1
    # Both ends must be known to be on one side of the unknown axes.
    if 0 <= first <= place and (stop is None or -after <= stop < 0 or 0 <= stop <= place):
        return owner[first:stop]
    if -after <= first < 0 and (stop is None or stop < 0):
        return owner[first:stop]
    return (AxesSymbol(),)


def _split_off(
    machine: Machine, owner: tuple[Any, ...], index: int, place: int, *, is_ahead: bool = False
) -> Any:
    """Learn that there are axes up to an index, and return the size of the last of them.

    ``is_ahead``: ``x.shape[:2]`` names axes ahead of those that are known.
    """
    axes = owner[place]
    after = len(owner) - place - 1
    number = index - place + 1 if index >= 0 else -index - after
    is_ahead = is_ahead and machine.assumes
    if not 0 < number <= 8 or ((after and not is_ahead) if index >= 0 else place):
        return ANY_INT  # it may be one of the sizes on the other side
    if index >= 0:
        sizes = axis_symbols(axes, number)
        machine.heap.bind_axes(axes, ArrayShape(sizes, axes.inner(number, 0)))
        return sizes[-1]
    last = tuple(symbol(axes.axis_name(at), is_named=False, place=axes) for at in range(-number, 0))
    machine.heap.bind_axes(axes, ArrayShape((), axes.inner(0, number), last))
    return last[0]


def _of_list(site: ShapeSite, owner: ListReference, index: Any) -> Any:
    held = site.heap.read(owner.number)
    if type(held) is not Items:
        return UNKNOWN
    if type(index) is slice:
        if held.items is not None and all(type(v) in (int, type(None)) for v in _parts(index)):
            return new_list(site.machine, Items(held.items[index]))
        items = held.items if held.items is not None else [held.common]
        return new_list(site.machine, Items(None, same_item(items)))
    if held.items is None:
        return held.common
    if type(index) is int:
        in_range = -len(held.items) <= index < len(held.items)
        return held.items[index] if in_range else UNKNOWN
    if not held.items:
        return UNKNOWN
    return joined_values(list(held.items))


_SUBSCRIPTS: dict[type, Callable[[ShapeSite, Any, Any], Any]] = {
    Options: _of_options,
    ShapedArray: _of_array,
    tuple: _of_tuple,
    HostArray: host_item,
    ArrayAt: _of_array,
    ListReference: _of_list,
    DictReference: _of_dict,
    ObjectReference: _of_object,
    Place: _of_place,
    str: _of_string,
    LibraryName: lambda _site, owner, _index: owner,  # ``list[int]``, ``Optional[x]``: a type
}


# -- comprehensions --------------------------------------------------------------------------


def _inner_frame(frame: Frame) -> Frame:
    """Return the names that a comprehension binds."""
    return Frame(
        {}, frame, frame.module, frame.function, frame.caller, frame.call_line, frame.depth
    )


@evaluates(ast.ListComp, ast.GeneratorExp, ast.SetComp)
def _comprehension(machine: Machine, frame: Frame, node: ast.ListComp) -> Any:
    inner = _inner_frame(frame)
    items = _generated(machine, inner, node.generators, lambda: machine.evaluate(inner, node.elt))
    if type(node) is ast.ListComp:
        return new_list(machine, items)
    return Iterator(items.items, items.common)


@evaluates(ast.DictComp)
def _dict_comprehension(machine: Machine, frame: Frame, node: ast.DictComp) -> Any:
    inner = _inner_frame(frame)

    def pair() -> Any:
        key = machine.heap.value(machine.evaluate(inner, node.key))
        return (key, machine.evaluate(inner, node.value))

    items = _generated(machine, inner, node.generators, pair)
    if items.items is not None and all(
        type(item) is tuple and type(item[0]) in (str, int) for item in items.items
    ):
        return new_dict(machine, Entries(dict(items.items)))
    return new_dict(machine, Entries({}, is_open=True))


def _generated(
    machine: Machine,
    frame: Frame,
    generators: list[ast.comprehension],
    element: Callable[[], Any],
) -> Items:
    """Return the items that a comprehension makes."""
    generator, *others = generators
    value = machine.heap.value(machine.evaluate(frame, generator.iter))
    site = ShapeSite(machine, frame, generator.iter)
    held = iterated_items(machine, attributes.iterable_of(site, value))
    if held.items is not None and len(held.items) <= MOST_ITEMS:
        found: list[Any] = []
        for item in held.items:
            assign(machine, frame, generator.target, item)
            tests = [truth_of(machine, machine.evaluate(frame, test)) for test in generator.ifs]
            if any(test is False for test in tests):
                continue
            if not all(test is True for test in tests):
                return _any_element(machine, frame, generator, others, element, item)
            if others:
                inner = _generated(machine, frame, others, element)
                if inner.items is None:
                    return Items(None, inner.common)
                found += inner.items
            else:
                found.append(machine.heap.value(element()))
            if len(found) > MOST_ITEMS:
                return Items(None, UNKNOWN)
        return Items(tuple(found))
    return _any_element(machine, frame, generator, others, element, held.common)


def _any_element(
    machine: Machine,
    frame: Frame,
    generator: ast.comprehension,
    others: list[ast.comprehension],
    element: Callable[[], Any],
    item: Any,
) -> Items:
    """Any element: what is made here and differs between elements is unknown in it."""
    start = next_serials()
    outer = machine.heap.snapshot(frame)
    assign(machine, frame, generator.target, item)
    for test in generator.ifs:
        truth = truth_of(machine, machine.evaluate(frame, test))
        assume(machine, frame, test, True, truth)
    if others:
        inner = _generated(machine, frame, others, element)
        value = inner.common if inner.items is None else same_item(inner.items)
    else:
        value = machine.heap.value(element())
    value = machine.heap.generalize(value, start)
    outer.facts.events = machine.heap.facts.events
    machine.heap.facts = outer.facts
    return Items(None, value)
