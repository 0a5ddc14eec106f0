"""Reshapes, transpositions, joins and repetitions: what moves elements."""

from __future__ import annotations

from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
    chained,
    shape_of_rank,
    unknown_shape,
    with_last,
)
from embercoach.analysis.shapes.requirements import (
    Condition,
    Requirements,
    ShapeError,
    integers_of,
    is_integer,
    shape_of,
)
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    add,
    compare,
    exact_quotient,
    floor_divide,
    least,
    multiply,
    not_below_zero,
    product,
    subtract,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import (
    array_argument,
    dtype_argument,
    meeting_dtype,
    operand,
)
from embercoach.analysis.shapes.table.reduction_shapes import (
    axes_argument,
    axis_argument,
    flattened,
    replaced,
    summed_dtype,
)


def shape_argument(requirements: Requirements, value: object) -> ArrayShape | None:
    """Get the shape that an argument asks for, which must be a sequence; None if it is unknown."""
    if is_integer(value) or value is None or isinstance(value, (str, float)):
        requirements.refuse(f"{value!r} isn't a shape")
    return shape_of(value)


def not_negative(requirements: Requirements, shape: ArrayShape) -> ArrayShape:
    """Require that no size is negative."""
    if any(type(size) is int and size < 0 for size in shape.head + shape.tail):
        requirements.fail(f"{shape} has a negative size")
    return shape


# One shape into another


def reshaped(requirements: Requirements, shape: ArrayShape, target: ArrayShape) -> ArrayShape:
    """Return the shape of a reshape, whose target may have one -1."""
    given = target.head + target.tail
    inferred = [at for at, size in enumerate(given) if type(size) is int and size == -1]
    if len(inferred) > 1:
        requirements.fail(f"{target} has more than one -1")
    others = [size for at, size in enumerate(given) if at not in inferred]
    reason = f"{shape} can't be reshaped to {target}"
    if any(type(size) is int and size < 0 for size in others):
        requirements.fail(reason)
    part = product(others)
    shared = target.middle is not None
    if shape.middle is target.middle:
        whole = product(shape.head + shape.tail)
    else:
        whole, shared = (ANY_INT if target.middle is not None else shape.elements), False
    if not inferred:
        ranks = shape.rank, target.rank
        if None not in ranks and compare(part, whole) is Comparison.POSSIBLE:
            part, whole = _without_common_sums(others, shape.head)
        _same_number(requirements, part, whole, reason, degenerate=shared)
        return target
    if type(part) is int and part == 0:
        requirements.fail(f"no size of {target} can be inferred")
    found = exact_quotient(whole, part)
    if found is None:
        found = floor_divide(whole, part)
        _same_number(requirements, multiply(found, part), whole, reason, degenerate=shared)
    at = inferred[0]
    sizes = (*given[:at], found, *given[at + 1 :])
    if target.middle is None:
        return ArrayShape(sizes)
    first = len(target.head)
    return ArrayShape(sizes[:first], target.middle, sizes[first:])


def _without_common_sums(
    others: list[Integer], sizes: tuple[Integer, ...]
) -> tuple[Integer, Integer]:
    """The products of sizes, without the sums in both: what is learned of the rest is simpler."""
    left = list(sizes)
    rest = []
    for size in others:
        if isinstance(size, SizeExpr) and len(size.terms) > 1 and size in left:
            left.remove(size)
        else:
            rest.append(size)
    return product(rest), product(left)


def _same_number(
    requirements: Requirements, part: Integer, whole: Integer, reason: str, *, degenerate: bool
) -> None:
    """Require two products to be equal; with unknown axes they need not where one is empty."""
    if degenerate and compare(part, whole) is Comparison.DIFFERENT:
        condition = Condition(part, whole, Comparison.DEGENERATE, reason)
        requirements.conditions.append(condition)
    else:
        requirements.equal(part, whole, reason)


