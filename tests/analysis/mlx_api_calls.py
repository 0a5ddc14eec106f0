"""One call of each public function, array method and layer of MLX, for the tests of the API table.

A call is an expression over `environment(first, second)`: `x` and what derives from it have the
first dtype, `y`, `u` and the other weights the second.
"""

from __future__ import annotations

import ast
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim
from mlx import nn, utils

from embercoach.analysis import mlx_api

UNARY = """
    abs sign positive negative trunc square sqrt rsqrt reciprocal logical_not exp expm1 erf erfinv
    sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians log log2
    log10 log1p stop_gradient sigmoid floor ceil isnan isinf isfinite isposinf isneginf
    matrix_transpose conj bitwise_invert real imag contiguous round nan_to_num zeros_like ones_like
    flatten squeeze flip sum prod min max mean median var std all any count_nonzero minmax
    logcumsumexp logsumexp argmin argmax sort argsort cumsum cumprod cummax cummin diff softmax
    diag diagonal trace atleast_1d atleast_2d atleast_3d hadamard_transform unstack tril triu
    transpose to_fp8 asarray from_dlpack
"""
BINARY = """
    add subtract multiply divide divmod floor_divide remainder equal not_equal less less_equal
    greater greater_equal array_equal matmul logical_and logical_or logical_xor logaddexp arctan2
    power kron allclose isclose minimum maximum inner vecdot outer bitwise_and bitwise_or
    bitwise_xor left_shift right_shift tensordot broadcast_arrays
"""
ACTIVATIONS = """
    celu elu gelu gelu_approx gelu_fast_approx glu hard_shrink hard_tanh hardswish leaky_relu
    log_sigmoid log_softmax mish relu relu2 relu6 selu sigmoid silu softmax softmin softplus
    softshrink softsign step tanh
"""
FOURIER = """
    fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn fftshift ifftshift
"""
DECOMPOSITIONS = """
    qr svd inv tri_inv cholesky cholesky_inv pinv eigvals eig eigvalsh eigh lu lu_factor det slogdet
"""
LOSSES = """
    binary_cross_entropy cosine_similarity_loss hinge_loss huber_loss kl_div_loss l1_loss
    log_cosh_loss mse_loss smooth_l1_loss
"""
METHODS = """
    abs all any argmax argmin conj cos cummax cummin cumprod cumsum diag diagonal exp flatten log
    log10 log1p log2 logcumsumexp logsumexp max mean min prod reciprocal round rsqrt sin sqrt square
    squeeze std sum transpose var tolist __abs__ __array__ __bytes__ __copy__ __dlpack__
    __dlpack_device__ __getstate__ __invert__ __iter__ __len__ __neg__ __pos__ __repr__
    __array_namespace__ __hash__ __str__
"""
SCALAR_METHODS = "item __bool__ __complex__ __float__ __index__ __int__"
OPERATORS = """
    add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv div rdiv floordiv rfloordiv
    ifloordiv mod rmod imod pow rpow ipow matmul imatmul and iand or ior xor ixor lshift ilshift
    rshift irshift eq ne lt le gt ge
"""

