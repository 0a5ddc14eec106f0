"""Members of arrays that no other module has: properties, assignments and ``x.at``."""

from __future__ import annotations

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    ANY_COMPLEX,
    ANY_FLOAT,
    UNKNOWN,
    ArrayShape,
    DTypeValue,
    ShapedArray,
    chained,
    floating,
    is_floating,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer, sizes_of
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer, multiply
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.creation import literal
from embercoach.analysis.shapes.table.elementwise import (
    ITEM_SIZES,
    array_argument,
    broadcast,
    dtype_of,
    operand,
)
from embercoach.analysis.shapes.table.indexing import (
    Entry,
    clamped,
    index_dtype,
    index_entries,
    kind_of,
)
from embercoach.analysis.shapes.table.joining_shapes import fits, slice_length


def _member(name: str) -> str:
    return f"mlx.core.array.{name}"


# Properties


@transfer(_member("shape"))
def shape(requirements: Requirements, a: object) -> object:
    """``x.shape``: a tuple of sizes."""
    return sizes_of(array_argument(requirements, a).shape)


@transfer(_member("ndim"))
def ndim(requirements: Requirements, a: object) -> object:
    """``x.ndim``."""
    rank = array_argument(requirements, a).shape.rank
    return ANY_INT if rank is None else rank


@transfer(_member("size"))
def size(requirements: Requirements, a: object) -> object:
    """``x.size``."""
    return array_argument(requirements, a).shape.elements


@transfer(_member("dtype"))
def dtype(requirements: Requirements, a: object) -> object:
    """``x.dtype``."""
    return DTypeValue(array_argument(requirements, a).dtype)


@transfer(_member("itemsize"))
def itemsize(requirements: Requirements, a: object) -> Integer:
    """``x.itemsize``."""
    found = array_argument(requirements, a).dtype
    return ITEM_SIZES[found] if isinstance(found, str) else ANY_INT


@transfer(_member("nbytes"))
def nbytes(requirements: Requirements, a: object) -> object:
    """``x.nbytes``."""
    elements = array_argument(requirements, a).shape.elements
    return multiply(elements, itemsize(requirements, a))


@transfer(_member("__len__"))
def length(requirements: Requirements, a: object) -> object:
    """``len(x)``: the size of the first axis."""
    found = array_argument(requirements, a).shape
    if found.rank == 0:
        requirements.fail("an array without axes has no length")
    return found.size(0)


@transfer(_member("item"))
def item(requirements: Requirements, a: object) -> object:
    """``x.item()``: a Python number, of one element."""
    array = array_argument(requirements, a)
    reason = f"{array.shape} has not one element"
    requirements.equal(array.shape.elements, 1, reason)
    if is_floating(array.dtype):
        return ANY_FLOAT
    if not isinstance(array.dtype, str):
        return UNKNOWN
    return {"bool": ANY_BOOL, "complex64": ANY_COMPLEX}.get(array.dtype, ANY_INT)


# Assignments


@transfer(_member("__setitem__"))
def setitem(requirements: Requirements, a: object, index: object, value: object) -> None:
    """``x[index] = value``: the value broadcasts to what is indexed."""
    array = array_argument(requirements, a)
    masks = _is_mask(requirements, index)
    if masks:
        _masked(requirements, array, index, operand(requirements, value).shape)
    elif masks is False:
        _updated(requirements, array, index, value)


def _is_mask(requirements: Requirements, index: object) -> bool | None:
    """Return whether MLX takes an index for a mask, None if that is unknown."""
    if isinstance(index, list):
        index = literal(requirements, index)
    if not isinstance(index, ShapedArray):
        return type(index) is bool
    known = isinstance(index.dtype, str) or is_floating(index.dtype)
    return index.dtype == "bool" if known else None


