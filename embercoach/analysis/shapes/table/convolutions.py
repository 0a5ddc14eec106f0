"""Convolutions: channels last, weights of (output channels, *kernel, input channels)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.shapes.arrays import ArrayShape, ShapedArray, promote, unknown_shape
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    add,
    at_least,
    floor_divide,
    greatest,
    least,
    multiply,
    subtract,
)
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.products import divisible, real_floating
from embercoach.analysis.shapes.table.transfers import transfer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What is added to each spatial axis, at its start and its end.
Pads = tuple[tuple[Integer, Integer], ...]


def per_axis(
    requirements: Requirements, value: object, axes: int, name: str, *, lone: bool = False
) -> tuple[Integer, ...]:
    """An integer for each spatial axis, of one for all or of a tuple.

    lone: one in a tuple stands for all axes, too.
    """
    if is_integer(value):
        return (value,) * axes
    if isinstance(value, (tuple, list)):
        if lone and len(value) == 1:
            return per_axis(requirements, value[0], axes, name)
        if len(value) != axes:
            requirements.fail(f"{name} is {value!r}, for {axes} spatial axes")
        return tuple(item if is_integer(item) else ANY_INT for item in value)
    if isinstance(value, (float, str)) or value is None:
        requirements.refuse(f"{name} is {value!r}, not an integer")
    return (ANY_INT,) * axes


def is_negative(size: Integer) -> bool:
    """Return whether a size is certainly below 0."""
    return size is not ANY_INT and at_least(multiply(size, -1), 1)


def _require_positive(requirements: Requirements, name: str, sizes: Sequence[Integer]) -> None:
    for size in sizes:
        if size is not ANY_INT and at_least(multiply(size, -1), 0):
            requirements.fail(f"{name} is {size}, which is not positive")


def convolve_shape(
    requirements: Requirements,
    x: ShapedArray,
    weight: ShapedArray,
    strides: Sequence[Integer],
    padding: Pads,
    dilation: Sequence[Integer],
    input_dilation: Sequence[Integer],
    groups: object,
) -> ArrayShape:
    """The shape of a convolution of an input (N, *spatial, C) of known rank."""
    axes = len(x.shape.head) - 2
    shown = f"the input is {x.shape}, and the weight {weight.shape}"
    kernel = requirements.rank(weight, axes + 2, shown)
    _require_positive(requirements, "stride", strides)
    _require_positive(requirements, "dilation", dilation)
    _require_positive(requirements, "input dilation", input_dilation)
    _check_channels(requirements, x.shape, kernel, groups, shown)
    sizes = []
    for at in range(axes):
        padded = _padded(x.shape.head[at + 1], padding[at], input_dilation[at])
        room = subtract(padded, _dilated(kernel[at + 1], dilation[at]))
        # With less than one stride missing, MLX returns one element.
        if is_negative(room) and is_negative(subtract(add(room, strides[at]), 1)):
            requirements.fail(f"the kernel is larger than the padded input: {shown}")
        is_one = type(room) is int and room < 0
        sizes.append(1 if is_one else add(floor_divide(room, strides[at]), 1))
    return ArrayShape((x.shape.head[0], *sizes, kernel[0]))


def _padded(size: Integer, padding: tuple[Integer, Integer], dilation: Integer) -> Integer:
    """The size with gaps and padding; negative padding takes elements ahead of the dilation."""
    added: Integer = 0
    for part in padding:
        if dilation == 1 or (part is not ANY_INT and at_least(part, 0)):
            added = add(added, part)
        else:
            size = add(size, part) if is_negative(part) else ANY_INT
    return add(_dilated(size, dilation), added)


def _dilated(size: Integer, dilation: Integer) -> Integer:
    """The size with gaps between elements."""
    return add(multiply(subtract(size, 1), dilation), 1)


def _check_channels(
    requirements: Requirements,
    shape: ArrayShape,
    kernel: tuple[Integer, ...],
    groups: object,
    shown: str,
) -> None:
    """Require the channels of input and weight to fit."""
    times: Integer = groups if is_integer(groups) else ANY_INT
    if times == 1:
        reason = f"the input channels {shape.size(-1)} and {kernel[-1]} differ: {shown}"
        requirements.last_equal(shape, kernel[-1], reason)
        return
    if len(kernel) > 4 and type(times) is int:
        requirements.fail(f"groups is {times}, and three spatial axes take only 1")
    reason = f"{times} groups don't fit: {shown}"
    if type(times) is int and times <= 0:
        requirements.fail(reason)
    requirements.last_equal(shape, multiply(kernel[-1], times), reason)
    divisible(requirements, kernel[0], times, reason)


def _input(requirements: Requirements, value: object, axes: int | None) -> ShapedArray | None:
    """The input with its rank, None where that isn't known."""
    x = array_argument(requirements, value)
    real_floating(requirements, x.dtype)
    if x.shape.rank is None:
        if axes is None:
            return None
        sizes = requirements.rank(x, axes + 2, f"{x.shape} has not {axes + 2} axes")
        return ShapedArray(ArrayShape(sizes), x.dtype)
    if not 3 <= x.shape.rank <= 5:
        requirements.fail(f"{x.shape} is not (N, *spatial, C) with 1 to 3 spatial axes")
    return x


