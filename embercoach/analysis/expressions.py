"""Expressions to values: one function a node type, found by exact type.

Evaluating an expression records the facts that checks read: calls, arithmetic, comparisons,
truth tests, formatting and indexing in which arrays take part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis import calls, extents, fourier, library, members, operators, strings
from embercoach.analysis.dispatch import EVALUATORS, evaluate
from embercoach.analysis.facts import FormatFact, IndexFact
from embercoach.analysis.iteration import element_of
from embercoach.analysis.lattice import (
    as_array,
    definite_array,
    join,
    join_all,
    pulls_of,
    with_pulls,
)
from embercoach.analysis.narrowing import narrow, test
from embercoach.analysis.paths import dotted
from embercoach.analysis.values import (
    NONE,
    STR,
    UNKNOWN,
    Array,
    ArrayAt,
    Dict,
    Function,
    Number,
    Numpy,
    Piece,
    Sequence,
    Setting,
    Str,
    Torch,
    Tree,
    Union,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable as Fn

    from embercoach.analysis.frame import Frame

CONSTANTS: dict[str, Value] = {
    "True": Number("bool", True),
    "False": Number("bool", False),
    "None": NONE,
}


def evaluate_name(frame: Frame, node: cst.Name) -> Value:
    """A name: a constant, or what the frame holds."""
    name = node.value
    value = frame.names.get(name)
    if value is not None:
        return value
    constant = CONSTANTS.get(name)
    return frame.lookup(name) if constant is None else constant


def _attribute(frame: Frame, node: cst.Attribute) -> Value:
    path = dotted(node)
    if path is not None:
        narrowed = frame.names.get(path)
        if narrowed is not None:
            return narrowed
    owner = evaluate(frame, node.value)
    value = members.member(frame, owner, node.attr.value)
    if value is UNKNOWN and type(owner) is Array:
        calls.deny_array(frame, node.value)
    if path is not None and node.attr.value in ("shape", "size"):
        return extents.measure(value, path)
    return value


def _integer(frame: Frame, node: cst.Integer) -> Value:
    try:
        const: int | None = int(node.value, 0)
    except ValueError:  # more digits than Python converts
        const = None
    return Number("int", None if const is None or const > operators.LARGEST else const)


def _float(frame: Frame, node: cst.Float) -> Value:
    return Number("float", float(node.value))


def _imaginary(frame: Frame, node: cst.Imaginary) -> Value:
    return Number("complex", complex(node.value.replace("_", "").lower()))


def _concatenated(frame: Frame, node: cst.ConcatenatedString) -> Value:
    return operators.concatenate(evaluate(frame, node.left), evaluate(frame, node.right))


def _formatted(frame: Frame, node: cst.FormattedString) -> Value:
    pieces: list[Piece] | None = []
    for part in node.parts:
        if type(part) is cst.FormattedStringText:
            text = strings.of_fragment(frame, node, part)
            pieces = None if pieces is None or text is None else [*pieces, text]
            continue
        assert isinstance(part, cst.FormattedStringExpression)
        value = evaluate(frame, part.expression)
        for spec in part.format_spec or ():
            if isinstance(spec, cst.FormattedStringExpression):
                evaluate(frame, spec.expression)
        if frame.record and definite_array(value) is not None:
            frame.add(FormatFact(part.expression, frame.place(), value, "fstring"))
        if pieces is not None:
            pieces = [*pieces, *_field(part, value)]
    return STR if pieces is None else Str(tuple(pieces))


def _field(part: cst.FormattedStringExpression, value: Value) -> tuple[Piece, ...]:
    """The text of a replacement field."""
    spec = [s.value for s in part.format_spec or () if isinstance(s, cst.FormattedStringText)]
    if part.conversion or part.equal or len(spec) < len(part.format_spec or ()):
        return strings.hole(value)
    known = strings.formatted(value, "".join(spec))
    return strings.hole(value) if known is None else known


def _display(kind: str) -> Fn[[Frame, Any], Value]:
    def build(frame: Frame, node: cst.Tuple | cst.List | cst.Set) -> Value:
        items: list[Value] = []
        known = True
        for element in node.elements:
            value = evaluate(frame, element.value)
            if type(element) is cst.StarredElement:
                inner = value.items if isinstance(value, Sequence) else None
                if inner is not None:
                    items.extend(inner)
                else:
                    known = False
                    items.append(element_of(frame, value))
            else:
                items.append(value)
        if known and len(items) <= 64:
            return Sequence(kind, None, tuple(items))  # type: ignore[arg-type]
        return Sequence(kind, join_all(items))  # type: ignore[arg-type]

    return build


def _dict(frame: Frame, node: cst.Dict) -> Value:
    known: dict[str, Value] = {}
    other: list[Value] = []
    for element in node.elements:
        value = evaluate(frame, element.value)
        if type(element) is cst.DictElement:
            key = evaluate(frame, element.key)
            text = key.text if isinstance(key, Str) else None
            if text is not None and len(known) < 64:
                known[text] = value
                continue
            other.append(value)
        elif isinstance(value, Dict):
            known.update(value.known)
            other.append(value.item)
        else:
            other.append(UNKNOWN)
    if not other and known:
        return Dict(join_all(known.values()), tuple(known.items()))
    return Dict(join_all(other), tuple(known.items()))


def _comprehension(frame: Frame, node: Any) -> Value:
    loops, names, arrays = frame.loops, frame.loop_names, frame.array_names
    outer_names = frame.names
    frame.names = dict(outer_names)
    result: Value
    try:
        _clauses(frame, node.for_in)
        if type(node) is cst.DictComp:
            key = evaluate(frame, node.key)
            value = evaluate(frame, node.value)
            del key
            result = Dict(value)
        else:
            kind = _COMPREHENSIONS[type(node)]
            result = Sequence(kind, evaluate(frame, node.elt))  # type: ignore[arg-type]
    finally:
        frame.names = outer_names
        frame.loops, frame.loop_names, frame.array_names = loops, names, arrays
    return result


_COMPREHENSIONS = {cst.ListComp: "list", cst.SetComp: "set", cst.GeneratorExp: "iterator"}


def _clauses(frame: Frame, clause: cst.CompFor | None) -> None:
    from embercoach.analysis.control import enter_loop

    while clause is not None:
        enter_loop(frame, clause.target, evaluate(frame, clause.iter), clause.iter)
        for condition in clause.ifs:
            test(frame, condition.test, "comprehension")
            narrow(frame, condition.test, True)
        clause = clause.inner_for_in


def _conditional(frame: Frame, node: cst.IfExp) -> Value:
    test(frame, node.test, "ternary")
    before = frame.fork()
    narrow(frame, node.test, True)
    body = evaluate(frame, node.body)
    frame.restore(before)
    narrow(frame, node.test, False)
    orelse = evaluate(frame, node.orelse)
    frame.restore(before)
    return join(body, orelse)


def _lambda(frame: Frame, node: cst.Lambda) -> Value:
    return Function(frame.module.function_info(node, frame, None))


def _walrus(frame: Frame, node: cst.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    if type(node.target) is cst.Name:
        frame.bind(node.target.value, value)
    return value


def _await(frame: Frame, node: cst.Await) -> Value:
    return evaluate(frame, node.expression)


def _yield(frame: Frame, node: cst.Yield) -> Value:
    if node.value is None:
        return UNKNOWN
    if type(node.value) is cst.From:
        value = element_of(frame, evaluate(frame, node.value.item))
    else:
        value = evaluate(frame, node.value)
    frame.pulls |= pulls_of(value)
    frame.yielded = value if frame.yielded is None else join(frame.yielded, value)
    return UNKNOWN


def _subscript(frame: Frame, node: cst.Subscript) -> Value:
    base = evaluate(frame, node.value)
    array = as_array(base)
    index: Value = UNKNOWN
    is_slice = False
    for element in node.slice:
        part = element.slice
        if type(part) is cst.Index:
            index = evaluate(frame, part.value)
            if frame.record and array is None and as_array(index) is not None:
                _record_index(frame, node, part.value, base, index, "index")
        else:
            is_slice = True
            assert isinstance(part, cst.Slice)
            for bound in (part.lower, part.upper, part.step):
                if bound is not None:
                    value = evaluate(frame, bound)
                    if frame.record and as_array(value) is not None:
                        _record_index(frame, node, bound, base, value, "slice")
    if array is not None:
        role = None if array.role is None else fourier.sliced(array.role, node)
        return Array(array.dtype, array.literal, False, array.traced, array.pulls, role)
    if base is UNKNOWN and frame.module.arrays_are_mlx and _is_array_index(node):
        library.show_array(frame, node.value, base)
        return Array(traced=True)
    return _item(frame, base, index, is_slice, node)


def _is_array_index(node: cst.Subscript) -> bool:
    """``x[:, i]``, ``x[..., 0]``: several axes with a slice among them, as only arrays take."""
    if len(node.slice) == 1:
        only = node.slice[0].slice
        return type(only) is cst.Index and type(only.value) is cst.Ellipsis
    return any(
        type(e.slice) is cst.Slice
        or (type(e.slice) is cst.Index and type(e.slice.value) is cst.Ellipsis)
        for e in node.slice
    )


def _record_index(
    frame: Frame, node: cst.Subscript, at: Any, base: Value, index: Value, form: Any
) -> None:
    frame.add(IndexFact(at, frame.place(), base, index, form))


def _item(frame: Frame, base: Value, index: Value, is_slice: bool, node: cst.Subscript) -> Value:
    kind = type(base)
    if kind is Sequence:
        if is_slice:
            return _sliced(base, node)
        if base.items is not None and isinstance(index, Number) and type(index.const) is int:
            if -len(base.items) <= index.const < len(base.items):
                return with_pulls(base.items[index.const], base.pulls)
        if base.array is not None and isinstance(index, Number) and type(index.const) is int:
            return extents.axis_length(base.array, index.const)
        return with_pulls(base.item, base.pulls)
    if kind is Dict:
        text = index.text if isinstance(index, Str) else None
        found = base.get(text) if text is not None else None
        if found is not None:
            return found
        return (
            base.item
            if not base.known or text is not None
            else join_all([base.item, *(v for _, v in base.known)])
        )
    if kind is Union:
        results = [_item(frame, o, index, is_slice, node) for o in base.options if o is not NONE]
        return join_all(results)
    if kind is Array:
        return Array(base.dtype, base.literal, False, base.traced, base.pulls)
    if kind is Tree:
        return Union(frozenset({Tree(), Array()}))
    if kind is Numpy:
        return Numpy(base.kind, False, base.pulls, base.dtype)
    if kind is Torch or kind is ArrayAt or kind is Setting:
        return base
    if kind is Str:
        return STR
    return members.subscript_result(frame, base, index)


def _sliced(base: Sequence, node: cst.Subscript) -> Value:
    part = node.slice[0].slice
    if base.items is None or not isinstance(part, cst.Slice) or len(node.slice) != 1:
        return Sequence(base.kind, base.item, None, base.pulls)
    try:
        bounds = [_constant_bound(b) for b in (part.lower, part.upper, part.step)]
        items = base.items[slice(*bounds)]
    except ValueError:  # unknown bounds, or a step of zero
        return Sequence(base.kind, base.item, None, base.pulls)
    return Sequence(base.kind, None, items, base.pulls)


def _constant_bound(node: cst.BaseExpression | None) -> int | None:
    if node is None:
        return None
    if type(node) is cst.Integer:
        return int(node.evaluated_value)
    if type(node) is cst.UnaryOperation and type(node.operator) is cst.Minus:
        if type(node.expression) is cst.Integer:
            return -int(node.expression.evaluated_value)
    raise ValueError(node)


EVALUATORS |= {
    cst.Name: evaluate_name,
    cst.Attribute: _attribute,
    cst.Call: calls.evaluate_call,
    cst.Integer: _integer,
    cst.Float: _float,
    cst.Imaginary: _imaginary,
    cst.SimpleString: strings.of_literal,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.Tuple: _display("tuple"),
    cst.List: _display("list"),
    cst.Set: _display("set"),
    cst.Dict: _dict,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _comprehension,
    cst.IfExp: _conditional,
    cst.Lambda: _lambda,
    cst.NamedExpr: _walrus,
    cst.Await: _await,
    cst.Yield: _yield,
    cst.Subscript: _subscript,
    cst.BinaryOperation: operators.evaluate_binary,
    cst.UnaryOperation: operators.evaluate_unary,
    cst.BooleanOperation: operators.evaluate_boolean,
    cst.Comparison: operators.evaluate_comparison,
}
