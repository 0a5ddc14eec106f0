"""Layers of ``mlx.nn`` for sequences: attention, transformers, recurrent ones."""

from __future__ import annotations

from collections.abc import Callable

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    DType,
    DTypeValue,
    ShapedArray,
    promote,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import Integer, multiply
from embercoach.analysis.shapes.table import LAYERS, LayerValues, layer, layer_call, transfer
from embercoach.analysis.shapes.table.elementwise import array_argument, broadcast
from embercoach.analysis.shapes.table.fast import scaled_dot_product_attention
from embercoach.analysis.shapes.table.joining_shapes import fits
from embercoach.analysis.shapes.table.layer_shapes import (
    FLOAT32,
    MadeLayer,
    call_made,
    is_set,
    layer_norm_layer,
    linear,
    or_default,
    parameter,
    positive,
    size_of,
    transposed,
)
from embercoach.analysis.shapes.table.layer_shapes import (
    dropout as dropout_layer,
)
from embercoach.analysis.shapes.table.products import (
    addmm,
    divisible,
    inexact,
    optional_array,
    weighted,
)


def made_linear(
    requirements: Requirements, inner: object, outer: object, bias: object = True
) -> MadeLayer:
    """Return a linear layer in an attribute."""
    return MadeLayer("mlx.nn.Linear", linear(requirements, inner, outer, bias))


