"""Quantized matrices and layers: words of 32 bits, and a scale (and a bias) for each group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.shapes.arrays import (
    PARAMETERS,
    UNKNOWN,
    ArrayShape,
    DType,
    DTypeValue,
    ShapedArray,
    promote,
    unknown_shape,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer, floor_divide, multiply
from embercoach.analysis.shapes.table import LayerValues, layer, layer_call, transfer
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.fast import same_shape
from embercoach.analysis.shapes.table.layer_shapes import (
    biased,
    or_default,
    parameter,
    positive,
    rows_of,
    size_of,
    with_bias,
)
from embercoach.analysis.shapes.table.products import (
    batch_indices,
    divisible,
    optional_array,
    real_floating,
)

if TYPE_CHECKING:
    from embercoach.analysis.shapes.requirements import Requirements

#: The group size and bits of a mode.
DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}


def settings(
    requirements: Requirements, group_size: object, bits: object, mode: object
) -> tuple[Integer, Integer]:
    """Return the group size and the bits of a quantized matrix."""
    if not isinstance(mode, str):
        return ANY_INT, ANY_INT
    requirements.one_of("mode", mode, tuple(DEFAULTS))
    groups, width = DEFAULTS[mode]
    found = []
    for value, default in ((group_size, groups), (bits, width)):
        if value is None:
            found.append(default)
        else:
            found.append(value if type(value) is int else ANY_INT)  # type: ignore[arg-type]
    return found[0], found[1]


def check_settings(
    requirements: Requirements, group_size: Integer, bits: Integer, mode: object
) -> None:
    """Require settings that ``mx.quantize`` supports."""
    if mode == "affine":
        if group_size is not ANY_INT and group_size not in (32, 64, 128):
            requirements.fail(f"the group size is {group_size}, not 32, 64 or 128")
        if bits is not ANY_INT and bits not in (1, 2, 3, 4, 5, 6, 8):
            requirements.fail(f"{bits} bits are not supported")
    elif isinstance(mode, str):
        for given, wanted in zip((group_size, bits), DEFAULTS[mode], strict=True):
            if given is not ANY_INT and given != wanted:
                requirements.fail(f"{mode} takes groups of {DEFAULTS[mode][0]} and {wanted} bits")


@transfer("quantize")
def quantize(
    requirements: Requirements,
    w: object,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
    *,
    global_scale: object = None,
) -> object:
    """``mx.quantize``: the words, the scales and, in affine mode, the biases."""
    matrix = array_argument(requirements, w)
    groups, width = settings(requirements, group_size, bits, mode)
    real_floating(requirements, matrix.dtype)
    requirements.least_rank(matrix, 2, f"{matrix.shape} has fewer than 2 axes")
    check_settings(requirements, groups, width, mode)
    last = matrix.shape.size(-1)
    reason = f"the last size of {matrix.shape} isn't a multiple of the group size {groups}"
    parts = divisible(requirements, last, groups, reason)
    rest = without_last(matrix.shape)
    if last is ANY_INT and matrix.shape.middle is not None:
        rest = unknown_shape()
    words = multiply(parts, floor_divide(multiply(groups, width), 32))
    packed = ShapedArray(with_last(rest, words), "uint32")
    shape = with_last(rest, parts)
    if mode == "affine":
        scales = ShapedArray(shape, matrix.dtype)
        return [packed, scales, scales]
    if not isinstance(mode, str):
        return UNKNOWN  # there may be biases
    return [packed, ShapedArray(shape, "uint8")]


def _check_mode(
    requirements: Requirements, scales: ShapedArray, biases: ShapedArray | None, mode: object
) -> None:
    """Require biases in affine mode, and scales of one byte in others."""
    if mode == "affine":
        if biases is None:
            requirements.refuse("there are no biases, which the affine mode needs")
        real_floating(requirements, promote(scales.dtype, biases.dtype))
    elif isinstance(mode, str):
        if biases is not None:
            requirements.fail(f"there are biases, which the mode {mode} hasn't")
        if isinstance(scales.dtype, str) and scales.dtype != "uint8":
            requirements.fail(f"the scales are {scales.dtype}, not uint8")


@transfer("dequantize")
def dequantize(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    w: object,
    scales: object,
    biases: object = None,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
    global_scale: object = None,
    dtype: object = None,
) -> object:
    """``mx.dequantize``: the last size from the scales and the group size."""
    packed, scaling = array_argument(requirements, w), array_argument(requirements, scales)
    shift = optional_array(requirements, biases)
    groups, width = settings(requirements, group_size, bits, mode)
    check_settings(requirements, groups, width, mode)
    if isinstance(packed.dtype, str) and packed.dtype != "uint32":
        requirements.fail(f"the matrix is {packed.dtype}, not uint32")
    requirements.least_rank(packed, 2, f"{packed.shape} has fewer than 2 axes")
    _check_mode(requirements, scaling, shift, mode)
    result: DType = "bfloat16" if isinstance(mode, str) else None
    if isinstance(dtype, DTypeValue):
        result = real_floating(requirements, dtype.dtype)
    elif dtype is not None:
        result = None
    elif mode == "affine" and shift is not None:
        result = promote(scaling.dtype, shift.dtype)
    size = _expanded(requirements, packed, scaling, groups, width)
    return ShapedArray(with_last(without_last(packed.shape), size), result)


def _expanded(
    requirements: Requirements,
    packed: ShapedArray,
    scales: ShapedArray,
    groups: Integer,
    bits: Integer,
) -> Integer:
    """Return the last size of the matrix, which scales and words must agree on."""
    reason = f"the matrix {packed.shape} doesn't fit the scales {scales.shape}"
    rest = without_last(packed.shape), without_last(scales.shape)
    if packed.shape.rank is not None and scales.shape.rank == 0:
        requirements.fail(reason)
    same_shape(requirements, *rest, reason)
    size = multiply(scales.shape.size(-1), groups)
    shown = f"{reason} with groups of {groups} and {bits} bits"
    needed, given = multiply(size, bits), multiply(packed.shape.size(-1), 32)
    if needed is not ANY_INT and given is not ANY_INT:
        requirements.equal(needed, given, shown)
    return size if size is not ANY_INT else floor_divide(given, bits)


@transfer("quantized_matmul")
def quantized_matmul(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    x: object,
    w: object,
    scales: object,
    biases: object = None,
    transpose: object = True,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
) -> object:
    """``mx.quantized_matmul``: with the transposed matrix, unless requested otherwise."""
    left, packed = array_argument(requirements, x), array_argument(requirements, w)
    inner, outer, dtype = _product(
        requirements, (left, packed), (scales, biases), (group_size, bits, mode), transpose
    )
    shown = f"the input is {left.shape}, and the matrix {packed.shape}"
    if left.shape.rank == 0:
        requirements.fail(shown)
    requirements.equal(left.shape.size(-1), inner, f"the inner size is {inner}: {shown}")
    batch = without_last(packed.shape, 2)
    rest = without_last(left.shape)
    if batch.rank == 0 or (left.shape.rank is not None and left.shape.rank <= 2):
        return ShapedArray(with_last(rest, outer), dtype)
    if left.shape.rank is None:  # of an input with 2 axes, the result has no more
        known = () if left.shape.least_rank < 2 else (left.shape.size(-2),)
        return ShapedArray(with_last(unknown_shape(), *known, outer), dtype)
    common = requirements.broadcast(without_last(left.shape, 2), batch)
    return ShapedArray(with_last(common, left.shape.size(-2), outer), dtype)


def _product(
    requirements: Requirements,
    arrays: tuple[ShapedArray, ShapedArray],
    scaling: tuple[object, object],
    options: tuple[object, object, object],
    transpose: object,
) -> tuple[Integer, Integer, DType]:
    """Return the inner and outer size of a product with a quantized matrix, and the dtype."""
    left, packed = arrays
    scales = array_argument(requirements, scaling[0])
    biases = optional_array(requirements, scaling[1])
    groups, bits = settings(requirements, *options)
    if isinstance(packed.dtype, str) and packed.dtype != "uint32":
        requirements.fail(f"the matrix is {packed.dtype}, not uint32")
    requirements.least_rank(packed, 2, f"{packed.shape} has fewer than 2 axes")
    _check_mode(requirements, scales, biases, options[2])
    if biases is not None:
        reason = f"the shapes of scales and biases are {scales.shape} and {biases.shape}"
        same_shape(requirements, scales.shape, biases.shape, reason)
    dtype = left.dtype
    if options[2] == "affine" and biases is not None:
        dtype = promote(promote(left.dtype, scales.dtype), biases.dtype)
    elif not isinstance(options[2], str):
        dtype = None
    real_floating(requirements, dtype)
    size = _expanded(requirements, packed, scales, groups, bits)
    rows = packed.shape.size(-2)
    if transpose is True:
        return size, rows, dtype
    return (rows, size, dtype) if transpose is False else (ANY_INT, ANY_INT, dtype)


@transfer("gather_qmm")
def gather_qmm(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    x: object,
    w: object,
    scales: object,
    biases: object = None,
    lhs_indices: object = None,
    rhs_indices: object = None,
    transpose: object = True,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
    global_scale: object = None,
    *,
    sorted_indices: object = False,
) -> object:
    """``mx.gather_qmm``: indices choose matrices of both operands."""
    if lhs_indices is None and rhs_indices is None:
        return quantized_matmul(
            requirements, x, w, scales, biases, transpose, group_size, bits, mode
        )
    left, packed = array_argument(requirements, x), array_argument(requirements, w)
    inner, outer, dtype = _product(
        requirements, (left, packed), (scales, biases), (group_size, bits, mode), transpose
    )
    requirements.least_rank(left, 2, f"{left.shape} has fewer than 2 axes")
    reason = f"the inner size is {inner}: {left.shape}, the matrix {packed.shape}"
    requirements.equal(left.shape.size(-1), inner, reason)
    batch = batch_indices(requirements, left.shape, packed.shape, lhs_indices, rhs_indices)
    return ShapedArray(with_last(batch, left.shape.size(-2), outer), dtype)


@transfer("qqmm")
def qqmm(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    x: object,
    w: object,
    scales: object = None,
    group_size: object = None,
    bits: object = None,
    mode: object = "nvfp4",
    global_scale_x: object = None,
    global_scale_w: object = None,
) -> object:
    """``mx.qqmm``: ``x @ w.T``, where ``x`` is quantized, too."""
    left, matrix = array_argument(requirements, x), array_argument(requirements, w)
    _, width = settings(requirements, group_size, bits, mode)
    shown = f"the input is {left.shape}, and the matrix {matrix.shape}"
    if matrix.shape.least_rank > 2:
        requirements.fail(shown)
    if left.shape.rank == 0 or matrix.shape.rank in (0, 1):
        requirements.fail(shown)
    inner = matrix.shape.size(-1)
    if scales is not None:
        inner = floor_divide(multiply(inner, 32), width)
    requirements.equal(left.shape.size(-1), inner, f"the inner size is {inner}: {shown}")
    return ShapedArray(with_last(without_last(left.shape), matrix.shape.size(-2)), left.dtype)


# Quantized layers


def _quantized(
    requirements: Requirements, rows: Integer, columns: Integer, options: tuple[object, ...]
) -> LayerValues:
    """Return the parameters of a quantized layer."""
    matrix = ShapedArray(ArrayShape((rows, columns)), PARAMETERS)
    parts = quantize(requirements, matrix, *options)
    made = parts if isinstance(parts, list) else [UNKNOWN] * 3
    return {
        **_settings(requirements, *options),
        **dict(zip(("weight", "scales", "biases"), (*made, None), strict=False)),
    }


def _settings(
    requirements: Requirements, group_size: object, bits: object, mode: object
) -> LayerValues:
    """Return the attributes for the options of a quantized layer."""
    requirements.one_of("mode", mode, tuple(DEFAULTS))
    groups, width = DEFAULTS[mode] if isinstance(mode, str) else (UNKNOWN, UNKNOWN)
    return {
        "group_size": or_default(group_size, groups),
        "bits": or_default(bits, width),
        "mode": mode,
    }


def _options(attributes: LayerValues) -> tuple[object, object, object]:
    get = attributes.get
    return get("group_size", UNKNOWN), get("bits", UNKNOWN), get("mode", UNKNOWN)


@layer("QuantizedLinear")
def quantized_linear(
    requirements: Requirements,
    input_dims: object,
    output_dims: object,
    bias: object = True,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
) -> LayerValues:
    """``nn.QuantizedLinear``."""
    inner = positive(requirements, input_dims, "input_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    attributes = _quantized(requirements, outer, inner, (group_size, bits, mode))
    return with_bias(attributes, bias, outer)


@layer_call("QuantizedLinear")
def quantized_linear_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``x @ weight.T + bias``."""
    return biased(requirements, attributes, quantized_as_linear(requirements, attributes, x))