@transfer("reshape")
def reshape(requirements: Requirements, a: object, shape: object) -> object:
    """``mx.reshape``."""
    array = array_argument(requirements, a)
    target = shape_argument(requirements, shape)
    made = unknown_shape() if target is None else reshaped(requirements, array.shape, target)
    return ShapedArray(made, array.dtype)


@transfer("mlx.core.array.reshape")
def reshape_method(requirements: Requirements, a: object, *shape: object) -> object:
    """``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    return reshape(requirements, a, _spread(shape))


def _spread(values: tuple[object, ...]) -> object:
    """Return the sequence that a method gets as several arguments or as one."""
    alone = len(values) == 1 and not is_integer(values[0]) and not isinstance(values[0], AxesSymbol)
    return values[0] if alone else values


@transfer("flatten", "mlx.core.array.flatten")
def flatten(
    requirements: Requirements, a: object, start_axis: object = 0, end_axis: object = -1
) -> object:
    """``mx.flatten``: bounds are clamped."""
    array = array_argument(requirements, a)
    shape = array.shape
    if shape.rank == 0:
        return ShapedArray(ArrayShape((1,)), array.dtype)
    if type(start_axis) is not int or type(end_axis) is not int:
        return ShapedArray(unknown_shape(), array.dtype)
    if shape.sizes is None:
        return ShapedArray(_flattened_between(shape, start_axis, end_axis), array.dtype)
    rank = len(shape.sizes)
    first = max(0, start_axis + (rank if start_axis < 0 else 0))
    last = min(rank - 1, end_axis + (rank if end_axis < 0 else 0))
    if last < first or first >= rank or last < 0:
        requirements.fail(f"{shape} has no axes from {start_axis} to {end_axis}")
    merged = product(shape.sizes[first : last + 1])
    made = ArrayShape((*shape.sizes[:first], merged, *shape.sizes[last + 1 :]))
    return ShapedArray(made, array.dtype)


def _flattened_between(shape: ArrayShape, start: int, end: int) -> ArrayShape:
    """Flatten axes of a shape whose number of axes is unknown."""
    across = 0 <= start <= len(shape.head) and -len(shape.tail) - 1 <= end < 0
    if across and (start == 0 or shape.least_rank):
        after = shape.tail[len(shape.tail) + end + 1 :]
        return ArrayShape((*shape.head[:start], ANY_INT, *after))
    if -len(shape.tail) <= start <= end < 0:
        first, last = len(shape.tail) + start, len(shape.tail) + end + 1
        merged = product(shape.tail[first:last])
        return ArrayShape(
            shape.head, shape.middle, (*shape.tail[:first], merged, *shape.tail[last:])
        )
    if 0 <= start <= end < len(shape.head):
        merged = product(shape.head[start : end + 1])
        return ArrayShape(
            (*shape.head[:start], merged, *shape.head[end + 1 :]), shape.middle, shape.tail
        )
    return unknown_shape()


@transfer("unflatten")
def unflatten(requirements: Requirements, a: object, axis: object, shape: object) -> object:
    """``mx.unflatten``: one axis reshaped."""
    array = array_argument(requirements, a)
    target = shape_argument(requirements, shape)
    if target is not None and target.rank == 0:
        requirements.fail("the shape is empty")
    at = axis_argument(requirements, axis, array.shape)
    if target is None or at is None:
        return ShapedArray(unknown_shape(), array.dtype)
    made = reshaped(requirements, ArrayShape((array.shape.size(at),)), target)
    return ShapedArray(spliced(array.shape, at, made), array.dtype)


def spliced(shape: ArrayShape, axis: int, made: ArrayShape) -> ArrayShape:
    """Return the shape where some axes are in place of one."""
    if shape.middle is None:
        return chained(ArrayShape(shape.head[:axis]), made, ArrayShape(shape.head[axis + 1 :]))
    if 0 <= axis < len(shape.head):
        rest = ArrayShape(shape.head[axis + 1 :], shape.middle, shape.tail)
        return chained(ArrayShape(shape.head[:axis]), made, rest)
    if -len(shape.tail) <= axis < 0:
        place = len(shape.tail) + axis
        first = ArrayShape(shape.head, shape.middle, shape.tail[:place])
        return chained(first, made, ArrayShape(shape.tail[place + 1 :]))
    if axis >= 0:
        return ArrayShape(shape.head, AxesSymbol())
    return ArrayShape((), AxesSymbol(), shape.tail)


@transfer("squeeze", "mlx.core.array.squeeze")
def squeeze(requirements: Requirements, a: object, axis: object = None) -> object:
    """``mx.squeeze``: removes axes of size 1, all of them for None."""
    array = array_argument(requirements, a)
    shape = array.shape
    if axis is None:
        return ShapedArray(_without_ones(shape), array.dtype)
    axes = axes_argument(requirements, axis, shape)
    if axes is None:
        rank = None if shape.rank is None or not is_integer(axis) else max(shape.rank, 1)
        return ShapedArray(shape_of_rank(rank, -1), array.dtype)
    for one in axes:
        reason = f"axis {one} of {shape} is not 1"
        requirements.equal(shape.size(one), 1, reason)
    return ShapedArray(replaced(shape, axes, [None] * len(axes)), array.dtype)


def _without_ones(shape: ArrayShape) -> ArrayShape:
    """Return the shape without axes of size 1, which symbols may be, too."""

    def known(sizes: tuple[Integer, ...]) -> tuple[Integer, ...]:
        return sizes[: next((at for at, n in enumerate(sizes) if type(n) is not int), len(sizes))]

    first = known(shape.head)
    last = known((shape.tail if shape.middle is not None else shape.head)[::-1])[::-1]
    head = tuple(size for size in first if size != 1)
    if shape.middle is None and len(first) == len(shape.head):
        return ArrayShape(head)
    return ArrayShape(head, AxesSymbol(), tuple(size for size in last if size != 1))


@transfer("expand_dims")
def expand_dims(requirements: Requirements, a: object, axis: object) -> object:
    """``mx.expand_dims``."""
    array = array_argument(requirements, a)
    shape = array.shape
    given = integers_of(axis)
    if axis is None or isinstance(axis, (str, float)):
        requirements.refuse(f"{axis!r} isn't an axis")
    if given is None:
        return ShapedArray(unknown_shape(), array.dtype)
    found = [requirements.axis(one, shape, len(given)) for one in given]
    axes = [one for one in found if one is not None]
    if len(set(axes)) < len(axes):
        requirements.fail(f"{axis} names an axis twice")
    if len(axes) < len(found):
        return ShapedArray(shape_of_rank(shape.rank, len(given)), array.dtype)
    return ShapedArray(expanded(shape, axes), array.dtype)


def expanded(shape: ArrayShape, axes: list[int]) -> ArrayShape:
    """Return the shape with new axes of size 1, at these places of the result."""
    head, tail = list(shape.head), list(shape.tail)
    middle = shape.middle
    for axis in sorted(one for one in axes if one >= 0):
        if axis > len(head):
            middle, tail = AxesSymbol(), []
            break
        head.insert(axis, 1)
    for axis in sorted((one for one in axes if one < 0), reverse=True):
        if -axis - 1 > len(tail):
            middle, head = AxesSymbol(), []
            break
        tail.insert(len(tail) + 1 + axis, 1)
    return ArrayShape(tuple(head), middle, tuple(tail))


# The order of axes


@transfer("transpose", "permute_dims")
def transpose(requirements: Requirements, a: object, axes: object = None) -> object:
    """``mx.transpose``: all axes in their new order, reversed for None."""
    array = array_argument(requirements, a)
    shape = array.shape
    if axes is None:
        reverse = ArrayShape(shape.head[::-1])
        if shape.middle is not None:
            reverse = ArrayShape(shape.tail[::-1], AxesSymbol(), shape.head[::-1])
        return ShapedArray(reverse, array.dtype)
    given = integers_of(axes)
    if is_integer(axes) or isinstance(axes, (str, float)):
        requirements.refuse(f"{axes!r} isn't a sequence of axes")
    if given is None:
        rank = len(axes) if isinstance(axes, (tuple, list)) else shape.rank
        return ShapedArray(shape_of_rank(rank), array.dtype)
    reason = f"{len(given)} axes are named for the shape {shape}"
    outside = [one for one in given if type(one) is int and not -len(given) <= one < len(given)]
    if outside and shape.rank is None:
        reason = f"{len(given)} axes are named, so that axis {outside[0]} is out of bounds"
    if len(given) == 2 and (outside or shape.rank not in (None, 2)):
        raise ShapeError(reason, swapaxes(requirements, array, *given))  # torch's `transpose`
    if outside:
        requirements.fail(reason)
    sizes = ArrayShape(requirements.rank(array, len(given), reason))
    order = axes_argument(requirements, given, sizes)
    made = (
        shape_of_rank(len(given))
        if order is None
        else ArrayShape(tuple(sizes.head[one] for one in order))
    )
    return ShapedArray(made, array.dtype)


@transfer("mlx.core.array.transpose")
def transpose_method(requirements: Requirements, a: object, *axes: object) -> object:
    """``x.transpose(0, 2, 1)``, ``x.transpose((0, 2, 1))`` or ``x.transpose()``."""
    if axes and axes[0] is None:
        requirements.refuse("None isn't an axis")
    return transpose(requirements, a, _spread(axes) if axes else None)


@transfer("mlx.core.array.T")
def reversed_axes(requirements: Requirements, a: object) -> object:
    """``x.T``, which is for matrices."""
    array = array_argument(requirements, a)
    if requirements.assumes and array.shape.rank is None and 0 < array.shape.least_rank < 3:
        array = replace(array, shape=ArrayShape(requirements.rank(array, 2, "")))
    return transpose(requirements, array)


@transfer("matrix_transpose", "mlx.core.array.mT")
def matrix_transpose(requirements: Requirements, a: object) -> object:
    """``x.mT``."""
    array = array_argument(requirements, a)
    requirements.least_rank(array, 2, f"{array.shape} has fewer than two axes")
    return swapaxes(requirements, array, -1, -2)


@transfer("swapaxes", "mlx.core.array.swapaxes")
def swapaxes(requirements: Requirements, a: object, axis1: object, axis2: object) -> object:
    """``mx.swapaxes``."""
    array = array_argument(requirements, a)
    shape = array.shape
    first, second = (axis_argument(requirements, one, shape) for one in (axis1, axis2))
    if first is None or second is None:
        return ShapedArray(shape_of_rank(shape.rank), array.dtype)
    if shape.middle is not None and not on_one_side(shape, first, second):
        return ShapedArray(_unmoved(shape, first, second), array.dtype)
    if first == second:
        return array
    sizes = (shape.size(second), shape.size(first))
    return ShapedArray(replaced(shape, (first, second), sizes), array.dtype)


@transfer("moveaxis", "mlx.core.array.moveaxis")
def moveaxis(requirements: Requirements, a: object, source: object, destination: object) -> object:
    """``mx.moveaxis``."""
    array = array_argument(requirements, a)
    shape = array.shape
    first, second = (axis_argument(requirements, one, shape) for one in (source, destination))
    if first is None or second is None:
        return ShapedArray(shape_of_rank(shape.rank), array.dtype)
    if shape.middle is not None and not on_one_side(shape, first, second):
        return ShapedArray(_unmoved(shape, first, second), array.dtype)
    sizes = list(shape.head if first >= 0 else shape.tail)
    moved = sizes.pop(first)
    sizes.insert(second if second >= 0 else len(sizes) + 1 + second, moved)
    if shape.middle is None:
        made = ArrayShape(tuple(sizes))
    elif first >= 0:
        made = ArrayShape(tuple(sizes), shape.middle, shape.tail)
    else:
        made = ArrayShape(shape.head, shape.middle, tuple(sizes))
    return ShapedArray(made, array.dtype)


def on_one_side(shape: ArrayShape, *axes: int) -> bool:
    """Return whether axes are all before the unknown ones, or all after them."""
    return all(0 <= one < len(shape.head) for one in axes) or all(
        -len(shape.tail) <= one < 0 for one in axes
    )


def _unmoved(shape: ArrayShape, *axes: int) -> ArrayShape:
    """Return what remains of a shape with unknown axes, when axes between others move."""
    rank = max(shape.least_rank, *(one + 1 if one >= 0 else -one for one in axes))
    first = min(one if one >= 0 else rank + one for one in axes)
    last = min(-one - 1 if one < 0 else rank - one - 1 for one in axes)
    tail = shape.tail[max(0, len(shape.tail) - last) :]
    return ArrayShape(shape.head[:first], AxesSymbol(), tail)


# Repetitions and borders


@transfer("repeat")
def repeat(
    requirements: Requirements, array: object, repeats: object, axis: object = None
) -> object:
    """``mx.repeat``: each element so often; of the flat array for None."""
    found = array_argument(requirements, array)
    shape = flattened(found.shape) if axis is None else found.shape
    at = 0 if axis is None else axis_argument(requirements, axis, shape)
    if type(repeats) is int and repeats < 0:
        requirements.fail(f"there are {repeats} repeats")
    if at is None:
        made = shape_of_rank(shape.rank) if is_integer(axis) else unknown_shape()
        return ShapedArray(made, found.dtype)
    times: Integer = repeats if is_integer(repeats) else ANY_INT
    return ShapedArray(replaced(shape, (at,), (multiply(shape.size(at), times),)), found.dtype)


@transfer("tile")
def tile(requirements: Requirements, a: object, reps: object) -> object:
    """``mx.tile``: repetitions of the last axes."""
    array = array_argument(requirements, a)
    times = integers_of(reps)
    if times is None:
        return ShapedArray(unknown_shape(), array.dtype)
    if any(type(one) is int and one < 0 for one in times):
        requirements.fail(f"{reps} has a negative number of repetitions")
    shape = array.shape
    if shape.middle is not None and len(times) > len(shape.tail):
        return ShapedArray(unknown_shape(), array.dtype)
    if shape.middle is not None:
        known = len(shape.tail) - len(times)
        last = [multiply(n, k) for n, k in zip(shape.tail[known:], times, strict=True)]
        made = ArrayShape(shape.head, shape.middle, (*shape.tail[:known], *last))
        return ShapedArray(made, array.dtype)
    rank = max(len(times), len(shape.head))
    sizes = (*(1,) * (rank - len(shape.head)), *shape.head)
    many = (*(1,) * (rank - len(times)), *times)
    product_ = tuple(multiply(n, k) for n, k in zip(sizes, many, strict=True))
    return ShapedArray(ArrayShape(product_), array.dtype)


@transfer("roll")
def roll(requirements: Requirements, a: object, shift: object, axis: object = None) -> object:
    """``mx.roll``: one shift for each axis at least."""
    array = array_argument(requirements, a)
    if axis is None:
        return array
    if isinstance(axis, (tuple, list)):
        for one in axis:
            axis_argument(requirements, one, array.shape)
        if isinstance(shift, (tuple, list)) and len(shift) < len(axis):
            requirements.fail(f"{len(shift)} shifts are given for {len(axis)} axes")
    else:
        axis_argument(requirements, axis, array.shape)
    return array


@transfer("flip")
def flip(requirements: Requirements, a: object, axis: object = None) -> object:
    """``mx.flip``: along axes, which may be named twice."""
    array = array_argument(requirements, a)
    for one in axis if isinstance(axis, (tuple, list)) else (axis,):
        if axis is not None:
            axis_argument(requirements, one, array.shape)
    return array


@transfer("pad")
def pad(
    requirements: Requirements,
    a: object,
    pad_width: object,
    mode: object = "constant",
    constant_values: object = 0,
) -> object:
    """``mx.pad``: one width, a pair, or a pair for each axis."""
    array = array_argument(requirements, a)
    operand(requirements, constant_values)
    shape = array.shape
    requirements.one_of("mode", mode, ("constant", "edge", "reflect", "symmetric"))
    pairs = _pad_pairs(requirements, array, pad_width)
    if pairs is None:
        return ShapedArray(shape_of_rank(shape.rank), array.dtype)
    if shape.rank == 0 and len(pairs) == 1:
        return array
    negative = any(type(one) is int and one < 0 for pair in pairs for one in pair)
    if negative and (len(pairs) > 1 or shape.rank or shape.least_rank):
        requirements.fail(f"{pad_width} has a negative width")
    if shape.middle is not None and len(pairs) != 1:
        shape = ArrayShape(requirements.rank(array, len(pairs), f"{pad_width} for {shape}"))
    if shape.middle is not None:
        known = all(type(one) is int and one == 0 for one in pairs[0])
        return array if known else ShapedArray(_widened(shape, pairs[0]), array.dtype)
    if len(pairs) == 1:
        pairs = pairs * len(shape.head)
    if len(pairs) != len(shape.head):
        requirements.fail(f"{len(pairs)} pairs of widths are given for {shape}")
    if mode in ("edge", "reflect", "symmetric"):
        _filled_axes(requirements, shape, pairs, str(mode))
    sizes = [add(n, add(*pair)) for n, pair in zip(shape.head, pairs, strict=True)]
    return ShapedArray(ArrayShape(tuple(sizes)), array.dtype)


def _widened(shape: ArrayShape, pair: tuple[Integer, Integer]) -> ArrayShape:
    """Return a shape with unknown axes, of which each is padded."""
    more = add(*pair)
    head, tail = ([add(n, more) for n in sizes] for sizes in (shape.head, shape.tail))
    return ArrayShape(tuple(head), AxesSymbol(), tuple(tail))


def _filled_axes(
    requirements: Requirements,
    shape: ArrayShape,
    pairs: list[tuple[Integer, Integer]],
    mode: str,
) -> None:
    """Require that axes which are padded with their own elements have some."""
    for size, pair in zip(shape.head, pairs, strict=True):
        if type(size) is not int or size or any(type(n) is not int for n in pair):
            continue
        # The edge is read from the zeros that are there already, where both sides are padded.
        if sum(n != 0 for n in pair) in ((1,) if mode == "edge" else (1, 2)):
            requirements.fail(f"{shape} has an empty axis, which the mode {mode!r} can't pad")


def _pad_pairs(
    requirements: Requirements, array: ShapedArray, width: object
) -> list[tuple[Integer, Integer]] | None:
    """Get the widths before and after each axis, one pair for all of them, or None if unknown."""
    if is_integer(width):
        return [(width, width)]
    if not isinstance(width, (tuple, list)):
        return None
    if len(width) == 1 and is_integer(width[0]):
        return [(width[0], width[0])]
    if len(width) == 2 and all(map(is_integer, width)):
        return [(width[0], width[1])]
    inner = [n for one in width if isinstance(one, (tuple, list)) for n in one]
    if any(isinstance(one, AxesSymbol) or one is UNKNOWN for one in (*width, *inner)):
        return None
    if any(is_integer(one) for one in width):
        requirements.refuse(f"{width} isn't a sequence of pairs of widths")
    pairs: list[tuple[Integer, Integer]] = []
    for one in width:
        if not isinstance(one, (tuple, list)):
            pairs.append((ANY_INT, ANY_INT))
            continue
        if len(one) != 2:
            requirements.refuse(f"{one} isn't a pair of widths")
        before, after = (n if is_integer(n) else ANY_INT for n in one)
        pairs.append((before, after))
    return pairs


# Diagonals and triangles


@transfer("diagonal", "mlx.core.array.diagonal")
def diagonal(
    requirements: Requirements,
    a: object,
    offset: object = 0,
    axis1: object = 0,
    axis2: object = 1,
) -> ShapedArray:
    """``mx.diagonal``: of two axes, as the last axis."""
    array = array_argument(requirements, a)
    shape = requirements.least_rank(array, 2, f"{array.shape} has fewer than two axes")
    axes = axes_argument(requirements, (axis1, axis2), shape)
    if axes is None or (shape.rank is None and not all(on_one_side(shape, n) for n in axes)):
        return ShapedArray(shape_of_rank(shape.rank, -1), array.dtype)
    size: Integer = ANY_INT
    if type(offset) is int:
        rows = subtract(shape.size(axes[0]), max(-offset, 0))
        columns = subtract(shape.size(axes[1]), max(offset, 0))
        size = not_below_zero(least((rows, columns)))
    rest = replaced(shape, axes, (None, None))
    return ShapedArray(with_last(rest, size), array.dtype)


@transfer("diag", "mlx.core.array.diag")
def diag(requirements: Requirements, a: object, k: object = 0) -> object:
    """``mx.diag``: a matrix of a vector, or the diagonal of a matrix."""
    array = array_argument(requirements, a)
    rank = array.shape.rank
    if rank == 1 and array.shape.sizes is not None:
        size = add(array.shape.sizes[0], abs(k)) if type(k) is int else ANY_INT
        return ShapedArray(ArrayShape((size, size)), array.dtype)
    if rank == 2:
        return diagonal(requirements, array, k)
    if rank is not None or array.shape.least_rank > 2:
        requirements.fail(f"{array.shape} has neither one nor two axes")
    return ShapedArray(unknown_shape(), array.dtype)


@transfer("trace")
def trace(
    requirements: Requirements,
    a: object,
    offset: object = 0,
    axis1: object = 0,
    axis2: object = 1,
    dtype: object = None,
) -> object:
    """``mx.trace``: the sum of a diagonal."""
    found = diagonal(requirements, a, offset, axis1, axis2)
    made = dtype_argument(requirements, dtype, found.dtype)
    shape = unknown_shape()
    if found.shape.rank is not None or found.shape.tail:
        shape = replaced(found.shape, ((found.shape.rank or 0) - 1,), (None,))
    return ShapedArray(shape, summed_dtype(made))


@transfer("tril", "triu")
def tril(requirements: Requirements, x: object, k: object = 0) -> object:
    """``mx.tril``: of the last two axes."""
    array = array_argument(requirements, x)
    requirements.least_rank(array, 2, f"{array.shape} has fewer than two axes")
    return array


@transfer("kron")
def kron(requirements: Requirements, a: object, b: object) -> object:
    """``mx.kron``: sizes multiplied."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = meeting_dtype((left, right))
    if left.shape.elements == 0 or right.shape.elements == 0:
        requirements.fail(f"{left.shape} or {right.shape} has no elements")
    if left.shape.sizes is None or right.shape.sizes is None:
        return ShapedArray(unknown_shape(), dtype)
    rank = max(len(left.shape.sizes), len(right.shape.sizes))
    m, n = ((*(1,) * (rank - len(one)), *one) for one in (left.shape.sizes, right.shape.sizes))
    return ShapedArray(ArrayShape(tuple(map(multiply, m, n))), dtype)


@transfer("as_strided")
def as_strided(
    requirements: Requirements,
    a: object,
    shape: object = None,
    strides: object = None,
    offset: object = 0,
) -> object:
    """``mx.as_strided``: whatever shape is asked for."""
    array = array_argument(requirements, a)
    if shape is None:
        return array
    target = shape_argument(requirements, shape)
    made = unknown_shape() if target is None else not_negative(requirements, target)
    return ShapedArray(made, array.dtype)
