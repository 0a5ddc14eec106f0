"""Calls of Python's builtins."""

from __future__ import annotations

from collections.abc import Callable as Fn

import libcst as cst

from embercoach.analysis.evaluate import exactness
from embercoach.analysis.evaluate.dispatch import call_value, member
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.iteration import element_of
from embercoach.analysis.facts.facts import Argument
from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values import strings
from embercoach.analysis.values.gradient_marks import after_pull
from embercoach.analysis.values.joins import any_item, as_array, as_number, join_all, pulls_of
from embercoach.analysis.values.lattice import (
    BOOL,
    INT,
    NO_PULLS,
    NONE,
    STR,
    UNKNOWN,
    Array,
    Bytes,
    Class,
    Dict,
    FilePath,
    Instance,
    Number,
    NumberKind,
    Numpy,
    Pulls,
    Sequence,
    Str,
    Super,
    Value,
)

Arguments = tuple[Argument, ...]
Handler = Fn[[Frame, cst.Call, Arguments], Value]


def call(frame: Frame, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """The result of a builtin by its qualified name (``builtins.len``)."""
    handler = _HANDLERS.get(name[9:])
    return UNKNOWN if handler is None else handler(frame, node, arguments)


def _pulls(node: cst.Call, arguments: Arguments) -> Pulls:
    pulls = frozenset().union(*(pulls_of(a.value) for a in arguments))
    if any(as_array(a.value) is not None for a in arguments):
        return after_pull(pulls, node)
    return pulls


def _cast(kind: NumberKind) -> Handler:
    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        const: float | None = None
        if len(arguments) == 1 and isinstance(arguments[0].value, Number):
            given = arguments[0].value.const
            if kind == "bool":
                const = exactness.truth(arguments[0].value)
            if isinstance(given, (int, float)) and kind in ("int", "float"):
                try:
                    const = int(given) if kind == "int" else float(given)
                except (ValueError, OverflowError):
                    const = None
        return Number(kind, const, None, _pulls(node, arguments))

    return handle


def _len(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = arguments[0].value if len(arguments) == 1 else None
    if isinstance(value, Sequence) and value.items is not None and value.kind in ("list", "tuple"):
        return Number("int", len(value.items)) if frame.exact else INT
    return INT


def _fixed(value: Value) -> Handler:
    return lambda frame, node, arguments: value


def _hasattr(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) == 2 and arguments[0].value is UNKNOWN:
        path, given = dotted(arguments[0].node), arguments[1].node
        if path is not None and type(given) is cst.SimpleString:
            frame.asked.add((path, str(evaluated(given))))
    return BOOL


def _text(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) != 1:
        return STR
    value = arguments[0].value
    if isinstance(value, (Str, FilePath)):
        return value
    return Str(strings.of_value(value) or strings.hole(value))


def _range(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    items = None
    if frame.module.mentions_kernels:
        items = exactness.numbers(tuple(a.value for a in arguments))
    return Sequence("iterator", INT, items) if items is None else Sequence("iterator", None, items)


def _element(frame: Frame, arguments: Arguments, index: int = 0) -> Value:
    return element_of(frame, arguments[index].value) if len(arguments) > index else UNKNOWN


def _enumerate(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if frame.module.mentions_kernels and len(arguments) == 1:
        known = exactness.items_of(arguments[0].value)
        if known is not None:
            pairs = ((Number("int", at), item) for at, item in enumerate(known))
            return Sequence("iterator", None, tuple(Sequence("tuple", None, p) for p in pairs))
    item = _element(frame, arguments)
    return Sequence("iterator", Sequence("tuple", join_all((INT, item)), (INT, item)))


def _zip(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if any(a.star for a in arguments):
        inner = _element(frame, arguments)
        return Sequence("iterator", Sequence("tuple", element_of(frame, inner)))
    if frame.module.mentions_kernels and not any(a.keyword for a in arguments):
        known = [exactness.items_of(a.value) for a in arguments]
        columns = [k for k in known if k is not None]
        if columns and len(columns) == len(known):
            rows = zip(*columns, strict=False)
            return Sequence("iterator", None, tuple(Sequence("tuple", None, r) for r in rows))
    items = tuple(element_of(frame, a.value) for a in arguments if a.keyword is None)
    return Sequence("iterator", Sequence("tuple", None, items))


def _map(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) < 2:
        return UNKNOWN
    values = tuple(element_of(frame, a.value) for a in arguments[1:])
    return Sequence("iterator", call_value(frame, arguments[0].value, values))


def _filter(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    return Sequence("iterator", _element(frame, arguments, 1))


def _collect(kind: str) -> Handler:
    def handle(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
        if not arguments:
            return Sequence(kind, UNKNOWN, ())  # type: ignore[arg-type]
        value = arguments[0].value
        if isinstance(value, Sequence):
            return Sequence(kind, any_item(value), value.items, value.pulls)  # type: ignore[arg-type]
        return Sequence(kind, element_of(frame, value))  # type: ignore[arg-type]

    return handle


def _dict(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    known = tuple((a.keyword, a.value) for a in arguments if a.keyword is not None)
    first = next((a.value for a in arguments if a.keyword is None and not a.star), None)
    spread = any(a.star for a in arguments)
    if isinstance(first, Dict):
        merged = tuple({**dict(first.known), **dict(known)}.items())
        return Dict(first.item, merged, first.exact and not spread)
    if first is not None:
        pair = element_of(frame, first)
        if isinstance(pair, Sequence) and pair.items is not None and len(pair.items) == 2:
            return Dict(pair.items[1], known)
        return Dict(UNKNOWN, known) if known else UNKNOWN
    if spread:
        return Dict(UNKNOWN, known)
    return Dict(join_all(v for _, v in known), known, frame.module.mentions_kernels)


def _extreme(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    positional = [a.value for a in arguments if a.keyword is None and not a.star]
    if len(positional) == 1:
        return element_of(frame, positional[0])
    # The element that is chosen is an element of the graph still: no gradient is lost.
    pulls = NO_PULLS.union(*map(pulls_of, positional))
    result = join_all(positional)
    array = as_array(result)
    if array is not None:
        return Array(array.dtype, False, False, array.traced, pulls)
    if isinstance(result, Number):
        return Number(result.kind, None, None, pulls)
    return result


def _sum(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    item = _element(frame, arguments)
    array = as_array(item)
    if array is not None:
        return Array(array.dtype, False, False, array.traced, array.pulls)
    number = as_number(item)
    if number is not None:
        kind = "int" if number.kind == "bool" else number.kind
        return Number(kind, None, None, pulls_of(item))
    return item if isinstance(item, Numpy) else UNKNOWN


def _sorted(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    return Sequence("list", _element(frame, arguments))


def _reversed(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    return Sequence("iterator", _element(frame, arguments))


def _next(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    item = _element(frame, arguments)
    return join_all((item, arguments[1].value)) if len(arguments) > 1 else item


def _abs(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = arguments[0].value if arguments else UNKNOWN
    array = as_array(value)
    if array is not None:
        dtype = "float32" if array.dtype == "complex64" else array.dtype
        return Array(dtype, array.literal, False, array.traced, array.pulls)
    if isinstance(value, Number):
        return Number(value.kind, None, None, value.pulls)
    return value


def _round(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = arguments[0].value if arguments else UNKNOWN
    kind = "float" if len(arguments) > 1 else "int"
    return Number(kind, None, None, pulls_of(value))  # type: ignore[arg-type]


def _power(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    values = [as_number(a.value) for a in arguments]
    if values and all(v is not None for v in values):
        kind = "float" if any(v and v.kind == "float" for v in values) else "int"
        return Number(kind)  # type: ignore[arg-type]
    return UNKNOWN


def _getattr(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    if len(arguments) < 2 or not isinstance(arguments[1].value, Str):
        return UNKNOWN
    name = arguments[1].value.text
    if name is None:
        return UNKNOWN
    found = member(frame, arguments[0].value, name)
    return join_all((found, arguments[2].value)) if len(arguments) > 2 else found


def _super(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    info = frame.info
    while info is not None and info.cls is None:
        info = info.outer
    return UNKNOWN if info is None or info.cls is None else Super(info.cls)


def _type(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    value = arguments[0].value if len(arguments) == 1 else UNKNOWN
    return Class(value.info) if isinstance(value, Instance) else UNKNOWN


def _bytes(frame: Frame, node: cst.Call, arguments: Arguments) -> Value:
    return Bytes(_pulls(node, arguments))


_HANDLERS: dict[str, Handler] = {
    "int": _cast("int"),
    "float": _cast("float"),
    "bool": _cast("bool"),
    "complex": _cast("complex"),
    **dict.fromkeys(("id", "hash", "ord"), _fixed(INT)),
    "len": _len,
    **dict.fromkeys(("isinstance", "issubclass", "callable"), _fixed(BOOL)),
    "hasattr": _hasattr,
    **dict.fromkeys(("any", "all"), _fixed(BOOL)),
    **dict.fromkeys(("repr", "format", "chr", "hex", "bin", "input"), _fixed(STR)),
    "str": _text,
    "print": _fixed(NONE),
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "map": _map,
    "filter": _filter,
    "list": _collect("list"),
    "tuple": _collect("tuple"),
    "set": _collect("set"),
    "frozenset": _collect("set"),
    "iter": _collect("iterator"),
    "dict": _dict,
    "min": _extreme,
    "max": _extreme,
    "sum": _sum,
    "sorted": _sorted,
    "reversed": _reversed,
    "next": _next,
    "abs": _abs,
    "round": _round,
    "pow": _power,
    "getattr": _getattr,
    "super": _super,
    "type": _type,
    "memoryview": _bytes,
    "bytes": _bytes,
    "bytearray": _bytes,
}
