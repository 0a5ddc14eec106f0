"""Functions that make arrays of numbers, shapes and random values."""

from __future__ import annotations

import math
from typing import Any

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DType,
    ShapedArray,
    is_floating,
    promote,
    promote_weak,
    unknown_shape,
    weak_kind,
    with_last,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer, shape_of
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    ceil_divide,
    not_below_zero,
    subtract,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import (
    array_argument,
    broadcast,
    dtype_argument,
    dtype_of,
    integral,
    operand,
)
from embercoach.analysis.shapes.table.joining_shapes import fits
from embercoach.analysis.shapes.table.movement import not_negative
from embercoach.analysis.shapes.table.reduction_shapes import axis_argument, replaced


def wanted_shape(requirements: Requirements, value: object) -> ArrayShape:
    """Return the shape that an int or a sequence of ints asks for."""
    if value is None or isinstance(value, (str, float)):
        requirements.refuse(f"{value!r} isn't a shape")
    found = shape_of(value)
    return unknown_shape() if found is None else not_negative(requirements, found)


def _sequence(requirements: Requirements, value: object) -> ArrayShape:
    """Return the shape that a sequence of ints asks for, where MLX takes no int."""
    if is_integer(value):
        requirements.fail(f"the shape is the number {value}")
    return wanted_shape(requirements, value)


@transfer("zeros", "ones", "empty")
def zeros(requirements: Requirements, shape: object, dtype: object = None) -> object:
    """``mx.zeros``."""
    made = dtype_argument(requirements, dtype, "float32")
    return ShapedArray(wanted_shape(requirements, shape), made)


@transfer("zeros_like", "ones_like", "empty_like")
def zeros_like(requirements: Requirements, a: object, dtype: object = None) -> object:
    """``mx.zeros_like``."""
    array = array_argument(requirements, a)
    return ShapedArray(array.shape, dtype_argument(requirements, dtype, array.dtype))


@transfer("full")
def full(requirements: Requirements, shape: object, vals: object, dtype: object = None) -> object:
    """``mx.full``: the values broadcast to the shape."""
    target = wanted_shape(requirements, shape)
    fits(requirements, operand(requirements, vals).shape, target)
    wanted = None if dtype is None else dtype_argument(requirements, dtype, None)
    kind = weak_kind(vals)
    if dtype is None or kind is None:  # an array keeps its dtype
        return ShapedArray(target, dtype_of(vals))
    if kind == "float" and wanted == "complex64":
        return ShapedArray(target, "float32")
    return ShapedArray(target, promote_weak(wanted, kind))


@transfer("full_like")
def full_like(requirements: Requirements, a: object, vals: object, dtype: object = None) -> object:
    """``mx.full_like``: the values broadcast with the shape."""
    array = array_argument(requirements, a)
    made = dtype_argument(requirements, dtype, array.dtype)
    return ShapedArray(broadcast(requirements, array, vals).shape, made)


@transfer("eye")
def eye(
    requirements: Requirements, n: object, m: object = None, k: object = 0, dtype: object = None
) -> object:
    """``mx.eye``."""
    shape = ArrayShape((_count(requirements, n), _count(requirements, n if m is None else m)))
    return ShapedArray(
        not_negative(requirements, shape), dtype_argument(requirements, dtype, "float32")
    )


@transfer("identity")
def identity(requirements: Requirements, n: object, dtype: object = None) -> object:
    """``mx.identity``."""
    return eye(requirements, n, dtype=dtype)


@transfer("tri")
def tri(
    requirements: Requirements, n: object, m: object = None, k: object = 0, dtype: object = None
) -> object:
    """``mx.tri``: negative sizes are 0."""
    sizes = [_count(requirements, n), _count(requirements, n if m is None else m)]
    shape = ArrayShape(tuple(not_below_zero(size) for size in sizes))
    return ShapedArray(shape, dtype_argument(requirements, dtype, "float32"))


@transfer("hanning", "hamming", "blackman", "bartlett")
def window(requirements: Requirements, M: object) -> object:  # noqa: N803
    """``mx.hanning`` and the like."""
    size = not_below_zero(_count(requirements, M))
    return ShapedArray(ArrayShape((size,)), "float32")


def _count(requirements: Requirements, value: object) -> Integer:
    """Return the integer that an argument is."""
    if value is None or isinstance(value, (str, float, tuple, list, ShapedArray)):
        requirements.refuse(f"{value!r} isn't an integer")
    return value if is_integer(value) else ANY_INT


