"""Reading of elements: ``x[...]``, ``mx.take`` and the like."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    AnyScalar,
    ArrayShape,
    AxesSymbol,
    DType,
    DTypeValue,
    Ratio,
    ShapedArray,
    chained,
    is_floating,
    promote,
    shape_of_rank,
    unknown_shape,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    add,
    at_least,
    ceil_divide,
    product,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.creation import literal
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.joining_shapes import (
    fits,
    slice_length,
)
from embercoach.analysis.shapes.table.movement import shape_argument, spliced
from embercoach.analysis.shapes.table.reduction_shapes import (
    axes_argument,
    axis_argument,
    flattened,
    replaced,
)

Kind = Literal["int", "array", "slice", "none", "block"]


class Entry(Struct, frozen=True):
    """One index, and the shape of what it is for: one axis, or those that an ellipsis takes."""

    kind: Kind
    index: object
    shape: ArrayShape

    @property
    def size(self) -> Integer:
        """The size of the axis."""
        return self.shape.head[0]

    @property
    def is_array(self) -> bool:
        """Return whether MLX gathers with it, where there is an array."""
        return self.kind in ("int", "array")


# Slices


def _bound(requirements: Requirements, value: object) -> Integer | None:
    """Return a bound or step of a slice."""
    if value is None or is_integer(value):
        return value
    if isinstance(value, (bool, float, str, tuple, list, Ratio, AnyScalar)):
        requirements.refuse(f"{value!r} isn't a bound of a slice")
    return ANY_INT


def clamped(requirements: Requirements, index: slice, size: Integer) -> Integer:
    """Return how many elements a slice has, whose bounds are clamped."""
    start, stop, step = (_bound(requirements, one) for one in (index.start, index.stop, index.step))
    step = 1 if step is None else step
    if type(step) is not int or step == 0:
        return ANY_INT
    if step < 0:
        return _backwards(start, stop, step, size)
    length = slice_length(0 if start is None else start, size if stop is None else stop, size)
    return length if step == 1 else ceil_divide(length, step)


def _backwards(start: Integer | None, stop: Integer | None, step: int, size: Integer) -> Integer:
    """Return how many elements a slice of a negative step has."""
    if start is None and stop is None:
        return ceil_divide(size, -step)
    if type(size) is not int or not all(one is None or type(one) is int for one in (start, stop)):
        return ANY_INT
    known = slice(start, stop, step).indices(size)
    return len(range(*known))


# Entries


def index_dtype(requirements: Requirements, arrays: list[ShapedArray]) -> None:
    """Require arrays of indices to be of integers, together with those of slices and ints."""
    dtype: DType = None
    for at, array in enumerate(arrays):
        if array.dtype == "bool":
            requirements.fail("an array of bool isn't an index")
        dtype = array.dtype if at == 0 else promote(dtype, array.dtype)
    # A parameter may be created in a floating dtype, and loaded as integers.
    if isinstance(dtype, str) and (is_floating(dtype) or dtype == "complex64"):
        requirements.fail(f"an array of {dtype} isn't an index")


def kind_of(requirements: Requirements, index: object) -> Kind | None:
    """Return the kind of an index, None for one of which nothing is known."""
    if index is None:
        return "none"
    if is_integer(index):
        return "int"
    if isinstance(index, slice):
        return "slice"
    if isinstance(index, (ShapedArray, list)):
        return "array"
    if isinstance(index, (bool, float, complex, str, tuple, dict, Ratio, AnyScalar, DTypeValue)):
        requirements.refuse(f"{index!r} isn't an index")
    return None


def index_entries(
    requirements: Requirements, shape: ArrayShape, indices: tuple[object, ...]
) -> tuple[list[Entry], ArrayShape] | None:
    """Return the indices with the sizes of their axes, and the shape of the axes after them.

    None if an index is unknown.
    """
    places = [at for at, index in enumerate(indices) if index is Ellipsis]
    if len(places) > 1:
        requirements.fail("an index has two ellipses")
    kinds = {
        at: kind_of(requirements, index) for at, index in enumerate(indices) if at not in places
    }
    if None in kinds.values():
        return None
    at = places[0] if places else len(indices)
    before, after = indices[:at], indices[at + 1 :]
    taken = [sum(one is not None for one in part) for part in (before, after)]
    if shape.rank is not None and sum(taken) > shape.rank:
        requirements.fail(f"{shape} has fewer axes than there are indices")
    head, middle, tail = _divided(shape, *taken)
    entries = _entries(requirements, before, head)
    if not places:
        return entries, middle
    if middle.rank != 0:
        entries.append(Entry("block", Ellipsis, middle))
    return entries + _entries(requirements, after, tail), ArrayShape()


def _divided(
    shape: ArrayShape, first: int, last: int
) -> tuple[list[Integer], ArrayShape, list[Integer]]:
    """So many first sizes, the axes between, and so many last sizes."""
    if shape.sizes is not None:
        end = len(shape.sizes) - last
        between = ArrayShape(shape.sizes[first:end])
        return list(shape.sizes[:first]), between, list(shape.sizes[end:])
    head, tail = list(shape.head), list(shape.tail)
    between = ArrayShape(tuple(head[first:]), shape.middle, tuple(tail[: len(tail) - last]))
    if first > len(head):
        between = ArrayShape((), AxesSymbol(), between.tail if last else ())
        head += [ANY_INT] * (first - len(head))
        if last:
            between = ArrayShape((), AxesSymbol())
    if last > len(tail):
        between = ArrayShape(between.head if first <= len(shape.head) else (), AxesSymbol())
        tail = [ANY_INT] * (last - len(tail)) + tail
        if not first <= len(shape.head) or between.head:
            between = unknown_shape()
    return head[:first], between, tail[len(tail) - last :] if last else []


def _entries(
    requirements: Requirements, indices: tuple[object, ...], sizes: list[Integer]
) -> list[Entry]:
    found = []
    left = iter(sizes)
    for index in indices:
        kind = kind_of(requirements, index)
        assert kind is not None
        value = literal(requirements, index) if isinstance(index, list) else index
        shape = ArrayShape() if kind == "none" else ArrayShape((next(left),))
        found.append(Entry(kind, value, shape))
    return found


# ``x[...]``


@transfer("mlx.core.array.__getitem__")
def getitem(requirements: Requirements, a: object, index: object) -> object:
    """``x[index]``."""
    array = array_argument(requirements, a)
    if index is Ellipsis:
        return array
    if isinstance(index, tuple):
        return ShapedArray(_of_tuple(requirements, array, index), array.dtype)
    kind = kind_of(requirements, index)
    if kind == "none":
        return ShapedArray(chained(ArrayShape((1,)), array.shape), array.dtype)
    if kind is None:
        return ShapedArray(unknown_shape(), array.dtype)
    if array.shape.rank == 0:
        requirements.fail("an array without axes has no elements to index")
    size = array.shape.size(0)
    if kind == "int":
        if type(size) is int and size == 0:
            requirements.fail(f"the first axis of {array.shape} is empty")
        return ShapedArray(replaced(array.shape, (0,), (None,)), array.dtype)
    if isinstance(index, slice):
        return ShapedArray(
            replaced(array.shape, (0,), (clamped(requirements, index, size),)), array.dtype
        )
    return take(requirements, array, literal(requirements, index), 0)


def _of_tuple(
    requirements: Requirements, array: ShapedArray, indices: tuple[object, ...]
) -> ArrayShape:
    """Return the shape of ``x[i, j]``."""
    number = sum(index is not None for index in indices)
    if (
        requirements.assumes
        and array.shape.rank is None
        and array.shape.least_rank <= number
        and _names_all_axes(indices)
    ):
        sizes = requirements.rank(array, number, f"{array.shape} has other axes than are indexed")
        array = ShapedArray(ArrayShape(sizes), array.dtype)
    found = index_entries(requirements, array.shape, indices)
    if found is None:
        return unknown_shape()
    entries, rest = found
    if not any(entry.kind == "array" for entry in entries):
        return chained(*(_basic(requirements, entry) for entry in entries), rest)
    return _gathered(requirements, array, entries, rest)


def _names_all_axes(indices: tuple[object, ...]) -> bool:
    """Return whether an index says that there are no more axes: ``x[:, None, :]``.

    The last ``:`` would be needless otherwise.
    """
    axes = [index for index in indices if index is not None]
    if len(axes) < 2 or Ellipsis in [one for one in axes if type(one) is type(Ellipsis)]:
        return False
    is_whole = [isinstance(one, slice) and one == slice(None) for one in axes]
    return is_whole[-1] and (indices[-1] is not None or all(is_whole))


def _basic(requirements: Requirements, entry: Entry) -> ArrayShape:
    """Return the axes that an int, slice, None or ellipsis leaves."""
    if entry.kind == "none":
        return ArrayShape((1,))
    if isinstance(entry.index, slice):
        return ArrayShape((clamped(requirements, entry.index, entry.size),))
    if entry.kind == "int":
        in_bounds(requirements, entry.index, entry.size)  # type: ignore[arg-type]
        return ArrayShape()
    return entry.shape


def in_bounds(requirements: Requirements, index: Integer, size: Integer) -> None:
    """Require an int of several indices to be one of an axis, as far as MLX does."""
    if type(index) is int and type(size) is int:
        place = index + size if index < 0 else index
        if slice_length(place, place + 1, size) != 1:
            requirements.fail(f"the index {index} is out of bounds for the size {size}")
    elif at_least(index, size) and at_least(index, 0):
        requirements.fail(f"the index {index} is out of bounds for the size {size}")


def comes_first(entries: list[Entry]) -> bool | None:
    """Return whether the axes of arrays come first, since other indices part them.

    None where that depends on whether an ellipsis takes axes.
    """
    seen = parted = False
    unsure = False
    for entry in entries:
        if entry.is_array:
            if seen and parted:
                return True
            if seen and unsure:
                return None
            seen = True
        elif seen:
            if entry.kind == "block" and not entry.shape.least_rank:
                unsure = True
            else:
                parted = True
    return False


def _gathered(
    requirements: Requirements, array: ShapedArray, entries: list[Entry], rest: ArrayShape
) -> ArrayShape:
    """Return the shape of ``x[i, j]`` with arrays among the indices."""
    first_place = comes_first(entries)
    if first_place is None:
        return unknown_shape()
    places = [at for at, entry in enumerate(entries) if entry.is_array]
    taken, after = entries[: places[-1] + 1], entries[places[-1] + 1 :]
    arrays = [entry.index for entry in taken if isinstance(entry.index, ShapedArray)]
    index_dtype(requirements, [*arrays, *_words(taken)])
    common = requirements.broadcast(*(one.shape for one in arrays))
    kept = []
    for entry in taken:
        if isinstance(entry.index, slice):
            kept.append(ArrayShape((clamped(requirements, entry.index, entry.size),)))
        elif not entry.is_array:
            kept.append(_basic(requirements, entry))
        if entry is taken[places[0]] and not first_place:
            kept.append(common)
    if first_place:
        kept.insert(0, common)
    left = [_basic(requirements, entry) for entry in after]
    blocks = [entry.shape for entry in taken if entry.kind == "block"]
    if array.shape.elements == 0:
        parts = (common, *kept, *_sources(after), rest, *blocks)
        many = product(shape.elements for shape in parts)
        if type(many) is int and many != 0:
            requirements.fail(f"{array.shape} has no elements")
    return chained(*kept, *left, rest)


def _words(entries: list[Entry]) -> list[ShapedArray]:
    """Return the arrays of uint32 that MLX makes of ints and slices next to arrays."""
    made = any(entry.kind in ("int", "slice", "block") for entry in entries)
    return [ShapedArray(ArrayShape(), "uint32")] if made else []


def _sources(entries: list[Entry]) -> list[ArrayShape]:
    return [entry.shape for entry in entries if entry.kind != "none"]


# Functions


@transfer("take")
def take(requirements: Requirements, a: object, indices: object, axis: object = None) -> object:
    """``mx.take``: the axes of the indices in place of one axis; of the flat array for None."""
    array = array_argument(requirements, a)
    shape = flattened(array.shape) if axis is None else array.shape
    at = 0 if axis is None else axis_argument(requirements, axis, shape)
    if is_integer(indices):
        return _taken(requirements, array, shape, at, indices)
    if isinstance(indices, (str, float, bool, tuple, list)) or indices is None:
        requirements.refuse(f"{indices!r} isn't an index")
    if indices is UNKNOWN or not isinstance(indices, ShapedArray):
        return ShapedArray(unknown_shape(), array.dtype)
    index_dtype(requirements, [indices])
    if at is None:
        return ShapedArray(unknown_shape(), array.dtype)
    many = indices.shape.elements
    if shape.size(at) == 0 and type(many) is int and many:
        requirements.fail(f"axis {at} of {shape} is empty")
    return ShapedArray(spliced(shape, at, indices.shape), array.dtype)


def _taken(
    requirements: Requirements,
    array: ShapedArray,
    shape: ArrayShape,
    axis: int | None,
    index: Integer,
) -> ShapedArray:
    """``mx.take`` with an int."""
    if shape.elements == 0:
        requirements.fail(f"{shape} has no elements")
    if axis is None:
        return ShapedArray(shape_of_rank(shape.rank, -1), array.dtype)
    size = shape.size(axis)
    if type(index) is int and type(size) is int:
        # The slice from -1 to 0 is empty.
        if slice_length(index, index + 1, size) != 1:
            requirements.fail(f"the index {index} is out of bounds for the size {size}")
    elif type(index) is int and index == -1:
        requirements.fail("the slice from -1 to 0 is empty")
    elif at_least(index, size):
        requirements.fail(f"the index {index} is out of bounds for the size {size}")
    return ShapedArray(replaced(shape, (axis,), (None,)), array.dtype)


@transfer("take_along_axis")
def take_along_axis(
    requirements: Requirements, a: object, indices: object, axis: object = -1
) -> object:
    """``mx.take_along_axis``: shapes broadcast except at the axis, whose size the indices give."""
    if axis is not None and not is_integer(axis):
        return ShapedArray(unknown_shape(), array_argument(requirements, a).dtype)
    array, found = array_argument(requirements, a), array_argument(requirements, indices)
    shape = flattened(array.shape) if axis is None else array.shape
    at = 0 if axis is None else axis_argument(requirements, axis, shape)
    made = _along(requirements, ShapedArray(shape, array.dtype), found, at, of_indices=True)
    return ShapedArray(made, array.dtype)


def _along(
    requirements: Requirements,
    array: ShapedArray,
    indices: ShapedArray,
    axis: int | None,
    *,
    of_indices: bool,
) -> ArrayShape:
    """Return the shape of two arrays broadcast except at an axis, whose size one of them gives."""
    shape, other = array.shape, indices.shape
    reason = f"the indices {other} and the array {shape} have different numbers of axes"
    requirements.same_rank(shape, other, reason)
    if shape.rank is not None:
        other = ArrayShape(requirements.rank(indices, shape.rank, reason))
    elif other.rank is not None:
        shape = ArrayShape(requirements.rank(array, other.rank, reason))
    axis = None if axis is None else axis_argument(requirements, axis, shape)
    if axis is None:
        return shape_of_rank(shape.rank)
    size = (other if of_indices else shape).size(axis)
    common = requirements.broadcast(replaced(shape, (axis,), (1,)), replaced(other, (axis,), (1,)))
    return replaced(common, (axis,), (size,))


@transfer("put_along_axis")
def put_along_axis(
    requirements: Requirements, a: object, indices: object, values: object, axis: object
) -> object:
    """``mx.put_along_axis``: the array's shape; indices and values broadcast except at the axis."""
    if axis is not None and not is_integer(axis):
        return ShapedArray(unknown_shape(), array_argument(requirements, a).dtype)
    array, found = array_argument(requirements, a), array_argument(requirements, indices)
    put = array_argument(requirements, values)
    flat = ShapedArray(flattened(array.shape), array.dtype) if axis is None else array
    at = 0 if axis is None else axis_argument(requirements, axis, flat.shape)
    rank = flat.shape.rank
    if rank is not None:
        reason = f"the indices {found.shape} and the array {flat.shape} have different ranks"
        found = ShapedArray(ArrayShape(requirements.rank(found, rank, reason)))
    if flat.shape.elements == 0:
        return array
    squeezed = without_leading_ones(requirements, put.shape, found.shape.rank)
    if squeezed is None:
        return array if axis is None else ShapedArray(unknown_shape(), array.dtype)
    common = ShapedArray(requirements.broadcast(found.shape, squeezed))
    made = _along(requirements, flat, common, at, of_indices=False)
    if axis is None:
        fits(requirements, made, flat.shape)
        return array
    return ShapedArray(made, array.dtype)


