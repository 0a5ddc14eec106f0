"""Draws of layers, activations, losses and initializers of ``mlx.nn``, and of mlx-lm's parts.

A layer is made with drawn arguments, its parameters are cast to a dtype, and it is called on zeros.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx import nn

from embercoach.analysis.shapes.arrays import (
    PARAMETER_DTYPE,
    UNKNOWN,
    ArrayShape,
    DTypeValue,
    PromotedDType,
    ShapedArray,
    dtype_symbol,
    promote,
)
from embercoach.analysis.shapes.table import LAYER_CALLS, LAYERS, TRANSFERS
from tests.analysis.shapes.draws_products import filled, kind, near
from tests.analysis.shapes.oracle import Call, Draw, Size, draws

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.analysis.shapes.arrays import DType
    from embercoach.analysis.shapes.requirements import Requirements

#: What an argument stands for that a layer is made of, and what it is called with.
Given = tuple[Any, ...]


def found(name: str) -> Any:
    """The class or function of a full name."""
    module, _, last = name.rpartition(".")
    if module == "mlx.nn":
        return getattr(nn, last)
    if module.startswith("mlx.nn."):
        return getattr(getattr(nn, module.removeprefix("mlx.nn.")), last)
    return getattr(importlib.import_module(module), last)


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as MLX first calls it.

    ``nn.softmax`` and the like are compiled for any shape: later calls of other ranks or shapes
    that don't broadcast give garbage in place of an error.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        mx.disable_compile()
        try:
            return function(*args, **kwargs)
        finally:
            mx.enable_compile()

    return call


def as_loaded(value: Any, loaded: str) -> Any:
    """The value where parameters are of a dtype."""
    if isinstance(value, ShapedArray):
        return ShapedArray(value.shape, dtype_as_loaded(value.dtype, loaded))
    if isinstance(value, (tuple, list)):
        return type(value)(as_loaded(item, loaded) for item in value)
    return value


def dtype_as_loaded(dtype: DType, loaded: str) -> DType:
    """The dtype where that of parameters is known."""
    if not isinstance(dtype, PromotedDType) or PARAMETER_DTYPE not in dtype.symbols:
        return dtype
    result: DType = loaded if dtype.name is None else promote(loaded, dtype.name)
    for symbol in dtype.symbols - {PARAMETER_DTYPE}:
        result = promote(result, dtype_symbol(symbol))
    return result


@dataclass(frozen=True)
class Layered:
    """How a layer is run and inferred: made of arguments, then called."""

    name: str
    method: str = ""

    def run(self, made: dict[str, Any], args: Given, kwargs: dict[str, Any]) -> Any:
        """What the real layer returns."""
        layer = found(self.name)(*made["args"], **made["kwargs"])
        if isinstance(layer, nn.Module):
            layer.set_dtype(getattr(mx, made["dtype"]))
        call = getattr(layer, self.method) if self.method else layer
        result = call(*args, **kwargs)
        return list(result) if isinstance(result, (list, tuple)) else result

    def infer(
        self, requirements: Requirements, made: dict[str, Any], args: Given, kwargs: dict[str, Any]
    ) -> Any:
        """What the table says."""
        attributes = LAYERS[self.name](requirements, *made["args"], **made["kwargs"])
        transfer = TRANSFERS.get(f"{self.name}.{self.method}")
        call = LAYER_CALLS[self.name] if transfer is None else transfer
        result = as_loaded(call(requirements, attributes, *args, **kwargs), made["dtype"])
        return list(result) if isinstance(result, (list, tuple)) else result


def layers(*names: str, method: str = "", **options: Any) -> Callable[..., Any]:
    """Register a draw of ``(made, made by name, arguments, arguments by name)`` for layers."""

    def register(function: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        for name in names:
            full = name if name.startswith("mlx") else f"mlx.nn.{name}"
            layered = Layered(full, method)

            def drawn(draw: Draw) -> Call:
                args, kwargs, called, named = function(draw)
                dtype = draw.choice(("float32", "float32", "float16", "bfloat16"))
                return ({"args": args, "kwargs": kwargs, "dtype": dtype}, called, named), {}

            shown = f"{full}.{method}" if method else full
            draws(shown, run=uncompiled(layered.run), infer=layered.infer, **options)(drawn)
        return function

    return register


def functions(*names: str, **options: Any) -> Callable[..., Any]:
    """Register a draw for functions of ``mlx.nn``, or of full names."""

    def register(function: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
        for name in names:
            full = name if name.startswith("mlx") else f"mlx.nn.{name}"

            draws(full, run=uncompiled(found(full)), **options)(function)
        return function

    return register


def dims(draw: Draw) -> Size:
    """A size of a layer."""
    return Size(draw.randint(1, 6)) if draw.chance(0.97) else draw.choice((Size(0), -1, 2.0))


def features(draw: Draw, size: int, least: int = 0, most: int = 4) -> ShapedArray:
    """An input whose last size is that of a layer, mostly."""
    size = int(size) if isinstance(size, int) else 2
    shape = (*draw.shape(least, most), near(draw, max(size, 0)))
    return draw.array(() if draw.chance(0.02) else shape, kind(draw))


def flags(draw: Draw, *names: str) -> dict[str, bool]:
    """Some of the flags."""
    return draw.maybe(0.4, **{name: draw.chance() for name in names})


# Linear layers


@layers("Linear")
def linear(draw: Draw) -> Any:
    made = dims(draw), dims(draw)
    return made, flags(draw, "bias"), (features(draw, made[0]),), {}


@layers("AllToShardedLinear", "ShardedToAllLinear", open_sizes=True)
def sharded(draw: Draw) -> Any:
    """Sizes, and an input: in one process."""
    made = Size(draw.randint(1, 5)), Size(draw.randint(1, 5))
    return made, flags(draw, "bias"), (draw.floats((2, made[0])),), {}


@layers("Bilinear", may_raise=True)
def bilinear(draw: Draw) -> Any:
    first, second, outer = (Size(draw.randint(1, 4)) for _ in range(3))
    batch = filled(draw.shape(0, 2))
    # Rows of another size are reshaped, where their number allows it.
    x1 = draw.array((*batch, first + 7 if draw.chance(0.05) else first), kind(draw))
    x2 = draw.array((*batch, near(draw, second) or 1), kind(draw))
    return (first, second, outer), flags(draw, "bias"), (x1, x2), {}


@layers("Identity")
def identity(draw: Draw) -> Any:
    return (1, 2), {}, (draw.array(),), {}


@layers("Embedding")
def embedding(draw: Draw) -> Any:
    """Indices, now and then an integer."""
    made = Size(draw.randint(1, 6)), dims(draw)
    dtype = draw.choice(("int32", "uint32", "int64", "float32" if draw.chance(0.2) else "int32"))
    x = draw.array(dtype=dtype) if draw.chance(0.9) else Size(0)
    return made, {}, (x,), {}


@layers("Embedding", method="as_linear")
def as_linear(draw: Draw) -> Any:
    made = Size(draw.randint(1, 6)), dims(draw)
    return made, {}, (features(draw, made[1]),), {}


# Normalization


def norm_options(draw: Draw, *names: str) -> dict[str, Any]:
    """Flags, and an epsilon."""
    return flags(draw, *names) | draw.maybe(0.1, eps=draw.choice((1e-5, 0.0, 1e-3)))


@layers("RMSNorm")
def rms_norm(draw: Draw) -> Any:
    size = dims(draw)
    return (size,), norm_options(draw), (features(draw, size),), {}


@layers("LayerNorm")
def layer_norm(draw: Draw) -> Any:
    made, options, called, named = rms_norm(draw)
    return made, options | flags(draw, "affine", "bias"), called, named


@layers("InstanceNorm", may_raise=True)
def instance_norm(draw: Draw) -> Any:
    size = Size(draw.randint(1, 6))
    shape = (*filled(draw.shape(1 if draw.wrong() else 2, 4)), near(draw, size) or 1)
    return (size,), norm_options(draw, "affine"), (draw.array(shape, kind(draw)),), {}


@layers("GroupNorm", may_raise=True)
def group_norm(draw: Draw) -> Any:
    """Groups that divide the size, mostly."""
    groups = draw.randint(1, 3)
    size = Size(groups * draw.randint(1, 3) if draw.chance(0.9) else draw.randint(0, 5))
    shape = (*filled(draw.shape(0 if draw.wrong() else 1, 3)), size or 1)
    x = draw.array(shape, draw.choice(("float32", "float16", "int32")))
    return (groups, size), norm_options(draw, "affine"), (x,), {}


@layers("BatchNorm", may_raise=True)
def batch_norm(draw: Draw) -> Any:
    size = Size(draw.randint(1, 6))
    least = 2 if draw.chance(0.9) else 0
    shape = (*(draw.randint(2, 4) for _ in range(draw.rank(least - 1, 4))), near(draw, size) or 1)
    if least == 0 and len(shape) < 2:
        shape = ()
    x = draw.array(shape, draw.choice(("float32", "float16", "int32")))
    return (size,), norm_options(draw, "affine", "track_running_stats"), (x,), {}


@layers("Dropout")
@layers("Dropout2d", "Dropout3d")
def dropout(draw: Draw) -> Any:
    p = draw.choice((0.5, 0.1, 0, 0.0, 0.9, 1.0 if draw.wrong() else 0.2))
    least = 2 if draw.chance(0.1) else 3
    return (p,), {}, (draw.array(least=least, dtype=draw.choice(("float32", "bfloat16"))),), {}


# Positions


@layers("RoPE", may_raise=True)
def rope(draw: Draw) -> Any:
    size = Size(draw.choice((2, 4, 4, 6, 3)))
    x = draw.array(
        (*draw.shape(1 if draw.wrong() else 2, 3), size + draw.choice((0, 0, 2))), kind(draw)
    )
    named: dict[str, Any] = {}
    if draw.chance(0.3) and x.shape.head[0]:
        named["offset"] = draw.array((near(draw, x.shape.head[0]) or 1,), "int32")
    elif draw.chance(0.3):
        named["offset"] = 3
    return (size,), flags(draw, "traditional"), (x,), named


@layers("SinusoidalPositionalEncoding")
def sinusoidal(draw: Draw) -> Any:
    size = Size(draw.choice((2, 4, 6, 8, 3 if draw.wrong() else 2, 0 if draw.wrong() else 2)))
    return (size,), flags(draw, "cos_first", "full_turns"), (draw.array(),), {}


@layers("ALiBi", may_raise=True)
def alibi(draw: Draw) -> Any:
    shape = filled(draw.shape(2, 4)) if draw.chance(0.2) else filled(draw.shape(4, 4))
    scores = draw.floats(shape)
    named: dict[str, Any] = {}
    if draw.chance(0.3) and len(shape) == 4:
        named["mask"] = draw.array(draw.broadcasting(shape), scores.dtype or "")
    return (), {}, (scores,), named


@draws("mlx.nn.ALiBi.create_alibi_matrix", run=nn.ALiBi.create_alibi_matrix)
def alibi_matrix(draw: Draw) -> Call:
    lengths = (draw.size(), draw.size(), Size(draw.randint(1, 4)))
    offset = (draw.size(),) if draw.chance(0.3) else ()
    return (*lengths, *offset), draw.maybe(0.3, dtype=DTypeValue("float16"))


# Convolutions, pooling, upsampling


def kernel(draw: Draw, axes: int, *among: int) -> Any:
    """A size for all axes, or a tuple."""
    if axes > 1 and draw.chance(0.4):
        return tuple(Size(draw.choice(among)) for _ in range(axes))
    return Size(draw.choice(among))


def image(draw: Draw, axes: int, size: int) -> ShapedArray:
    """An input (N, *spatial, C)."""
    shape = (draw.randint(0, 3), *(draw.randint(5, 9) for _ in range(axes)), near(draw, size) or 1)
    if draw.chance(0.04):
        shape = shape[1:]
    dtype = "int32" if draw.chance(0.04) else draw.choice(("float32", "float16", "bfloat16"))
    return draw.array(shape, dtype)


def convolution(axes: int, *, transposed: bool) -> Any:
    """A draw of convolution layers."""

    def draw_layer(draw: Draw) -> Any:
        groups = draw.choice((1, 1, 2, 3)) if not transposed and axes < 3 else 1
        inner, outer = Size(groups * draw.randint(1, 3)), Size(groups * draw.randint(1, 3))
        if draw.chance(0.05):
            outer = Size(draw.randint(1, 4))
        options: dict[str, Any] = {"groups": groups} if groups > 1 else {}
        among = {"stride": (1, 2, 3), "padding": (0, 1, 2), "dilation": (1, 2)}
        if transposed:
            among["output_padding"] = (0, 1)
        options |= draw.maybe(0.4, **{key: kernel(draw, axes, *n) for key, n in among.items()})
        made = (inner, outer, kernel(draw, axes, 1, 2, 3))
        return made, {**options, **flags(draw, "bias")}, (image(draw, axes, inner),), {}

    return draw_layer


def pooling(axes: int) -> Any:
    """A draw of pooling layers."""

    def draw_layer(draw: Draw) -> Any:
        stride, padding = kernel(draw, axes, 1, 2, 3), kernel(draw, axes, 0, 1)
        options = draw.maybe(0.4, stride=stride, padding=padding)
        window = kernel(draw, axes, 1, 2, 3)
        if draw.chance(0.04):
            window = draw.choice(((2,) * (axes + 1), 0, 2.5))
        return (window,), options, (image(draw, axes, 3),), {}

    return draw_layer


for _axes in (1, 2, 3):
    layers(f"Conv{_axes}d", may_raise=True)(convolution(_axes, transposed=False))
    layers(f"ConvTranspose{_axes}d", may_raise=True)(convolution(_axes, transposed=True))
    layers(f"MaxPool{_axes}d", f"AvgPool{_axes}d", may_raise=True)(pooling(_axes))


@layers("Upsample", may_raise=True)
def upsample(draw: Draw) -> Any:
    axes = draw.randint(1, 3)
    among = (2, 3, 2.0, 1.5, 0.5, 2.5)
    factor: Any = draw.choice(among)
    if draw.chance(0.4):
        factor = tuple(draw.choice(among) for _ in range(axes + draw.wrong()))
    options = draw.maybe(0.5, mode=draw.choice(("nearest", "linear", "cubic", "linear")))
    shape = (draw.randint(1, 2), *(draw.randint(2, 6) for _ in range(axes)), 3)
    x = draw.array(
        shape[:2] if draw.chance(0.03) else shape, draw.choice(("float32", "float16", "int32"))
    )
    return (factor,), {**options, **flags(draw, "align_corners")}, (x,), {}


# Recurrent layers


def steps(draw: Draw, size: int) -> tuple[tuple[int, ...], ShapedArray]:
    """The batch axes and an input of steps; without steps there is nothing to stack."""
    batch = filled(draw.shape(0, 2))
    shape = (*batch, draw.randint(1, 4), near(draw, size) or 1)
    if draw.chance(0.03):
        shape = shape[-1:]
    return batch, draw.array(shape, draw.choice(("float32", "float16", "bfloat16")))


@layers("RNN", "GRU", may_raise=True)
def recurrent(draw: Draw) -> Any:
    inner, hidden = Size(draw.randint(1, 5)), Size(draw.randint(1, 5))
    batch, x = steps(draw, inner)
    state = draw.array((*batch, near(draw, hidden) or 1), "float32")
    return (inner, hidden), flags(draw, "bias"), (x,), draw.maybe(0.4, hidden=state)


@layers("LSTM", may_raise=True)
def lstm(draw: Draw) -> Any:
    made, options, called, named = recurrent(draw)
    if "hidden" in named and draw.chance(0.7):
        named["cell"] = draw.array(named["hidden"].shape.head, "float32")
    return made, options, called, named


# Attention


@layers("MultiHeadAttention", may_raise=True)
def multi_head_attention(draw: Draw) -> Any:
    """Heads that divide the size, mostly."""
    heads = Size(draw.randint(1, 3))
    size = Size(heads * draw.randint(1, 3) if draw.chance(0.95) else draw.randint(1, 5))
    batch, length, other = (draw.randint(1, 4) for _ in range(3))
    named = {
        name: Size(draw.randint(1, 4) * (heads if name == "value_dims" else 1))
        for name in ("query_input_dims", "key_input_dims", "value_dims", "value_output_dims")
        if draw.chance(0.2)
    }
    keys = near(draw, named.get("key_input_dims", size)) or 1
    dtype = draw.choice(("float32", "float16"))
    called = [
        draw.array((batch, length, named.get("query_input_dims", size)), dtype),
        draw.array((batch, other, keys), dtype),
        draw.array((batch, near(draw, other) or 1, keys), dtype),
    ]
    if draw.chance(0.5):
        mask = draw.broadcasting((batch, heads, length, other))
        # A floating mask must have the dtype of the parameters, which is not known.
        called.append(draw.array(mask, "bool"))
    return (size, heads), {**named, **flags(draw, "bias")}, tuple(called), {}


@draws(
    "mlx.nn.MultiHeadAttention.create_additive_causal_mask",
    run=nn.MultiHeadAttention.create_additive_causal_mask,
)
def additive_mask(draw: Draw) -> Call:
    return (draw.size(),), draw.maybe(0.3, dtype=DTypeValue("float16"))


def causal(draw: Draw, length: int) -> Any:
    """A mask, or None."""
    return draw.array((length, near(draw, length) or 1), "bool") if draw.chance() else None


def blocks(draw: Draw) -> tuple[int, Size, ShapedArray, int]:
    """Heads, their size, an input and its length."""
    heads = draw.randint(1, 2)
    size = Size(heads * draw.randint(1, 2))
    length = draw.randint(1, 4)
    x = draw.array((2, length, near(draw, size) or 1), draw.choice(("float32", "float16")))
    return heads, size, x, length


@layers("TransformerEncoderLayer", may_raise=True)
def encoder_layer(draw: Draw) -> Any:
    heads, size, x, length = blocks(draw)
    return (size, heads), flags(draw, "norm_first"), (x, causal(draw, length)), {}


@layers("TransformerEncoder", may_raise=True)
def encoder(draw: Draw) -> Any:
    made, options, called, named = encoder_layer(draw)
    return (draw.randint(1, 2), *made), options, called, named


@layers("TransformerDecoderLayer", may_raise=True)
def decoder_layer(draw: Draw) -> Any:
    heads, size, x, length = blocks(draw)
    memory = draw.array((2, 3, near(draw, size) or 1), x.dtype or "")
    return (size, heads), {}, (x, memory, causal(draw, length), None), {}


@layers("TransformerDecoder", may_raise=True)
def decoder(draw: Draw) -> Any:
    made, options, called, named = decoder_layer(draw)
    return (draw.randint(1, 2), *made), options, called, named


@layers("Transformer", may_raise=True)
def transformer(draw: Draw) -> Any:
    heads, size, x, length = blocks(draw)
    memory = draw.array((2, 3, near(draw, size) or 1), x.dtype or "")
    named = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return (size, heads), named, (memory, x, None, causal(draw, length), None), {}


# Quantized layers


def quantized(draw: Draw) -> dict[str, Any]:
    """Settings of a quantized layer."""
    if draw.chance(0.15):
        return {"mode": draw.choice(("mxfp4", "mxfp8", "other"))}
    group_size, bits = draw.choice((32, 64, 64, 48)), draw.choice((2, 3, 4, 6, 8))
    return draw.maybe(0.3, group_size=group_size, bits=bits)


@layers("QuantizedLinear", may_raise=True)
def quantized_linear(draw: Draw) -> Any:
    made = Size(draw.choice((64, 128, 32))), Size(draw.randint(1, 5))
    x = draw.floats((*draw.shape(0, 3), near(draw, made[0])))
    return made, {**quantized(draw), **flags(draw, "bias")}, (x,), {}


@layers("QuantizedEmbedding", may_raise=True)
def quantized_embedding(draw: Draw) -> Any:
    made = Size(draw.randint(1, 5)), Size(draw.choice((64, 128, 32)))
    return made, quantized(draw), (draw.array(filled(draw.shape(1)), "int32"),), {}


@layers("QuantizedEmbedding", method="as_linear", may_raise=True)
def quantized_as_linear(draw: Draw) -> Any:
    made, options, _, _ = quantized_embedding(draw)
    return made, options, (draw.floats((2, near(draw, made[1]))),), {}


@layers("QQLinear", may_raise=True)
def qq_linear(draw: Draw) -> Any:
    made = Size(draw.choice((64, 128, 32))), Size(draw.randint(1, 5))
    x = draw.floats((*draw.shape(1, 3), near(draw, made[0])))
    return made, {}, (x,), {}


# Activations


@functions("sigmoid", "relu", "relu2", "relu6", "leaky_relu", "elu", "celu", "softplus", "softsign")
@functions("softshrink", "silu", "log_sigmoid", "gelu", "gelu_approx", "gelu_fast_approx", "selu")
@functions("mish", "tanh", "hardswish", "hard_tanh", "hard_shrink", "step")
def activation(draw: Draw) -> Call:
    return (draw.array(),), {}


@layers("Sigmoid", "ReLU", "ReLU2", "ReLU6", "LeakyReLU", "ELU", "CELU", "Softplus", "Softsign")
@layers("Softshrink", "SiLU", "LogSigmoid", "SELU", "Mish", "Tanh", "Hardswish", "HardTanh")
@layers("HardShrink", "Step")
def activation_layer(draw: Draw) -> Any:
    return (), {}, (draw.array(),), {}


@layers("GELU")
def gelu(draw: Draw) -> Any:
    return (draw.choice(("none", "precise", "tanh", "fast", "other")),), {}, (draw.array(),), {}


@functions("softmax", "softmin", "log_softmax", may_raise=True)
def softmax(draw: Draw) -> Call:
    """An axis; empty ones have no greatest element."""
    x = draw.array(filled(draw.shape()))
    return (x,), draw.maybe(0.5, axis=draw.axis(x))


@layers("Softmax", "Softmin", "LogSoftmax", may_raise=True)
def softmax_layer(draw: Draw) -> Any:
    return (), {}, (draw.array(filled(draw.shape())),), {}


@functions("glu")
def glu(draw: Draw) -> Call:
    """An axis of two halves, mostly."""
    shape = list(draw.shape(1))
    axis = draw.randrange(len(shape))
    if draw.chance(0.8):
        shape[axis] *= 2
    return (draw.array(tuple(shape)),), {"axis": axis if draw.chance() else axis - len(shape)}


@layers("GLU")
def glu_layer(draw: Draw) -> Any:
    """An axis of two halves, mostly."""
    (x,), named = glu(draw)
    return (named["axis"],), {}, (x,), {}


@functions("prelu")
def prelu(draw: Draw) -> Call:
    x = draw.array()
    return (x, draw.array(draw.broadcasting(x.shape.head))), {}


@layers("PReLU")
def prelu_layer(draw: Draw) -> Any:
    x = draw.array(least=1)
    return (Size(near(draw, x.shape.head[-1])),) if draw.chance() else (), {}, (x,), {}


# Losses


def reduction(draw: Draw) -> dict[str, Any]:
    """A reduction."""
    among = ("none", "mean", "sum", "other" if draw.wrong() else "mean")
    return draw.maybe(0.6, reduction=draw.choice(among))


def same(draw: Draw, array: ShapedArray) -> ShapedArray:
    """Another array of about the same shape."""
    shape = tuple(near(draw, size) for size in array.shape.head)
    return draw.array(shape, kind(draw))


@functions(
    "losses.mse_loss", "losses.l1_loss", "losses.smooth_l1_loss", "losses.binary_cross_entropy"
)
def alike(draw: Draw) -> Call:
    x = draw.array(dtype=draw.choice(("float32", "float16", "bfloat16", "int32")))
    y = same(draw, x)
    y = ShapedArray(y.shape, "float32" if y.dtype == "complex64" else y.dtype)
    return (x, y), reduction(draw)


@functions("losses.cross_entropy", may_raise=True)
def cross_entropy(draw: Draw) -> Call:
    """Classes, or probabilities; an empty array has no greatest element."""
    logits = draw.floats(filled(draw.shape(1)))
    named = reduction(draw)
    axis = -1
    if draw.chance(0.3):
        axis = named["axis"] = draw.axis(logits)
    rank = len(logits.shape.head)
    rest = list(logits.shape.head)
    if -rank <= axis < rank:
        del rest[axis]
    is_class = draw.chance(0.6)
    sizes = rest if is_class else list(logits.shape.head)
    shape = tuple(near(draw, size) or 1 for size in sizes)
    targets = draw.array(shape, "int32" if is_class else draw.choice(("float32", "float16")))
    weights = draw.floats(tuple(near(draw, size) or 1 for size in rest))
    smoothing = draw.choice((0.1, 0.0, 1.0))
    return (logits, targets), named | draw.maybe(0.2, weights=weights, label_smoothing=smoothing)


@functions("losses.nll_loss", may_raise=True)
def nll_loss(draw: Draw) -> Call:
    x = draw.array(filled(draw.shape(1)))
    axis = draw.axis(x) if draw.chance(0.3) else -1
    rank = len(x.shape.head)
    rest = list(x.shape.head)
    if -rank <= axis < rank:
        del rest[axis]
    targets = tuple(near(draw, size) or 1 for size in rest)
    named = {**reduction(draw), **({"axis": axis} if axis != -1 else {})}
    dtype = draw.choice(("float32", "float16", "int32"))
    return (ShapedArray(x.shape, dtype), draw.array(targets, "int32")), named


@functions("losses.gaussian_nll_loss")
def gaussian(draw: Draw) -> Call:
    x = draw.floats()
    y, z = same(draw, x), same(draw, x)
    others = (ShapedArray(one.shape, draw.choice(("float32", "float16"))) for one in (y, z))
    return (x, *others), reduction(draw) | flags(draw, "full")


def meeting(draw: Draw) -> tuple[ShapedArray, ShapedArray]:
    """Two arrays that broadcast."""
    x = draw.floats(filled(draw.shape(1)))
    shape = tuple(size or 1 for size in draw.broadcasting(x.shape.head))
    return x, draw.floats(shape or (1,))


@functions("losses.hinge_loss", "losses.huber_loss", "losses.log_cosh_loss")
def elementwise(draw: Draw) -> Call:
    return meeting(draw), reduction(draw)


@functions("losses.kl_div_loss", may_raise=True)
def kl_div_loss(draw: Draw) -> Call:
    x, y = meeting(draw)
    return (x, y), reduction(draw) | draw.maybe(0.3, axis=draw.axis(x))


@functions("losses.cosine_similarity_loss", may_raise=True)
def cosine(draw: Draw) -> Call:
    x, y = meeting(draw)
    return (x, y), {**reduction(draw), "axis": draw.axis(x)}


@functions("losses.triplet_loss", may_raise=True)
def triplet(draw: Draw) -> Call:
    x, y = meeting(draw)
    z = draw.floats(tuple(size or 1 for size in draw.broadcasting(x.shape.head)) or (1,))
    return (x, y, z), reduction(draw) | draw.maybe(0.3, axis=draw.axis(x))


@functions("losses.margin_ranking_loss")
def margin(draw: Draw) -> Call:
    x = draw.floats()
    y, z = (ShapedArray(same(draw, x).shape, "float32") for _ in range(2))
    return (x, y, z), reduction(draw)


# Initializers


@layers(*(f"mlx.nn.init.{name}" for name in ("normal", "uniform", "glorot_normal", "he_uniform")))
@layers("mlx.nn.init.glorot_uniform", "mlx.nn.init.he_normal")
def initializer(draw: Draw) -> Any:
    """Any array; of no elements the fan is zero."""
    named = draw.maybe(0.3, dtype=DTypeValue(draw.choice(("float32", "float16"))))
    return (), named, (draw.array(filled(draw.shape())),), {}


@layers("mlx.nn.init.constant")
def constant(draw: Draw) -> Any:
    return (0.5,), {}, (draw.array(),), {}


@layers("mlx.nn.init.identity")
def eye(draw: Draw) -> Any:
    """A square matrix, mostly."""
    size = draw.randint(1, 4)
    shape = (size, near(draw, size) or 1) if draw.chance(0.9) else draw.shape()
    return (), {}, (draw.array(shape),), {}


@layers("mlx.nn.init.orthogonal", "mlx.nn.init.sparse")
def of_matrix(draw: Draw) -> Any:
    """A gain or a sparsity, and a matrix, mostly."""
    return (0.5,), {}, (draw.array(filled(draw.shape(2, 2 if draw.chance(0.9) else 3))),), {}


# mlx-lm

SWITCH = "mlx_lm.models.switch_layers"


@functions("mlx_lm.models.activations.swiglu")
def swiglu(draw: Draw) -> Call:
    return meeting(draw), {}


@layers(f"{SWITCH}.SwitchLinear", may_raise=True)
def switch_linear(draw: Draw) -> Any:
    inner, outer = Size(draw.randint(1, 4)), Size(draw.randint(1, 4))
    chosen = draw.shape(1, 2)
    x = draw.floats((*draw.broadcasting(chosen), draw.length(), near(draw, inner)))
    indices = draw.array(chosen, "int32")
    return (inner, outer, Size(3)), flags(draw, "bias"), (x, indices), {}


@layers(f"{SWITCH}.SwitchGLU", f"{SWITCH}.SwitchMLP", may_raise=True)
def switch_glu(draw: Draw) -> Any:
    inner, hidden = Size(draw.randint(1, 4)), Size(draw.randint(1, 4))
    batch = draw.shape(1, 2)
    x = draw.floats((*batch, near(draw, inner)))
    indices = draw.array((*batch, draw.randint(1, 3)), "uint32")
    return (inner, hidden, Size(3)), flags(draw, "bias"), (x, indices), {}


@functions("mlx_lm.models.base.create_causal_mask")
def causal_mask(draw: Draw) -> Call:
    return (draw.size(), draw.size()), draw.maybe(0.2, left_padding=draw.array((2,), "int32"))


@layers("mlx_lm.models.cache.KVCache", method="update_and_fetch", open_sizes=True)
def cache(draw: Draw) -> Any:
    keys = draw.floats((*filled(draw.shape(3, 3)), draw.randint(1, 4)))
    return (), {}, (keys, ShapedArray(ArrayShape((*keys.shape.head[:3], 3)), keys.dtype)), {}


def rope_made(requirements: Requirements, size: Any, x: Any) -> Any:
    """What the layer that ``initialize_rope`` makes returns."""
    made = TRANSFERS["mlx_lm.models.rope_utils.initialize_rope"](requirements, size, 1e4, UNKNOWN)
    return LAYER_CALLS[made.name](requirements, made.attributes, x)


def rope_run(size: int, x: mx.array) -> mx.array:
    """The same with the package."""
    from mlx_lm.models.rope_utils import initialize_rope

    return initialize_rope(size, 1e4, False)(x)


@draws("mlx_lm.models.rope_utils.initialize_rope", run=rope_run, infer=rope_made, may_raise=True)
def mlx_lm_rope(draw: Draw) -> Call:
    size = Size(draw.choice((2, 4, 6, 3)))
    return (size, draw.array((*draw.shape(2, 3), size + draw.choice((0, 2))), kind(draw))), {}