# Ranges


@transfer("arange")
def arange(requirements: Requirements, *args: object, **kwargs: object) -> object:
    """``mx.arange(stop)`` or ``mx.arange(start, stop, step)``."""
    if "start" not in kwargs and len(args) < 2 and "stop" not in kwargs:
        args = (0, *args)
    elif "start" not in kwargs and not args:
        args = (0,)
    return _range(requirements, *args, **kwargs)


def _range(
    requirements: Requirements,
    start: object,
    stop: object,
    step: object = None,
    dtype: object = None,
) -> object:
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    parts = (start, stop, step)
    kinds = [weak_kind(part) for part in parts]
    usual = None if None in kinds else "float32" if "float" in kinds else "int32"
    made = dtype_argument(requirements, dtype, usual)
    if made == "bool":
        requirements.refuse("there are no ranges of bool")
    for part in parts:
        if part is None or isinstance(part, (str, tuple, list, ShapedArray)):
            requirements.refuse(f"{part!r} isn't a number")
        if isinstance(part, float) and (math.isnan(part) or math.isinf(part)):
            return ShapedArray(ArrayShape((ANY_INT,)), made)
    if step == 0:
        requirements.fail("the step is 0")
    return ShapedArray(ArrayShape((_range_length(start, stop, step),)), made)


def _range_length(start: Any, stop: Any, step: Any) -> Integer:
    """Return how many numbers a range has."""
    if all(type(part) in (int, float, bool) for part in (start, stop, step)):
        many: int = math.ceil((stop - start) / step)
        return max(0, many)
    if not (is_integer(start) and is_integer(stop) and type(step) is int):
        return ANY_INT
    length = subtract(stop, start)
    if step < 0:
        length, step = subtract(start, stop), -step
    size = not_below_zero(length)
    return size if step == 1 else ceil_divide(size, step)


@transfer("linspace")
def linspace(
    requirements: Requirements,
    start: object,
    stop: object,
    num: object = 50,
    endpoint: object = True,
    dtype: object = None,
) -> object:
    """``mx.linspace``."""
    size = _count(requirements, num)
    shape = not_negative(requirements, ArrayShape((size,)))
    return ShapedArray(shape, dtype_argument(requirements, dtype, "float32"))


# Values of the program


@transfer("array", "asarray")
def array(
    requirements: Requirements, val: object, dtype: object = None, *, copy: object = None
) -> object:
    """``mx.array``: of a number, nested lists, or an array."""
    found = literal(requirements, val)
    if val is None:
        requirements.refuse("None isn't an array")
    return ShapedArray(found.shape, dtype_argument(requirements, dtype, found.dtype))


def literal(requirements: Requirements, value: object) -> ShapedArray:
    """Return the array of a number, of lists of numbers, or of lists of arrays."""
    if not isinstance(value, (tuple, list)):
        made = operand(requirements, value)
        return ShapedArray(made.shape, _of_value(value))
    if not value:
        return ShapedArray(ArrayShape((0,)), "float32")
    first = isinstance(value[0], tuple) or value[0] is UNKNOWN
    if any(isinstance(one, tuple) for one in value) and not first:
        requirements.fail("a list holds a tuple after an item that isn't one")
    parts = [literal(requirements, one) for one in value]
    shape = parts[0].shape
    for part in parts[1:]:
        shape = _uniform(requirements, shape, part.shape)
    made_shape = ArrayShape((len(parts), *shape.head), shape.middle, shape.tail)
    return ShapedArray(made_shape, _of_parts(list(value), parts))


def _of_value(value: object) -> DType:
    large = type(value) is int and not -(1 << 31) <= value < 1 << 31
    return "int64" if large else dtype_of(value)


def _of_parts(values: list[object], parts: list[ShapedArray]) -> DType:
    """Return the dtype of a list: the widest of its numbers, or what its arrays promote to."""
    order = ("complex64", "float32", "int64", "int32", "bool")
    if any(isinstance(one, ShapedArray) or one is UNKNOWN for one in values):
        dtype = parts[0].dtype
        for part in parts[1:]:
            dtype = promote(dtype, part.dtype)
        return dtype
    found = [part.dtype for part in parts]
    if any(one not in order for one in found):
        return None
    return min(found, key=lambda one: order.index(str(one)))


