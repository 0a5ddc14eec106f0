"""Reductions, scans and sorting: operations along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embercoach.analysis.shapes.arrays import (
    ArrayShape,
    AxesSymbol,
    DType,
    ShapedArray,
    floating,
    is_floating,
    promote_weak,
    unknown_shape,
)
from embercoach.analysis.shapes.requirements import (
    Requirements,
    integers_of,
    is_integer,
)
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    add,
    at_least,
    greatest,
    subtract,
)
from embercoach.analysis.shapes.table import TRANSFERS, transfer
from embercoach.analysis.shapes.table.elementwise import (
    array_argument,
    dtype_argument,
    meeting_dtype,
)

_SUMMED = {
    **dict.fromkeys(("bool", "int8", "int16", "int32"), "int32"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint32"),
}


def axes_argument(
    requirements: Requirements, axis: object, shape: ArrayShape
) -> tuple[int, ...] | None:
    """Return the axes that an int or a sequence of ints names, None if some are unknown.

    Where the number of axes is known they are at least 0.
    """
    if isinstance(axis, (str, float)) or axis is None:
        requirements.refuse(f"{axis!r} isn't an axis")
    given = integers_of(axis)
    if given is None:
        return None
    found = [requirements.axis(one, shape) for one in given]
    axes = tuple(one for one in found if one is not None)
    if len(set(axes)) < len(axes):
        requirements.fail(f"{axis} names an axis twice")
    return axes if len(axes) == len(found) else None


def axis_argument(
    requirements: Requirements, axis: object, shape: ArrayShape, added: int = 0
) -> int | None:
    """Return the axis that an int names, None if it is unknown."""
    if isinstance(axis, (str, float, tuple, list)) or axis is None:
        requirements.refuse(f"{axis!r} isn't an axis")
    return requirements.axis(axis, shape, added)


def replaced(shape: ArrayShape, axes: Sequence[int], sizes: Sequence[Integer | None]) -> ArrayShape:
    """Return the shape where axes have other sizes; an axis of None is removed."""
    if shape.middle is None:
        head: list[Integer | None] = list(shape.head)
        for axis, size in zip(axes, sizes, strict=True):
            head[axis] = size
        return ArrayShape(tuple(size for size in head if size is not None))
    # An axis beyond the known ones may be any other on its side, too.
    loses_tail = any(axis >= len(shape.head) for axis in axes)
    loses_head = any(axis < -len(shape.tail) for axis in axes)
    first: list[Integer | None] = [] if loses_head else list(shape.head)
    last: list[Integer | None] = [] if loses_tail else list(shape.tail)
    for axis, size in zip(axes, sizes, strict=True):
        if 0 <= axis < len(first):
            first[axis] = size
        elif -len(last) <= axis < 0:
            last[axis] = size
    return ArrayShape(
        tuple(size for size in first if size is not None),
        AxesSymbol() if loses_head or loses_tail else shape.middle,
        tuple(size for size in last if size is not None),
    )


def reduced(
    requirements: Requirements,
    array: ShapedArray,
    axis: object,
    keepdims: object,
    *,
    filled: bool = False,
) -> ArrayShape:
    """Return the shape of a reduction over axes, over all for None.

    filled: it raises where an axis is empty.
    """
    shape = array.shape
    if axis is None:
        axes: tuple[int, ...] | None = None if shape.rank is None else tuple(range(shape.rank))
        if axes is None and keepdims is False:
            return ArrayShape()
    else:
        axes = axes_argument(requirements, axis, shape)
    if axes is None:
        return _reduced_somewhere(shape, axis, keepdims)
    if filled and any(shape.size(one) == 0 for one in axes):
        requirements.fail(f"the shape {shape} has nothing to reduce")
    if type(keepdims) not in (bool, int):
        return unknown_shape()
    return replaced(shape, axes, [1 if keepdims else None] * len(axes))


def _reduced_somewhere(shape: ArrayShape, axis: object, keepdims: object) -> ArrayShape:
    """Return the shape of a reduction over unknown axes."""
    number = len(axis) if isinstance(axis, (tuple, list)) else 1
    if not is_integer(axis) and not isinstance(axis, (tuple, list)):
        number = -1
    if shape.rank is None or (keepdims is not True and number < 0):
        return unknown_shape()
    kept = shape.rank if keepdims is True else shape.rank - number
    if keepdims not in (True, False) or kept < 0:
        return unknown_shape()
    return ArrayShape((ANY_INT,) * kept)


def is_whole(array: ShapedArray, axis: object) -> bool | None:
    """Return whether a reduction has no axes, so that MLX returns the argument; None: unknown."""
    if axis is None:
        return (
            None
            if array.shape.rank is None and not array.shape.least_rank
            else (array.shape.rank == 0)
        )
    if isinstance(axis, (tuple, list)):
        return not axis
    return False if is_integer(axis) else None


def _summed(array: ShapedArray, whole: bool | None) -> DType:
    """Return the dtype of a sum; with ``whole``, of one over no axes, it is the array's."""
    if whole:
        return array.dtype
    result = summed_dtype(array.dtype)
    return None if whole is None and result != array.dtype else result