def made_norm(requirements: Requirements, dims: object) -> MadeLayer:
    """Return a layer norm in an attribute."""
    return MadeLayer("mlx.nn.LayerNorm", layer_norm_layer(requirements, dims))


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
) -> LayerValues:
    """``nn.MultiHeadAttention``: the heads divide the features."""
    size = size_of(requirements, dims, "dims")
    heads = positive(requirements, num_heads, "num_heads")
    divisible(requirements, size, heads, f"dims is {size}, no multiple of {heads} heads")
    keys = or_default(key_input_dims, dims)
    values = or_default(value_dims, dims)
    return {
        "num_heads": num_heads,
        "query_proj": made_linear(requirements, or_default(query_input_dims, dims), dims, bias),
        "key_proj": made_linear(requirements, keys, dims, bias),
        "value_proj": made_linear(requirements, or_default(value_input_dims, keys), values, bias),
        "out_proj": made_linear(requirements, values, or_default(value_output_dims, dims), bias),
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
    attributes: LayerValues,
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


def _transformer_layer(*attentions: str, norms: int) -> Callable[..., LayerValues]:
    """``nn.TransformerEncoderLayer`` and ``nn.TransformerDecoderLayer``.

    Args:
        attentions: the names of its attentions.
        norms: how many norms it has, with a dropout each.
    """

    def construct(
        requirements: Requirements,
        dims: object,
        num_heads: object,
        mlp_dims: object = None,
        dropout: object = 0.0,
        activation: object = None,
        norm_first: object = True,
    ) -> LayerValues:
        size = size_of(requirements, dims, "dims")
        inner = multiply(size, 4) if mlp_dims is None or mlp_dims == 0 else mlp_dims
        heads = multi_head_attention(requirements, dims, num_heads)
        dropped = dropout_layer(requirements, dropout)
        return {
            **{name: MadeLayer("mlx.nn.MultiHeadAttention", dict(heads)) for name in attentions},
            "linear1": made_linear(requirements, dims, inner),
            "linear2": made_linear(requirements, inner, dims),
            **{f"ln{at}": made_norm(requirements, dims) for at in range(1, norms + 1)},
            **{f"dropout{at}": MadeLayer("mlx.nn.Dropout", dropped) for at in range(1, norms + 1)},
            "activation": UNKNOWN,
            "norm_first": norm_first,
        }

    return construct


def _fed_forward(
    requirements: Requirements, attributes: LayerValues, x: object, norm: str
) -> object:
    """``x`` through the norm and the two linear layers; an activation keeps the shape."""
    y = call_made(requirements, attributes.get(norm), x)
    y = call_made(requirements, attributes.get("linear1"), y)
    return call_made(requirements, attributes.get("linear2"), y)


@layer_call("TransformerEncoderLayer")
def encoder_layer_call(
    requirements: Requirements, attributes: LayerValues, x: object, mask: object
) -> object:
    """Return the shape of ``x``."""
    attention = attributes.get("attention")
    y = call_made(requirements, attributes.get("ln1"), x)
    y = call_made(requirements, attention, y, y, y, mask)
    x = broadcast(requirements, x, y)
    return broadcast(requirements, x, _fed_forward(requirements, attributes, x, "ln2"))


#: More layers than these are as many.
MOST_LAYERS = 1000


def _stack(name: str) -> Callable[..., LayerValues]:
    """``nn.TransformerEncoder`` and ``nn.TransformerDecoder``: layers of one kind."""

    def construct(  # noqa: PLR0913, PLR0917
        requirements: Requirements,
        num_layers: object,
        dims: object,
        num_heads: object,
        mlp_dims: object = None,
        dropout: object = 0.0,
        activation: object = None,
        norm_first: object = True,
        checkpoint: object = False,
    ) -> LayerValues:
        arguments = (dims, num_heads, mlp_dims, dropout, activation, norm_first)
        one = MadeLayer(name, LAYERS[name](requirements, *arguments))
        is_known = type(num_layers) is int and num_layers <= MOST_LAYERS
        return {
            "layers": [one] * num_layers if is_known else UNKNOWN,  # type: ignore[operator]
            "ln": made_norm(requirements, dims),
            "checkpoint": checkpoint,
            "_layer": one,
        }

    return construct


_encoder_layer = _transformer_layer("attention", norms=2)
_decoder_layer = _transformer_layer("self_attention", "cross_attention", norms=3)
for _kind, _layer in (("Encoder", _encoder_layer), ("Decoder", _decoder_layer)):
    LAYERS[f"mlx.nn.Transformer{_kind}Layer"] = _layer
    LAYERS[f"mlx.nn.Transformer{_kind}"] = _stack(f"mlx.nn.Transformer{_kind}Layer")


def _stack_call(
    requirements: Requirements, attributes: LayerValues, x: object, *arguments: object
) -> object:
    """Return the shape of ``x``."""
    for one in _layers_of(attributes):
        x = call_made(requirements, one, x, *arguments)
    return call_made(requirements, attributes.get("ln"), x)


def _layers_of(attributes: LayerValues) -> list[object]:
    """Return one of a run of layers, which are alike; none if there is none."""
    layers = attributes.get("layers")
    if isinstance(layers, list):
        return layers[:2]
    return [attributes.get("_layer", UNKNOWN)]


@layer_call("TransformerEncoder")
def encoder_call(
    requirements: Requirements, attributes: LayerValues, x: object, mask: object
) -> object:
    """Return the shape of ``x``."""
    return _stack_call(requirements, attributes, x, mask)


@layer_call("TransformerDecoderLayer")
def decoder_layer_call(
    requirements: Requirements,
    attributes: LayerValues,
    x: object,
    memory: object,
    x_mask: object,
    memory_mask: object,
) -> object:
    """Return the shape of ``x``."""
    y = call_made(requirements, attributes.get("ln1"), x)
    y = call_made(requirements, attributes.get("self_attention"), y, y, y, x_mask)
    x = broadcast(requirements, x, y)
    y = call_made(requirements, attributes.get("ln2"), x)
    cross = attributes.get("cross_attention")
    x = broadcast(requirements, x, call_made(requirements, cross, y, memory, memory, memory_mask))
    return broadcast(requirements, x, _fed_forward(requirements, attributes, x, "ln3"))


@layer_call("TransformerDecoder")
def decoder_call(
    requirements: Requirements,
    attributes: LayerValues,
    x: object,
    memory: object,
    x_mask: object,
    memory_mask: object,
) -> object:
    """Return the shape of ``x``."""
    return _stack_call(requirements, attributes, x, memory, x_mask, memory_mask)


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
) -> LayerValues:
    """``nn.Transformer``: an encoder and a decoder."""
    rest = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
    attributes: LayerValues = {}
    for kind, custom, number in (
        ("encoder", custom_encoder, num_encoder_layers),
        ("decoder", custom_decoder, num_decoder_layers),
    ):
        name = f"mlx.nn.Transformer{kind.capitalize()}"
        made = LAYERS[name](requirements, number, *rest) if custom is None else None
        attributes[kind] = custom if made is None else MadeLayer(name, made)
    return attributes


@layer_call("Transformer")
def transformer_call(
    requirements: Requirements,
    attributes: LayerValues,
    src: object,
    tgt: object,
    src_mask: object,
    tgt_mask: object,
    memory_mask: object,
) -> object:
    """Return the shape of ``tgt``."""
    memory = call_made(requirements, attributes.get("encoder"), src, src_mask)
    decoded = attributes.get("decoder")
    return call_made(requirements, decoded, tgt, memory, tgt_mask, memory_mask)


