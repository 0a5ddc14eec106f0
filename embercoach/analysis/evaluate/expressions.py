"""Expressions to values, one function a node type or a kind of base, found by exact type."""

from __future__ import annotations

from collections.abc import Callable as Fn
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import libcst as cst

from embercoach.analysis.calls import calls, string_methods
from embercoach.analysis.evaluate import evidence, exactness, members, missing_members, operators
from embercoach.analysis.evaluate.classes import call_method
from embercoach.analysis.evaluate.dispatch import EVALUATORS, element_of, evaluate
from embercoach.analysis.evaluate.narrowing import narrow, record_test, test
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values import facts, strings
from embercoach.analysis.values.facts import ArrayIndexFact, FormatFact, IndexFact, TruthForm
from embercoach.analysis.values.gradient_marks import marks_of
from embercoach.analysis.values.lattice import (
    NONE,
    STR,
    TRACED,
    UNKNOWN,
    Array,
    ArrayAt,
    Dict,
    Function,
    Instance,
    Number,
    Numpy,
    Piece,
    Sequence,
    SequenceKind,
    Setting,
    Str,
    Symbol,
    Torch,
    Tree,
    Union,
    Value,
    any_item,
    as_array,
    definite_array,
    join,
    join_all,
    options,
    parts_of,
    with_pulls,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame, Snapshot

#: Operands that narrow in the time of an evaluation.
_NARROWED_A_STEP = 8


def evaluate_boolean(frame: Frame, node: cst.BooleanOperation) -> Value:
    """``a and b``, ``a or b``: the left operand's truth decides."""
    is_and = type(node.operator) is cst.And
    form: TruthForm = "and" if is_and else "or"
    links = _links(node)
    value = test(frame, links[0].left, form)
    before: cst.BooleanOperation | None = None
    # The states without and with what the operands so far have shown. That is kept from one to
    # the next, unless testing one of them has bound a name.
    outer = frame.fork()
    inner: Snapshot | None = None
    for number, link in enumerate(links):
        if before is not None and inner is None:
            record_test(frame, before, value, form)
        elif before is None or inner is None:
            pass
        elif inner is outer or not _is_of_none(before.right):
            if inner is not outer:
                frame.work.left -= number // _NARROWED_A_STEP
            frame.restore(outer)
            record_test(frame, before, value, form)
            if outer is frame.fork():
                frame.restore(inner)
            else:
                inner = None
        truth = exactness.truth(value) if frame.decides else None
        if truth is not None:
            if inner is not None:
                frame.restore(outer)
                inner = None
            value = evaluate(frame, link.right) if truth is is_and else value
        else:
            if before is not None and inner is not None:
                narrow(frame, before.right, is_and)
            else:
                outer = frame.fork()
                narrow(frame, link.left, is_and)
                frame.work.left -= number // _NARROWED_A_STEP
            inner = frame.fork()
            with frame.unsure():
                right = evaluate(frame, link.right)
            frame.restore(inner)
            if frame.must is not None and exactness.truth(right) is (not is_and):
                right = value = Number("bool", not is_and)  # whatever the left one is
            value = _one_operand(value, right, is_and=is_and)
        before = link
    if inner is not None:
        frame.restore(outer)
    return value


def _is_of_none(node: cst.BaseExpression) -> bool:
    """Return whether an operand is like ``x is None``: a truth value, whatever the name holds."""
    return (
        type(node) is cst.Comparison
        and len(node.comparisons) == 1
        and type(node.comparisons[0].operator) in (cst.Is, cst.IsNot)
        and dotted(node.left) is not None
        and type(node.comparisons[0].comparator) is cst.Name
    )


def _links(node: cst.BooleanOperation) -> list[cst.BooleanOperation]:
    """The operations of ``a and b and c``, which nests to the left, in the order of evaluation."""
    links = [node]
    while type(links[-1].left) is cst.BooleanOperation:
        left = links[-1].left
        if type(left.operator) is not type(node.operator):
            break
        links.append(left)
    links.reverse()
    return links


def _one_operand(left: Value, right: Value, *, is_and: bool) -> Value:
    """Return the result of an operation of which either operand may be the result."""
    if isinstance(left, (Number, Union)) and is_and:
        # ``flag and x``: a falsy left operand is the result itself.
        return join(left, right)
    if not is_and and type(left) is Union and NONE in left.options:
        return join(join_all(o for o in left.options if o is not NONE), right)
    if not is_and and left is NONE:
        return right
    return join(left, right)


class Subscript(NamedTuple):
    """The contents of brackets: the last index, ``key``, and whether a slice is among them."""

    key: Value
    is_slice: bool
    node: cst.Subscript


def evaluate_subscript(frame: Frame, node: cst.Subscript) -> Value:
    """``base[index]``; arrays that stand as indices are recorded on the way."""
    base = evaluate(frame, node.value)
    array = as_array(base)
    index: Value = UNKNOWN
    is_slice = False
    indices: list[tuple[cst.BaseExpression, Value] | None] = []
    for element in node.slice:
        part = element.slice
        if type(part) is cst.Index:
            index = evaluate(frame, part.value)
            indices.append((part.value, index))
            if frame.record and array is None and as_array(index) is not None:
                frame.add(IndexFact(part.value, frame.place(), base, index, "index"))
        else:
            is_slice = True
            indices.append(None)
            assert isinstance(part, cst.Slice)
            _bounds(frame, part, base)
    if frame.record:
        _note_subscript(frame, node, base, indices)
    if array is not None:
        if frame.record and type(base) is Array:
            frame.add(ArrayIndexFact(node, frame.place(), array, tuple(indices)))
        pulls = array.pulls
        if frame.gradient is not None:
            pulls = pulls.union(*(marks_of(index[1]) for index in indices if index is not None))
        return Array(array.dtype, array.literal, False, array.traced, pulls)
    if base is UNKNOWN and evidence.arrays_are_mlx(frame.module) and _is_array_index(node):
        if type(node.value) is cst.Attribute and node.value.attr.value == "at":
            return ArrayAt(TRACED)
        evidence.show_array(frame, node.value, base)
        return TRACED
    if base is UNKNOWN and evidence.arrays_are_mlx(frame.module) and any(map(_is_mask, indices)):
        if frame.record:
            frame.add(ArrayIndexFact(node, frame.place(), TRACED, tuple(indices)))
        return TRACED
    return _item(frame, base, Subscript(index, is_slice, node))


def _is_mask(index: tuple[cst.BaseExpression, Value] | None) -> bool:
    """Test whether an index is an array of booleans, which lists refuse even if it has no axes."""
    value = None if index is None else index[1]
    return type(value) is Array and value.dtype == "bool"


def _note_subscript(
    frame: Frame,
    node: cst.Subscript,
    base: Value,
    indices: list[tuple[cst.BaseExpression, Value] | None],
) -> None:
    """Note the parts of what is certainly an array, each a copy; and ``x.at[mask]``, an error."""
    if all(type(option) is Array or option is NONE for option in options(base)):
        frame.module.array_parts.add(node)
    else:
        frame.module.array_parts.discard(node)
    if type(base) is ArrayAt and any(map(_is_mask, indices)):
        owner = as_array(base.array) or TRACED
        frame.add(ArrayIndexFact(node, frame.place(), owner, tuple(indices)))


def _bounds(frame: Frame, part: cst.Slice, base: Value) -> None:
    for bound in (part.lower, part.upper, part.step):
        if bound is not None:
            value = evaluate(frame, bound)
            if frame.record and as_array(value) is not None:
                frame.add(IndexFact(bound, frame.place(), base, value, "slice"))


def _is_array_index(node: cst.Subscript) -> bool:
    """``x[:, i]``, ``x[..., 0]``: several axes with a slice among them, as only arrays take."""
    parts = (element.slice for element in node.slice)
    kinds = {type(part.value if isinstance(part, cst.Index) else part) for part in parts}
    return cst.Ellipsis in kinds or (len(node.slice) > 1 and cst.Slice in kinds)


def _item(frame: Frame, base: Value, subscript: Subscript) -> Value:
    handler = _ITEMS.get(type(base))
    if handler is None:
        if not isinstance(base, Instance):
            return UNKNOWN
        return call_method(frame, base, "__getitem__", (subscript.key,))
    return handler(frame, base, subscript)


def _item_of_sequence(frame: Frame, base: Sequence, subscript: Subscript) -> Value:
    if subscript.is_slice:
        return _sliced(base, subscript.node)
    key = subscript.key
    at = key.const if isinstance(key, Number) else None
    if type(at) is int and base.items is not None and -len(base.items) <= at < len(base.items):
        return with_pulls(base.items[at], base.pulls)
    return with_pulls(any_item(base), base.pulls)


def _item_of_dict(frame: Frame, base: Dict, subscript: Subscript) -> Value:
    key = subscript.key
    text = key.text if isinstance(key, Str) else None
    if text is not None:
        found = base.get(text)
        if found is None and type(base.item) is Symbol:
            return UNKNOWN  # one module under a key says nothing of another key's value
        return base.item if found is None else found
    return join_all(parts_of(base))


_ITEMS: dict[type, Fn[[Frame, Any, Subscript], Value]] = {
    Sequence: _item_of_sequence,
    Dict: _item_of_dict,
    Union: lambda frame, base, subscript: join_all(
        [_item(frame, o, subscript) for o in base.options if o is not NONE]
    ),
    Array: lambda frame, base, _subscript: element_of(frame, base),
    Tree: lambda _frame, base, _subscript: base.held,
    Numpy: lambda _frame, base, _subscript: Numpy(base.kind, False, base.pulls, base.dtype),
    **dict.fromkeys((Torch, ArrayAt, Setting), lambda _frame, base, _subscript: base),
    Str: lambda frame, base, subscript: STR,
}


def _sliced(base: Sequence, node: cst.Subscript) -> Value:
    part = node.slice[0].slice
    if base.items is None or not isinstance(part, cst.Slice) or len(node.slice) != 1:
        return Sequence(base.kind, any_item(base), None, base.pulls)
    try:
        bounds = [_constant_bound(b) for b in (part.lower, part.upper, part.step)]
        items = base.items[slice(*bounds)]
    except ValueError:  # unknown bounds, or a step of zero
        return Sequence(base.kind, any_item(base), None, base.pulls)
    return Sequence(base.kind, None, items, base.pulls)


def _constant_bound(node: cst.BaseExpression | None) -> int | None:
    if node is None:
        return None
    is_negative = isinstance(node, cst.UnaryOperation) and type(node.operator) is cst.Minus
    number = cst.ensure_type(node, cst.UnaryOperation).expression if is_negative else node
    if not isinstance(number, cst.Integer):
        raise ValueError(node)
    found = int(number.value, 0)  # a ValueError where Python converts no such number
    return -found if is_negative else found


CONSTANTS: dict[str, Value] = {
    "True": Number("bool", True),
    "False": Number("bool", False),
    "None": NONE,
}


def evaluate_name(frame: Frame, node: cst.Name) -> Value:
    """Return a name: a constant, or what the frame holds."""
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
        facts.record_read(frame, node, owner, value)
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
    """Return the text of a replacement field."""
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
    clause = None if frame.must is None else node.for_in
    if clause is not None:
        evaluate(frame, clause.iter)
    while clause is not None and not clause.ifs:
        clause = clause.inner_for_in
    with nullcontext() if clause is None else frame.unsure():
        return _comprehended(frame, node)


def _comprehended(frame: Frame, node: Any) -> Value:
    loops, names, arrays = frame.loops, frame.loop_names, frame.array_names
    outer_names = frame.names.version()
    result: Value
    try:
        _clauses(frame, node.for_in)
        if type(node) is cst.DictComp:
            evaluate(frame, node.key)
            result = Dict(evaluate(frame, node.value))
        else:
            result = Sequence(_COMPREHENSIONS[type(node)], evaluate(frame, node.elt))
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
    before = frame.fork()
    with frame.unsure():
        narrow(frame, node.test, True)
        body = evaluate(frame, node.body)
        frame.restore(before)
        narrow(frame, node.test, False)
        orelse = evaluate(frame, node.orelse)
    frame.restore(before)
    return join(body, orelse)


def _walrus(frame: Frame, node: cst.NamedExpr) -> Value:
    value = evaluate(frame, node.value)
    if type(node.target) is cst.Name:
        frame.bind(node.target.value, value)
    return value


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
    cst.Float: lambda _frame, node: Number("float", float(node.value)),
    cst.Imaginary: lambda _frame, node: Number(
        "complex", complex(node.value.replace("_", "").lower())
    ),
    cst.SimpleString: strings.of_literal,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted,
    cst.Tuple: _display("tuple"),
    cst.List: _display("list"),
    cst.Set: _display("set"),
    cst.Dict: _dict,
    **dict.fromkeys((cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp), _comprehension),
    cst.IfExp: _conditional,
    cst.Lambda: lambda frame, node: Function(frame.module.function_info(node, frame, None)),
    cst.NamedExpr: _walrus,
    cst.Await: lambda frame, node: evaluate(frame, node.expression),
    cst.Yield: _yield,
    cst.Subscript: evaluate_subscript,
    cst.BinaryOperation: operators.evaluate_binary,
    cst.UnaryOperation: operators.evaluate_unary,
    cst.BooleanOperation: evaluate_boolean,
    cst.Comparison: operators.evaluate_comparison,
}
