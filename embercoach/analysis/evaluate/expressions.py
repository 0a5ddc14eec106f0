"""Expressions to values: one function a node type, found by exact type.

Evaluating an expression records the facts that checks read: calls, arithmetic, comparisons,
truth tests, formatting and indexing in which arrays take part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis.calls import calls
from embercoach.analysis.calls.library import string_methods
from embercoach.analysis.evaluate import (
    booleans,
    exactness,
    members,
    operators,
    subscripts,
)
from embercoach.analysis.evaluate.dispatch import EVALUATORS, evaluate
from embercoach.analysis.evaluate.iteration import element_of
from embercoach.analysis.evaluate.narrowing import narrow, test
from embercoach.analysis.facts import missing_members, property_reads
from embercoach.analysis.facts.facts import FormatFact
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values import strings
from embercoach.analysis.values.joins import any_item, definite_array, join, join_all
from embercoach.analysis.values.lattice import (
    NONE,
    STR,
    UNKNOWN,
    Array,
    Dict,
    Function,
    Number,
    Piece,
    Sequence,
    Str,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable as Fn

    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.values.lattice import SequenceKind

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
    if frame.record:
        missing_members.record_member(frame, node, owner, value)
        property_reads.record_read(frame, node, owner, value)
    if value is UNKNOWN and type(owner) is Array:
        calls.deny_array(frame, node.value)
    if value is UNKNOWN and frame.gradient is not None:
        frame.gradient.is_complete = False  # it may hold a weight
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
    return string_methods.concatenate(evaluate(frame, node.left), evaluate(frame, node.right))


def _formatted(frame: Frame, node: cst.FormattedString) -> Value:
    pieces: list[Piece] | None = []
    parts: list[Value | tuple[Piece, ...]] = []
    several = False
    for part in node.parts:
        if type(part) is cst.FormattedStringText:
            text = strings.of_fragment(frame, node, part)
            pieces = None if pieces is None or text is None else [*pieces, text]
            parts.append(() if text is None else (text,))
            continue
        assert isinstance(part, cst.FormattedStringExpression)
        value = evaluate(frame, part.expression)
        for spec in part.format_spec or ():
            if isinstance(spec, cst.FormattedStringExpression):
                evaluate(frame, spec.expression)
        if frame.record and definite_array(value) is not None:
            frame.add(FormatFact(part.expression, frame.place(), value, "fstring"))
        if pieces is not None:
            field = _field(part, value)
            fits = len(pieces) + len(field) <= strings.MAX_PIECES
            pieces = [*pieces, *field] if fits else None
            chosen = type(value) is Str and value.either and _is_plain(part)
            several = several or bool(chosen)
            parts.append(value if chosen else field)
    if pieces is None:
        return STR
    if several:
        given = tuple(p if isinstance(p, Value) else Str(p) for p in parts)
        return strings.by_alternative(given, _together)
    return Str(tuple(pieces))


def _together(parts: tuple[Value, ...]) -> Value:
    """Strings one after the other; one that is still several is a hole."""
    pieces: list[Piece] = []
    for part in parts:
        known = part.pieces if isinstance(part, Str) else None
        pieces += strings.hole(part) if known is None else known
    return Str(tuple(pieces)) if len(pieces) <= strings.MAX_PIECES else STR


def _is_plain(part: cst.FormattedStringExpression) -> bool:
    """Return whether a field has no conversion, ``=`` or format specification."""
    return not (part.conversion or part.equal or part.format_spec)


def _field(part: cst.FormattedStringExpression, value: Value) -> tuple[Piece, ...]:
    """The text of a replacement field."""
    spec = [s.value for s in part.format_spec or () if isinstance(s, cst.FormattedStringText)]
    if part.conversion or part.equal or len(spec) < len(part.format_spec or ()):
        return strings.hole(value)
    known = strings.formatted(value, "".join(spec))
    return strings.hole(value) if known is None else known


def _display(kind: SequenceKind) -> Fn[[Frame, Any], Value]:
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
            return Sequence(kind, None, tuple(items))
        return Sequence(kind, join_all(items))

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
            if not value.exact:
                other.append(value.item)
        else:
            other.append(UNKNOWN)
    if not other and (known or frame.module.mentions_kernels):
        exact = frame.module.mentions_kernels
        return Dict(join_all(known.values()), tuple(known.items()), exact)
    return Dict(join_all(other), tuple(known.items()))


def _comprehension(frame: Frame, node: Any) -> Value:
    if frame.must is None:
        return _comprehended(frame, node)
    clause = node.for_in
    evaluate(frame, clause.iter)
    while clause is not None and not clause.ifs:
        clause = clause.inner_for_in
    if clause is None:
        return _comprehended(frame, node)
    with frame.must.unsure():
        return _comprehended(frame, node)


def _comprehended(frame: Frame, node: Any) -> Value:
    loops, names, arrays = frame.loops, frame.loop_names, frame.array_names
    outer_names = frame.names.version()
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
            result = Sequence(kind, evaluate(frame, node.elt))
    finally:
        frame.names.restore(outer_names)
        frame.loops, frame.loop_names, frame.array_names = loops, names, arrays
    if frame.module.mentions_kernels:
        if isinstance(result, Sequence):
            items = exactness.comprehended(frame, node, any_item(result))
            return result if items is None else Sequence(result.kind, None, items)
        assert isinstance(result, Dict)
        return exactness.comprehended_dict(frame, node, result.item) or result
    return result


_COMPREHENSIONS: dict[type, SequenceKind] = {
    cst.ListComp: "list",
    cst.SetComp: "set",
    cst.GeneratorExp: "iterator",
}


def _clauses(frame: Frame, clause: cst.CompFor | None) -> None:
    from embercoach.analysis.evaluate.control import enter_loop

    while clause is not None:
        enter_loop(frame, clause.target, evaluate(frame, clause.iter), clause.iter)
        for condition in clause.ifs:
            test(frame, condition.test, "comprehension")
            narrow(frame, condition.test, True)
        clause = clause.inner_for_in


def _conditional(frame: Frame, node: cst.IfExp) -> Value:
    value = test(frame, node.test, "ternary")
    if type(node.test) is cst.Name and node.test.value in ("True", "False"):
        return evaluate(frame, node.body if node.test.value == "True" else node.orelse)
    if frame.decides and (truth := exactness.truth(value)) is not None:
        return evaluate(frame, node.body if truth else node.orelse)
    if frame.must is None:
        return _either(frame, node)
    with frame.must.unsure():
        return _either(frame, node)


def _either(frame: Frame, node: cst.IfExp) -> Value:
    """A conditional expression of which either side may be the result."""
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
    frame.yielded = value if frame.yielded is None else join(frame.yielded, value)
    return UNKNOWN


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
    cst.Subscript: subscripts.evaluate_subscript,
    cst.BinaryOperation: operators.evaluate_binary,
    cst.UnaryOperation: operators.evaluate_unary,
    cst.BooleanOperation: booleans.evaluate_boolean,
    cst.Comparison: operators.evaluate_comparison,
}
