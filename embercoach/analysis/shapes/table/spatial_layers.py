"""Layers of ``mlx.nn`` that look at spatial axes: convolutions, pooling, upsampling."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    Ratio,
    ShapedArray,
    floating,
    promote,
    unknown_shape,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    add,
    floor_divide,
    multiply,
    product,
    subtract,
)
from embercoach.analysis.shapes.table.convolutions import is_negative, per_axis
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.layer_shapes import (
    biased,
    bound_options,
    parameter,
    size_of,
    with_bias,
)
from embercoach.analysis.shapes.table.products import divisible
from embercoach.analysis.shapes.table.transfers import LAYER_CALLS, LAYERS, TRANSFERS

if TYPE_CHECKING:
    from collections.abc import Callable

Attributes = dict[str, Any]

_TRANSPOSED: dict[str, object] = {
    "stride": 1,
    "padding": 0,
    "dilation": 1,
    "output_padding": 0,
    "bias": True,
}
#: What a convolution layer takes besides channels and kernel, with the default.
_OPTIONS: dict[str, dict[str, object]] = {
    "Conv1d": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True},
    "Conv2d": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True},
    "Conv3d": {"stride": 1, "padding": 0, "dilation": 1, "bias": True},
    **{f"ConvTranspose{axes}d": _TRANSPOSED for axes in (1, 2, 3)},
}


def convolution(
    requirements: Requirements,
    axes: int,
    channels: tuple[object, object],
    kernel_size: object,
    options: dict[str, object],
) -> Attributes:
    """Return the attributes that the constructor of a convolution layer sets."""
    inner = size_of(requirements, channels[0], "in_channels")
    outer = size_of(requirements, channels[1], "out_channels")
    groups = options.get("groups", 1)
    if is_integer(groups) and groups != 1:
        reason = f"the groups {groups} don't divide the channels {inner}"
        inner = divisible(requirements, inner, groups, reason)
    elif not is_integer(groups):
        inner = ANY_INT
    kernel = _kernel(requirements, kernel_size, axes)
    if 0 in (inner, *kernel):
        requirements.fail(f"a size of the weight is 0: {inner} channels, kernel {kernel}")
    weight = parameter(outer, *kernel, inner)
    attributes = with_bias({"weight": weight}, options.get("bias"), outer)
    kept = {name: value for name, value in options.items() if name != "bias"}
    if axes > 1:
        for name in ("stride", "padding", "output_padding"):
            if is_integer(kept.get(name)):
                kept[name] = (kept[name],) * axes
    return attributes | kept


def _kernel(requirements: Requirements, value: object, axes: int) -> tuple[Integer, ...]:
    """The sizes of a kernel."""
    if is_integer(value):
        return (value,) * axes
    if isinstance(value, (tuple, list)) and 1 < axes <= len(value):
        return tuple(n if is_integer(n) else ANY_INT for n in value)
    if isinstance(value, (float, str, Ratio, tuple, list)) or value is None:
        requirements.fail(f"kernel_size is {value!r}, for {axes} spatial axes")
    return (ANY_INT,) * axes


def _convolution_layer(axes: int, defaults: dict[str, object]) -> Callable[..., Attributes]:
    def construct(
        requirements: Requirements,
        in_channels: object,
        out_channels: object,
        kernel_size: object,
        *args: object,
        **kwargs: object,
    ) -> Attributes:
        options = bound_options(defaults, args, kwargs)
        channels = in_channels, out_channels
        return convolution(requirements, axes, channels, kernel_size, options)

    return construct


def _convolution_call(name: str, options: tuple[str, ...]) -> Callable[..., object]:
    function = TRANSFERS[f"mlx.core.{name}"]

    def call(requirements: Requirements, attributes: Attributes, x: object) -> object:
        weight = attributes.get("weight", UNKNOWN)
        values = (attributes.get(option, UNKNOWN) for option in options)
        found = function(requirements, x, weight, *values)
        return biased(requirements, attributes, found)

    return call


for _axes in (1, 2, 3):
    for _layer, _function, _names in (
        (f"Conv{_axes}d", f"conv{_axes}d", ("stride", "padding", "dilation", "groups")),
        (
            f"ConvTranspose{_axes}d",
            f"conv_transpose{_axes}d",
            ("stride", "padding", "dilation", "output_padding"),
        ),
    ):
        _kept = tuple(name for name in _names if name in _OPTIONS[_layer])
        LAYERS[f"mlx.nn.{_layer}"] = _convolution_layer(_axes, _OPTIONS[_layer])
        LAYER_CALLS[f"mlx.nn.{_layer}"] = _convolution_call(_function, _kept)


# Pooling


def _pool(
    requirements: Requirements,
    axes: int,
    kernel_size: object,
    stride: object,
    padding: object,
) -> Attributes:
    """Return the attributes that the constructor of a pooling layer sets."""
    kernel = per_axis(requirements, kernel_size, axes, "kernel_size")
    strides = kernel if stride is None else per_axis(requirements, stride, axes, "stride")
    pads = per_axis(requirements, padding, axes, "padding")
    for name, sizes in (("kernel_size", kernel), ("stride", strides)):
        if any(type(size) is int and size <= 0 for size in sizes):
            requirements.fail(f"{name} is {sizes}, which is not positive")
    if any(type(size) is int and size < 0 for size in pads):
        requirements.fail(f"padding is {pads}, which is negative")
    return {
        "_kernel_size": kernel,
        "_stride": strides,
        "_padding": tuple((pad, pad) for pad in pads),
    }


def _pooling_layer(axes: int) -> Callable[..., Attributes]:
    def construct(
        requirements: Requirements,
        kernel_size: object,
        stride: object = None,
        padding: object = 0,
    ) -> Attributes:
        return _pool(requirements, axes, kernel_size, stride, padding)

    return construct


def pooled(requirements: Requirements, attributes: Attributes, x: ShapedArray) -> ArrayShape:
    """The shape of an input (N, *spatial, C) where windows turn into elements."""
    kernel, strides = attributes["_kernel_size"], attributes["_stride"]
    rank = len(kernel) + 2
    sizes = requirements.rank(x, rank, f"{x.shape} has not {rank} axes: (N, *spatial, C)")
    found = []
    for at, window in enumerate(kernel):
        padded = add(sizes[at + 1], multiply(2, attributes["_padding"][at][0]))
        size = add(floor_divide(subtract(padded, window), strides[at]), 1)
        if is_negative(size):
            requirements.fail(f"the window {window} is larger than axis {at + 1} of {x.shape}")
        found.append(size)
    return ArrayShape((sizes[0], *found, sizes[-1]))


def max_pool_call(requirements: Requirements, attributes: Attributes, x: object) -> object:
    """``nn.MaxPool1d`` to ``nn.MaxPool3d``: the dtype of the input."""
    given = array_argument(requirements, x)
    return ShapedArray(pooled(requirements, attributes, given), given.dtype)


def mean_pool_call(requirements: Requirements, attributes: Attributes, x: object) -> object:
    """``nn.AvgPool1d`` to ``nn.AvgPool3d``: floating."""
    given = array_argument(requirements, x)
    return ShapedArray(pooled(requirements, attributes, given), floating(given.dtype))


for _axes in (1, 2, 3):
    for _kind, _call in (("Max", max_pool_call), ("Avg", mean_pool_call)):
        LAYERS[f"mlx.nn.{_kind}Pool{_axes}d"] = _pooling_layer(_axes)
        LAYER_CALLS[f"mlx.nn.{_kind}Pool{_axes}d"] = _call


# Upsampling


def upsample(
    requirements: Requirements,
    scale_factor: object,
    mode: object = "nearest",
    align_corners: object = False,
    antialias: object = False,
) -> Attributes:
    """``nn.Upsample``: a factor for all spatial axes, or one for each."""
    if isinstance(mode, str) and mode not in ("nearest", "linear", "cubic"):
        requirements.fail(f"the mode is {mode!r}")
    if antialias is True and mode == "nearest":
        requirements.fail("antialias is set for the mode 'nearest'")
    if antialias is True and align_corners is True:
        requirements.fail("antialias and align_corners are both set")
    if isinstance(scale_factor, str) or scale_factor is None:
        requirements.fail(f"scale_factor is {scale_factor!r}")
    factor = tuple(scale_factor) if isinstance(scale_factor, list) else scale_factor
    return {
        "scale_factor": factor,
        "mode": mode,
        "align_corners": align_corners,
        "antialias": antialias,
    }


def scaled(size: Integer, factor: object) -> Integer:
    """``int(factor * size)``."""
    if is_integer(factor):
        return multiply(size, factor)
    if isinstance(factor, Ratio):
        return floor_divide(multiply(size, factor.numerator), factor.denominator)
    if type(factor) is float:
        if type(size) is int:
            return int(factor * size)
        exact = Fraction(factor)
        if exact.denominator <= 64 and exact > 0:
            return floor_divide(multiply(size, exact.numerator), exact.denominator)
    return ANY_INT


def upsample_call(requirements: Requirements, attributes: Attributes, x: object) -> object:
    """The input (N, *spatial, C) with larger spatial axes; interpolated in float32."""
    given = array_argument(requirements, x)
    requirements.least_rank(given, 3, f"{given.shape} has no spatial axes")
    factor, mode = attributes.get("scale_factor", UNKNOWN), attributes.get("mode")
    dtype = given.dtype if mode == "nearest" else promote(given.dtype, "float32")
    dtype = dtype if isinstance(mode, str) else None
    if isinstance(factor, tuple):
        reason = f"{len(factor)} factors are given for the spatial axes of {given.shape}"
        sizes = requirements.rank(given, len(factor) + 2, reason)
    elif given.shape.rank is None:
        return ShapedArray(unknown_shape(), dtype)
    else:
        sizes = given.shape.head
        factor = (factor,) * (len(sizes) - 2)
    inner = tuple(map(scaled, sizes[1:-1], factor))
    if any(map(is_negative, inner)):
        requirements.fail(f"the factors {factor} are negative")
    if mode == "nearest" and product(inner) == 0 and any(type(one) is float for one in factor):
        # Its indices divide by the size.
        requirements.fail(f"the sizes are {inner}")
    return ShapedArray(ArrayShape((sizes[0], *inner, sizes[-1])), dtype)


LAYERS["mlx.nn.Upsample"] = upsample
LAYER_CALLS["mlx.nn.Upsample"] = upsample_call