# Calls stand in lines, with two spaces between them.
OTHERS = """
    mx.addmm(x, x, y)  mx.arange(3)  mx.argpartition(x, 1)  mx.array(x)
    mx.as_strided(x, (2, 2), (1, 1))  mx.astype(x, mx.int8)  mx.async_eval(x)  mx.bartlett(4)
    mx.blackman(4)  mx.block_masked_mm(wide, other_wide)  mx.broadcast_shapes((1, 2), (3, 1))
    mx.broadcast_to(v, (2, 4))  mx.can_cast(x, mx.float32)  mx.clip(x, y, y)  mx.concatenate([x, y])
    mx.conv1d(line, line_weight)  mx.conv2d(image, image_weight)  mx.conv3d(volume, volume_weight)
    mx.conv_general(image, image_weight)  mx.conv_transpose1d(line, line_weight)
    mx.conv_transpose2d(image, image_weight)  mx.conv_transpose3d(volume, volume_weight)
    mx.convolve(v, u)  mx.default_device()  mx.default_stream(mx.cpu)  mx.depends(x, y)
    mx.dequantize(packed[0], packed[1], packed[2])  mx.device_count(mx.cpu)  mx.device_info(mx.cpu)
    mx.einsum('ij,jk->ik', x, y)  mx.einsum_path('ij,jk->ik', x, y)  mx.eval(x)
    mx.expand_dims(x, 0)  mx.eye(3)  mx.from_fp8(mx.to_fp8(mx.ones(4)))  mx.full((2,), x[0, 0])
    mx.full_like(x, y[0, 0])  mx.gather_mm(x, y)
    mx.gather_qmm(wide, packed[0][None], packed[1][None], packed[2][None])  mx.get_active_memory()
    mx.get_cache_memory()  mx.get_memory_limit()  mx.get_peak_memory()  mx.get_printoptions()
    mx.hamming(4)  mx.hanning(4)  mx.identity(3)  mx.is_available(mx.cpu)
    mx.isdtype(mx.float32, mx.float32)  mx.issubdtype(mx.float32, mx.floating)
    mx.jvp(lambda a: a, [x], [x])  mx.linspace(0, 1, 5)  mx.meshgrid(v, u)  mx.moveaxis(x, 0, 1)
    mx.new_stream(mx.cpu)  mx.new_thread_local_stream(mx.cpu)  mx.new_thread_unsafe_stream(mx.cpu)
    mx.ones((2,))  mx.pad(x, 1, 'constant', y[0, 0])  mx.partition(x, 1)
    mx.printoptions(precision=3)  mx.put_along_axis(x, places, y, 0)  mx.quantize(wide)
    mx.quantized_matmul(wide, packed[0], packed[1], packed[2])  mx.repeat(x, 2)
    mx.reshape(x, (2, 8))  mx.result_type(x, y)  mx.roll(x, 1)  mx.searchsorted(v, u)
    mx.segmented_mm(x, y, segments)  mx.slice(x, start, (0,), (2, 4))
    mx.slice_update(x, y, start, (0,))  mx.split(x, 2)  mx.stack([x, y])  mx.stream(mx.cpu)
    mx.swapaxes(x, 0, 1)  mx.synchronize()  mx.take(x, start)  mx.take_along_axis(x, places, 0)
    mx.tile(x, 2)  mx.topk(x, 2)  mx.tri(3)  mx.unflatten(x, 0, (2, 2))  mx.unique(v, 3)
    mx.view(x, mx.int32)  mx.vjp(lambda a: a, [x], [x])  mx.where(mask, x, y)  mx.zeros((2,))
    x.__deepcopy__({})  x.__format__('')  x.__getitem__(0)  x.__matmul__(y)  x.__reduce_ex__(2)
    x.__setitem__(0, y[0])  x.astype(mx.int8)  x.moveaxis(0, 1)  x.reshape(2, 8)  x.split(2)
    x.swapaxes(0, 1)  x.view(mx.int32)  x.at.__getitem__(0)  mx.fast.cross_entropy(x, classes)
    mx.fast.gated_delta_update(heads, heads, heads, gate, gate)  mx.fast.layer_norm(x, u, u, 1e-5)
    mx.fast.rms_norm(x, u, 1e-5)
    mx.fast.rope(x[None], 4, traditional=False, base=100.0, scale=1.0, offset=0)
    mx.fast.scaled_dot_product_attention(queries, queries, values, scale=1.0)  mx.fft.fftfreq(4)
    mx.fft.istft(mx.fft.stft(signal, 16), 16)  mx.fft.rfftfreq(4)  mx.fft.stft(signal, 16)
    mx.linalg.cross(x[:, :3], y[:, :3])  mx.linalg.norm(x)  mx.linalg.solve(p, r, stream=mx.cpu)
    mx.linalg.solve_triangular(p, r, stream=mx.cpu)  mx.random.bernoulli(x)
    mx.random.categorical(x)  mx.random.gumbel((2,))  mx.random.key(0)  mx.random.laplace((2,))
    mx.random.multivariate_normal(v, p, stream=mx.cpu)  mx.random.normal((4, 4), loc=x, scale=y)
    mx.random.permutation(x)  mx.random.randint(x, y, (4, 4))  mx.random.split(mx.random.key(0))
    mx.random.truncated_normal(x, y)  mx.random.uniform(x, y, (4, 4))  mx.cuda.is_available()
    mx.metal.is_available()  mx.distributed.init()  mx.distributed.is_available()  nn.prelu(x, u)
    nn.fully_shard(nn.Linear(4, 4))  nn.layers.upsample.upsample_cubic(image, (2, 2))
    nn.layers.upsample.upsample_linear(image, (2, 2))
    nn.layers.upsample.upsample_nearest(image, (2, 2))  nn.losses.cross_entropy(x, classes)
    nn.losses.gaussian_nll_loss(x, y, y)  nn.losses.margin_ranking_loss(x, y, y)
    nn.losses.nll_loss(x, classes)  nn.losses.triplet_loss(x, y, y)
    nn.ALiBi.create_alibi_matrix(4, 4, 2)  nn.ALiBi.create_alibi_slope(2)
    nn.MultiHeadAttention.create_additive_causal_mask(4)  x.at[0].add(y[0])  x.at[0].divide(y[0])
    x.at[0].maximum(y[0])  x.at[0].minimum(y[0])  x.at[0].multiply(y[0])  x.at[0].subtract(y[0])
    mx.distributed.all_sum(x)  mx.distributed.all_max(x)  mx.distributed.all_min(x)
    mx.distributed.all_gather(x)  mx.distributed.sum_scatter(x)
"""
LAYER_CALLS = """
    nn.ALiBi()(x[None, None])  nn.AllToShardedLinear(4, 4)(x)  nn.AvgPool1d(2)(line)
    nn.AvgPool2d(2)(image)  nn.AvgPool3d(2)(volume)  nn.BatchNorm(4)(x)  nn.Bilinear(4, 4, 3)(x, y)
    nn.Conv1d(4, 3, 2)(line)  nn.Conv2d(4, 3, 2)(image)  nn.Conv3d(4, 3, 2)(volume)
    nn.ConvTranspose1d(4, 3, 2)(line)  nn.ConvTranspose2d(4, 3, 2)(image)
    nn.ConvTranspose3d(4, 3, 2)(volume)  nn.Dropout2d(0.5)(image)  nn.Dropout3d(0.5)(volume)
    nn.Embedding(8, 4)(classes)  nn.GRU(4, 5)(x[None])  nn.GroupNorm(2, 4)(x[None])
    nn.InstanceNorm(4)(x[None])  nn.LSTM(4, 5)(x[None])  nn.LayerNorm(4)(x)  nn.Linear(4, 3)(x)
    nn.MaxPool1d(2)(line)  nn.MaxPool2d(2)(image)  nn.MaxPool3d(2)(volume)
    nn.MultiHeadAttention(4, 2)(x[None], x[None], x[None])
    nn.QuantizedAllToShardedLinear(64, 64)(wide)  nn.QuantizedEmbedding(8, 64)(classes)
    nn.QuantizedLinear(64, 64)(wide)  nn.QuantizedShardedToAllLinear(64, 64)(wide)  nn.RMSNorm(4)(x)
    nn.RNN(4, 5)(x[None])  nn.RoPE(4)(x[None])  nn.Sequential(nn.ReLU(), nn.Tanh())(x)
    nn.ShardedToAllLinear(4, 4)(x)  nn.SinusoidalPositionalEncoding(4)(v)
    nn.Transformer(4, 2, 1, 1)(x[None], x[None], None, None, None)
    nn.TransformerDecoder(1, 4, 2)(x[None], x[None], None, None)
    nn.TransformerDecoderLayer(4, 2)(x[None], x[None], None, None)
    nn.TransformerEncoder(1, 4, 2)(x[None], None)  nn.TransformerEncoderLayer(4, 2)(x[None], None)
    nn.Upsample(2.0)(image)
"""
PLAIN_LAYERS = """
    CELU Dropout ELU GELU GLU HardShrink HardTanh Hardswish Identity LeakyReLU LogSigmoid LogSoftmax
    Mish PReLU ReLU ReLU2 ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Step
    Tanh
"""
#: By the beginning of a call, that of the full name of what it calls.
PREFIXES = {
    "mx.": "mlx.core.",
    "nn.": "mlx.nn.",
    "optim.": "mlx.optimizers.",
    "x.at.": "mlx.core.ArrayAt.",
    "x.at[0].": "mlx.core.ArrayAt.",
    "x.": "mlx.core.array.",
    "s.": "mlx.core.array.",
}