def without_leading_ones(
    requirements: Requirements, shape: ArrayShape, rank: int | None
) -> ArrayShape | None:
    """Return the shape with so many axes at most, the others being 1; None if that is unknown."""
    if rank is None or shape.sizes is None:
        return None
    many = max(0, len(shape.sizes) - rank)
    for size in shape.sizes[:many]:
        requirements.equal(size, 1, f"{shape} has more axes than {rank}")
    return ArrayShape(shape.sizes[many:])


@transfer("slice")
def slice_(
    requirements: Requirements, a: object, start_indices: object, axes: object, slice_size: object
) -> object:
    """``mx.slice``: a part of a given shape."""
    array = array_argument(requirements, a)
    _starts(requirements, array, start_indices, axes)
    target = shape_argument(requirements, slice_size)
    if target is None:
        return ShapedArray(shape_of_rank(array.shape.rank), array.dtype)
    if target.rank is None or array.shape.sizes is None:
        return ShapedArray(target, array.dtype)
    if target.rank != len(array.shape.sizes):
        requirements.fail(f"{target} has not as many axes as {array.shape}")
    for size, whole in zip(target.head, array.shape.sizes, strict=True):
        if at_least(size, add(whole, 1)):
            requirements.fail(f"{target} is larger than {array.shape}")
    return ShapedArray(target, array.dtype)


