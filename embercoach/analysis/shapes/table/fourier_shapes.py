"""``mx.fft``: transforms change the size of their axes."""

from __future__ import annotations

from collections.abc import Callable

from embercoach.analysis.shapes.arrays import (
    ArrayShape,
    AxesSymbol,
    ShapedArray,
    unknown_shape,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, integers_of, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    add,
    at_least,
    floor_divide,
    multiply,
    subtract,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.products import is_real
from embercoach.analysis.shapes.table.reduction_shapes import replaced

#: What kind of transform: of complex numbers, from real ones, to real ones.
COMPLEX, FROM_REAL, TO_REAL = "fft", "rfft", "irfft"


def _is_not_positive(size: Integer) -> bool:
    return size is not ANY_INT and at_least(multiply(size, -1), 0)


def _transformed(
    requirements: Requirements, a: object, kind: str, sizes: object, axes: object
) -> object:
    """Return the result of a transform along axes, to the given sizes."""
    x = array_argument(requirements, a)
    dtype = "float32" if kind == TO_REAL else "complex64"
    if axes is None and x.shape.rank is not None:
        if sizes is not None:
            requirements.fail("s is given without axes")
        if x.shape.rank == 0:
            requirements.fail("the input has no axes")
        axes = tuple(range(x.shape.rank))
    chosen = integers_of(axes)
    if chosen is None:
        # Without axes the input is returned.
        is_some = isinstance(axes, (tuple, list)) and len(axes) > 0
        return ShapedArray(unknown_shape(), dtype if is_some else None)
    wanted = _wanted(requirements, sizes, len(chosen))
    if not chosen:
        return ShapedArray(x.shape, x.dtype)
    found = [requirements.axis(axis, x.shape) for axis in chosen]
    if x.shape.rank is not None and len(set(found)) < len(found) and None not in found:
        requirements.fail(f"the axes {chosen} name one twice")
    if None in found:
        return ShapedArray(unknown_shape(), dtype)
    shape = x.shape
    for number, axis in enumerate(found):
        is_last = number == len(found) - 1
        size = _size(requirements, x.shape.size(axis or 0), wanted, number, kind, is_last=is_last)
        shape = replaced(shape, (axis or 0,), (size,))
    return ShapedArray(shape, dtype)


def _wanted(requirements: Requirements, sizes: object, axes: int) -> tuple[Integer, ...] | None:
    """Return the sizes that are asked for."""
    if sizes is None:
        return None
    if is_integer(sizes) and axes == 1:
        return (sizes,)
    if not isinstance(sizes, (tuple, list)):
        if is_integer(sizes):
            requirements.fail(f"s is {sizes}, for {axes} axes")
        return (ANY_INT,) * axes
    if any(isinstance(size, AxesSymbol) for size in sizes):
        return (ANY_INT,) * axes
    if len(sizes) != axes:
        requirements.fail(f"{len(sizes)} sizes are given for {axes} axes")
    return tuple(size if is_integer(size) else ANY_INT for size in sizes)


def _size(
    requirements: Requirements,
    size: Integer,
    wanted: tuple[Integer, ...] | None,
    number: int,
    kind: str,
    *,
    is_last: bool,
) -> Integer:
    """Return the size of an axis after the transform."""
    if wanted is not None:
        size = wanted[number]
    elif is_last and kind == TO_REAL:
        size = multiply(2, subtract(size, 1))
    if _is_not_positive(size):
        requirements.fail(f"the size of a transform is {size}")
    return add(floor_divide(size, 2), 1) if is_last and kind == FROM_REAL else size


def _of_one_axis(kind: str) -> Callable[..., object]:
    def transformed(
        requirements: Requirements,
        a: object,
        n: object = None,
        axis: object = -1,
        norm: object = "backward",
    ) -> object:
        return _transformed(requirements, a, kind, n, axis)

    return transformed


def _of_axes(kind: str, default: object) -> Callable[..., object]:
    def transformed(
        requirements: Requirements,
        a: object,
        s: object = None,
        axes: object = default,
        norm: object = "backward",
    ) -> object:
        return _transformed(requirements, a, kind, s, axes)

    return transformed


for _name, _kind in (("f", COMPLEX), ("if", COMPLEX), ("rf", FROM_REAL), ("irf", TO_REAL)):
    transfer(f"fft.{_name}ft")(_of_one_axis(_kind))
    transfer(f"fft.{_name}ft2")(_of_axes(_kind, (-2, -1)))
    transfer(f"fft.{_name}ftn")(_of_axes(_kind, None))


@transfer("fft.fftfreq")
def frequencies(
    requirements: Requirements, n: object, d: object = 1.0, stream: object = None
) -> object:
    """``mx.fft.fftfreq``: one for each element."""
    return ShapedArray(ArrayShape((_frequencies(requirements, n, d),)), "float32")


def _frequencies(requirements: Requirements, n: object, d: object) -> Integer:
    if type(d) in (int, float) and d == 0:
        requirements.fail("d is 0")
    if not is_integer(n):
        return ANY_INT
    if _is_not_positive(n):
        requirements.fail(f"n is {n}")
    return n


@transfer("fft.rfftfreq")
def real_frequencies(
    requirements: Requirements, n: object, d: object = 1.0, stream: object = None
) -> object:
    """``mx.fft.rfftfreq``: one half."""
    size = add(floor_divide(_frequencies(requirements, n, d), 2), 1)
    return ShapedArray(ArrayShape((size,)), "float32")


@transfer("fft.fftshift", "fft.ifftshift")
def shift(
    requirements: Requirements, a: object, axes: object = None, stream: object = None
) -> object:
    """``mx.fft.fftshift``: the shape stays."""
    x = array_argument(requirements, a)
    for axis in () if axes is None else integers_of(axes) or ():
        requirements.axis(axis, x.shape)
    return x


@transfer("fft.stft")
def stft(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    x: object,
    n_fft: object = 2048,
    hop_length: object = None,
    win_length: object = None,
    window: object = None,
    center: object = True,
    pad_mode: object = "reflect",
    norm: object = "backward",
    onesided: object = None,
) -> object:
    """``mx.fft.stft``: (*x, frequencies, frames)."""
    signal = array_argument(requirements, x)
    requirements.least_rank(signal, 1, "the signal has no axes")
    width: Integer = n_fft if is_integer(n_fft) else ANY_INT
    hop: Integer = floor_divide(width, 4)
    if hop_length is not None:
        hop = hop_length if is_integer(hop_length) else ANY_INT
    length = signal.shape.size(-1)
    if center is not False:
        length = add(length, multiply(2, floor_divide(width, 2))) if center is True else ANY_INT
    frames = add(floor_divide(subtract(length, width), hop), 1)
    if _is_not_positive(frames):
        requirements.fail(f"the signal {signal.shape} is too short for n_fft={width}")
    if onesided is None:
        onesided = is_real(signal.dtype)
    bins: Integer = ANY_INT
    if isinstance(onesided, bool):
        bins = add(floor_divide(width, 2), 1) if onesided else width
    return ShapedArray(with_last(without_last(signal.shape), bins, frames), "complex64")


@transfer("fft.istft")
def istft(requirements: Requirements, stft_matrix: object, **options: object) -> object:
    """``mx.fft.istft``: a signal for each matrix."""
    matrix = array_argument(requirements, stft_matrix)
    requirements.least_rank(matrix, 2, f"{matrix.shape} has fewer than 2 axes")
    length = options.get("length")
    size: Integer = length if is_integer(length) else ANY_INT
    return ShapedArray(with_last(without_last(matrix.shape, 2), size))
