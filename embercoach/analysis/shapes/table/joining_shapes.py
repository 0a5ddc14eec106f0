"""Joins, parts and broadcasts: what makes one array of several, or several of one."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
    shape_of_rank,
    unknown_shape,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer, sizes_of
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    SizeExpr,
    add,
    at_least,
    exact_quotient,
    floor_divide,
    greatest,
    least,
    multiply,
    not_below_zero,
    subtract,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import (
    array_argument,
    dtype_of,
    meeting_dtype,
    operand,
)
from embercoach.analysis.shapes.table.movement import (
    expanded,
    not_negative,
    on_one_side,
    shape_argument,
)
from embercoach.analysis.shapes.table.reduction_shapes import axis_argument, replaced


def list_argument(requirements: Requirements, value: object) -> list[ShapedArray] | None:
    """Return the arrays of a list; None if it is unknown."""
    if isinstance(value, (str, float)) or value is None or is_integer(value):
        requirements.refuse(f"{value!r} isn't a list of arrays")
    if not isinstance(value, (tuple, list)):
        return None
    return [array_argument(requirements, one) for one in value]


@transfer("concatenate", "concat")
def concatenate(requirements: Requirements, arrays: object, axis: object = 0) -> object:
    """``mx.concatenate``: sizes are equal but along the axis."""
    if isinstance(arrays, ShapedArray):
        return UNKNOWN
    found = list_argument(requirements, arrays)
    if found is None:
        return ShapedArray(unknown_shape())
    if not found:
        requirements.refuse("there are no arrays")
    dtype = meeting_dtype(tuple(found))
    if axis is None:
        total = reduce(add, (array.shape.elements for array in found))
        return ShapedArray(ArrayShape((total,)), dtype)
    if not is_integer(axis):
        return ShapedArray(unknown_shape(), dtype)
    if len(found) == 1:
        return found[0]
    return ShapedArray(_joined(requirements, found, axis), dtype)


def _joined(requirements: Requirements, arrays: list[ShapedArray], axis: object) -> ArrayShape:
    """Return the shape of arrays that follow each other along an axis."""
    shapes = same_structure(requirements, arrays)
    at = axis_argument(requirements, axis, shapes[0])
    if at is None or (shapes[0].rank is None and not on_one_side(shapes[0], at)):
        return shape_of_rank(shapes[0].rank)
    if any(shape.middle is not shapes[0].middle for shape in shapes):
        return replaced(_common_tail(shapes), (at,), (ANY_INT,))
    total = reduce(add, (shape.size(at) for shape in shapes))
    result = replaced(shapes[0], (at,), (total,))
    for shape in shapes[1:]:
        reason = f"{shapes[0]} and {shape} differ outside axis {axis}"
        result = _equal_shapes(requirements, result, replaced(shape, (at,), (total,)), reason)
    return result


def same_structure(requirements: Requirements, arrays: list[ShapedArray]) -> list[ArrayShape]:
    """Return the shapes of arrays that must have as many axes as each other."""
    shapes = " and ".join(str(array.shape) for array in arrays[:4])
    reason = f"{shapes} have different numbers of axes"
    for array in arrays[1:]:
        requirements.same_rank(arrays[0].shape, array.shape, reason)
    ranks = [array.shape.rank for array in arrays if array.shape.rank is not None]
    if not ranks:
        return [array.shape for array in arrays]
    return [ArrayShape(requirements.rank(array, ranks[0], reason)) for array in arrays]


def _common_tail(shapes: list[ArrayShape]) -> ArrayShape:
    """Return what is known of unlike shapes that must be equal."""
    known = min(len(shape.tail) for shape in shapes)
    tail: list[Integer] = []
    for at in range(-known, 0):
        sizes = [shape.tail[at] for shape in shapes]
        tail.append(sizes[0] if all(one == sizes[0] for one in sizes) else ANY_INT)
    return ArrayShape((), AxesSymbol(), tuple(tail))


def _equal_shapes(
    requirements: Requirements, a: ArrayShape, b: ArrayShape, reason: str
) -> ArrayShape:
    """Require two shapes of one structure to be equal."""
    if len(a.head) != len(b.head) or len(a.tail) != len(b.tail):
        return _common_tail([a, b])
    head = [requirements.equal(m, n, reason) for m, n in zip(a.head, b.head, strict=True)]
    tail = [requirements.equal(m, n, reason) for m, n in zip(a.tail, b.tail, strict=True)]
    return ArrayShape(tuple(head), a.middle, tuple(tail))


@transfer("stack")
def stack(requirements: Requirements, arrays: object, axis: object = 0) -> object:
    """``mx.stack``: shapes are equal."""
    if isinstance(arrays, ShapedArray):
        return arrays
    found = list_argument(requirements, arrays)
    if found is None:
        return ShapedArray(unknown_shape())
    if not found:
        requirements.refuse("there are no arrays")
    dtype = meeting_dtype(tuple(found))
    shapes = same_structure(requirements, found)
    result = shapes[0]
    for shape in shapes[1:]:
        if shape.middle is not result.middle:
            result = _common_tail([result, shape])
            continue
        result = _equal_shapes(requirements, result, shape, f"{result} and {shape} differ")
    at = axis_argument(requirements, axis, result, 1)
    if at is None:
        return ShapedArray(shape_of_rank(result.rank, 1), dtype)
    made = expanded(result, [at])
    inside = made.rank is not None or on_one_side(made, at)
    return ShapedArray(replaced(made, (at,), (len(found),)) if inside else made, dtype)


#: Parts of an array that are known one by one.
MOST_PARTS = 1_000


@transfer("split", "mlx.core.array.split")
def split(
    requirements: Requirements, a: object, indices_or_sections: object, axis: object = 0
) -> object:
    """``mx.split``: a list of equal parts, or of those between indices."""
    array = array_argument(requirements, a)
    shape = array.shape
    at = axis_argument(requirements, axis, shape)
    given = indices_or_sections
    if given is None or isinstance(given, (str, float)):
        requirements.fail(f"{given!r} is neither a number nor indices")
    if type(given) is int:
        if given > MOST_PARTS:
            return UNKNOWN
        sizes = _equal_parts(requirements, shape, at, given)
    elif isinstance(given, (tuple, list)) and not any(isinstance(n, AxesSymbol) for n in given):
        indices = [one if is_integer(one) else ANY_INT for one in given]
        size = ANY_INT if at is None else shape.size(at)
        sizes = _parts(indices, size)
    else:
        return UNKNOWN
    if at is None:
        made = shape_of_rank(shape.rank)
        return [ShapedArray(made, array.dtype) for _ in sizes]
    return [ShapedArray(replaced(shape, (at,), (size,)), array.dtype) for size in sizes]


def _equal_parts(
    requirements: Requirements, shape: ArrayShape, axis: int | None, many: int
) -> list[Integer]:
    if many <= 0:
        requirements.fail(f"the number of parts is {many}")
    if axis is None:
        return [ANY_INT] * many
    size = shape.size(axis)
    part = exact_quotient(size, many)
    if part is None:
        part = floor_divide(size, many)
        reason = f"axis {axis} of {shape} isn't a multiple of {many}"
        requirements.equal(multiply(part, many), size, reason)
    return [part] * many


def _parts(indices: list[Integer], size: Integer) -> list[Integer]:
    """Return the sizes of the parts between indices."""
    starts: list[Integer] = [0, *indices]
    return [
        slice_length(start, stop, size)
        for start, stop in zip(starts, [*indices, size], strict=True)
    ]


def counted_from_start(index: Integer, size: Integer) -> Integer:
    """Return a bound of a slice as MLX counts it; below 0 or above the size, perhaps."""
    if type(index) is int:
        return add(size, index) if index < 0 else index
    return index if at_least(index, 0) else ANY_INT


def slice_length(start: Integer, stop: Integer, size: Integer) -> Integer:
    """Return how many elements a slice of step 1 has."""
    # ``x[-k:]``: for ``k`` of 0 these would be all, which no program means.
    if isinstance(start, SizeExpr) and at_least(0, start) and stop == size:
        return least((multiply(start, -1), size))
    last = size if stop == size else counted_from_start(stop, size)
    if not (type(stop) is int and stop < 0) and not at_least(size, last):
        last = size if at_least(last, size) else least((last, size))
    first = counted_from_start(start, size)
    if type(first) is int and first <= 0 and last == size:
        return size
    if type(start) is int and start < 0 and not at_least(first, 0):
        if last == size:
            return least((-start, size))  # the last ones
        first = greatest((first, 0))
    return not_below_zero(subtract(last, first))


@transfer("unstack")
def unstack(requirements: Requirements, x: object, *, axis: object = 0) -> object:
    """``mx.unstack``: a tuple of the parts along an axis."""
    array = array_argument(requirements, x)
    at = axis_argument(requirements, axis, array.shape)
    size = ANY_INT if at is None else array.shape.size(at)
    if at is None or type(size) is not int:
        return UNKNOWN
    return tuple(
        ShapedArray(replaced(array.shape, (at,), (None,)), array.dtype) for _ in range(size)
    )


@transfer("broadcast_to")
def broadcast_to(requirements: Requirements, a: object, shape: object) -> object:
    """``mx.broadcast_to``."""
    array = operand(requirements, a)
    target = shape_argument(requirements, shape)
    if target is None:
        return ShapedArray(unknown_shape(), dtype_of(a))
    fits(requirements, array.shape, not_negative(requirements, target))
    return ShapedArray(target, dtype_of(a))


def fits(
    requirements: Requirements, shape: ArrayShape, target: ArrayShape, reason: str = ""
) -> None:
    """Require that a shape broadcasts to another one."""
    reason = reason or f"{shape} doesn't broadcast to {target}"
    if target.rank is not None and shape.least_rank > target.rank:
        requirements.fail(reason)
    mine = shape.tail if shape.middle is not None else shape.head
    other = target.tail if target.middle is not None else target.head
    common = min(len(mine), len(other))
    for m, n in zip(mine[len(mine) - common :], other[len(other) - common :], strict=True):
        _fits(requirements, m, n, reason)


def _fits(requirements: Requirements, size: Integer, wanted: Integer, reason: str) -> None:
    """Require that a size is 1, or equal to another one."""
    if size is ANY_INT or wanted is ANY_INT or (type(size) is int and size == 1):
        return
    if type(size) is int or (type(wanted) is int and wanted == 1):
        requirements.equal(size, wanted, reason)
        return
    requirements.equal_unless_one(size, wanted, reason)


@transfer("broadcast_arrays")
def broadcast_arrays(requirements: Requirements, *arrays: object) -> object:
    """``mx.broadcast_arrays``: a list."""
    found = [array_argument(requirements, one) for one in arrays]
    if not found:
        return []
    shape = requirements.broadcast(*(array.shape for array in found))
    return [ShapedArray(shape, array.dtype) for array in found]


@transfer("broadcast_shapes")
def broadcast_shapes(requirements: Requirements, *shapes: object) -> object:
    """``mx.broadcast_shapes``: a tuple of sizes."""
    if not shapes:
        requirements.refuse("there are no shapes")
    found = [shape_argument(requirements, one) for one in shapes]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return UNKNOWN
    return sizes_of(requirements.broadcast(*known))


@transfer("meshgrid")
def meshgrid(
    requirements: Requirements, *arrays: object, sparse: object = False, indexing: object = "xy"
) -> object:
    """``mx.meshgrid``: a tuple of arrays with an axis for each."""
    found = [array_argument(requirements, one) for one in arrays]
    if isinstance(indexing, str) and indexing not in ("xy", "ij"):
        requirements.fail(f"the indexing is {indexing!r}")
    sizes = [array.shape.elements for array in found]
    order = list(range(len(found)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    elif indexing != "ij" and len(order) > 1:
        return tuple(ShapedArray(shape_of_rank(len(order)), one.dtype) for one in found)
    full: list[Integer] = [1] * len(order)
    for at, place in enumerate(order):
        full[place] = sizes[at]
    made = []
    for at, array in enumerate(found):
        alone: list[Integer] = [1] * len(order)
        alone[order[at]] = sizes[at]
        shape = ArrayShape(tuple(alone if sparse else full))
        known = type(sparse) in (bool, int) or alone == full
        made.append(ShapedArray(shape if known else shape_of_rank(len(order)), array.dtype))
    return tuple(made)


@transfer("depends")
def depends(requirements: Requirements, inputs: object, dependencies: object) -> object:
    """``mx.depends``: the inputs, in a list if they are several."""
    return list(inputs) if isinstance(inputs, (tuple, list)) else inputs


def _at_least(rank: int) -> Callable[..., object]:
    """``mx.atleast_1d`` to ``mx.atleast_3d``."""

    def padded(requirements: Requirements, *arys: object) -> object:
        arrays = [array_argument(requirements, one) for one in arys]
        made = [ShapedArray(_padded(one.shape, rank), one.dtype) for one in arrays]
        return made[0] if len(made) == 1 else made

    return padded


for _rank in (1, 2, 3):
    transfer(f"atleast_{_rank}d")(_at_least(_rank))


def _padded(shape: ArrayShape, rank: int) -> ArrayShape:
    """Return the shape with axes of size 1 added until there are so many."""
    if shape.least_rank >= rank:
        return shape
    if shape.sizes is None:
        return unknown_shape()
    n = shape.sizes
    if rank == 3 and n:
        return ArrayShape((1, *n, 1) if len(n) == 1 else (*n, 1))
    return ArrayShape((*(1,) * (rank - len(n)), *n))
