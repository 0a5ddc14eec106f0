"""Draws of calls of ``mlx.core``: element by element, along axes, of shapes and of chance."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from embercoach.analysis.shapes.arrays import DTypeValue, ShapedArray
from tests.analysis.shapes.oracle import DTYPES, FLOATS, INTS, Call, Draw, Size, draws


def dtype_value(draw: Draw, among: tuple[str, ...] = DTYPES) -> Any:
    return DTypeValue(draw.choice(DTYPES if draw.wrong() else among))


def methods(*names: str) -> tuple[str, ...]:
    return tuple(f"mlx.core.array.{name}" for name in names)


# Element by element


@draws("abs", "acos", "arccosh", "exp", "log", "log2", "sqrt", "sin", "tan", "tanh", "asinh")
@draws("square", "sign", "negative", "floor", "ceil", "real", "imag", "conjugate", "conj")
@draws("isnan", "isinf", "isfinite", "isneginf", "isposinf", "erf", "erfinv", "expm1", "sigmoid")
@draws("logical_not", "bitwise_invert", "degrees", "radians", "reciprocal", "rsqrt", "arctanh")
@draws("acosh", "arccos", "arcsin", "arcsinh", "arctan", "asin", "atan", "atanh", "cos", "cosh")
@draws("log10", "log1p", "sinh")
def unary(draw: Draw) -> Call:
    return (draw.number() if draw.chance(0.15) else draw.array(),), {}


@draws("positive", "stop_gradient", "trunc", "contiguous", "to_fp8")
@draws(*methods("abs", "__abs__", "__neg__", "__pos__", "__invert__", "conj", "cos", "exp", "log"))
@draws(*methods("log10", "log1p", "log2", "reciprocal", "rsqrt", "sin", "sqrt", "square"))
@draws(*methods("T", "mT", "shape", "ndim", "size", "dtype", "itemsize", "nbytes", "real", "imag"))
@draws(*methods("__copy__"), "matrix_transpose")
@draws(*methods("__len__"))
def of_array(draw: Draw) -> Call:
    return (draw.array(),), {}


@draws("mlx.core.array.item", open_sizes=True)
def item(draw: Draw) -> Call:
    shape = draw.shape() if draw.wrong() else (1,) * draw.rank()
    return (draw.array(shape),), {}


@draws("round", *methods("round"))
def rounding(draw: Draw) -> Call:
    return (draw.array(), *((draw.randint(-1, 3),) if draw.chance() else ())), {}


@draws("nan_to_num")
def replacing(draw: Draw) -> Call:
    values = draw.maybe(0.5, nan=0.5, posinf=1.0, neginf=draw.choice((None, 2.0)))
    return (draw.number() if draw.wrong() else draw.array(),), values


@draws("from_fp8")
def from_fp8(draw: Draw) -> Call:
    array = draw.array(dtype="float32" if draw.wrong() else "uint8")
    return (array,), draw.maybe(0.5, dtype=dtype_value(draw, FLOATS))


def operands(draw: Draw) -> tuple[Any, Any]:
    """Two arrays that mostly broadcast, or an array and a number."""
    a = draw.array()
    kind = draw.random()
    if kind < 0.2:
        pair = (a, draw.number())
        return pair if draw.chance() else pair[::-1]
    if kind < 0.24:
        return draw.number(), draw.number()
    b = draw.array(draw.broadcasting(a.shape.head))
    return (a, b) if draw.chance() else (b, a)


BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "pow")


@draws(*BINARY, "floor_divide", "remainder", "divmod", "logaddexp", "arctan2", "atan2")
@draws("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
@draws("logical_and", "logical_or", "logical_xor", "array_equal")
def binary(draw: Draw) -> Call:
    return operands(draw), {}


@draws("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
@draws("bitwise_left_shift", "bitwise_right_shift")
def integral(draw: Draw) -> Call:
    a, b = (
        ShapedArray(one.shape, draw.dtype((*INTS, "bool")))
        if isinstance(one, ShapedArray) and not draw.wrong()
        else one
        for one in operands(draw)
    )
    return (a, b), {}


def operator_names(*names: str) -> tuple[str, ...]:
    return methods(*(f"__{name}__" for name in names))


@draws(*operator_names("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "radd", "rsub"))
@draws(*operator_names("eq", "ne", "lt", "le", "gt", "ge", "rmul", "rtruediv", "rmod", "rpow"))
@draws(*operator_names("and", "or", "xor", "lshift", "rshift", "iadd", "isub", "imul", "ipow"))
@draws(*operator_names("div", "rdiv", "iand", "ior", "ixor", "ilshift", "irshift", "rfloordiv"))
@draws(*operator_names("ifloordiv", "imod", "itruediv"))
def operator(draw: Draw) -> Call:
    a = draw.array(dtype=draw.choice(INTS) if draw.chance() else "")
    if draw.chance(0.3):
        return (a, draw.choice(("a", [1]))) if draw.wrong() else (a, draw.number()), {}
    return (a, draw.array(draw.broadcasting(a.shape.head), a.dtype * draw.chance())), {}


@draws("isclose", "allclose", "kron")
def two_arrays(draw: Draw) -> Call:
    a = draw.array()
    return (a, draw.array(draw.broadcasting(a.shape.head))), {}


@draws("vecdot")
def vecdot(draw: Draw) -> Call:
    a = draw.array()
    same = draw.broadcasting(a.shape.head) if draw.chance(0.4) else a.shape.head
    return (a, draw.array(same)), draw.maybe(0.6, axis=draw.axis(a))


@draws("result_type")
def result_type(draw: Draw) -> Call:
    pair = operands(draw) if draw.wrong() else (draw.array(), draw.array(), dtype_value(draw))
    return pair[: draw.randint(0, 3)], {}


@draws("where", may_raise=True)
def where(draw: Draw) -> Call:
    x, y = operands(draw)
    shape = x.shape.head if isinstance(x, ShapedArray) else ()
    condition = True if draw.chance(0.1) else draw.array(draw.broadcasting(shape), "bool")
    return (condition, x, y), {}


@draws("clip", may_raise=True)
def clip(draw: Draw) -> Call:
    a = draw.array()

    def bound() -> Any:
        if draw.chance(0.2):
            return None
        return draw.number() if draw.chance() else draw.array(draw.broadcasting(a.shape.head))

    return (a, bound(), bound()), {}


@draws("astype", "view", *methods("astype", "view"))
def cast(draw: Draw) -> Call:
    return (draw.array(dtype=draw.choice(DTYPES)), DTypeValue(draw.choice(DTYPES))), {}


# Along axes

REDUCTIONS = ("sum", "prod", "mean", "max", "min", "all", "any", "logsumexp")


@draws(*REDUCTIONS, "median", "minmax", *methods(*REDUCTIONS))
def reduction(draw: Draw) -> Call:
    x = draw.array()
    if draw.chance(0.5):
        return (x, draw.axes(x), *((draw.chance(),) if draw.chance() else ())), {}
    return (x,), draw.maybe(0.6, axis=draw.axes(x), keepdims=draw.chance())


@draws("count_nonzero")
def counting(draw: Draw) -> Call:
    x = draw.array()
    return (x,), draw.maybe(0.6, axis=draw.axes(x), keepdims=draw.chance())


@draws("var", "std", *methods("var", "std"))
def variance(draw: Draw) -> Call:
    args, kwargs = counting(draw)
    return args, kwargs | draw.maybe(0.5, ddof=1)


@draws("argmax", "argmin", *methods("argmax", "argmin"))
def place(draw: Draw) -> Call:
    x = draw.array()
    axis = draw.choice((None, draw.axis(x), draw.axis(x)))
    return (x,), draw.maybe(0.7, axis=axis, keepdims=draw.chance())


@draws("softmax")
def softmax(draw: Draw) -> Call:
    x = draw.array()
    if draw.chance(0.2):
        x = draw.array((1, *x.shape.head[1:]), x.dtype)
    axes = draw.axes(x)
    if draw.chance(0.3):
        axes = tuple(range(len(x.shape.head)))
    # Of an empty array MLX doesn't look at the axes, and of one axis not at (-1, 0).
    if 0 in x.shape.head or (len(x.shape.head) == 1 and not isinstance(axes, int)):
        axes = None
    return (x,), draw.maybe(0.8, axis=axes, precise=draw.chance())


@draws("sort", "argsort", "cummax", "cummin", "logcumsumexp")
@draws(*methods("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"))
def scan(draw: Draw) -> Call:
    x = draw.array()
    return (x,), draw.maybe(0.8, axis=draw.choice((None, draw.axis(x), draw.axis(x))))


@draws("cumsum", "cumprod", "cumulative_sum", "cumulative_prod")
def scan_in_dtype(draw: Draw) -> Call:
    args, kwargs = scan(draw)
    return args, kwargs | draw.maybe(0.3, dtype=dtype_value(draw), reverse=True)


@draws("partition", "argpartition", "topk", may_raise=True)
def selection(draw: Draw) -> Call:
    x = draw.array()
    axis = draw.choice((None, draw.axis(x), draw.axis(x), -1))
    return (x, draw.randint(-2, 4)), draw.maybe(0.7, axis=axis)


@draws("searchsorted")
def searchsorted(draw: Draw) -> Call:
    many = draw.array() if draw.wrong() else draw.array((draw.length(),))
    side = draw.choice(("left", "right", "right", "x" if draw.wrong() else "left"))
    return (many, draw.array()), draw.maybe(0.5, side=side)


@draws("diff")
def diff(draw: Draw) -> Call:
    x = draw.array()
    return (x,), draw.maybe(0.6, axis=draw.axis(x), n=draw.choice((0, 1, 2, 3, -1)))


@draws("unique")
def unique(draw: Draw) -> Call:
    x = draw.array()
    size = draw.choice((draw.size(), draw.size(), -1))
    flags = draw.maybe(0.4, return_index=True, return_inverse=True, return_counts=True)
    return (x, size), flags | draw.maybe(0.4, fill_value=0)


# Shapes


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0] or [draw_nothing]


#: In place of a divisor of nothing.
draw_nothing = 2


def reshape_target(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of as many elements, mostly."""
    number = 1
    for n in shape:
        number *= n
    if draw.chance(0.3) and len(shape) > 1:  # merge or split axes as programs do
        at = draw.randrange(len(shape) - 1)
        target = [*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]]
    elif draw.chance(0.4) and shape:
        at = draw.randrange(len(shape))
        part = draw.choice(divisors(shape[at]))
        target = [*shape[:at], part, shape[at] // part, *shape[at + 1 :]]
    else:
        target = []
        left = number
        for _ in range(draw.randint(0, 3)):
            target.append(draw.choice(divisors(left)))
            left //= target[-1]
        target.append(left)
    if draw.chance(0.4) and target:
        target[draw.randrange(len(target))] = -1
    if draw.wrong():
        target.insert(0, draw.choice((-1, 2, 3)))
    return tuple(target)


@draws("reshape")
def reshape(draw: Draw) -> Call:
    x = draw.array()
    target = draw.sizes(reshape_target(draw, x.shape.head))
    draw.may_raise = len(target) + len(x.shape.head) > 7  # no product of so many factors is known
    return (x, list(target) if draw.chance(0.1) else target), {}


@draws("mlx.core.array.reshape")
def reshape_method(draw: Draw) -> Call:
    (x, target), _ = reshape(draw)
    # Without arguments MLX 0.32.4 crashes.
    return (x, *target) if target and draw.chance(0.7) else (x, target), {}


@draws("flatten", *methods("flatten"))
def flatten(draw: Draw) -> Call:
    x = draw.array()
    return (x,), draw.maybe(0.6, start_axis=draw.axis(x), end_axis=draw.axis(x))


@draws("unflatten")
def unflatten(draw: Draw) -> Call:
    x = draw.array(least=0 if draw.wrong() else 1)
    axis = draw.axis(x)
    rank = len(x.shape.head)
    size = x.shape.head[axis] if -rank <= axis < rank else 4
    target = reshape_target(draw, (size,))
    if -1 in target and 0 in target:  # MLX divides by zero
        target = (size,)
    return (x, axis, draw.sizes(target)), {}


@draws("squeeze", *methods("squeeze"))
def squeeze(draw: Draw) -> Call:
    shape = draw.shape()
    axes = draw.axes(len(shape))
    ones = [axes] if isinstance(axes, int) else axes or ()
    if not draw.wrong():
        in_range = {one % len(shape) for one in ones if shape}
        shape = tuple(1 if at in in_range else n for at, n in enumerate(shape))
    return (draw.array(shape),), draw.maybe(0.9, axis=axes)


@draws("expand_dims")
def expand_dims(draw: Draw) -> Call:
    x = draw.array(most=4)
    rank = len(x.shape.head)
    if draw.chance():
        return (x, draw.axis(rank, 1)), {}
    many = draw.randint(0, 3)
    return (x, tuple(draw.axis(rank, many) for _ in range(many))), {}


@draws("transpose", "permute_dims")
def transpose(draw: Draw) -> Call:
    x = draw.array()
    rank = len(x.shape.head)
    axes = draw.sample(range(rank), rank)
    axes = [one - rank if draw.chance(0.2) else one for one in axes]
    if draw.wrong():
        axes = axes[1:] if draw.chance() else [*axes, draw.axis(rank)]
    elif draw.wrong() and axes:
        axes[0] = draw.axis(rank)
    return (x, draw.choice((tuple(axes), tuple(axes), axes, None))), {}


@draws("mlx.core.array.transpose")
def transpose_method(draw: Draw) -> Call:
    (x, axes), _ = transpose(draw)
    if axes is None:
        return (x,), {}
    return (x, *axes) if draw.chance(0.7) else (x, axes), {}


@draws("swapaxes", "moveaxis", *methods("swapaxes", "moveaxis"))
def two_axes(draw: Draw) -> Call:
    x = draw.array()
    return (x, draw.axis(x), draw.axis(x)), {}


def alike(draw: Draw, *, beside: bool) -> tuple[list[ShapedArray], int]:
    """Arrays of shapes that are equal, but for one axis."""
    shape = draw.shape(0 if draw.wrong() else 1)
    axis = draw.axis(len(shape))
    arrays = []
    for _ in range(draw.choice((1, 2, 2, 3)) if not draw.chance(0.02) else 0):
        sizes = list(shape)
        if beside and -len(sizes) <= axis < len(sizes):
            sizes[axis] = draw.length()
        if draw.chance(0.06) and sizes:
            sizes[draw.randrange(len(sizes))] = draw.length()
        if draw.chance(0.03):
            sizes.append(2)
        arrays.append(draw.array(tuple(sizes)))
    return arrays, axis


@draws("concatenate", "concat")
def concatenate(draw: Draw) -> Call:
    arrays, axis = alike(draw, beside=True)
    axis_ = None if draw.chance(0.1) else axis
    return (arrays if draw.chance() else tuple(arrays),), draw.maybe(0.9, axis=axis_)


@draws("stack")
def stack(draw: Draw) -> Call:
    arrays, axis = alike(draw, beside=False)
    return (arrays,), draw.maybe(0.7, axis=axis)


@draws("split", *methods("split"))
def split(draw: Draw) -> Call:
    x = draw.array()
    axis = draw.axis(x)
    rank = len(x.shape.head)
    size = x.shape.head[axis] if -rank <= axis < rank else 4
    parts: Any = draw.choice((*divisors(size), draw.randint(-1, 4)))
    if draw.chance():
        parts = sorted(draw.randint(0, 7) for _ in range(draw.randint(0, 3)))
        if draw.chance(0.2):
            parts.append(draw.randint(-3, 6))
        parts = tuple(parts) if draw.chance(0.3) else parts
        parts = type(parts)(Size(one) if one > 0 and draw.chance() else one for one in parts)
    return (x, parts), {"axis": axis}


@draws("unstack", open_sizes=True)
def unstack(draw: Draw) -> Call:
    x = draw.array()
    return (x,), draw.maybe(0.7, axis=draw.axis(x))


@draws("broadcast_to")
def broadcast_to(draw: Draw) -> Call:
    target = draw.shape()
    x = draw.array(draw.broadcasting(target)) if draw.chance(0.9) else draw.number()
    if draw.chance(0.04):
        target = (-1, *target)
    draw.may_raise = 1 in target  # "equal, or either is 1" says less
    return (x, draw.sizes(target)), {}


@draws("atleast_1d", "atleast_2d", "atleast_3d")
def several(draw: Draw) -> Call:
    return tuple(draw.array(most=3) for _ in range(draw.randint(0, 3))), {}


@draws("broadcast_arrays", may_raise=True)
def broadcast_arrays(draw: Draw) -> Call:
    first = draw.shape()
    many = draw.randint(0, 3)
    return tuple(draw.array(draw.broadcasting(first)) for _ in range(many)), {}


@draws("broadcast_shapes", may_raise=True)
def shapes(draw: Draw) -> Call:
    first = draw.shape()
    more = [draw.sizes(draw.broadcasting(first)) for _ in range(draw.randint(0, 2))]
    return (draw.sizes(first), *more), {}


@draws("meshgrid")
def meshgrid(draw: Draw) -> Call:
    args, _ = several(draw)
    indexing = draw.choice(("xy", "ij", "ij", "x" if draw.wrong() else "xy"))
    return args, draw.maybe(0.5, sparse=draw.chance(), indexing=indexing)


@draws("depends")
def depends(draw: Draw) -> Call:
    x = draw.array()
    return (x, draw.array()) if draw.chance() else ([x, draw.array()], [draw.array()]), {}


@draws("repeat")
def repeat(draw: Draw) -> Call:
    x = draw.array()
    times = draw.choice((draw.size(), draw.size(), -1))
    return (x, times), draw.maybe(0.8, axis=draw.choice((None, draw.axis(x), draw.axis(x))))


@draws("tile")
def tile(draw: Draw) -> Call:
    x = draw.array(most=4)
    reps = tuple(Size(draw.choice((1, 1, 2, 3, 0))) for _ in range(draw.rank(most=4)))
    if draw.chance(0.05):
        reps = (-1, *reps)
    return (x, reps[0] if reps and draw.chance(0.2) else reps), {}


@draws("flip")
def flip(draw: Draw) -> Call:
    x = draw.array()
    return (x,), draw.maybe(0.8, axis=draw.axes(x))


@draws("roll")
def roll(draw: Draw) -> Call:
    x = draw.array()
    axes = draw.axes(x)
    axes = tuple(axes) if isinstance(axes, list) else axes
    many = len(axes) if isinstance(axes, tuple) else 2
    if draw.wrong():
        many -= 1
    shift = draw.randint(-3, 3) if draw.chance() else (1,) * max(many, 1)
    return (x, shift) if axes is None else (x, shift, axes), {}


@draws("pad")
def pad(draw: Draw) -> Call:
    x = draw.array(least=0 if draw.wrong() else 1)
    rank = len(x.shape.head)
    kind = draw.randrange(4)

    def width() -> int:
        return draw.choice((Size(0), Size(1), Size(2), 0, 1, 2, -1 if draw.wrong() else 0))

    many = draw.randint(0, 4) if draw.wrong() else rank
    widths: Any = (
        width(),
        (width(),),
        (width(), width()),
        [(width(), width()) for _ in range(many)],
    )[kind]
    mode = draw.choice(
        ("constant", "edge", "reflect", "symmetric", "x" if draw.wrong() else "edge")
    )
    return (x, widths), draw.maybe(0.4, mode=mode)


@draws("diagonal", *methods("diagonal"))
def diagonal(draw: Draw) -> Call:
    x = draw.array(least=0 if draw.wrong() else 2)
    axes = draw.maybe(0.6, axis1=draw.axis(x), axis2=draw.axis(x))
    return (x,), draw.maybe(0.6, offset=draw.randint(-3, 3)) | axes


@draws("trace")
def trace(draw: Draw) -> Call:
    args, kwargs = diagonal(draw)
    return args, kwargs | draw.maybe(0.3, dtype=dtype_value(draw))


@draws("diag", "tril", "triu", *methods("diag"))
def of_diagonal(draw: Draw) -> Call:
    least = 0 if draw.wrong() else 1
    return (draw.array(least=least, most=3),), draw.maybe(0.6, k=draw.randint(-3, 3))


@draws("as_strided")
def as_strided(draw: Draw) -> Call:
    shape = draw.shape()
    if draw.wrong():
        shape = (-1, *shape)
    if draw.chance():
        return (draw.array(), draw.sizes(shape), (1,) * len(shape)), {}
    return (draw.array(),), draw.maybe(0.7, shape=draw.sizes(shape))


# Creation


def a_shape(draw: Draw) -> Any:
    shape = draw.shape()
    if draw.chance(0.06):
        shape = (-1, *shape)
    return draw.sizes(shape) if draw.chance(0.85) else list(draw.sizes(shape))


@draws("zeros", "ones", "empty")
def zeros(draw: Draw) -> Call:
    shape = draw.size() if draw.chance(0.2) else a_shape(draw)
    return (shape,), draw.maybe(0.5, dtype=draw.choice((dtype_value(draw), None)))


@draws("zeros_like", "ones_like", "empty_like")
def zeros_like(draw: Draw) -> Call:
    return (draw.number() if draw.wrong() else draw.array(),), draw.maybe(
        0.4, dtype=dtype_value(draw)
    )


@draws("full")
def full(draw: Draw) -> Call:
    shape = draw.shape()
    draw.may_raise = 1 in shape
    value = draw.number() if draw.chance() else draw.array(draw.broadcasting(shape))
    return (draw.sizes(shape), value), draw.maybe(0.4, dtype=dtype_value(draw))


@draws("full_like")
def full_like(draw: Draw) -> Call:
    x = draw.array()
    value = draw.number() if draw.chance() else draw.array(draw.broadcasting(x.shape.head))
    return (x, value), draw.maybe(0.4, dtype=dtype_value(draw))


@draws("eye", "tri")
def eye(draw: Draw) -> Call:
    size = draw.choice((draw.size(), draw.size(), -1 if draw.wrong() else 3))
    given = draw.maybe(0.5, m=draw.choice((None, draw.size())), k=draw.randint(-3, 3))
    return (size,), given | draw.maybe(0.3, dtype=dtype_value(draw))


@draws("identity")
def identity(draw: Draw) -> Call:
    return (draw.choice((draw.size(), draw.size(), -1)),), draw.maybe(0.4, dtype=dtype_value(draw))


@draws("hanning", "hamming", "blackman", "bartlett")
def window(draw: Draw) -> Call:
    return (draw.choice((draw.size(), draw.size(), -1)),), {}


@draws("arange")
def arange(draw: Draw) -> Call:
    def number() -> Any:
        return draw.choice((draw.size(), draw.size(), draw.randint(-3, 6), 2.5))

    given = (number(),) if draw.chance(0.3) else (number(), number())
    step = draw.choice((None, 1, 2, -1, 0.5, 0 if draw.wrong() else 3))
    if len(given) == 2 and draw.chance():
        given = (*given, step)
    return given, draw.maybe(0.4, dtype=draw.choice((dtype_value(draw), None)))


@draws("linspace")
def linspace(draw: Draw) -> Call:
    num = draw.choice((draw.size(), draw.size(), -1 if draw.wrong() else 7))
    return (0, 1), draw.maybe(0.6, num=num, endpoint=draw.chance(), dtype=dtype_value(draw))


def nested(draw: Draw, depth: int = 0) -> Any:
    """A number, an array or lists of these, which are mostly uniform."""
    kind = draw.random()
    if depth == 0 and kind < 0.2:
        return draw.array() if draw.chance() else draw.number()
    shape = draw.shape(1, 2)
    of_arrays = draw.chance(0.3)
    part, dtype = draw.shape(most=2), draw.dtype()

    def filled(sizes: tuple[int, ...]) -> Any:
        if not sizes:
            return draw.array(part, dtype if draw.chance() else "") if of_arrays else draw.number()
        many = draw.length() if draw.chance(0.03) else sizes[0]
        kind = list if draw.chance(0.7) else tuple
        return kind(filled(sizes[1:]) for _ in range(many))

    return filled(shape)


@draws("asarray", "array")
def array(draw: Draw) -> Call:
    return (nested(draw),), draw.maybe(0.3, dtype=dtype_value(draw))


# Chance


def key(draw: Draw) -> dict[str, Any]:
    if draw.chance(0.6):
        return {}
    if draw.wrong():
        return {"key": draw.array(most=1, dtype=draw.choice(("uint32", "int32")))}
    return {"key": draw.choice((draw.array((2,), "uint32"), None))}


def a_bound(draw: Draw, shape: tuple[int, ...]) -> Any:
    return 0.5 if draw.chance(0.6) else draw.array(draw.broadcasting(shape))


@draws("random.uniform", may_raise=True)
def uniform(draw: Draw) -> Call:
    shape = draw.shape()
    draw.may_raise = 1 in shape
    given = draw.maybe(0.5, low=a_bound(draw, shape), high=a_bound(draw, shape))
    given |= draw.maybe(0.9, shape=draw.sizes(shape)) | draw.maybe(
        0.3, dtype=dtype_value(draw, FLOATS)
    )
    return (), given | key(draw)


@draws("random.normal", may_raise=True)
def normal(draw: Draw) -> Call:
    shape = draw.shape()
    given = draw.maybe(0.4, loc=a_bound(draw, shape), scale=a_bound(draw, shape))
    given |= draw.maybe(0.9, shape=draw.sizes(shape)) | draw.maybe(
        0.3, dtype=dtype_value(draw, (*FLOATS, "complex64"))
    )
    return (), given | key(draw)


@draws("random.gumbel", "random.laplace")
def gumbel(draw: Draw) -> Call:
    return (a_shape(draw),), draw.maybe(0.4, dtype=dtype_value(draw, FLOATS)) | key(draw)


@draws("random.truncated_normal", may_raise=True)
def bounded(draw: Draw) -> Call:
    shape = draw.shape()
    draw.may_raise = 1 in shape
    bounds = (a_bound(draw, shape), a_bound(draw, shape))
    return bounds, draw.maybe(0.8, shape=draw.sizes(shape)) | key(draw)


@draws("random.randint", may_raise=True)
def randint(draw: Draw) -> Call:
    args, kwargs = bounded(draw)
    return args, kwargs | draw.maybe(0.3, dtype=dtype_value(draw, INTS))


@draws("random.bernoulli")
def bernoulli(draw: Draw) -> Call:
    shape = draw.shape()
    draw.may_raise = 1 in shape
    p = 0.5 if draw.chance(0.3) else draw.floats(draw.broadcasting(shape))
    if draw.wrong():
        p = draw.choice((draw.array(), 1))
    given = draw.maybe(0.6, p=p, shape=draw.sizes(shape))
    return (), given | key(draw)


@draws("random.categorical")
def categorical(draw: Draw) -> Call:
    x = draw.array()
    axis = draw.axis(x)
    rank = len(x.shape.head)
    rest = [n for at, n in enumerate(x.shape.head) if rank and at != axis % rank]
    if draw.chance(0.3):
        rest.insert(0, 3)
    if draw.wrong():
        rest.append(2)
    draw.may_raise = True
    shape = {"shape": draw.sizes(tuple(rest))} if draw.chance(0.3) else {}
    return (x, axis), shape | draw.maybe(0.2, num_samples=draw.size()) | key(draw)


@draws("random.multivariate_normal", may_raise=True)
def multivariate_normal(draw: Draw) -> Call:
    n = draw.length()
    m = draw.length() if draw.wrong() else n
    rest = draw.shape(most=2)
    mean = draw.array((*draw.broadcasting(rest), n), "float32")
    cov = draw.array((*draw.broadcasting(rest), m, n), "float32")
    if draw.chance(0.05):
        mean = draw.array(most=1)
    shape = draw.maybe(0.4, shape=draw.sizes(draw.broadcasting(rest)))
    return (mean, cov), shape | draw.maybe(0.2, dtype=dtype_value(draw, ("float32",))) | key(draw)


@draws("random.permutation")
def permutation(draw: Draw) -> Call:
    x = draw.array() if draw.chance(0.7) else draw.choice((draw.size(), -1 if draw.wrong() else 3))
    axis = draw.axis(x) if isinstance(x, ShapedArray) else 0
    return (x,), draw.maybe(0.6, axis=axis) | key(draw)


@draws("random.split")
def split_key(draw: Draw) -> Call:
    given = key(draw).get("key") or draw.array((2,), "uint32")
    return (given,), draw.maybe(0.5, num=draw.choice((draw.size(), 3, -1 if draw.wrong() else 2)))


@draws("random.key", run=mx.random.key)
def seed(draw: Draw) -> Call:
    return (draw.randint(0, 9),), {}