def summed_dtype(dtype: DType) -> DType:
    """Get the dtype of ``mx.sum``: small integers and bools are summed as integers of 32 bits."""
    if dtype is None or isinstance(dtype, str):
        return _SUMMED.get(dtype or "", dtype)
    return dtype if promote_weak(dtype, "float") == dtype else None


@transfer("var", "std", "mlx.core.array.var", "mlx.core.array.std")
def var(
    requirements: Requirements,
    a: object,
    axis: object = None,
    keepdims: object = False,
    ddof: object = 0,
    *,
    correction: object = None,
) -> object:
    """``mx.var``: floating and real."""
    array = array_argument(requirements, a)
    dtype = floating(array.dtype)
    if not isinstance(dtype, str) and not is_floating(dtype):
        dtype = None
    shape = reduced(requirements, array, axis, keepdims)
    return ShapedArray(shape, "float32" if dtype == "complex64" else dtype)


#: Checks an array, an axis and whether axes are kept, and returns the dtype of the result.
Rule = Callable[[Requirements, ShapedArray, object, object], DType]


def _reduction(rule: Rule, *, filled: bool = False) -> Callable[..., ShapedArray]:
    """Make a reduction over axes, over all for None; ``filled``: none of these may be empty."""

    def reduction(
        requirements: Requirements, a: object, axis: object = None, keepdims: object = False
    ) -> ShapedArray:
        array = array_argument(requirements, a)
        dtype = rule(requirements, array, axis, keepdims)
        shape = reduced(requirements, array, axis, keepdims, filled=filled)
        return ShapedArray(shape, dtype)

    return reduction


def _median(requirements: Requirements, array: ShapedArray, axis: object, _: object) -> DType:
    nothing = isinstance(axis, (tuple, list)) and not axis
    if nothing and (array.shape.rank or array.shape.least_rank):
        requirements.fail("there are no axes to reduce")
    return floating(array.dtype)


def _logsumexp(requirements: Requirements, array: ShapedArray, *_: object) -> DType:
    if array.shape.elements == 0:
        requirements.fail(f"the shape {array.shape} has no elements")
    return floating(array.dtype)


def _argmax(
    requirements: Requirements, array: ShapedArray, axis: object, keepdims: object
) -> DType:
    _logsumexp(requirements, array)
    if axis is None and array.shape.rank == 0 and keepdims is True:
        requirements.fail("an array without axes keeps none")
    if axis is not None:
        axis_argument(requirements, axis, array.shape)
    return "uint32"


_MAXIMUM = _reduction(lambda _, array, *__: array.dtype, filled=True)

_SUM = _reduction(lambda _, array, axis, __: _summed(array, is_whole(array, axis)))
_REDUCTIONS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("sum", "prod"), _SUM),
    "mean": _reduction(lambda _, array, *__: floating(array.dtype)),
    **dict.fromkeys(("max", "min"), _MAXIMUM),
    **dict.fromkeys(("all", "any"), _reduction(lambda *_: "bool")),
    "logsumexp": _reduction(_logsumexp),
    **dict.fromkeys(("argmax", "argmin"), _reduction(_argmax)),
}
for _name, _function in _REDUCTIONS.items():
    transfer(_name, f"mlx.core.array.{_name}")(_function)
transfer("median")(_reduction(_median, filled=True))


@transfer("minmax")
def minmax(
    requirements: Requirements, a: object, axis: object = None, keepdims: object = False
) -> object:
    """``mx.minmax``: a tuple of the least and the greatest."""
    found = _MAXIMUM(requirements, a, axis, keepdims)
    return (found, found)


@transfer("count_nonzero")
def count_nonzero(
    requirements: Requirements, a: object, *, axis: object = None, keepdims: object = False
) -> object:
    """``mx.count_nonzero``: int32."""
    array = array_argument(requirements, a)
    return ShapedArray(reduced(requirements, array, axis, keepdims), "int32")


