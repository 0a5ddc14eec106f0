"""Attention and transformer layers of ``mlx.nn``, and quantized ones."""

from __future__ import annotations

from typing import Any

from embercoach.analysis.shapes.arrays import (
    PARAMETERS,
    UNKNOWN,
    ArrayShape,
    DTypeValue,
    ShapedArray,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import Integer, multiply
from embercoach.analysis.shapes.table.elementwise import array_argument, broadcast
from embercoach.analysis.shapes.table.fast import scaled_dot_product_attention
from embercoach.analysis.shapes.table.layer_shapes import (
    FLOAT32,
    MadeLayer,
    call_made,
    dropout,
    is_set,
    layer_norm_layer,
    linear,
    parameter,
    positive,
    rows_of,
    size_of,
)
from embercoach.analysis.shapes.table.products import divisible
from embercoach.analysis.shapes.table.quantized_shapes import (
    DEFAULTS,
    dequantize,
    qqmm,
    quantize,
    quantized_matmul,
)
from embercoach.analysis.shapes.table.transfers import layer, layer_call, transfer

Attributes = dict[str, Any]


def made_linear(
    requirements: Requirements, inner: object, outer: object, bias: object = True
) -> MadeLayer:
    """A linear layer in an attribute."""
    return MadeLayer("mlx.nn.Linear", linear(requirements, inner, outer, bias))


def made_norm(requirements: Requirements, dims: object) -> MadeLayer:
    """A layer norm in an attribute."""
    return MadeLayer("mlx.nn.LayerNorm", layer_norm_layer(requirements, dims))


def _or(value: object, default: object) -> object:
    return default if value is None or value == 0 else value


@layer("MultiHeadAttention")
def multi_head_attention(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    dims: object,
    num_heads: object,
    query_input_dims: object = None,
    key_input_dims: object = None,
    value_input_dims: object = None,
    value_dims: object = None,
    value_output_dims: object = None,
    bias: object = False,
) -> Attributes:
    """``nn.MultiHeadAttention``: the heads divide the features."""
    size = size_of(requirements, dims, "dims")
    heads = positive(requirements, num_heads, "num_heads")
    divisible(requirements, size, heads, f"dims is {size}, no multiple of {heads} heads")
    keys = _or(key_input_dims, dims)
    values = _or(value_dims, dims)
    return {
        "num_heads": num_heads,
        "query_proj": made_linear(requirements, _or(query_input_dims, dims), dims, bias),
        "key_proj": made_linear(requirements, keys, dims, bias),
        "value_proj": made_linear(requirements, _or(value_input_dims, keys), values, bias),
        "out_proj": made_linear(requirements, values, _or(value_output_dims, dims), bias),
    }


def split_heads(requirements: Requirements, x: object, heads: Integer) -> ShapedArray:
    """(B, S, H * D) as (B, H, S, D)."""
    array = array_argument(requirements, x)
    batch, steps, size = requirements.rank(array, 3, f"{array.shape} has not 3 axes")
    part = divisible(requirements, size, heads, f"{heads} heads don't divide {array.shape}")
    return ShapedArray(ArrayShape((batch, heads, steps, part)), array.dtype)


@layer_call("MultiHeadAttention")
def multi_head_attention_call(
    requirements: Requirements,
    attributes: Attributes,
    queries: object,
    keys: object,
    values: object,
    mask: object = None,
) -> object:
    """(B, S, value_output_dims)."""
    parts = [
        call_made(requirements, attributes.get(name), value)
        for name, value in (("query_proj", queries), ("key_proj", keys), ("value_proj", values))
    ]
    heads = attributes.get("num_heads")
    if UNKNOWN in parts or not is_integer(heads):
        return UNKNOWN
    split = [split_heads(requirements, part, heads) for part in parts]
    if split[0].shape.head[-1] == 0:
        requirements.fail(f"the heads of {split[0].shape} have no elements")
    found = scaled_dot_product_attention(requirements, *split, scale=1.0, mask=mask)
    output = array_argument(requirements, found)
    batch, number, steps, part = output.shape.head
    flat = ShapedArray(ArrayShape((batch, steps, multiply(number, part))), output.dtype)
    return call_made(requirements, attributes.get("out_proj"), flat)


@transfer("mlx.nn.MultiHeadAttention.create_additive_causal_mask")
def additive_causal_mask(
    requirements: Requirements,
    N: object,  # noqa: N803
    dtype: object = FLOAT32,
) -> object:
    """(N, N)."""
    size = size_of(requirements, N, "N")
    given = dtype.dtype if isinstance(dtype, DTypeValue) else None
    return ShapedArray(ArrayShape((size, size)), given)


def _block(requirements: Requirements, dims: object, mlp_dims: object, p: object) -> Attributes:
    """Return the attributes that encoder and decoder layers share."""
    size = size_of(requirements, dims, "dims")
    inner = multiply(size, 4) if mlp_dims is None or mlp_dims == 0 else mlp_dims
    return {
        "linear1": made_linear(requirements, dims, inner),
        "linear2": made_linear(requirements, inner, dims),
        "dropout1": MadeLayer("mlx.nn.Dropout", dropout(requirements, p)),
        "dropout2": MadeLayer("mlx.nn.Dropout", dropout(requirements, p)),
        "ln1": made_norm(requirements, dims),
        "ln2": made_norm(requirements, dims),
    }


@layer("TransformerEncoderLayer")
def encoder_layer(
    requirements: Requirements,
    dims: object,
    num_heads: object,
    mlp_dims: object = None,
    dropout: object = 0.0,
    activation: object = None,
    norm_first: object = True,
) -> Attributes:
    """``nn.TransformerEncoderLayer``."""
    attention = multi_head_attention(requirements, dims, num_heads)
    return {
        "attention": MadeLayer("mlx.nn.MultiHeadAttention", attention),
        **_block(requirements, dims, mlp_dims, dropout),
        "activation": UNKNOWN,
        "norm_first": norm_first,
    }


def _added(requirements: Requirements, x: object, y: object) -> object:
    return broadcast(requirements, x, y)


def _fed_forward(
    requirements: Requirements, attributes: Attributes, x: object, norm: str
) -> object:
    """``x`` through the norm and the two linear layers; an activation keeps the shape."""
    y = call_made(requirements, attributes.get(norm), x)
    y = call_made(requirements, attributes.get("linear1"), y)
    return call_made(requirements, attributes.get("linear2"), y)


@layer_call("TransformerEncoderLayer")
def encoder_layer_call(
    requirements: Requirements, attributes: Attributes, x: object, mask: object
) -> object:
    """The shape of ``x``."""
    attention = attributes.get("attention")
    y = call_made(requirements, attributes.get("ln1"), x)
    y = call_made(requirements, attention, y, y, y, mask)
    x = _added(requirements, x, y)
    return _added(requirements, x, _fed_forward(requirements, attributes, x, "ln2"))


@layer("TransformerEncoder")
def encoder(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    num_layers: object,
    dims: object,
    num_heads: object,
    mlp_dims: object = None,
    dropout: object = 0.0,
    activation: object = None,
    norm_first: object = True,
    checkpoint: object = False,
) -> Attributes:
    """``nn.TransformerEncoder``: layers of one kind."""
    arguments = (dims, num_heads, mlp_dims, dropout, activation, norm_first)
    one = MadeLayer("mlx.nn.TransformerEncoderLayer", encoder_layer(requirements, *arguments))
    return _stacked(requirements, num_layers, one, dims, checkpoint)


#: More layers than these are as many.
MOST_LAYERS = 1000


def _stacked(
    requirements: Requirements, number: object, one: MadeLayer, dims: object, checkpoint: object
) -> Attributes:
    is_known = type(number) is int and number <= MOST_LAYERS
    layers: object = [one] * number if is_known else UNKNOWN  # type: ignore[operator]
    return {
        "layers": layers,
        "ln": made_norm(requirements, dims),
        "checkpoint": checkpoint,
        "_layer": one,
    }


def _layers_of(attributes: Attributes) -> list[object]:
    """One of a run of layers, which are alike; none if there is none."""
    layers = attributes.get("layers")
    if isinstance(layers, list):
        return layers[:2]
    return [attributes.get("_layer", UNKNOWN)]


@layer_call("TransformerEncoder")
def encoder_call(
    requirements: Requirements, attributes: Attributes, x: object, mask: object
) -> object:
    """The shape of ``x``."""
    for one in _layers_of(attributes):
        x = call_made(requirements, one, x, mask)
    return call_made(requirements, attributes.get("ln"), x)


@layer("TransformerDecoderLayer")
def decoder_layer(
    requirements: Requirements,
    dims: object,
    num_heads: object,
    mlp_dims: object = None,
    dropout: object = 0.0,
    activation: object = None,
    norm_first: object = True,
) -> Attributes:
    """``nn.TransformerDecoderLayer``."""
    name = "mlx.nn.MultiHeadAttention"
    block = _block(requirements, dims, mlp_dims, dropout)
    return {
        "self_attention": MadeLayer(name, multi_head_attention(requirements, dims, num_heads)),
        "cross_attention": MadeLayer(name, multi_head_attention(requirements, dims, num_heads)),
        **block,
        "ln3": made_norm(requirements, dims),
        "dropout3": block["dropout2"],
        "activation": UNKNOWN,
        "norm_first": norm_first,
    }


@layer_call("TransformerDecoderLayer")
def decoder_layer_call(
    requirements: Requirements,
    attributes: Attributes,
    x: object,
    memory: object,
    x_mask: object,
    memory_mask: object,
) -> object:
    """The shape of ``x``."""
    y = call_made(requirements, attributes.get("ln1"), x)
    y = call_made(requirements, attributes.get("self_attention"), y, y, y, x_mask)
    x = _added(requirements, x, y)
    y = call_made(requirements, attributes.get("ln2"), x)
    cross = attributes.get("cross_attention")
    x = _added(requirements, x, call_made(requirements, cross, y, memory, memory, memory_mask))
    return _added(requirements, x, _fed_forward(requirements, attributes, x, "ln3"))


@layer("TransformerDecoder")
def decoder(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    num_layers: object,
    dims: object,
    num_heads: object,
    mlp_dims: object = None,
    dropout: object = 0.0,
    activation: object = None,
    norm_first: object = True,
    checkpoint: object = False,
) -> Attributes:
    """``nn.TransformerDecoder``: layers of one kind."""
    arguments = (dims, num_heads, mlp_dims, dropout, activation, norm_first)
    one = MadeLayer("mlx.nn.TransformerDecoderLayer", decoder_layer(requirements, *arguments))
    return _stacked(requirements, num_layers, one, dims, checkpoint)


@layer_call("TransformerDecoder")
def decoder_call(
    requirements: Requirements,
    attributes: Attributes,
    x: object,
    memory: object,
    x_mask: object,
    memory_mask: object,
) -> object:
    """The shape of ``x``."""
    for one in _layers_of(attributes):
        x = call_made(requirements, one, x, memory, x_mask, memory_mask)
    return call_made(requirements, attributes.get("ln"), x)


@layer("Transformer")
def transformer(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    dims: object = 512,
    num_heads: object = 8,
    num_encoder_layers: object = 6,
    num_decoder_layers: object = 6,
    mlp_dims: object = None,
    dropout: object = 0.0,
    activation: object = None,
    custom_encoder: object = None,
    custom_decoder: object = None,
    norm_first: object = True,
    checkpoint: object = False,
) -> Attributes:
    """``nn.Transformer``: an encoder and a decoder."""
    rest = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
    attributes: Attributes = {"encoder": custom_encoder, "decoder": custom_decoder}
    if custom_encoder is None:
        made = encoder(requirements, num_encoder_layers, *rest)
        attributes["encoder"] = MadeLayer("mlx.nn.TransformerEncoder", made)
    if custom_decoder is None:
        made = decoder(requirements, num_decoder_layers, *rest)
        attributes["decoder"] = MadeLayer("mlx.nn.TransformerDecoder", made)
    return attributes


@layer_call("Transformer")
def transformer_call(
    requirements: Requirements,
    attributes: Attributes,
    src: object,
    tgt: object,
    src_mask: object,
    tgt_mask: object,
    memory_mask: object,
) -> object:
    """The shape of ``tgt``."""
    memory = call_made(requirements, attributes.get("encoder"), src, src_mask)
    decoded = attributes.get("decoder")
    return call_made(requirements, decoded, tgt, memory, tgt_mask, memory_mask)


# Quantized layers


def _quantized(
    requirements: Requirements, rows: Integer, columns: Integer, options: tuple[object, ...]
) -> Attributes:
    """The parameters of a quantized layer."""
    group_size, bits, mode = options
    if isinstance(mode, str) and mode not in DEFAULTS:
        requirements.fail(f"the mode is {mode!r}")
    groups, width = (
        DEFAULTS.get(mode, (UNKNOWN, UNKNOWN)) if isinstance(mode, str) else (UNKNOWN, UNKNOWN)
    )
    matrix = ShapedArray(ArrayShape((rows, columns)), PARAMETERS)
    parts = quantize(requirements, matrix, group_size, bits, mode)
    made = parts if isinstance(parts, list) else [UNKNOWN] * 3
    return {
        "group_size": _or(group_size, groups),
        "bits": _or(bits, width),
        "mode": mode,
        **dict(zip(("weight", "scales", "biases"), (*made, None), strict=False)),
    }


def _options(attributes: Attributes) -> tuple[object, object, object]:
    group_size, bits, mode = (
        attributes.get(name, UNKNOWN) for name in ("group_size", "bits", "mode")
    )
    return group_size, bits, mode


@layer("QuantizedLinear")
def quantized_linear(
    requirements: Requirements,
    input_dims: object,
    output_dims: object,
    bias: object = True,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
) -> Attributes:
    """``nn.QuantizedLinear``."""
    inner = positive(requirements, input_dims, "input_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    attributes = _quantized(requirements, outer, inner, (group_size, bits, mode))
    if is_set(bias):
        attributes["bias"] = parameter(outer)
    return attributes


@layer_call("QuantizedLinear")
def quantized_linear_call(requirements: Requirements, attributes: Attributes, x: object) -> object:
    """``x @ weight.T + bias``."""
    found = quantized_as_linear(requirements, attributes, x)
    return broadcast(requirements, found, attributes["bias"]) if "bias" in attributes else found


@transfer("mlx.nn.QuantizedEmbedding.as_linear")
def quantized_as_linear(requirements: Requirements, attributes: Attributes, x: object) -> object:
    """``x @ weight.T``."""
    group_size, bits, mode = _options(attributes)
    return quantized_matmul(
        requirements,
        x,
        attributes.get("weight", UNKNOWN),
        attributes.get("scales", UNKNOWN),
        attributes.get("biases"),
        True,
        group_size,
        bits,
        mode,
    )


@layer("QuantizedEmbedding")
def quantized_embedding(
    requirements: Requirements,
    num_embeddings: object,
    dims: object,
    group_size: object = None,
    bits: object = None,
    mode: object = "affine",
) -> Attributes:
    """``nn.QuantizedEmbedding``."""
    rows = size_of(requirements, num_embeddings, "num_embeddings")
    columns = positive(requirements, dims, "dims")
    attributes = _quantized(requirements, rows, columns, (group_size, bits, mode))
    return {**attributes, "num_embeddings": num_embeddings, "dims": dims}


@layer_call("QuantizedEmbedding")
def quantized_embedding_call(
    requirements: Requirements, attributes: Attributes, x: object
) -> object:
    """Rows of the dequantized weight."""
    group_size, bits, mode = _options(attributes)
    packed, scales = (
        rows_of(requirements, attributes.get(name, UNKNOWN), x) for name in ("weight", "scales")
    )
    biases = attributes.get("biases")
    if biases is not None:
        biases = rows_of(requirements, biases, x)
    return dequantize(requirements, packed, scales, biases, group_size, bits, mode)


@layer("QQLinear")
def qq_linear(
    requirements: Requirements,
    input_dims: object,
    output_dims: object,
    group_size: object = None,
    bits: object = None,
    mode: object = "nvfp4",
) -> Attributes:
    """``nn.QQLinear``: the weight is quantized on the fly while it is trained."""
    inner = positive(requirements, input_dims, "input_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    if isinstance(mode, str) and mode not in DEFAULTS:
        requirements.fail(f"the mode is {mode!r}")
    groups, width = DEFAULTS[mode] if isinstance(mode, str) else (UNKNOWN, UNKNOWN)
    return {
        "group_size": _or(group_size, groups),
        "bits": _or(bits, width),
        "mode": mode,
        "weight": parameter(outer, inner),
    }


@layer_call("QQLinear")
def qq_linear_call(requirements: Requirements, attributes: Attributes, x: object) -> object:
    """``x @ weight.T``."""
    group_size, bits, mode = _options(attributes)
    scales, weight = attributes.get("scales"), attributes.get("weight", UNKNOWN)
    return qqmm(requirements, x, weight, scales, group_size, bits, mode)
