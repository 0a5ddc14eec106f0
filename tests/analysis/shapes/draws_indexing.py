"""Draws of indices: ``x[...]``, assignments, ``x.at`` and functions that take indices."""

from __future__ import annotations

from typing import Any

from embercoach.analysis.shapes.arrays import ShapedArray
from embercoach.analysis.shapes.requirements import Requirements
from embercoach.analysis.shapes.table import TRANSFERS
from embercoach.analysis.shapes.table.array_members import at_, at_index
from tests.analysis.shapes.oracle import DTYPES, INTS, Call, Draw, draws


def in_range(draw: Draw, size: int) -> int:
    """An int that is an index, mostly."""
    if draw.chance(0.07) or not size:
        draw.may_raise = True
        return draw.randint(-8, 8)
    draw.may_raise |= draw.chance(0.7)  # it is one of the known size, of a symbol only sometimes
    return draw.randrange(-size, size)


def a_slice(draw: Draw) -> slice:
    def bound() -> Any:
        kind = draw.random()
        if kind < 0.4:
            return None
        return draw.randint(-4, 6) if kind < 0.8 else draw.size()

    return slice(bound(), bound(), draw.choice((None, None, None, 1, 2, 3, -1, -2)))


def indices_array(draw: Draw, shape: tuple[int, ...]) -> Any:
    if draw.chance(0.15):
        return [draw.randint(0, 2) for _ in range(draw.randint(1, 3))]
    wrong = draw.chance(0.05)
    return draw.array(draw.broadcasting(shape), draw.choice(DTYPES if wrong else INTS[:6]))


def an_index(draw: Draw, shape: tuple[int, ...]) -> Any:
    """An index of any kind."""
    kind = draw.random()
    first = shape[0] if shape else 0
    if kind < 0.12:
        return in_range(draw, first)
    if kind < 0.25:
        return a_slice(draw)
    if kind < 0.29:
        return draw.choice(
            (None, ..., True if draw.wrong() else None, 0.5 if draw.wrong() else ...)
        )
    if kind < 0.4:
        return indices_array(draw, draw.shape(most=2))
    return tuple_index(draw, shape)


def tuple_index(draw: Draw, shape: tuple[int, ...]) -> tuple[Any, ...]:
    many = draw.randint(0, len(shape) + (1 if draw.wrong() else 0))
    with_arrays = draw.chance(0.4)
    common = draw.shape(most=2)
    found: list[Any] = []
    for at in range(many):
        size = shape[at] if at < len(shape) else 2
        kind = draw.random()
        if with_arrays and kind < 0.4:
            found.append(indices_array(draw, common))
        elif kind < 0.55:
            found.append(in_range(draw, size))
        else:
            found.append(a_slice(draw) if draw.chance(0.7) else slice(None))
    if draw.chance(0.25):
        found.insert(draw.randint(0, len(found)), None)
    if draw.chance(0.3):
        draw.may_raise = True  # the ints may be for other axes now
        found.insert(draw.randint(0, len(found)), ...)
        if draw.chance(0.1):
            found.append(...)
    return tuple(found)


@draws("mlx.core.array.__getitem__")
def getitem(draw: Draw) -> Call:
    x = draw.array()
    return (x, an_index(draw, x.shape.head)), {}


def stored(draw: Draw, x: ShapedArray, index: Any) -> Any:
    """A value that fits what is indexed, mostly."""
    parts = index if isinstance(index, tuple) else (index,)
    bounded = [one for one in parts if isinstance(one, slice) and one != slice(None)]
    draw.may_raise |= bool(bounded) or any(map(is_array, parts))
    if draw.chance(0.3):
        return draw.number()
    requirements = Requirements()
    try:
        part = TRANSFERS["mlx.core.array.__getitem__"](requirements, x, index).shape.head
    except Exception:  # noqa: BLE001
        part = ()
    shape = part if all(type(n) is int for n in part) else ()
    shape = draw.broadcasting(shape)
    if draw.chance(0.1):
        shape = (1, *shape)
    # Neither what comes before the part's axes nor "equal, or either is 1" says all.
    draw.may_raise |= len(shape) > len(part) or 1 in part
    return draw.array(shape)


def assigned_index(draw: Draw, shape: tuple[int, ...]) -> Any:
    """An index of an assignment, without those that MLX 0.32.4 gets wrong."""
    while True:
        index = an_index(draw, shape)
        outside = type(index) is int and shape and not -shape[0] <= index < shape[0]
        if not outside and not is_broken(index):
            return index


def is_array(index: Any) -> bool:
    return isinstance(index, (ShapedArray, list))