def _uniform(requirements: Requirements, a: ArrayShape, b: ArrayShape) -> ArrayShape:
    """Require two parts of a list to have one shape."""
    if a.middle is not None or b.middle is not None:
        return a if a.middle is b.middle and a == b else unknown_shape()
    reason = f"the shapes {a} and {b} are in one list"
    if len(a.head) != len(b.head):
        requirements.fail(reason)
    sizes = [requirements.equal(m, n, reason) for m, n in zip(a.head, b.head, strict=True)]
    return ArrayShape(tuple(sizes))


# Random numbers


def check_key(requirements: Requirements, key: object) -> None:
    """Require a key: two words of uint32."""
    if key is None:
        return
    found = array_argument(requirements, key)
    if isinstance(found.dtype, str) and found.dtype != "uint32":
        requirements.fail(f"the dtype of the key is {found.dtype}, not uint32")
    reason = f"the shape of the key is {found.shape}, not (2,)"
    (size,) = requirements.rank(found, 1, reason)
    requirements.equal(size, 2, reason)


def _floating_dtype(requirements: Requirements, value: object) -> DType:
    dtype = dtype_argument(requirements, value, "float32")
    if isinstance(dtype, str) and not is_floating(dtype):
        requirements.fail(f"{dtype} isn't a floating dtype")
    return dtype


def _drawn(
    requirements: Requirements,
    parameters: ShapedArray,
    target: ArrayShape | None,
    dtype: DType,
    key: object,
) -> ShapedArray:
    """Numbers of a shape, to which parameters broadcast; of theirs for None."""
    check_key(requirements, key)
    if target is None:
        return ShapedArray(parameters.shape, dtype)
    fits(requirements, parameters.shape, target)
    return ShapedArray(target, dtype)


@transfer("random.key")
def key_(requirements: Requirements, seed: object) -> object:
    """``mx.random.key``."""
    return ShapedArray(ArrayShape((2,)), "uint32")


@transfer("random.split")
def split(requirements: Requirements, key: object, num: object = 2) -> object:
    """``mx.random.split``: a key in each row."""
    if key is None:
        requirements.refuse("there is no key")
    shape = not_negative(requirements, ArrayShape((_count(requirements, num), 2)))
    check_key(requirements, key)
    return ShapedArray(shape, "uint32")


@transfer("random.uniform")
def uniform(
    requirements: Requirements,
    low: object = 0,
    high: object = 1,
    shape: object = (),
    dtype: object = None,
    key: object = None,
) -> object:
    """``mx.random.uniform``: bounds broadcast to the shape."""
    target, made = _sequence(requirements, shape), _floating_dtype(requirements, dtype)
    return _drawn(requirements, broadcast(requirements, low, high), target, made, key)


@transfer("random.normal")
def normal(
    requirements: Requirements,
    shape: object = (),
    dtype: object = None,
    loc: object = None,
    scale: object = None,
    key: object = None,
) -> object:
    """``mx.random.normal``: location and scale broadcast with the shape."""
    target = _sequence(requirements, shape)
    made = dtype_argument(requirements, dtype, "float32")
    if made != "complex64":
        _floating_dtype(requirements, dtype)
    check_key(requirements, key)
    for part in (scale, loc):
        if part is not None:
            target = requirements.broadcast(target, operand(requirements, part).shape)
    return ShapedArray(target, made)


@transfer("random.gumbel")
def gumbel(
    requirements: Requirements,
    shape: object = (),
    dtype: object = None,
    key: object = None,
) -> object:
    """``mx.random.gumbel``."""
    made = _floating_dtype(requirements, dtype)
    check_key(requirements, key)
    return ShapedArray(_sequence(requirements, shape), made)


@transfer("random.laplace")
def laplace(
    requirements: Requirements,
    shape: object = (),
    dtype: object = None,
    loc: object = 0.0,
    scale: object = 1.0,
    key: object = None,
) -> object:
    """``mx.random.laplace``."""
    return gumbel(requirements, shape, dtype, key)


@transfer("random.truncated_normal")
def truncated_normal(
    requirements: Requirements,
    lower: object,
    upper: object,
    shape: object = None,
    dtype: object = None,
    key: object = None,
) -> object:
    """``mx.random.truncated_normal``: bounds broadcast to the shape."""
    made = _floating_dtype(requirements, dtype)
    target = None if shape is None else _sequence(requirements, shape)
    return _drawn(requirements, broadcast(requirements, lower, upper), target, made, key)