def _masked(
    requirements: Requirements, array: ShapedArray, index: object, value: ArrayShape
) -> None:
    """Require a mask to have the first axes of the array, and the value to fit the others."""
    mask = (
        operand(requirements, index)
        if not isinstance(index, list)
        else literal(requirements, index)
    )
    if mask.shape.sizes is None or array.shape.sizes is None:
        return
    known = len(mask.shape.sizes)
    reason = f"the mask {mask.shape} and the array {array.shape} don't begin alike"
    if known > len(array.shape.sizes):
        requirements.fail(reason)
    for m, n in zip(mask.shape.sizes, array.shape.sizes[:known], strict=True):
        requirements.equal(m, n, reason)
    rest = array.shape.sizes[known:]
    if value.sizes is None:
        return
    if len(value.sizes) > len(rest) + 1:
        requirements.fail(f"{value} has more axes than {ArrayShape(rest)} has, and one")
    if len(value.sizes) == len(rest) + 1:
        fits(requirements, ArrayShape(value.sizes[1:]), ArrayShape(rest))
    else:
        fits(requirements, value, ArrayShape((mask.shape.elements, *rest)))


def _updated(requirements: Requirements, array: ShapedArray, index: object, value: object) -> None:
    """Require a value to fit what is indexed."""
    found = operand(requirements, value).shape
    if index is None:
        fits(requirements, found, array.shape)
        return
    if index is Ellipsis:
        fits_squeezed(requirements, found, array.shape)
        return
    if isinstance(index, tuple):
        _updated_tuple(requirements, array, index, found)
        return
    kind = kind_of(requirements, index)
    if kind is None:
        return
    if array.shape.rank == 0:
        requirements.fail("an array without axes has no elements to index")
    if array.shape.sizes is None:
        return
    first, rest = array.shape.sizes[0], array.shape.sizes[1:]
    if kind == "array":
        indices = literal(requirements, index)
        index_dtype(requirements, [indices])
        if type(first) is int and first == 0:
            requirements.fail(f"the first axis of {array.shape} is empty")
        fits_squeezed(requirements, found, chained(indices.shape, ArrayShape(rest)))
        return
    size = _sliced(requirements, index, first)
    fits_squeezed(requirements, found, ArrayShape((size, *rest)))


def _sliced(requirements: Requirements, index: object, size: Integer) -> Integer:
    """Return how many elements of an axis an int or a slice selects."""
    if isinstance(index, slice):
        return clamped(requirements, index, size)
    if type(index) is int and type(size) is int:
        place = index + size if index < 0 else index
        return slice_length(place, place + 1, size)
    return 1 if is_integer(index) else ANY_INT


def fits_squeezed(requirements: Requirements, value: ArrayShape, target: ArrayShape) -> None:
    """Require a value to broadcast to a part; it may have more first axes, of size 1."""
    sizes = value.sizes
    if sizes is None or target.rank is None:
        return
    many = max(0, len(sizes) - target.rank)
    for size in sizes[:many]:
        requirements.equal(size, 1, f"{value} doesn't broadcast to {target}")
    fits(requirements, ArrayShape(sizes[many:]), target)


def _updated_tuple(
    requirements: Requirements, array: ShapedArray, index: tuple[object, ...], value: ArrayShape
) -> None:
    """``x[i, j] = value``."""
    found = index_entries(requirements, array.shape, index)
    if found is None or array.shape.sizes is None:
        return
    entries, rest = found
    spread: list[Entry] = []
    for entry in entries:
        if entry.kind == "block":
            full = slice(None)
            spread += [Entry("slice", full, ArrayShape((size,))) for size in entry.shape.head]
        else:
            spread.append(entry)
    gathers = any(entry.kind == "array" for entry in spread)
    if all(entry.kind == "none" for entry in spread):
        fits_squeezed(requirements, value, array.shape)
    elif gathers or array.shape.rank == 0:
        _scattered(requirements, spread, rest, value)
    else:
        _sliced_update(requirements, spread, rest, value)