@transfer("softmax")
def softmax(
    requirements: Requirements, a: object, axis: object = None, *, precise: object = False
) -> object:
    """``mx.softmax``: integers turn into float32 where the last axis alone is reduced."""
    array = array_argument(requirements, a)
    if array.shape.elements == 0:
        return array
    if axis is not None and not _is_fused(array.shape, axis):
        axes_argument(requirements, axis, array.shape)
    dtype = array.dtype
    if not (is_floating(dtype) or dtype == "complex64"):
        made = _is_fused(array.shape, axis) if isinstance(dtype, str) else None
        dtype = None if made is None else floating(dtype) if made else dtype
    return ShapedArray(array.shape, dtype)


def _is_fused(shape: ArrayShape, axis: object) -> bool | None:
    """Return whether MLX reduces the last axis alone: those before it have the size 1."""
    if any(size is ANY_INT or not isinstance(size, int) for size in shape.head + shape.tail):
        return None
    given = integers_of(axis) if axis is not None else None
    if shape.sizes is None or (axis is not None and given is None):
        return None
    rank = len(shape.sizes)
    axes = [one for one in (range(rank) if given is None else given) if isinstance(one, int)]
    if given is not None and len(axes) < len(given):
        return None
    if not axes or not rank or axes[-1] not in (rank - 1, -1):
        return False
    return all(
        axes[at + 1] == one + 1 and shape.sizes[one] == 1 for at, one in enumerate(axes[:-1])
    )


def flattened(shape: ArrayShape) -> ArrayShape:
    """Return the shape of all elements in one axis."""
    return ArrayShape((shape.elements,))


def along(requirements: Requirements, array: ShapedArray, axis: object) -> ArrayShape:
    """Return the shape of what is done along an axis; for None on all elements in one axis."""
    if axis is None:
        return flattened(array.shape)
    axis_argument(requirements, axis, array.shape)
    return array.shape if is_integer(axis) else unknown_shape()


def _scan(dtype: Callable[[DType], DType]) -> Callable[..., object]:
    """``mx.cummax`` and the like: the shape stays, but for None."""

    def scan(
        requirements: Requirements,
        a: object,
        axis: object = None,
        *,
        reverse: object = False,
        inclusive: object = True,
    ) -> object:
        array = array_argument(requirements, a)
        return ShapedArray(along(requirements, array, axis), dtype(array.dtype))

    return scan


def _scan_of_dtype(result: Callable[[DType], DType]) -> Callable[..., object]:
    """``mx.cumsum`` and ``mx.cumprod``, which take a dtype."""

    def scan(
        requirements: Requirements,
        a: object,
        axis: object = None,
        *,
        reverse: object = False,
        inclusive: object = True,
        dtype: object = None,
    ) -> object:
        array = array_argument(requirements, a)
        made = dtype_argument(requirements, dtype, array.dtype)
        return ShapedArray(along(requirements, array, axis), result(made))

    return scan


def _cumulated(dtype: DType) -> DType:
    """Return the dtype of ``mx.cumsum``: bool turns into int32."""
    is_known = isinstance(dtype, str) or is_floating(dtype)
    return "int32" if dtype == "bool" else dtype if is_known else None


_SCANS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("cummax", "cummin"), _scan(lambda dtype: dtype)),
    "logcumsumexp": _scan(floating),
    "cumsum": _scan_of_dtype(_cumulated),
    "cumprod": _scan_of_dtype(lambda dtype: dtype),
}
for _name, _function in _SCANS.items():
    transfer(_name, f"mlx.core.array.{_name}")(_function)
for _name in ("sum", "prod"):
    TRANSFERS[f"mlx.core.cumulative_{_name}"] = TRANSFERS[f"mlx.core.cum{_name}"]


def _sorting(*, gives_places: bool) -> Callable[..., object]:
    """``mx.sort``, or ``mx.argsort``, which gives uint32."""

    def sort(requirements: Requirements, a: object, axis: object = -1) -> object:
        array = array_argument(requirements, a)
        shape = along(requirements, array, axis)
        return ShapedArray(shape, "uint32" if gives_places else array.dtype)

    return sort


def _sorted_axis(
    requirements: Requirements, array: ShapedArray, axis: object
) -> tuple[ArrayShape, int | None]:
    """Return the shape that is sorted, and the axis in it."""
    if axis is None:
        return flattened(array.shape), 0
    at = axis_argument(requirements, axis, array.shape)
    return array.shape if is_integer(axis) else unknown_shape(), at


def _partitioned(
    requirements: Requirements, array: ShapedArray, kth: object, axis: object
) -> ArrayShape:
    shape, at = _sorted_axis(requirements, array, axis)
    if at is not None and is_integer(kth):
        size = shape.size(at)
        place = add(kth, size) if type(kth) is int and kth < 0 else kth
        if (type(place) is int and place < 0) or at_least(place, size):
            requirements.fail(f"{kth} is out of bounds for the size {size}")
    return shape