def full_name(call: str) -> str:
    """The full name of what is called."""
    called = call.partition("(")[0]
    prefix = next(prefix for prefix in PREFIXES if called.startswith(prefix))
    return PREFIXES[prefix] + called.removeprefix(prefix)


def calls_in(text: str) -> list[str]:
    """The calls in the lines of a text."""
    return [call for line in text.split("\n") for call in line.strip().split("  ") if call]


CALLS = {
    full_name(call): call
    for call in (
        *(f"mx.{name}(x)" for name in UNARY.split()),
        *(f"mx.{name}(x, y)" for name in BINARY.split()),
        *(f"x.{name}()" for name in METHODS.split()),
        *(f"s.{name}()" for name in SCALAR_METHODS.split()),
        *(f"x.__{name}__(y)" for name in OPERATORS.split()),
        *(f"nn.{name}(x)" for name in ACTIVATIONS.split()),
        *(f"mx.fft.{name}(x)" for name in FOURIER.split()),
        *(f"mx.linalg.{name}(p, stream=mx.cpu)" for name in DECOMPOSITIONS.split()),
        *(f"nn.losses.{name}(x, y)" for name in LOSSES.split()),
        *calls_in(OTHERS),
    )
}
CALLS["mlx.core.ArrayIterator.__next__"] = "iter(x).__next__()"
#: By its full name, what makes a layer.
LAYERS: dict[str, str] = {}
for _call in (*(f"nn.{name}()(x)" for name in PLAIN_LAYERS.split()), *calls_in(LAYER_CALLS)):
    CALLS[f"{full_name(_call)}.__call__"] = _call
    LAYERS[full_name(_call)] = _call.partition(")(")[0] + ")"


