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
from embercoach.analysis.shapes.table import TRANSFERS
from embercoach.analysis.shapes.table_calls import lowered

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
    from embercoach.analysis.shapes.interpreter import Machine, ShapeCall, ShapeSite


def as_mlx(value: Any) -> Any:
    """Return the array of MLX of the same shape; any other value as it is."""
    return ShapedArray(value.shape) if type(value) is HostArray else value


def call_numpy(call: ShapeCall, name: str) -> Any:
    """Call a function of NumPy, whose name is without ``numpy.``."""
    if name.startswith("random."):
        return _drawn(call, name.removeprefix("random."))
    if name == "empty":
        name = "zeros"
    if name in ("hanning", "hamming", "blackman", "bartlett"):
        name = "ones"
    keywords = call.keywords.items()
    given = {key: value for key, value in keywords if key not in ("dtype", "copy", "out")}
    has_one = name in ("zeros", "ones", "array", "asarray")
    arguments = call.arguments[:1] if has_one else call.arguments
    return _shared(call.machine, f"mlx.core.{name}", arguments, given)


def _shared(
    machine: Machine, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call a function of MLX that NumPy has as well, as far as shapes go; else ``UNKNOWN``."""
    if name not in TRANSFERS:
        return UNKNOWN
    values = [as_mlx(lowered(machine, value)) for value in arguments]
    named = {key: as_mlx(lowered(machine, value)) for key, value in keywords.items()}
    if any(type(value) is Options for value in (*values, *named.values())):
        return UNKNOWN
    try:
        result = TRANSFERS[name](Requirements(), *values, **named)
    except (ShapeError, TypeError, KeyError):
        return UNKNOWN
    return HostArray(result.shape) if type(result) is ShapedArray else UNKNOWN


def _drawn(call: ShapeCall, name: str) -> Any:
    """Call a function of ``numpy.random``."""
    arguments = call.arguments
    if name == "default_rng":
        return LibraryName("numpy.random.Generator")
    if name in ("randn", "rand"):
        sizes = tuple(lowered(call.machine, value) for value in arguments)
        return HostArray(ArrayShape(sizes)) if all(map(is_integer, sizes)) else UNKNOWN
    at = _SIZES.get(name)
    if at is None:
        return UNKNOWN
    size = call.keywords.get("size", arguments[at] if len(arguments) > at else None)
    shape = shape_of(lowered(call.machine, size))
    return UNKNOWN if shape is None else HostArray(shape)


def host_attribute(owner: HostArray, name: str) -> Any:
    """Return a property of a NumPy array; ``UNKNOWN`` for other members."""
    if name == "T" and owner.shape.rank is not None:
        return HostArray(ArrayShape(owner.shape.head[::-1]))
    if name == "ndim" and owner.shape.rank is not None:
        return owner.shape.rank
    return owner.shape.elements if name == "size" else UNKNOWN


def call_host_method(call: ShapeCall, owner: HostArray, name: str) -> Any:
    """Call a method of a NumPy array."""
    if name in ("astype", "copy"):
        return owner
    return _shared(call.machine, f"mlx.core.array.{name}", (owner, *call.arguments), call.keywords)


def host_item(site: ShapeSite, owner: HostArray, index: Any) -> Any:
    """``x[index]`` of a NumPy array."""
    return _shared(site.machine, "mlx.core.array.__getitem__", (owner, index), {})


def host_arithmetic(a: Any, b: Any) -> Any:
    """Return an operation on NumPy arrays and numbers."""
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
