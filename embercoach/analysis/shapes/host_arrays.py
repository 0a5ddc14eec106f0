"""NumPy arrays: their shapes, for the arrays of MLX that are made of them.

What NumPy refuses is not reported: a result that can't be computed is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    HostArray,
    ShapedArray,
    weak_kind,
)
from embercoach.analysis.shapes.python_values import LibraryName, Options
from embercoach.analysis.shapes.requirements import Requirements, ShapeError, is_integer, shape_of
from embercoach.analysis.shapes.table.transfers import TRANSFERS

#: Functions that NumPy and MLX share, as far as shapes go.
_SHARED = frozenset(
    [
        "zeros",
        "ones",
        "full",
        "arange",
        "linspace",
        "eye",
        "identity",
        "zeros_like",
        "ones_like",
        "concatenate",
        "stack",
        "reshape",
        "transpose",
        "swapaxes",
        "moveaxis",
        "expand_dims",
        "squeeze",
        "repeat",
        "tile",
        "pad",
        "sum",
        "mean",
        "std",
        "var",
        "max",
        "min",
        "prod",
        "argmax",
        "argmin",
        "sort",
        "argsort",
        "cumsum",
        "exp",
        "log",
        "sqrt",
        "abs",
        "sin",
        "cos",
        "tanh",
        "maximum",
        "minimum",
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "where",
        "clip",
        "matmul",
        "floor",
        "ceil",
        "square",
        "broadcast_to",
        "array",
        "asarray",
        "tril",
        "triu",
    ]
)
_METHODS = frozenset(
    [
        "reshape",
        "transpose",
        "swapaxes",
        "flatten",
        "squeeze",
        "sum",
        "mean",
        "std",
        "var",
        "max",
        "min",
        "prod",
        "argmax",
        "argmin",
        "cumsum",
        "round",
    ]
)
#: Functions of ``numpy.random`` and of its generators: the place of the size.
_SIZES = {
    "randint": 2,
    "integers": 2,
    "normal": 2,
    "uniform": 2,
    "random": 0,
    "standard_normal": 0,
    "random_sample": 0,
    "choice": 1,
    "exponential": 1,
}

if TYPE_CHECKING:
    from collections.abc import Callable

    Lower = Callable[[Any], Any]


def as_mlx(value: Any) -> Any:
    """The array of MLX of the same shape; any other value as it is."""
    return ShapedArray(value.shape) if type(value) is HostArray else value


def call_numpy(
    lower: Lower, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call a function of NumPy.

    Args:
        lower: makes a transfer function's argument of a value.
        name: without ``numpy.``.
        arguments: by position.
        keywords: by name.
    """
    if name.startswith("random."):
        return _drawn(lower, name.removeprefix("random."), arguments, keywords)
    if name == "empty":
        name = "zeros"
    if name in ("hanning", "hamming", "blackman", "bartlett"):
        name = "ones"
    if name not in _SHARED:
        return UNKNOWN
    given = {key: value for key, value in keywords.items() if key not in ("dtype", "copy", "out")}
    if name in ("zeros", "ones", "array", "asarray"):
        arguments = arguments[:1]
    return _shared(lower, f"mlx.core.{name}", arguments, given)


def _shared(lower: Lower, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    values = [as_mlx(lower(value)) for value in arguments]
    named = {key: as_mlx(lower(value)) for key, value in keywords.items()}
    if any(type(value) is Options for value in (*values, *named.values())):
        return UNKNOWN
    try:
        result = TRANSFERS[name](Requirements(), *values, **named)
    except (ShapeError, TypeError, KeyError):
        return UNKNOWN
    return HostArray(result.shape) if type(result) is ShapedArray else UNKNOWN


def _drawn(lower: Lower, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if name == "default_rng":
        return LibraryName("numpy.random.Generator")
    if name in ("randn", "rand"):
        sizes = tuple(lower(value) for value in arguments)
        return HostArray(ArrayShape(sizes)) if all(map(is_integer, sizes)) else UNKNOWN
    at = _SIZES.get(name)
    if at is None:
        return UNKNOWN
    size = keywords.get("size", arguments[at] if len(arguments) > at else None)
    shape = shape_of(lower(size))
    return UNKNOWN if shape is None else HostArray(shape)


def host_attribute(owner: HostArray, name: str) -> Any:
    """A property of a NumPy array; ``UNKNOWN`` for other members."""
    if name == "T" and owner.shape.rank is not None:
        return HostArray(ArrayShape(owner.shape.head[::-1]))
    if name == "ndim" and owner.shape.rank is not None:
        return owner.shape.rank
    return owner.shape.elements if name == "size" else UNKNOWN


def call_host_method(
    lower: Lower, owner: HostArray, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call a method of a NumPy array."""
    if name in ("astype", "copy"):
        return owner
    if name not in _METHODS:
        return UNKNOWN
    return _shared(lower, f"mlx.core.array.{name}", (owner, *arguments), keywords)


def host_item(lower: Lower, owner: HostArray, index: Any) -> Any:
    """``x[index]`` of a NumPy array."""
    return _shared(lower, "mlx.core.array.__getitem__", (owner, index), {})


def host_arithmetic(a: Any, b: Any) -> Any:
    """An operation on NumPy arrays and numbers."""
    shapes = []
    for value in (a, b):
        if type(value) is HostArray:
            shapes.append(value.shape)
        elif weak_kind(value) is None:
            return UNKNOWN
    try:
        return HostArray(Requirements().broadcast(*shapes))
    except ShapeError:
        return UNKNOWN