def is_broken(index: Any) -> bool:
    """Whether MLX crashes, writes outside its own arrays, or counts negative ints wrong."""
    if isinstance(index, ShapedArray):
        return index.dtype == "bool"
    if not isinstance(index, tuple):
        return False
    arrays = [at for at, one in enumerate(index) if is_array(one)]
    if any(one.dtype == "bool" for one in index if isinstance(one, ShapedArray)):
        return True
    if None in index and any(isinstance(one, int) and one < 0 for one in index):
        return True
    return bool(arrays) and len(arrays) <= arrays[-1] - arrays[0]


def assign(x: Any, index: Any, value: Any) -> None:
    x[index] = value


@draws("mlx.core.array.__setitem__", run=assign)
def setitem(draw: Draw) -> Call:
    x = draw.array()
    head = x.shape.head
    if draw.chance(0.1):
        mask = draw.array(head[: draw.randint(0, len(head))], "bool")
        index: Any = draw.choice((True, mask, mask, [True, False]))
    else:
        index = assigned_index(draw, head)
    return (x, index, stored(draw, x, index)), {}


def draw_at(draw: Draw) -> Call:
    x = draw.array()
    index = assigned_index(draw, x.shape.head)
    while isinstance(index, list) or index is True:
        index = assigned_index(draw, x.shape.head)
    return (x, index, stored(draw, x, index)), {}


def _register_at(name: str) -> None:
    def run(x: Any, index: Any, value: Any) -> Any:
        return getattr(x.at[index], name)(value)

    def infer(requirements: Requirements, x: Any, index: Any, value: Any) -> Any:
        indexed = at_index(requirements, at_(requirements, x), index)
        return TRANSFERS[f"mlx.core.ArrayAt.{name}"](requirements, indexed, value)

    draws(f"mlx.core.ArrayAt.{name}", run=run, infer=infer)(draw_at)


for _name in ("add", "subtract", "multiply", "divide", "maximum", "minimum"):
    _register_at(_name)


@draws("take")
def take(draw: Draw) -> Call:
    x = draw.array()
    axis = draw.axis(x)
    size = x.shape.head[axis] if -len(x.shape.head) <= axis < len(x.shape.head) else 1
    index = in_range(draw, size) if draw.chance(0.3) else indices_array(draw, draw.shape(most=2))
    return (x, index), draw.maybe(0.8, axis=axis)


def along(draw: Draw, x: ShapedArray, axis: int) -> ShapedArray:
    shape = list(draw.broadcasting(x.shape.head) if draw.chance(0.4) else x.shape.head)
    if -len(shape) <= axis < len(shape):
        shape[axis] = draw.length()
    return draw.array(tuple(shape), draw.choice(INTS))


@draws("take_along_axis")
def take_along_axis(draw: Draw) -> Call:
    x = draw.array()
    axis = draw.axis(x)
    if draw.chance(0.15):
        return (x, draw.array(least=1, most=1, dtype="int32")), {}
    return (x, along(draw, x, axis)), {"axis": axis}


@draws("put_along_axis", may_raise=True)
def put_along_axis(draw: Draw) -> Call:
    # Of an empty array MLX looks at nothing else.
    x = draw.array(tuple(n or 1 for n in draw.shape()))
    axis = draw.axis(x)
    if draw.chance(0.15):
        indices = draw.array(least=1, most=1, dtype="int32")
        return (x, indices, draw.array(indices.shape.head), None), {}
    indices = along(draw, x, axis)
    return (x, indices, draw.array(draw.broadcasting(indices.shape.head)), axis), {}


def starts(draw: Draw, x: ShapedArray) -> tuple[ShapedArray, tuple[int, ...]]:
    rank = len(x.shape.head)
    axes = tuple(draw.sample(range(rank), draw.randint(0, rank)))
    if draw.chance(0.05):
        axes = (*axes, draw.axis(rank))
    many = len(axes) + (1 if draw.chance(0.06) else 0)
    wrong = draw.chance(0.05)
    shape = () if many == 1 and draw.chance(0.3) else (many,)
    return draw.array(shape, draw.choice(DTYPES if wrong else INTS)), axes


@draws("slice", may_raise=True)
def slice_(draw: Draw) -> Call:
    x = draw.array()
    where_, axes = starts(draw, x)
    sizes = tuple(draw.randint(0, n + (1 if draw.chance(0.1) else 0)) for n in x.shape.head)
    if draw.chance(0.05):
        sizes = (*sizes, 1)
    return (x, where_, axes, draw.sizes(sizes)), {}


@draws("slice_update", may_raise=True)
def slice_update(draw: Draw) -> Call:
    x = draw.array()
    where_, axes = starts(draw, x)
    sizes = tuple(draw.randint(min(1, n), n + (1 if draw.chance(0.1) else 0)) for n in x.shape.head)
    return (x, draw.array(sizes[draw.choice((0, 0, 1)) :]), where_, axes), {}