def _convolve(
    requirements: Requirements,
    value: object,
    weight: object,
    options: tuple[object, object, object, object],
    axes: int,
) -> object:
    """``mx.conv1d`` to ``mx.conv3d``."""
    stride, padding, dilation, groups = options
    named = zip((stride, padding, dilation), ("stride", "padding", "dilation"), strict=True)
    strides, pads, dilations = (
        per_axis(requirements, option, axes, name) for option, name in named
    )
    x, kernel = _input(requirements, value, axes), array_argument(requirements, weight)
    if x is None:
        return ShapedArray(ArrayShape((ANY_INT,) * (axes + 2)))
    found = len(x.shape.head) - 2
    if found != axes:
        # MLX looks at the rank of the input alone, and repeats what is given for one axis.
        reason = f"{x.shape} has {found} spatial axes, not {axes}"
        if axes != 1:
            requirements.fail(reason)
        strides, pads, dilations = strides * found, pads * found, dilations * found
    shape = convolve_shape(
        requirements,
        x,
        kernel,
        strides,
        tuple(zip(pads, pads, strict=True)),
        dilations,
        (1,) * found,
        groups,
    )
    return ShapedArray(shape, promote(x.dtype, kernel.dtype))


def _convolution(axes: int) -> Callable[..., object]:
    """``mx.conv1d`` to ``mx.conv3d``: (N, *spatial, C) with (O, *kernel, C / groups)."""

    def convolution(
        requirements: Requirements,
        input: object,  # noqa: A002
        weight: object,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: object = 1,
    ) -> object:
        if axes == 1:
            lone_integers(requirements, stride=stride, padding=padding, dilation=dilation)
        options = (stride, padding, dilation, groups)
        return _convolve(requirements, input, weight, options, axes)

    return convolution


def lone_integers(requirements: Requirements, **options: object) -> None:
    """Require that no option is a tuple."""
    for name, value in options.items():
        if isinstance(value, (tuple, list)):
            requirements.refuse(f"{name} is {value!r}, not an integer")


@transfer("conv_general")
def conv_general(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    input: object,  # noqa: A002
    weight: object,
    stride: object = 1,
    padding: object = 0,
    kernel_dilation: object = 1,
    input_dilation: object = 1,
    groups: object = 1,
    flip: object = False,
) -> object:
    """``mx.conv_general``: padding may differ at both ends."""
    x, kernel = _input(requirements, input, None), array_argument(requirements, weight)
    if x is None:
        if kernel.shape.rank is None:
            return ShapedArray(unknown_shape())
        x = _input(requirements, input, kernel.shape.rank - 2)
    assert x is not None
    axes = len(x.shape.head) - 2
    low, high = padding, padding
    if (
        isinstance(padding, tuple)
        and len(padding) == 2
        and any(isinstance(part, (tuple, list)) for part in padding)
    ):
        low, high = padding
    lows, highs = (per_axis(requirements, part, axes, "padding", lone=True) for part in (low, high))
    strides, dilations, input_dilations = (
        per_axis(requirements, option, axes, name, lone=True)
        for option, name in (
            (stride, "stride"),
            (kernel_dilation, "kernel_dilation"),
            (input_dilation, "input_dilation"),
        )
    )
    pads = tuple(zip(lows, highs, strict=True))
    shape = convolve_shape(
        requirements, x, kernel, strides, pads, dilations, input_dilations, groups
    )
    return ShapedArray(shape, promote(x.dtype, kernel.dtype))