@transfer("random.randint")
def randint(
    requirements: Requirements,
    low: object,
    high: object,
    shape: object = (),
    dtype: object = None,
    key: object = None,
) -> object:
    """``mx.random.randint``: integers or bool."""
    target = _sequence(requirements, shape)
    made = integral(requirements, dtype_argument(requirements, dtype, "int32"))
    return _drawn(requirements, broadcast(requirements, low, high), target, made, key)


@transfer("random.bernoulli")
def bernoulli(
    requirements: Requirements,
    p: object = 0.5,
    shape: object = None,
    key: object = None,
) -> object:
    """``mx.random.bernoulli``: bool; probabilities broadcast to the shape."""
    chances = operand(requirements, p)
    dtype = dtype_of(p)
    if isinstance(dtype, str) and not is_floating(dtype):
        requirements.fail(f"{dtype} isn't a floating dtype")
    target = None if shape is None else _sequence(requirements, shape)
    return _drawn(requirements, chances, target, "bool", key)


@transfer("random.categorical")
def categorical(
    requirements: Requirements,
    logits: object,
    axis: object = -1,
    shape: object = None,
    num_samples: object = None,
    key: object = None,
) -> object:
    """``mx.random.categorical``: uint32; without the axis."""
    array_ = array_argument(requirements, logits)
    at = axis_argument(requirements, axis, array_.shape)
    if shape is not None and num_samples is not None:
        requirements.fail("shape and num_samples are both given")
    check_key(requirements, key)
    rest = unknown_shape() if at is None else replaced(array_.shape, (at,), (None,))
    if shape is not None:
        target = _sequence(requirements, shape)
        fits(requirements, rest, target)
        _chosen(requirements, array_.shape, at, target)
        return ShapedArray(target, "uint32")
    if num_samples is None:
        _chosen(requirements, array_.shape, at, rest)
        return ShapedArray(rest, "uint32")
    made = not_negative(requirements, with_last(rest, _count(requirements, num_samples)))
    _chosen(requirements, array_.shape, at, made)
    return ShapedArray(made, "uint32")


def _chosen(
    requirements: Requirements, logits: ArrayShape, axis: int | None, target: ArrayShape
) -> None:
    """Require that there is something to choose from, and to choose, but for one distribution."""
    if axis is None or logits.sizes is None:
        return
    size = logits.size(axis)
    several = type(logits.elements) is int and (logits.elements != size or target.rank == 0)
    if size == 0 or (target.elements == 0 and several):
        requirements.fail(f"nothing of {logits} is chosen for {target}")


@transfer("random.multivariate_normal")
def multivariate_normal(
    requirements: Requirements,
    mean: object,
    cov: object,
    shape: object = (),
    dtype: object = None,
    key: object = None,
) -> object:
    """``mx.random.multivariate_normal``: float32; a vector for each place of the shape."""
    made = dtype_argument(requirements, dtype, "float32")
    if isinstance(made, str) and made != "float32":
        requirements.fail(f"the dtype is {made}, not float32")
    center, spread = array_argument(requirements, mean), array_argument(requirements, cov)
    requirements.least_rank(center, 1, "the mean has no axes")
    requirements.least_rank(spread, 2, f"the covariance has the shape {spread.shape}")
    target = _sequence(requirements, shape)
    check_key(requirements, key)
    sizes = [spread.shape.size(-1), spread.shape.size(-2), center.shape.size(-1)]
    reason = f"the mean {center.shape} and the covariance {spread.shape} don't fit"
    size = requirements.equal(requirements.equal(sizes[0], sizes[1], reason), sizes[2], reason)
    if center.shape.rank is None or spread.shape.rank is None:
        return ShapedArray(ArrayShape((), AxesSymbol(), (size,)), promote(center.dtype, made))
    matrices, vectors = ArrayShape(spread.shape.head[:-2]), ArrayShape(center.shape.head[:-1])
    rest = requirements.broadcast(matrices, vectors, target)
    return ShapedArray(with_last(rest, size), promote(center.dtype, made))


@transfer("random.permutation")
def permutation(
    requirements: Requirements,
    x: object,
    axis: object = 0,
    key: object = None,
) -> object:
    """``mx.random.permutation``: of an array along an axis, or of numbers below one."""
    check_key(requirements, key)
    if is_integer(x):
        shape = not_negative(requirements, ArrayShape((x,)))
        return ShapedArray(shape, "uint32")
    found = array_argument(requirements, x)
    axis_argument(requirements, axis, found.shape)
    return found
