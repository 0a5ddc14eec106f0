"""Parts of the package mlx-lm that its models use: masks, caches, attention, experts."""

from __future__ import annotations

from collections.abc import Callable

from embercoach.analysis.shapes.arrays import (
    PARAMETERS,
    UNKNOWN,
    ArrayShape,
    DTypeSymbol,
    ShapedArray,
    dtype_symbol,
    promote,
    shape_of_rank,
    unknown_shape,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer, add
from embercoach.analysis.shapes.table import (
    LAYER_CALLS,
    LAYERS,
    LayerValues,
    layer,
    layer_call,
    transfer,
)
from embercoach.analysis.shapes.table.activations import real_activation
from embercoach.analysis.shapes.table.elementwise import array_argument, broadcast
from embercoach.analysis.shapes.table.fast import scaled_dot_product_attention
from embercoach.analysis.shapes.table.layer_shapes import (
    MadeLayer,
    call_made,
    parameter,
    positive,
    rope_call,
    rope_layer,
    size_of,
    with_bias,
)
from embercoach.analysis.shapes.table.products import batch_indices, inexact, integral

BASE, CACHE = "mlx_lm.models.base", "mlx_lm.models.cache"


@transfer(f"{BASE}.create_causal_mask")
def create_causal_mask(
    requirements: Requirements,
    N: object,  # noqa: N803
    offset: object = 0,
    window_size: object = None,
    right_padding: object = None,
    left_padding: object = None,
) -> object:
    """Bools of (N, offset + N); of (B, 1, N, offset + N) with paddings."""
    rows: Integer = N if is_integer(N) else ANY_INT
    ahead: Integer = offset if is_integer(offset) else ANY_INT
    mask: object = ShapedArray(ArrayShape((rows, add(ahead, rows))), "bool")
    for padding in (right_padding, left_padding):
        if padding is None:
            continue
        given = array_argument(requirements, padding)
        if given.shape.rank != 1:
            return ShapedArray(unknown_shape(), "bool")
        mask = broadcast(
            requirements, mask, ShapedArray(ArrayShape((*given.shape.head, 1, 1, 1)), "bool")
        )
    return mask


@transfer(f"{BASE}.create_attention_mask", f"{BASE}.create_ssm_mask")
def create_attention_mask(
    requirements: Requirements,
    h: object,
    cache: object = None,
    window_size: object = None,
    return_array: object = False,
) -> object:
    """None, "causal" or an array, by what the cache holds; it fits the attention."""
    array = array_argument(requirements, h)
    requirements.least_rank(array, 2, f"{array.shape} has no axis of steps")
    return UNKNOWN


@transfer(f"{BASE}.scaled_dot_product_attention")
def attention(
    requirements: Requirements,
    queries: object,
    keys: object,
    values: object,
    cache: object,
    scale: object,
    mask: object,
    sinks: object = None,
) -> object:
    """``mx.fast.scaled_dot_product_attention``; a quantized cache holds tuples."""
    if all(isinstance(value, ShapedArray) for value in (keys, values)):
        return scaled_dot_product_attention(
            requirements, queries, keys, values, scale=scale, mask=mask, sinks=sinks
        )
    given = array_argument(requirements, queries)
    sizes = requirements.rank(given, 4, f"the shape of the queries is {given.shape}")
    return ShapedArray(ArrayShape((*sizes[:3], ANY_INT)), given.dtype)


def attention_result(given: tuple[object, ...], result: object) -> object:
    """Return the result of a program's own function of this name, for queries, keys and values.

    Args:
        given: its arguments.
        result: what is known of its result.
    """
    is_known = result is not UNKNOWN and not (
        isinstance(result, ShapedArray) and result.shape.rank is None
    )
    if is_known or len(given) < 3 or not any(isinstance(one, ShapedArray) for one in given[:3]):
        return result
    queries, _, values = (_of_four_axes(value) for value in given[:3])
    dtype = queries.dtype or dtype_symbol(DTypeSymbol("attention"))
    return ShapedArray(ArrayShape((*queries.shape.head[:3], values.shape.head[3])), dtype)


def _of_four_axes(value: object) -> ShapedArray:
    """Return an argument of attention, of which nothing else may be known."""
    if isinstance(value, ShapedArray) and value.shape.rank == 4:
        return value
    return ShapedArray(shape_of_rank(4), value.dtype if isinstance(value, ShapedArray) else None)


# Caches

_CACHES = (
    *("KVCache", "RotatingKVCache", "QuantizedKVCache", "ConcatenateKVCache", "ChunkedKVCache"),
    *("BatchKVCache", "BatchRotatingKVCache"),
)


def cache_attributes(requirements: Requirements, *args: object, **kwargs: object) -> LayerValues:
    """Return a cache: what it holds is not followed."""
    return {"offset": ANY_INT, "keys": UNKNOWN, "values": UNKNOWN}


def update_and_fetch(
    requirements: Requirements, attributes: LayerValues, keys: object, values: object
) -> object:
    """Return all keys and values so far: (B, H, ?, D) each."""
    given = [array_argument(requirements, value) for value in (keys, values)]
    shown = f"keys {given[0].shape}, values {given[1].shape}"
    sizes = [requirements.rank(one, 4, f"the arrays are not 4-d: {shown}") for one in given]
    found = [
        ShapedArray(ArrayShape((*size[:2], ANY_INT, size[3])), one.dtype)
        for size, one in zip(sizes, given, strict=True)
    ]
    return tuple(found)


def quantized_update_and_fetch(
    requirements: Requirements, attributes: LayerValues, keys: object, values: object
) -> object:
    """Words, scales and biases of both, which aren't followed."""
    return UNKNOWN, UNKNOWN


for _name in _CACHES:
    LAYERS[f"{CACHE}.{_name}"] = cache_attributes
    transfer(f"{CACHE}.{_name}.update_and_fetch")(
        quantized_update_and_fetch if _name == "QuantizedKVCache" else update_and_fetch
    )


@transfer(*(f"{CACHE}.{name}.make_mask" for name in _CACHES), f"{CACHE}.make_prompt_cache")
def not_followed(requirements: Requirements, *args: object, **kwargs: object) -> object:
    """Return a value that isn't known."""
    return UNKNOWN


# Positions, activations

ROPE = "mlx_lm.models.rope_utils"


@transfer(f"{ROPE}.initialize_rope")
def initialize_rope(
    requirements: Requirements,
    dims: object,
    base: object,
    traditional: object,
    scaling_config: object = None,
    max_position_embeddings: object = None,
) -> object:
    """Return a layer that turns the first ``dims`` elements of the last axis."""
    return MadeLayer("mlx.nn.RoPE", rope_layer(requirements, dims, traditional, UNKNOWN))


def rope_attributes(
    requirements: Requirements, dims: object, *args: object, **kwargs: object
) -> LayerValues:
    """Return a layer of rotary positions."""
    return {"dims": dims, "dim": dims, "base": UNKNOWN}


def rope_kind_call(
    requirements: Requirements,
    attributes: LayerValues,
    x: object,
    offset: object = 0,
    *args: object,
    **kwargs: object,
) -> object:
    """Return the shape of ``x``."""
    return rope_call(requirements, attributes, x, offset)


for _name in (
    "SuScaledRoPE",
    "Llama3RoPE",
    "YarnRoPE",
    "ProportionalRoPE",
    "DynamicNTKScalingRoPE",
):
    LAYERS[f"{ROPE}.{_name}"] = rope_attributes
    LAYER_CALLS[f"{ROPE}.{_name}"] = rope_kind_call


@transfer("mlx_lm.models.activations.swiglu", "mlx_lm.models.switch_layers.swiglu")
def swiglu(requirements: Requirements, gate: object, x: object) -> object:
    """``nn.silu(gate) * x``."""
    return broadcast(requirements, real_activation(requirements, gate), x)


# Experts

SWITCH = "mlx_lm.models.switch_layers"


@layer(f"{SWITCH}.SwitchLinear")
def switch_linear(
    requirements: Requirements,
    input_dims: object,
    output_dims: object,
    num_experts: object,
    bias: object = True,
) -> LayerValues:
    """Return a weight of (num_experts, output_dims, input_dims)."""
    inner = positive(requirements, input_dims, "input_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    experts = size_of(requirements, num_experts, "num_experts")
    attributes: LayerValues = {
        "weight": parameter(experts, outer, inner),
        "input_dims": inner,
        "output_dims": outer,
        "num_experts": experts,
    }
    return with_bias(attributes, bias, experts, outer)


@layer_call(f"{SWITCH}.SwitchLinear")
def switch_linear_call(
    requirements: Requirements,
    attributes: LayerValues,
    x: object,
    indices: object,
    sorted_indices: object = False,
) -> object:
    """``mx.gather_mm`` with the transposed weights of the chosen experts."""
    left, chosen = array_argument(requirements, x), array_argument(requirements, indices)
    weight = array_argument(requirements, attributes.get("weight", UNKNOWN))
    if weight.shape.rank != 3:
        return ShapedArray(unknown_shape())
    _, outer, inner = weight.shape.head
    reason = f"the input is {left.shape}, and the weight {weight.shape}"
    requirements.least_rank(left, 2, reason)
    requirements.equal(left.shape.size(-1), inner, f"the inner size is {inner}: {reason}")
    if left.shape.rank is None and left.shape.least_rank < 2:
        return ShapedArray(with_last(unknown_shape(), outer), promote(left.dtype, weight.dtype))
    batch = batch_indices(requirements, left.shape, weight.shape, None, chosen)
    dtype = inexact(requirements, promote(left.dtype, weight.dtype))
    found = ShapedArray(with_last(batch, left.shape.size(-2), outer), dtype)
    if "bias" not in attributes:
        return found
    bias = ShapedArray(with_last(chosen.shape, 1, outer), PARAMETERS)
    return broadcast(requirements, found, bias)


def _experts(*up: str, down: str) -> Callable[..., LayerValues]:
    """Make linear layers of experts, some up to the hidden size and one down from it."""

    def construct(
        requirements: Requirements,
        input_dims: object,
        hidden_dims: object,
        num_experts: object,
        activation: object = None,
        bias: object = False,
    ) -> LayerValues:
        sizes = dict.fromkeys(up, (input_dims, hidden_dims)) | {down: (hidden_dims, input_dims)}
        name = f"{SWITCH}.SwitchLinear"
        made = {
            key: MadeLayer(name, switch_linear(requirements, *size, num_experts, bias))
            for key, size in sizes.items()
        }
        return {**made, "activation": UNKNOWN}

    return construct


def _switched(up: str, down: str) -> Callable[..., object]:
    """Make the call of experts: (..., D) and indices (..., K) give (..., K, D)."""

    def call(
        requirements: Requirements, attributes: LayerValues, x: object, indices: object
    ) -> object:
        given, chosen = array_argument(requirements, x), array_argument(requirements, indices)
        integral(requirements, chosen)
        requirements.least_rank(given, 1, "the input has no axes")
        rows = with_last(without_last(given.shape), 1, 1, given.shape.size(-1))
        row = ShapedArray(rows, given.dtype)
        hidden = call_made(requirements, attributes.get(up), row, chosen)
        made = call_made(requirements, attributes.get(down), hidden, chosen)
        found = array_argument(requirements, made)
        if found.shape.least_rank < 2 and found.shape.rank is None:
            return ShapedArray(with_last(chosen.shape, ANY_INT), found.dtype)
        shape = with_last(without_last(found.shape, 2), found.shape.size(-1))
        return ShapedArray(shape, found.dtype)

    return call


LAYERS[f"{SWITCH}.SwitchGLU"] = _experts("gate_proj", "up_proj", down="down_proj")
LAYER_CALLS[f"{SWITCH}.SwitchGLU"] = _switched("up_proj", "down_proj")
LAYERS[f"{SWITCH}.SwitchMLP"] = _experts("fc1", down="fc2")
LAYER_CALLS[f"{SWITCH}.SwitchMLP"] = _switched("fc1", "fc2")