def _convolve_transposed(
    requirements: Requirements,
    value: object,
    weight: object,
    options: tuple[object, object, object, object],
    groups: object,
    axes: int,
) -> object:
    """``mx.conv_transpose1d`` to ``mx.conv_transpose3d``: a convolution of the dilated input."""
    names = ("stride", "padding", "dilation", "output_padding")
    strides, pads, dilations, output_pads = (
        per_axis(requirements, option, axes, name)
        for option, name in zip(options, names, strict=True)
    )
    x, kernel = _input(requirements, value, axes), array_argument(requirements, weight)
    assert x is not None
    shown = f"the input is {x.shape}, and the weight {kernel.shape}"
    sizes = requirements.rank(kernel, axes + 2, shown)
    if len(x.shape.head) != axes + 2:
        requirements.fail(shown)
    padding = []
    for at in range(axes):
        low = subtract(multiply(dilations[at], subtract(sizes[at + 1], 1)), pads[at])
        padding.append((low, add(low, output_pads[at])))
    shape = convolve_shape(
        requirements, x, kernel, (1,) * axes, tuple(padding), dilations, strides, groups
    )
    return ShapedArray(shape, promote(x.dtype, kernel.dtype))


def _transposed_convolution(axes: int) -> Callable[..., object]:
    """``mx.conv_transpose1d`` to ``mx.conv_transpose3d``."""

    def convolution(
        requirements: Requirements,
        input: object,  # noqa: A002
        weight: object,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        output_padding: object = 0,
        groups: object = 1,
    ) -> object:
        if axes == 1:
            lone_integers(requirements, stride=stride, padding=padding, dilation=dilation)
        options = (stride, padding, dilation, output_padding)
        return _convolve_transposed(requirements, input, weight, options, groups, axes)

    return convolution


for _axes in (1, 2, 3):
    transfer(f"conv{_axes}d")(_convolution(_axes))
    transfer(f"conv_transpose{_axes}d")(_transposed_convolution(_axes))


@transfer("convolve")
def convolve(requirements: Requirements, a: object, v: object, mode: object = "full") -> object:
    """``mx.convolve``: of vectors; the shorter one is the kernel."""
    x, kernel = array_argument(requirements, a), array_argument(requirements, v)
    (m,) = requirements.rank(x, 1, f"{x.shape} is not a vector")
    (n,) = requirements.rank(kernel, 1, f"{kernel.shape} is not a vector")
    if 0 in (m, n):
        requirements.fail(f"a vector is empty: {x.shape}, {kernel.shape}")
    if isinstance(mode, str) and mode not in ("full", "same", "valid"):
        requirements.fail(f"the mode is {mode!r}")
    is_swapped = m is not ANY_INT and n is not ANY_INT and is_negative(subtract(m, n))
    longer = greatest((m, n))
    real_floating(requirements, (kernel if is_swapped else x).dtype if _known(m, n) else None)
    dtype = promote(x.dtype, kernel.dtype)
    if mode == "full":
        return ShapedArray(ArrayShape((subtract(add(m, n), 1),)), dtype)
    if mode == "same":
        return ShapedArray(ArrayShape((longer,)), dtype)
    shorter = least((m, n))
    size = add(subtract(longer, shorter), 1) if mode == "valid" else ANY_INT
    return ShapedArray(ArrayShape((size,)), dtype)


def _known(m: Integer, n: Integer) -> bool:
    return type(m) is int and type(n) is int