def _partitioning(*, gives_places: bool) -> Callable[..., object]:
    """``mx.partition``, or ``mx.argpartition``, which gives uint32."""

    def partition(requirements: Requirements, a: object, kth: object, axis: object = -1) -> object:
        array = array_argument(requirements, a)
        shape = _partitioned(requirements, array, kth, axis)
        return ShapedArray(shape, "uint32" if gives_places else array.dtype)

    return partition


for _prefix in ("", "arg"):
    transfer(f"{_prefix}sort")(_sorting(gives_places=bool(_prefix)))
    transfer(f"{_prefix}partition")(_partitioning(gives_places=bool(_prefix)))


@transfer("topk")
def topk(requirements: Requirements, a: object, k: object, axis: object = -1) -> object:
    """``mx.topk``: the axis has ``k`` elements."""
    array = array_argument(requirements, a)
    shape, at = _sorted_axis(requirements, array, axis)
    if at is None:
        return ShapedArray(_reduced_somewhere(shape, axis, True), array.dtype)
    many: Integer = k if is_integer(k) else ANY_INT
    size = shape.size(at)
    if (type(many) is int and many < 0) or at_least(many, add(size, 1)):
        requirements.fail(f"the axis has {size} elements, fewer than {many}")
    return ShapedArray(replaced(shape, (at,), (many,)), array.dtype)


@transfer("searchsorted")
def searchsorted(
    requirements: Requirements, sorted_sequence: object, values: object, side: object = "left"
) -> object:
    """``mx.searchsorted``: a position for each value."""
    sequence = array_argument(requirements, sorted_sequence)
    found = array_argument(requirements, values)
    if isinstance(side, str) and side not in ("left", "right"):
        requirements.fail(f"the side is {side!r}")
    requirements.rank(sequence, 1, f"the sorted sequence has the shape {sequence.shape}")
    return ShapedArray(found.shape, "uint32")


@transfer("diff")
def diff(requirements: Requirements, a: object, n: object = 1, axis: object = -1) -> object:
    """``mx.diff``: the axis has ``n`` elements less, and at least none."""
    array = array_argument(requirements, a)
    at = axis_argument(requirements, axis, array.shape)
    if type(n) is int and n < 0:
        requirements.fail(f"the order is {n}")
    if at is None:
        return ShapedArray(_reduced_somewhere(array.shape, axis, True), array.dtype)
    size = subtract(array.shape.size(at), n) if is_integer(n) else ANY_INT
    return ShapedArray(replaced(array.shape, (at,), (greatest((size, 0)),)), array.dtype)


@transfer("vecdot")
def vecdot(requirements: Requirements, a: object, b: object, *, axis: object = -1) -> object:
    """``mx.vecdot``: products summed along an axis."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    if left.shape.rank == 0 or right.shape.rank == 0:
        requirements.fail("an array has no axes")
    for array in (left, right):
        axis_argument(requirements, axis, array.shape)
    shape = requirements.broadcast(left.shape, right.shape)
    dtype = summed_dtype(meeting_dtype((left, right)))
    ranks = (left.shape.rank, right.shape.rank)
    if type(axis) is not int or (axis >= 0 and None in ranks):
        return ShapedArray(_reduced_somewhere(shape, axis, False), dtype)
    if axis < 0 and None not in ranks and ranks[0] != ranks[1]:
        requirements.fail(f"axis {axis} is not the same of {left.shape} and {right.shape}")
    reason = f"axis {axis} of {left.shape} and {right.shape} differs"
    requirements.equal(left.shape.size(axis), right.shape.size(axis), reason)
    return ShapedArray(replaced(shape, (axis,), (None,)), dtype)


@transfer("unique")
def unique(
    requirements: Requirements,
    a: object,
    size: object,
    return_index: object = False,
    return_inverse: object = False,
    return_counts: object = False,
    fill_value: object = None,
) -> object:
    """``mx.unique``: ``size`` values, and what else is asked for."""
    array = array_argument(requirements, a)
    if type(size) is int and size < 0:
        requirements.fail(f"the size is {size}")
    if array.shape.elements == 0 and fill_value is None and type(size) is int and size > 0:
        requirements.fail("an empty array needs a fill value")
    many: Integer = size if is_integer(size) else ANY_INT
    found = ArrayShape((many,))
    parts: list[object] = [ShapedArray(found, array.dtype)]
    if return_index:
        parts.append(ShapedArray(found, "uint32"))
    if return_inverse:
        parts.append(ShapedArray(array.shape, "uint32"))
    if return_counts:
        parts.append(ShapedArray(found, "int32"))
    return parts[0] if len(parts) == 1 else tuple(parts)
