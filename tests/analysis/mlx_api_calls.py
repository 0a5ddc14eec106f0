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

CALLS: dict[str, str] = {
    **{f"mlx.core.{name}": f"mx.{name}(x)" for name in UNARY.split()},
    **{f"mlx.core.{name}": f"mx.{name}(x, y)" for name in BINARY.split()},
    **{f"mlx.core.array.{name}": f"x.{name}()" for name in METHODS.split()},
    **{f"mlx.core.array.{name}": f"s.{name}()" for name in SCALAR_METHODS.split()},
    **{f"mlx.core.array.__{name}__": f"x.__{name}__(y)" for name in OPERATORS.split()},
    **{f"mlx.nn.{name}": f"nn.{name}(x)" for name in ACTIVATIONS.split()},
    **{f"mlx.core.fft.{name}": f"mx.fft.{name}(x)" for name in FOURIER.split()},
    **{
        f"mlx.core.linalg.{name}": f"mx.linalg.{name}(p, stream=mx.cpu)"
        for name in DECOMPOSITIONS.split()
    },
    **{f"mlx.nn.losses.{name}": f"nn.losses.{name}(x, y)" for name in LOSSES.split()},
    **{
        f"mlx.core.distributed.{name}": f"mx.distributed.{name}(x)"
        for name in ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter")
    },
    "mlx.core.addmm": "mx.addmm(x, x, y)",
    "mlx.core.arange": "mx.arange(3)",
    "mlx.core.argpartition": "mx.argpartition(x, 1)",
    "mlx.core.array": "mx.array(x)",
    "mlx.core.as_strided": "mx.as_strided(x, (2, 2), (1, 1))",
    "mlx.core.astype": "mx.astype(x, mx.int8)",
    "mlx.core.async_eval": "mx.async_eval(x)",
    "mlx.core.bartlett": "mx.bartlett(4)",
    "mlx.core.blackman": "mx.blackman(4)",
    "mlx.core.block_masked_mm": "mx.block_masked_mm(wide, other_wide)",
    "mlx.core.broadcast_shapes": "mx.broadcast_shapes((1, 2), (3, 1))",
    "mlx.core.broadcast_to": "mx.broadcast_to(v, (2, 4))",
    "mlx.core.can_cast": "mx.can_cast(x, mx.float32)",
    "mlx.core.clip": "mx.clip(x, y, y)",
    "mlx.core.concatenate": "mx.concatenate([x, y])",
    "mlx.core.conv1d": "mx.conv1d(line, line_weight)",
    "mlx.core.conv2d": "mx.conv2d(image, image_weight)",
    "mlx.core.conv3d": "mx.conv3d(volume, volume_weight)",
    "mlx.core.conv_general": "mx.conv_general(image, image_weight)",
    "mlx.core.conv_transpose1d": "mx.conv_transpose1d(line, line_weight)",
    "mlx.core.conv_transpose2d": "mx.conv_transpose2d(image, image_weight)",
    "mlx.core.conv_transpose3d": "mx.conv_transpose3d(volume, volume_weight)",
    "mlx.core.convolve": "mx.convolve(v, u)",
    "mlx.core.default_device": "mx.default_device()",
    "mlx.core.default_stream": "mx.default_stream(mx.cpu)",
    "mlx.core.depends": "mx.depends(x, y)",
    "mlx.core.dequantize": "mx.dequantize(packed[0], packed[1], packed[2])",
    "mlx.core.device_count": "mx.device_count(mx.cpu)",
    "mlx.core.device_info": "mx.device_info(mx.cpu)",
    "mlx.core.einsum": "mx.einsum('ij,jk->ik', x, y)",
    "mlx.core.einsum_path": "mx.einsum_path('ij,jk->ik', x, y)",
    "mlx.core.eval": "mx.eval(x)",
    "mlx.core.expand_dims": "mx.expand_dims(x, 0)",
    "mlx.core.eye": "mx.eye(3)",
    "mlx.core.from_fp8": "mx.from_fp8(mx.to_fp8(mx.ones(4)))",
    "mlx.core.full": "mx.full((2,), x[0, 0])",
    "mlx.core.full_like": "mx.full_like(x, y[0, 0])",
    "mlx.core.gather_mm": "mx.gather_mm(x, y)",
    "mlx.core.gather_qmm": (
        "mx.gather_qmm(wide, packed[0][None], packed[1][None], packed[2][None])"
    ),
    "mlx.core.get_active_memory": "mx.get_active_memory()",
    "mlx.core.get_cache_memory": "mx.get_cache_memory()",
    "mlx.core.get_memory_limit": "mx.get_memory_limit()",
    "mlx.core.get_peak_memory": "mx.get_peak_memory()",
    "mlx.core.get_printoptions": "mx.get_printoptions()",
    "mlx.core.hamming": "mx.hamming(4)",
    "mlx.core.hanning": "mx.hanning(4)",
    "mlx.core.identity": "mx.identity(3)",
    "mlx.core.is_available": "mx.is_available(mx.cpu)",
    "mlx.core.isdtype": "mx.isdtype(mx.float32, mx.float32)",
    "mlx.core.issubdtype": "mx.issubdtype(mx.float32, mx.floating)",
    "mlx.core.jvp": "mx.jvp(lambda a: a, [x], [x])",
    "mlx.core.linspace": "mx.linspace(0, 1, 5)",
    "mlx.core.meshgrid": "mx.meshgrid(v, u)",
    "mlx.core.moveaxis": "mx.moveaxis(x, 0, 1)",
    "mlx.core.new_stream": "mx.new_stream(mx.cpu)",
    "mlx.core.new_thread_local_stream": "mx.new_thread_local_stream(mx.cpu)",
    "mlx.core.new_thread_unsafe_stream": "mx.new_thread_unsafe_stream(mx.cpu)",
    "mlx.core.ones": "mx.ones((2,))",
    "mlx.core.pad": "mx.pad(x, 1, 'constant', y[0, 0])",
    "mlx.core.partition": "mx.partition(x, 1)",
    "mlx.core.printoptions": "mx.printoptions(precision=3)",
    "mlx.core.put_along_axis": "mx.put_along_axis(x, places, y, 0)",
    "mlx.core.quantize": "mx.quantize(wide)",
    "mlx.core.quantized_matmul": "mx.quantized_matmul(wide, packed[0], packed[1], packed[2])",
    "mlx.core.repeat": "mx.repeat(x, 2)",
    "mlx.core.reshape": "mx.reshape(x, (2, 8))",
    "mlx.core.result_type": "mx.result_type(x, y)",
    "mlx.core.roll": "mx.roll(x, 1)",
    "mlx.core.searchsorted": "mx.searchsorted(v, u)",
    "mlx.core.segmented_mm": "mx.segmented_mm(x, y, segments)",
    "mlx.core.slice": "mx.slice(x, start, (0,), (2, 4))",
    "mlx.core.slice_update": "mx.slice_update(x, y, start, (0,))",
    "mlx.core.split": "mx.split(x, 2)",
    "mlx.core.stack": "mx.stack([x, y])",
    "mlx.core.stream": "mx.stream(mx.cpu)",
    "mlx.core.swapaxes": "mx.swapaxes(x, 0, 1)",
    "mlx.core.synchronize": "mx.synchronize()",
    "mlx.core.take": "mx.take(x, start)",
    "mlx.core.take_along_axis": "mx.take_along_axis(x, places, 0)",
    "mlx.core.tile": "mx.tile(x, 2)",
    "mlx.core.topk": "mx.topk(x, 2)",
    "mlx.core.tri": "mx.tri(3)",
    "mlx.core.unflatten": "mx.unflatten(x, 0, (2, 2))",
    "mlx.core.unique": "mx.unique(v, 3)",
    "mlx.core.view": "mx.view(x, mx.int32)",
    "mlx.core.vjp": "mx.vjp(lambda a: a, [x], [x])",
    "mlx.core.where": "mx.where(mask, x, y)",
    "mlx.core.zeros": "mx.zeros((2,))",
    "mlx.core.array.__deepcopy__": "x.__deepcopy__({})",
    "mlx.core.array.__format__": "x.__format__('')",
    "mlx.core.array.__getitem__": "x.__getitem__(0)",
    "mlx.core.array.__matmul__": "x.__matmul__(y)",
    "mlx.core.array.__reduce_ex__": "x.__reduce_ex__(2)",
    "mlx.core.array.__setitem__": "x.__setitem__(0, y[0])",
    "mlx.core.array.astype": "x.astype(mx.int8)",
    "mlx.core.array.moveaxis": "x.moveaxis(0, 1)",
    "mlx.core.array.reshape": "x.reshape(2, 8)",
    "mlx.core.array.split": "x.split(2)",
    "mlx.core.array.swapaxes": "x.swapaxes(0, 1)",
    "mlx.core.array.view": "x.view(mx.int32)",
    "mlx.core.ArrayIterator.__next__": "iter(x).__next__()",
    "mlx.core.ArrayAt.__getitem__": "x.at.__getitem__(0)",
    **{
        f"mlx.core.ArrayAt.{name}": f"x.at[0].{name}(y[0])"
        for name in ("add", "divide", "maximum", "minimum", "multiply", "subtract")
    },
    "mlx.core.fast.cross_entropy": "mx.fast.cross_entropy(x, classes)",
    "mlx.core.fast.gated_delta_update": (
        "mx.fast.gated_delta_update(heads, heads, heads, gate, gate)"
    ),
    "mlx.core.fast.layer_norm": "mx.fast.layer_norm(x, u, u, 1e-5)",
    "mlx.core.fast.rms_norm": "mx.fast.rms_norm(x, u, 1e-5)",
    "mlx.core.fast.rope": (
        "mx.fast.rope(x[None], 4, traditional=False, base=100.0, scale=1.0, offset=0)"
    ),
    "mlx.core.fast.scaled_dot_product_attention": (
        "mx.fast.scaled_dot_product_attention(queries, queries, values, scale=1.0)"
    ),
    "mlx.core.fft.fftfreq": "mx.fft.fftfreq(4)",
    "mlx.core.fft.istft": "mx.fft.istft(mx.fft.stft(signal, 16), 16)",
    "mlx.core.fft.rfftfreq": "mx.fft.rfftfreq(4)",
    "mlx.core.fft.stft": "mx.fft.stft(signal, 16)",
    "mlx.core.linalg.cross": "mx.linalg.cross(x[:, :3], y[:, :3])",
    "mlx.core.linalg.norm": "mx.linalg.norm(x)",
    "mlx.core.linalg.solve": "mx.linalg.solve(p, r, stream=mx.cpu)",
    "mlx.core.linalg.solve_triangular": "mx.linalg.solve_triangular(p, r, stream=mx.cpu)",
    "mlx.core.random.bernoulli": "mx.random.bernoulli(x)",
    "mlx.core.random.categorical": "mx.random.categorical(x)",
    "mlx.core.random.gumbel": "mx.random.gumbel((2,))",
    "mlx.core.random.key": "mx.random.key(0)",
    "mlx.core.random.laplace": "mx.random.laplace((2,))",
    "mlx.core.random.multivariate_normal": "mx.random.multivariate_normal(v, p, stream=mx.cpu)",
    "mlx.core.random.normal": "mx.random.normal((4, 4), loc=x, scale=y)",
    "mlx.core.random.permutation": "mx.random.permutation(x)",
    "mlx.core.random.randint": "mx.random.randint(x, y, (4, 4))",
    "mlx.core.random.split": "mx.random.split(mx.random.key(0))",
    "mlx.core.random.truncated_normal": "mx.random.truncated_normal(x, y)",
    "mlx.core.random.uniform": "mx.random.uniform(x, y, (4, 4))",
    "mlx.core.cuda.is_available": "mx.cuda.is_available()",
    "mlx.core.metal.is_available": "mx.metal.is_available()",
    "mlx.core.distributed.init": "mx.distributed.init()",
    "mlx.core.distributed.is_available": "mx.distributed.is_available()",
    "mlx.nn.prelu": "nn.prelu(x, u)",
    "mlx.nn.fully_shard": "nn.fully_shard(nn.Linear(4, 4))",
    "mlx.nn.layers.upsample.upsample_cubic": "nn.layers.upsample.upsample_cubic(image, (2, 2))",
    "mlx.nn.layers.upsample.upsample_linear": "nn.layers.upsample.upsample_linear(image, (2, 2))",
    "mlx.nn.layers.upsample.upsample_nearest": "nn.layers.upsample.upsample_nearest(image, (2, 2))",
    "mlx.nn.losses.cross_entropy": "nn.losses.cross_entropy(x, classes)",
    "mlx.nn.losses.gaussian_nll_loss": "nn.losses.gaussian_nll_loss(x, y, y)",
    "mlx.nn.losses.margin_ranking_loss": "nn.losses.margin_ranking_loss(x, y, y)",
    "mlx.nn.losses.nll_loss": "nn.losses.nll_loss(x, classes)",
    "mlx.nn.losses.triplet_loss": "nn.losses.triplet_loss(x, y, y)",
    "mlx.nn.ALiBi.create_alibi_matrix": "nn.ALiBi.create_alibi_matrix(4, 4, 2)",
    "mlx.nn.ALiBi.create_alibi_slope": "nn.ALiBi.create_alibi_slope(2)",
    "mlx.nn.MultiHeadAttention.create_additive_causal_mask": (
        "nn.MultiHeadAttention.create_additive_causal_mask(4)"
    ),
}