def environment(first: mx.Dtype = mx.float32, second: mx.Dtype = mx.float32) -> dict[str, Any]:
    """Names for the calls: numbers stay within (0, 1) where that is possible, else in 1..2."""

    def filled(shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
        key = mx.random.key(7)
        if mx.issubdtype(dtype, mx.inexact):
            return mx.random.uniform(0.2, 0.8, shape, key=key).astype(dtype)
        return mx.random.randint(1, 3, shape, key=key).astype(dtype)

    exact = second if second in {mx.float16, mx.bfloat16, mx.float32} else mx.float32
    x, y = filled((4, 4), first), filled((4, 4), second)
    return {
        "mx": mx,
        "nn": nn,
        "optim": optim,
        "utils": utils,
        "x": x,
        "y": y,
        "s": x[0, 0],
        "queries": x[None, None],
        "values": y[None, None],
        "v": x[0],
        "u": y[0],
        "p": mx.eye(4).astype(first),
        "r": mx.eye(4).astype(second),
        "start": mx.array([0]),
        "classes": mx.array([0, 1, 2, 3]),
        "places": mx.zeros((4, 4), mx.int32),
        "mask": mx.array([True, False, True, False]),
        "segments": mx.array([[0, 2]], dtype=mx.uint32),
        "line": filled((1, 4, 4), first),
        "line_weight": filled((4, 3, 4), second),
        "image": filled((1, 4, 4, 4), first),
        "image_weight": filled((4, 3, 3, 4), second),
        "volume": filled((1, 4, 4, 4, 4), first),
        "volume_weight": filled((4, 3, 3, 3, 4), second),
        "wide": filled((64, 64), first),
        "other_wide": filled((64, 64), second),
        "packed": mx.quantize(mx.ones((64, 64), dtype=exact)),
        "heads": filled((1, 2, 2, 64), first),
        "gate": filled((1, 2, 2), first),
        "signal": filled((64,), first),
    }


def arguments_of(name: str, call: str) -> list[tuple[mlx_api.Param, ast.expr]]:
    """The arguments of a call, as expressions, with the table's parameters that take them."""
    entry = mlx_api.lookup(name)
    assert entry is not None, name
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call), call
    pairs = []
    for index, argument in enumerate(node.args):
        param = entry.positional(index)
        assert param is not None, f"{name} takes no positional argument {index}"
        pairs.append((param, argument))
    for keyword in node.keywords:
        param = entry.param(keyword.arg or "")
        assert param is not None, f"{name} takes no argument {keyword.arg}"
        pairs.append((param, keyword.value))
    return pairs


def with_argument(call: str, argument: ast.expr, source: str) -> str:
    """The call with one argument replaced by another expression."""
    replacement = f"({source})"
    start, end = argument.col_offset, argument.end_col_offset
    return call[:start] + replacement + call[end:]


def evaluate(call: str, names: dict[str, Any]) -> Any:
    """The value of a call, after MLX has computed it.

    MLX compiles some layers, on a CPU with g++, which takes a second for each layer and dtype.
    Types and dtypes need no compiler: what is computed is a second call, in operations.
    """
    result = computed = eval(call, dict(names))
    compiles = "nn." in call
    if compiles:
        mx.disable_compile()
    try:
        if compiles:
            computed = eval(call, dict(names))
        if isinstance(computed, (mx.array, list, tuple, dict)):
            mx.eval(computed)
    finally:
        mx.enable_compile()
    return result