def _sliced_update(
    requirements: Requirements, entries: list[Entry], rest: ArrayShape, value: ArrayShape
) -> None:
    """Require a value to fit a part that ints and slices select."""
    target = [
        _sliced(requirements, entry.index, entry.size) for entry in entries if entry.kind != "none"
    ]
    whole = ArrayShape((*target, *rest.head))
    sizes = value.sizes
    if sizes is None:
        return
    dropped = 0
    while dropped < min(len(sizes) - 1, len(sizes) - len(whole.head)) and sizes[dropped] == 1:
        dropped += 1
    update = list(sizes[dropped:])
    if len(update) > len(whole.head) and type(update[0]) is not int:
        return
    place = len(update) - len(rest.head) - 1
    expand: list[int] = []
    squeeze: list[int] = []
    for at in range(len(entries) - 1, -1, -1):
        kind = entries[at].kind
        if kind == "slice":
            place -= 1
        elif kind == "int" and place >= 0:
            expand.append(at - len(entries) - len(rest.head))
        elif kind == "none":
            if place >= 0:
                squeeze.append(at - len(entries) - len(rest.head))
            place -= 1
    made = _with_axes(requirements, update, expand, squeeze)
    if made is not None:
        fits(requirements, ArrayShape(tuple(made)), whole)


def _with_axes(
    requirements: Requirements, sizes: list[Integer], expand: list[int], squeeze: list[int]
) -> list[Integer] | None:
    """Return sizes with axes of 1 added at places of the result, and others removed."""
    rank = len(sizes) + len(expand)
    if any(not -rank <= at < 0 for at in (*expand, *squeeze)):
        requirements.fail("the value has fewer axes than its part")
    made = list(sizes)
    for at in sorted(one + rank for one in expand):
        made.insert(at, 1)
    for at in squeeze:
        requirements.equal(made[at], 1, "an axis of the value that stands for None is not 1")
    return [size for at, size in enumerate(made) if at - rank not in squeeze]


class _Scatter(Struct):
    """Where the axes of indices go, when MLX scatters."""

    widest: int
    arrays: int
    strided: int
    first: bool
    rank: int
    place: int = 0
    seen: int = 0


def _layout(requirements: Requirements, entries: list[Entry]) -> _Scatter:
    widest = arrays = strided = simple_after = others = 0
    seen = parted = first = False
    for entry in entries:
        if entry.kind in ("none", "slice"):
            parted = seen
            others += 1
        if isinstance(entry.index, slice):
            if entry.index.step in (None, 1):
                simple_after += 1
            else:
                strided, simple_after = strided + 1, 0
        elif isinstance(entry.index, ShapedArray):
            seen, simple_after = True, 0
            first = first or parted
            widest = max(widest, entry.index.shape.rank or 0)
            arrays += 1
    rank = widest + others - simple_after
    return _Scatter(widest, arrays, strided, first, rank or 1)


def _scattered(
    requirements: Requirements, entries: list[Entry], rest: ArrayShape, value: ArrayShape
) -> None:
    """Require a value to fit a part that arrays select."""
    arrays = [entry.index for entry in entries if isinstance(entry.index, ShapedArray)]
    index_dtype(requirements, arrays)
    steps = [entry.index.step for entry in entries if isinstance(entry.index, slice)]
    if any(one.shape.sizes is None for one in arrays) or any(
        type(step) is not int and step is not None for step in steps
    ):
        return
    layout = _layout(requirements, entries)
    shapes: list[ArrayShape] = []
    parts: list[Integer] = []
    for entry in entries:
        if not _scatter_entry(requirements, layout, entry, shapes, parts):
            return
    common = requirements.broadcast(*shapes)
    if common.sizes is None:
        return
    target = ArrayShape((*common.sizes, *parts, *rest.head))
    fits_squeezed(requirements, value, target)


def _scatter_entry(
    requirements: Requirements,
    layout: _Scatter,
    entry: Entry,
    shapes: list[ArrayShape],
    parts: list[Integer],
) -> bool:
    """Add the shape of the indices that MLX makes of an entry; return whether it is known."""
    axes: list[Integer] = [1] * layout.rank
    if entry.kind == "none":
        layout.place += 1
        return True
    simple = isinstance(entry.index, slice) and entry.index.step in (None, 1)
    simple = simple and layout.seen >= layout.arrays and layout.strided <= 0
    if type(entry.size) is int and entry.size == 0 and not simple:
        requirements.fail("an axis is empty")
    if isinstance(entry.index, slice):
        size = clamped(requirements, entry.index, entry.size)
        if simple:
            _not_backwards(requirements, entry.index, entry.size)
            parts.append(size)
        else:
            at = layout.place + (layout.widest if layout.first else 0)
            if at >= layout.rank:
                return False
            axes[at] = size
            layout.place += 1
            layout.strided -= 1
    elif isinstance(entry.index, ShapedArray):
        sizes = entry.index.shape.head
        at = (0 if layout.first else layout.place) + layout.widest - len(sizes)
        if at + len(sizes) > layout.rank:
            return False
        axes[at : at + len(sizes)] = sizes
        if not layout.first:
            layout.seen += 1
            if layout.seen == layout.arrays:
                layout.place += layout.widest
    else:
        axes = []
    shapes.append(ArrayShape(tuple(axes)))
    return True


