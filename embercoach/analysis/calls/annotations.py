"""Annotations to values: ``Optional[mx.array]``, ``tuple[mx.array, ...]``, ``"int"``."""

from __future__ import annotations

from collections.abc import Callable as Fn
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import numpy_api
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.syntax.parse import TooDeepError, refuse_deep_nesting
from embercoach.analysis.syntax.trees import evaluated
from embercoach.analysis.values.lattice import (
    ARRAY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMPY,
    STR,
    TORCH,
    UNKNOWN,
    Bytes,
    Callable,
    Class,
    Dict,
    DType,
    Instance,
    LibraryObject,
    Numpy,
    Sequence,
    Symbol,
    Value,
    join_all,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame

SIMPLE: dict[str, Value] = {
    "builtins.int": INT,
    "builtins.float": FLOAT,
    "builtins.bool": BOOL,
    "builtins.complex": COMPLEX,
    "builtins.str": STR,
    "builtins.bytes": Bytes(),
    "builtins.list": Sequence("list", UNKNOWN),
    "builtins.tuple": Sequence("tuple", UNKNOWN),
    "builtins.set": Sequence("set", UNKNOWN),
    "builtins.dict": Dict(UNKNOWN),
    "mlx.core.array": ARRAY,
    "mlx.core.Dtype": DType(None),
    "numpy.ndarray": NUMPY,
    "numpy.generic": Numpy(scalar=True),
    "torch.Tensor": TORCH,
    "typing.List": Sequence("list", UNKNOWN),
    "typing.Tuple": Sequence("tuple", UNKNOWN),
    "typing.Dict": Dict(UNKNOWN),
}
LISTS = {"builtins.list", "typing.List"}
SETS = {"builtins.set", "builtins.frozenset", "typing.Set", "typing.FrozenSet"}
ITERATORS = {
    f"{module}.{name}"
    for module in ("typing", "collections.abc")
    for name in ("Iterable", "Iterator", "Generator", "Sequence", "Collection", "MutableSequence")
}
DICTS = {"builtins.dict", "typing.Dict", "typing.Mapping", "collections.abc.Mapping"} | {
    "typing.MutableMapping",
    "collections.OrderedDict",
    "collections.defaultdict",
    "typing.DefaultDict",
}
WRAPPERS = {"typing.Annotated", "typing.Final", "typing.ClassVar", "typing.Required"} | {
    "typing.NotRequired",
    "dataclasses.InitVar",
}


def evaluate_annotation(frame: Frame, node: cst.BaseExpression) -> Value:
    """Return a value of an annotated type; ``UNKNOWN`` if that is not clear."""
    if type(node) is cst.Name:  # almost all; isinstance is slow for the classes that it denies
        return NONE if node.value == "None" else instance_of(frame, evaluate(frame, node))
    with frame.quiet():  # it may be a string, and need not be run
        return _annotated(frame, node)


def _annotated(frame: Frame, node: cst.BaseExpression) -> Value:
    if type(node) is cst.Attribute:
        return instance_of(frame, evaluate(frame, node))
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        quoted = evaluated(node)
        parsed = _parse_quoted(quoted) if isinstance(quoted, str) else None
        return UNKNOWN if parsed is None else evaluate_annotation(frame, parsed)
    if isinstance(node, cst.BinaryOperation):
        return join_all(
            (evaluate_annotation(frame, node.left), evaluate_annotation(frame, node.right))
        )
    if isinstance(node, cst.Subscript):
        return _subscripted(frame, node)
    return UNKNOWN


def instance_of(frame: Frame, kind: Value) -> Value:
    """Return an instance of a class; ``UNKNOWN`` for an unknown class."""
    if isinstance(kind, Class):
        return Instance(kind.info)
    if not isinstance(kind, Symbol):
        return UNKNOWN
    simple = SIMPLE.get(kind.name)
    if simple is not None:
        return simple
    library = kind.name.partition(".")[0]
    if library == "mlx":
        entry = mlx_api.lookup(kind.name)
        if entry is not None and entry.kind == "class":
            return LibraryObject(mlx_api.canonical(kind.name))
    if library == "numpy":
        number = numpy_api.scalar_kind(kind.name)
        return UNKNOWN if number is None else Numpy(number, scalar=True)
    if library in _ABSTRACT:
        return UNKNOWN
    # A class of some other library: no array, no number.
    return LibraryObject(kind.name)


_ABSTRACT = {"typing", "typing_extensions", "collections", "builtins", "numbers", "types"}


@lru_cache(maxsize=512)
def _parse_quoted(text: str) -> cst.BaseExpression | None:
    try:
        refuse_deep_nesting(text)
        return cst.parse_expression(text)
    # A node that libcst refuses is a SyntaxError, a lone surrogate a UnicodeEncodeError.
    except (cst.ParserSyntaxError, SyntaxError, UnicodeEncodeError, RecursionError, TooDeepError):
        return None


def _subscripted(frame: Frame, node: cst.Subscript) -> Value:
    base = evaluate(frame, node.value)
    if not isinstance(base, Symbol):
        return instance_of(frame, base)
    arguments = [
        element.slice.value for element in node.slice if isinstance(element.slice, cst.Index)
    ]
    if not arguments:
        return UNKNOWN
    handler = _GENERIC.get(base.name)
    return UNKNOWN if handler is None else handler(frame, arguments)


def _union(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
    return join_all(evaluate_annotation(frame, a) for a in arguments)


def _tuple(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
    if len(arguments) == 2 and isinstance(arguments[1], cst.Ellipsis):
        return Sequence("tuple", evaluate_annotation(frame, arguments[0]))
    items = tuple(evaluate_annotation(frame, a) for a in arguments)
    return Sequence("tuple", None, items)


def _dict(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
    return Dict(evaluate_annotation(frame, arguments[-1]))


def _callable(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
    return Callable(evaluate_annotation(frame, arguments[-1]))


def _first(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
    return evaluate_annotation(frame, arguments[0])


def _sequence(kind: str) -> Fn[[Frame, list[cst.BaseExpression]], Value]:
    def build(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
        return Sequence(kind, evaluate_annotation(frame, arguments[0]))  # type: ignore[arg-type]

    return build


def _literal(frame: Frame, arguments: list[cst.BaseExpression]) -> Value:
    return join_all(evaluate(frame, a) for a in arguments)


_GENERIC: dict[str, Fn[[Frame, list[cst.BaseExpression]], Value]] = {
    "typing.Union": _union,
    "typing.Optional": lambda frame, arguments: join_all(
        (evaluate_annotation(frame, arguments[0]), NONE)
    ),
    "typing.Tuple": _tuple,
    "builtins.tuple": _tuple,
    "typing.Callable": _callable,
    "collections.abc.Callable": _callable,
    "typing.Literal": _literal,
    **dict.fromkeys(LISTS, _sequence("list")),
    **dict.fromkeys(SETS, _sequence("set")),
    **dict.fromkeys(ITERATORS, _sequence("iterator")),
    **dict.fromkeys(DICTS, _dict),
    **dict.fromkeys(WRAPPERS, _first),
    "numpy.typing.NDArray": lambda frame, arguments: NUMPY,
    "numpy.ndarray": lambda frame, arguments: NUMPY,
}
