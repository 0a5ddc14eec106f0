"""Convolutions, pooling and upsampling: channels last, weights of (output, *kernel, input)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

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
    at_least,
    floor_divide,
    greatest,
    least,
    multiply,
    product,
    subtract,
)
from embercoach.analysis.shapes.table import (
    LAYER_CALLS,
    LAYERS,
    TRANSFERS,
    LayerValues,
    transfer,
)
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.layer_shapes import (
    biased,
    bound_options,
    parameter,
    size_of,
    with_bias,
)
from embercoach.analysis.shapes.table.products import divisible, real_floating

#: What is added to each spatial axis, at its start and its end.
Pads = tuple[tuple[Integer, Integer], ...]


def per_axis(
    requirements: Requirements, value: object, axes: int, name: str, *, lone: bool = False
) -> tuple[Integer, ...]:
    """Return an integer for each spatial axis, of one for all or of a tuple.

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
    """Return the shape of a convolution of an input (N, *spatial, C) of known rank."""
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
    """Get the size with gaps and padding; negative padding takes elements ahead of the dilation."""
    added: Integer = 0
    for part in padding:
        if dilation == 1 or (part is not ANY_INT and at_least(part, 0)):
            added = add(added, part)
        else:
            size = add(size, part) if is_negative(part) else ANY_INT
    return add(_dilated(size, dilation), added)


def _dilated(size: Integer, dilation: Integer) -> Integer:
    """Return the size with gaps between elements."""
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
    """Return the input with its rank, None where that isn't known."""
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
    requirements.one_of("mode", mode, ("full", "same", "valid"))
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
) -> LayerValues:
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
    """Return the sizes of a kernel."""
    if is_integer(value):
        return (value,) * axes
    if isinstance(value, (tuple, list)) and 1 < axes <= len(value):
        return tuple(n if is_integer(n) else ANY_INT for n in value)
    if isinstance(value, (float, str, Ratio, tuple, list)) or value is None:
        requirements.fail(f"kernel_size is {value!r}, for {axes} spatial axes")
    return (ANY_INT,) * axes


def _convolution_layer(axes: int, defaults: dict[str, object]) -> Callable[..., LayerValues]:
    def construct(
        requirements: Requirements,
        in_channels: object,
        out_channels: object,
        kernel_size: object,
        *args: object,
        **kwargs: object,
    ) -> LayerValues:
        options = bound_options(defaults, args, kwargs)
        channels = in_channels, out_channels
        return convolution(requirements, axes, channels, kernel_size, options)

    return construct


def _convolution_call(name: str, options: tuple[str, ...]) -> Callable[..., object]:
    function = TRANSFERS[f"mlx.core.{name}"]

    def call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
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
) -> LayerValues:
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


def _pooling_layer(axes: int) -> Callable[..., LayerValues]:
    def construct(
        requirements: Requirements,
        kernel_size: object,
        stride: object = None,
        padding: object = 0,
    ) -> LayerValues:
        return _pool(requirements, axes, kernel_size, stride, padding)

    return construct


def pooled(requirements: Requirements, attributes: LayerValues, x: ShapedArray) -> ArrayShape:
    """Return the shape of an input (N, *spatial, C) where windows turn into elements."""
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


def max_pool_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``nn.MaxPool1d`` to ``nn.MaxPool3d``: the dtype of the input."""
    given = array_argument(requirements, x)
    return ShapedArray(pooled(requirements, attributes, given), given.dtype)


def mean_pool_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
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
) -> LayerValues:
    """``nn.Upsample``: a factor for all spatial axes, or one for each."""
    requirements.one_of("mode", mode, ("nearest", "linear", "cubic"))
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


def upsample_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return the input (N, *spatial, C) with larger spatial axes; interpolated in float32."""
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