def _not_backwards(requirements: Requirements, index: slice, size: Integer) -> None:
    """Require that a slice after arrays doesn't end before its start."""
    if type(size) is int and index.step in (None, 1):
        known = [one for one in (index.start, index.stop) if one is not None]
        if all(type(one) is int for one in known):
            start, stop, _ = index.indices(size)
            if stop < start:
                requirements.fail(f"the slice ends at {stop}, before its start {start}")


# ``x.at``


class ArrayAt(Struct, frozen=True):
    """``x.at``, and ``x.at[index]``."""

    array: ShapedArray
    index: object = None
    is_indexed: bool = False


@transfer(_member("at"))
def at_(requirements: Requirements, a: object) -> object:
    """``x.at``."""
    return ArrayAt(array_argument(requirements, a))


@transfer("mlx.core.ArrayAt.__getitem__")
def at_index(requirements: Requirements, at: object, index: object) -> object:
    """``x.at[index]``."""
    return ArrayAt(at.array, index, True) if isinstance(at, ArrayAt) else UNKNOWN


def _meets_whole(index: object, array: ShapedArray) -> bool | None:
    """Return whether MLX updates the whole array by an operator, which promotes dtypes."""
    if index is None or index is Ellipsis:
        return True
    if not isinstance(index, tuple) or not all(one in (None, Ellipsis) for one in index):
        return False
    return None if array.shape.rank is None and not array.shape.tail else array.shape.rank == 0


def _updated_array(requirements: Requirements, at: ArrayAt, value: object) -> ShapedArray:
    """Return the array that an update of its elements, or of its whole, gives."""
    if not at.is_indexed:
        requirements.fail("x.at has no index")
    _updated(requirements, at.array, at.index, value)
    whole = _meets_whole(at.index, at.array)
    if whole is False:
        return at.array
    dtype = broadcast(Requirements(), at.array, value).dtype
    return ShapedArray(at.array.shape, dtype if whole or dtype == at.array.dtype else None)


@transfer(*(f"mlx.core.ArrayAt.{name}" for name in ("add", "multiply", "maximum", "minimum")))
def at_add(requirements: Requirements, at: object, value: object) -> object:
    """``x.at[index].add(value)`` and the like: the shape of the array."""
    return _updated_array(requirements, at, value) if isinstance(at, ArrayAt) else UNKNOWN


@transfer("mlx.core.ArrayAt.subtract")
def at_subtract(requirements: Requirements, at: object, value: object) -> object:
    """``x.at[index].subtract(value)``: the negative of the value is added."""
    if not isinstance(at, ArrayAt):
        return UNKNOWN
    # A Python bool takes the dtype of the array.
    negated = dtype_of(value) == "bool" and (type(value) is not bool or at.array.dtype == "bool")
    if negated and _meets_whole(at.index, at.array) is False:
        requirements.fail("bool has no negative")
    return _updated_array(requirements, at, value)


@transfer("mlx.core.ArrayAt.divide")
def at_divide(requirements: Requirements, at: object, value: object) -> object:
    """``x.at[index].divide(value)``: floating where all of the array is divided."""
    if not isinstance(at, ArrayAt):
        return UNKNOWN
    found = _updated_array(requirements, at, value)
    whole = _meets_whole(at.index, at.array)
    dtype = floating(found.dtype)
    if whole is None and dtype != found.dtype:
        return ShapedArray(found.shape)
    return ShapedArray(found.shape, dtype) if whole else found