@transfer("mlx.nn.QuantizedEmbedding.as_linear")
def quantized_as_linear(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``x @ weight.T``."""
    weight, scales = (attributes.get(name, UNKNOWN) for name in ("weight", "scales"))
    options = _options(attributes)
    return quantized_matmul(
        requirements, x, weight, scales, attributes.get("biases"), True, *options
    )


@layer("QuantizedEmbedding")
def quantized_embedding(
    requirements: Requirements,
    num_embeddings: object,
    dims: object,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
) -> LayerValues:
    """``nn.QuantizedEmbedding``."""
    rows = size_of(requirements, num_embeddings, "num_embeddings")
    columns = positive(requirements, dims, "dims")
    attributes = _quantized(requirements, rows, columns, (group_size, bits, mode))
    return {**attributes, "num_embeddings": num_embeddings, "dims": dims}


@layer_call("QuantizedEmbedding")
def quantized_embedding_call(
    requirements: Requirements, attributes: LayerValues, x: object
) -> object:
    """Rows of the dequantized weight."""
    packed, scales = (
        rows_of(requirements, attributes.get(name, UNKNOWN), x) for name in ("weight", "scales")
    )
    biases = attributes.get("biases")
    if biases is not None:
        biases = rows_of(requirements, biases, x)
    return dequantize(requirements, packed, scales, biases, *_options(attributes))


@layer("QQLinear")
def qq_linear(
    requirements: Requirements,
    input_dims: object,
    output_dims: object,
    group_size: object = None,
    bits: object = None,
    mode: object = "nvfp4",
) -> LayerValues:
    """``nn.QQLinear``: the weight is quantized on the fly while it is trained."""
    inner = positive(requirements, input_dims, "input_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    settings = _settings(requirements, group_size, bits, mode)
    return {**settings, "weight": parameter(outer, inner)}


@layer_call("QQLinear")
def qq_linear_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``x @ weight.T``."""
    scales, weight = attributes.get("scales"), attributes.get("weight", UNKNOWN)
    return qqmm(requirements, x, weight, scales, *_options(attributes))