# A layer's construction and the arguments of its call.
LAYERS: dict[str, tuple[str, str]] = {
    "ALiBi": ("", "x[None, None]"),
    "AllToShardedLinear": ("4, 4", "x"),
    "AvgPool1d": ("2", "line"),
    "AvgPool2d": ("2", "image"),
    "AvgPool3d": ("2", "volume"),
    "BatchNorm": ("4", "x"),
    "Bilinear": ("4, 4, 3", "x, y"),
    "Conv1d": ("4, 3, 2", "line"),
    "Conv2d": ("4, 3, 2", "image"),
    "Conv3d": ("4, 3, 2", "volume"),
    "ConvTranspose1d": ("4, 3, 2", "line"),
    "ConvTranspose2d": ("4, 3, 2", "image"),
    "ConvTranspose3d": ("4, 3, 2", "volume"),
    "Dropout2d": ("0.5", "image"),
    "Dropout3d": ("0.5", "volume"),
    "Embedding": ("8, 4", "classes"),
    "GRU": ("4, 5", "x[None]"),
    "GroupNorm": ("2, 4", "x[None]"),
    "InstanceNorm": ("4", "x[None]"),
    "LSTM": ("4, 5", "x[None]"),
    "LayerNorm": ("4", "x"),
    "Linear": ("4, 3", "x"),
    "MaxPool1d": ("2", "line"),
    "MaxPool2d": ("2", "image"),
    "MaxPool3d": ("2", "volume"),
    "MultiHeadAttention": ("4, 2", "x[None], x[None], x[None]"),
    "QuantizedAllToShardedLinear": ("64, 64", "wide"),
    "QuantizedEmbedding": ("8, 64", "classes"),
    "QuantizedLinear": ("64, 64", "wide"),
    "QuantizedShardedToAllLinear": ("64, 64", "wide"),
    "RMSNorm": ("4", "x"),
    "RNN": ("4, 5", "x[None]"),
    "RoPE": ("4", "x[None]"),
    "Sequential": ("nn.ReLU(), nn.Tanh()", "x"),
    "ShardedToAllLinear": ("4, 4", "x"),
    "SinusoidalPositionalEncoding": ("4", "v"),
    "Transformer": ("4, 2, 1, 1", "x[None], x[None], None, None, None"),
    "TransformerDecoder": ("1, 4, 2", "x[None], x[None], None, None"),
    "TransformerDecoderLayer": ("4, 2", "x[None], x[None], None, None"),
    "TransformerEncoder": ("1, 4, 2", "x[None], None"),
    "TransformerEncoderLayer": ("4, 2", "x[None], None"),
    "Upsample": ("2.0", "image"),
}
PLAIN_LAYERS = """
    CELU Dropout ELU GELU GLU HardShrink HardTanh Hardswish Identity LeakyReLU LogSigmoid LogSoftmax
    Mish PReLU ReLU ReLU2 ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Step
    Tanh
"""
LAYERS.update(dict.fromkeys(PLAIN_LAYERS.split(), ("", "x")))
CALLS.update(
    {
        f"mlx.nn.{name}.__call__": f"nn.{name}({construction})({arguments})"
        for name, (construction, arguments) in LAYERS.items()
    }
)


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