def _gates(
    requirements: Requirements,
    input_size: object,
    hidden_size: object,
    number: int,
    names: tuple[str, str],
) -> tuple[LayerValues, Integer]:
    """Get the weights of so many gates, for the input and for the hidden state, and their rows."""
    hidden = positive(requirements, hidden_size, "hidden_size")
    inner = size_of(requirements, input_size, "input_size")
    rows = multiply(number, hidden)
    weights = parameter(rows, inner), parameter(rows, hidden)
    return {"hidden_size": hidden_size, **dict(zip(names, weights, strict=True))}, rows


@layer("RNN")
def rnn(
    requirements: Requirements,
    input_size: object,
    hidden_size: object,
    bias: object = True,
    nonlinearity: object = None,
) -> LayerValues:
    """``nn.RNN``: one weight for the input, one for the hidden state."""
    made, rows = _gates(requirements, input_size, hidden_size, 1, ("Wxh", "Whh"))
    return {**made, "bias": parameter(rows) if is_set(bias) else None, "nonlinearity": UNKNOWN}


@layer("GRU")
def gru(
    requirements: Requirements, input_size: object, hidden_size: object, bias: object = True
) -> LayerValues:
    """``nn.GRU``: weights of three gates."""
    made, rows = _gates(requirements, input_size, hidden_size, 3, ("Wx", "Wh"))
    hidden = made["Wh"].shape.head[1]
    biases = (parameter(rows), parameter(hidden)) if is_set(bias) else (None, None)
    return {**made, "b": biases[0], "bhn": biases[1]}


@layer("LSTM")
def lstm(
    requirements: Requirements, input_size: object, hidden_size: object, bias: object = True
) -> LayerValues:
    """``nn.LSTM``: weights of four gates."""
    made, rows = _gates(requirements, input_size, hidden_size, 4, ("Wx", "Wh"))
    return {**made, "bias": parameter(rows) if is_set(bias) else None}


def _projected(requirements: Requirements, x: object, weight: object, bias: object) -> ShapedArray:
    """Return the input of all steps times its weight."""
    if bias is None:
        found = weighted(requirements, x, transposed(weight))
    else:
        found = addmm(requirements, bias, x, transposed(weight))
    array = array_argument(requirements, found)
    given = array_argument(requirements, x)
    requirements.least_rank(given, 2, f"{given.shape} has no axis of steps")
    if given.shape.rank is not None and given.shape.head[-2] == 0:
        requirements.fail(f"{given.shape} has no steps")
    return array


def _states(
    requirements: Requirements,
    attributes: LayerValues,
    x: object,
    names: tuple[str, str, str],
    *given: object,
) -> ShapedArray:
    """Return the states of all steps, which the given ones broadcast to.

    Args:
        requirements: get what the call requires.
        attributes: of the layer.
        x: its input.
        names: of the weights of input and state, and of the bias.
        given: the first states; None for zeros.
    """
    matrix, weight, bias = (attributes.get(name, UNKNOWN) for name in names)
    projected = _projected(requirements, x, matrix, bias)
    size = array_argument(requirements, weight).shape.size(-1)
    states = [optional_array(requirements, one) for one in given]
    whole = projected.shape
    step = with_last(without_last(whole, 2), size)
    dtype: DType = projected.dtype
    for number, state in enumerate(states):
        if state is None:
            continue
        reason = f"the state {state.shape} doesn't fit the states {step} of a step"
        if number == 0:
            hidden = array_argument(requirements, weight)
            dtype = inexact(requirements, promote(promote(dtype, state.dtype), hidden.dtype))
            requirements.least_rank(state, 1, reason)
            requirements.equal(state.shape.size(-1), size, reason)
        else:
            dtype = promote(dtype, state.dtype)
        fits(requirements, state.shape, step, reason)
    return ShapedArray(with_last(without_last(whole), size), dtype)


@layer_call("RNN")
def rnn_call(
    requirements: Requirements, attributes: LayerValues, x: object, hidden: object = None
) -> object:
    """Return the hidden states (..., steps, hidden_size)."""
    return _states(requirements, attributes, x, ("Wxh", "Whh", "bias"), hidden)


@layer_call("GRU")
def gru_call(
    requirements: Requirements, attributes: LayerValues, x: object, hidden: object = None
) -> object:
    """Return the hidden states (..., steps, hidden_size)."""
    return _states(requirements, attributes, x, ("Wx", "Wh", "b"), hidden)


@layer_call("LSTM")
def lstm_call(
    requirements: Requirements,
    attributes: LayerValues,
    x: object,
    hidden: object = None,
    cell: object = None,
) -> object:
    """Return the hidden states and the cells, both (..., steps, hidden_size)."""
    found = _states(requirements, attributes, x, ("Wx", "Wh", "bias"), hidden, cell)
    return found, found