def _starts(
    requirements: Requirements, array: ShapedArray, start_indices: object, axes: object
) -> None:
    """Require a start for each of the axes."""
    starts = array_argument(requirements, start_indices)
    if starts.shape.least_rank > 1:
        requirements.fail(f"the starts have the shape {starts.shape}")
    if is_floating(starts.dtype) or starts.dtype in ("bool", "complex64"):
        requirements.fail(f"the starts are of {starts.dtype}")
    if is_integer(axes):
        requirements.refuse(f"{axes} isn't a sequence of axes")
    if isinstance(axes, (tuple, list)):
        if starts.shape.rank is not None:
            reason = f"{len(axes)} axes are named for starts of the shape {starts.shape}"
            requirements.equal(starts.shape.elements, len(axes), reason)
        if array.shape.rank is not None and len(axes) > array.shape.rank:
            requirements.fail(f"{array.shape} has fewer axes than {len(axes)}")
        axes_argument(requirements, axes, array.shape)


@transfer("slice_update")
def slice_update(
    requirements: Requirements, a: object, update: object, start_indices: object, axes: object
) -> object:
    """``mx.slice_update``: the array's shape."""
    array, part = array_argument(requirements, a), array_argument(requirements, update)
    _starts(requirements, array, start_indices, axes)
    whole, mine = array.shape.sizes, part.shape.sizes
    if whole is not None and mine is not None:
        if len(mine) > len(whole):
            requirements.fail(f"{part.shape} has more axes than {array.shape}")
        for size, most in zip(mine, whole[len(whole) - len(mine) :], strict=True):
            # A size of 1 is repeated, of which nothing is left where the array is empty.
            larger = size != 1 if type(size) is int else at_least(size, 2)
            if larger and at_least(size, add(most, 1)):
                requirements.fail(f"{part.shape} is larger than {array.shape}")
    return array
