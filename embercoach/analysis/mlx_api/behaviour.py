"""Facts of MLX that no stub has: evaluation, element-wise functions, dtypes.

Names are relative to `mlx.` and separated by white space; tests run them all on MLX.
"""

from __future__ import annotations

# Forces evaluation of an array (or, `async_eval`, schedules it): the lazy graph ends here.
SYNC = """
    core.async_eval core.eval core.from_dlpack core.save core.save_gguf core.save_safetensors
    core.savez core.savez_compressed nn.Module.save_weights
    core.array.__array__ core.array.__bool__ core.array.__bytes__ core.array.__complex__
    core.array.__dlpack__ core.array.__float__ core.array.__format__ core.array.__getstate__
    core.array.__index__ core.array.__int__ core.array.__reduce_ex__ core.array.__repr__
    core.array.__str__ core.array.item core.array.tolist
"""

# Arithmetic and comparison on several operands, element by element, any of which may be a number.
ELEMENTWISE = """
    core.add core.arctan2 core.bitwise_and core.bitwise_or core.bitwise_xor core.clip core.divide
    core.divmod core.equal core.floor_divide core.greater core.greater_equal core.left_shift
    core.less core.less_equal core.logaddexp core.logical_and core.logical_or core.logical_xor
    core.maximum core.minimum core.multiply core.not_equal core.power core.remainder
    core.right_shift core.subtract core.where
    core.ArrayAt.add core.ArrayAt.divide core.ArrayAt.maximum core.ArrayAt.minimum
    core.ArrayAt.multiply core.ArrayAt.subtract
"""

# Parameters, in brackets, that MLX refuses a complex64 array for as soon as the call is made.
REAL_ONLY = """
    core.arctan2(a,b) core.bitwise_and(a,b) core.bitwise_invert(a) core.bitwise_or(a,b)
    core.bitwise_xor(a,b) core.ceil(a) core.conv1d(input) core.conv2d(input) core.conv3d(input)
    core.conv_general(input) core.conv_transpose1d(input) core.conv_transpose2d(input)
    core.conv_transpose3d(input) core.convolve(a) core.dequantize(w,scales,biases) core.divmod(a,b)
    core.erf(a) core.erfinv(a) core.expm1(a) core.floor(a) core.from_fp8(x)
    core.gather_qmm(x,w,scales,biases) core.left_shift(a,b) core.nan_to_num(a) core.quantize(w)
    core.quantized_matmul(x,w,scales,biases) core.remainder(a,b) core.right_shift(a,b)
    core.segmented_mm(a,b,segments) core.sigmoid(a) core.slice(start_indices)
    core.slice_update(start_indices) core.take(indices) core.to_fp8(x) core.trunc(a)
    core.fast.cross_entropy(logits,targets) core.fast.layer_norm(x,weight,bias)
    core.fast.rms_norm(x,weight) core.fast.rope(a) core.fast.scaled_dot_product_attention(q,k,v)
    core.linalg.cholesky(a) core.linalg.cholesky_inv(a) core.linalg.det(a) core.linalg.inv(a)
    core.linalg.lu(a) core.linalg.lu_factor(a) core.linalg.pinv(a) core.linalg.qr(a)
    core.linalg.slogdet(a) core.linalg.solve(a,b) core.linalg.solve_triangular(a,b)
    core.linalg.tri_inv(a) core.random.bernoulli(p) core.random.split(key)
    nn.gelu(x) nn.gelu_fast_approx(x) nn.glu(x) nn.sigmoid(x) nn.silu(x)
    nn.Conv1d.__call__(x) nn.Conv2d.__call__(x) nn.Conv3d.__call__(x)
    nn.ConvTranspose1d.__call__(x) nn.ConvTranspose2d.__call__(x) nn.ConvTranspose3d.__call__(x)
    nn.Embedding.__call__(x) nn.GELU.__call__(x) nn.GLU.__call__(x) nn.GRU.__call__(x)
    nn.InstanceNorm.__call__(x) nn.LSTM.__call__(x) nn.LayerNorm.__call__(x)
    nn.MultiHeadAttention.__call__(queries,keys,values) nn.QuantizedAllToShardedLinear.__call__(x)
    nn.QuantizedEmbedding.__call__(x) nn.QuantizedLinear.__call__(x)
    nn.QuantizedShardedToAllLinear.__call__(x) nn.RMSNorm.__call__(x) nn.RoPE.__call__(x)
    nn.Transformer.__call__(src,tgt) nn.TransformerDecoder.__call__(x,memory)
    nn.TransformerDecoderLayer.__call__(x,memory)
    nn.TransformerEncoder.__call__(x) nn.TransformerEncoderLayer.__call__(x)
"""

# Special methods of arrays, by the function that does the same (`__radd__`, `__iadd__` too).
OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
    "pos": "positive",
    "abs": "abs",
    "invert": "bitwise_invert",
}

_SUM = "bool:int32,int8:int32,int16:int32,uint8:uint32,uint16:uint32"
_REAL = "complex64:float32"

# Dtype of the result by rule: the rule, the parameters it is about in brackets where these are not
# all array parameters, and after a comma the exceptions, as input:output.
DTYPE_RULES: dict[str, str] = {
    "same": """
        core.sign core.positive core.negative core.trunc core.square core.stop_gradient core.floor
        core.ceil core.matrix_transpose core.conj core.bitwise_invert core.contiguous core.round
        core.nan_to_num core.flatten core.squeeze core.flip core.min core.max core.minmax core.sort
        core.cummax core.cummin core.diff core.diag core.diagonal core.unstack core.tril core.triu
        core.transpose core.reshape core.unflatten core.expand_dims core.take core.take_along_axis
        core.put_along_axis core.moveaxis core.swapaxes core.split core.partition core.topk
        core.broadcast_to core.repeat core.pad core.as_strided core.tile core.roll core.slice
        core.slice_update core.depends core.unique core.fast.rope
        core.fft.fftshift core.fft.ifftshift
        core.distributed.all_sum core.distributed.all_max core.distributed.all_min
        core.distributed.all_gather core.distributed.sum_scatter core.distributed.send
        core.distributed.recv_like
        core.linalg.qr core.linalg.inv core.linalg.tri_inv core.linalg.cholesky
        core.linalg.cholesky_inv core.linalg.pinv
        core.array.T core.array.mT core.array.__copy__ core.array.__deepcopy__
        core.array.__getitem__
        nn.Identity.__call__ nn.ALiBi.__call__ nn.MaxPool1d.__call__ nn.MaxPool2d.__call__
        nn.MaxPool3d.__call__ nn.RoPE.__call__
    """,
    "each": """
        core.atleast_1d core.atleast_2d core.atleast_3d core.broadcast_arrays core.meshgrid
    """,
    "param:dtype=same": "core.cumprod core.full_like core.ones_like core.zeros_like",
    "param:dtype=same,bool:int32": "core.cumsum",
    f"same,{_SUM}": "core.sum core.prod",
    f"param:dtype=same,{_SUM}": "core.trace",
    f"same,{_REAL}": "core.abs core.real core.imag core.linalg.eigvalsh",
    "same,complex64:unknown": "core.linalg.eigh core.linalg.svd",
    "same,bool:int32": "nn.hard_shrink nn.relu nn.relu2 nn.HardShrink.__call__",
    "uint32;same;same": "core.linalg.lu",
    "same;uint32": "core.linalg.lu_factor",
    "promote": """
        core.add core.subtract core.multiply core.divmod core.floor_divide core.remainder
        core.power core.kron core.minimum core.maximum core.outer core.matmul core.inner
        core.tensordot core.concatenate core.stack core.clip core.convolve core.conv1d core.conv2d
        core.conv3d core.conv_transpose1d core.conv_transpose2d core.conv_transpose3d
        core.conv_general core.addmm core.einsum core.bitwise_and core.bitwise_or core.bitwise_xor
        core.fast.layer_norm core.fast.rms_norm core.linalg.cross
    """,
    "promote(a,b)": "core.gather_mm core.segmented_mm core.block_masked_mm",
    "promote(x,scales)": "core.gather_qmm core.quantized_matmul",
    "promote(x,y)": "core.where",
    "promote(q,k,v)": "core.fast.scaled_dot_product_attention",
    "promote,bool:uint8": "core.left_shift core.right_shift",
    "promote,bool:int32": "nn.prelu",
    f"promote,{_SUM}": "core.vecdot",
    "float": """
        core.sqrt core.rsqrt core.reciprocal core.exp core.expm1 core.erf core.erfinv core.sin
        core.cos core.tan core.arcsin core.arccos core.arctan core.sinh core.cosh core.tanh
        core.arcsinh core.arccosh core.arctanh core.degrees core.radians core.log core.log2
        core.log10 core.log1p core.sigmoid core.mean core.median core.logcumsumexp core.logsumexp
        core.divide core.logaddexp core.arctan2
        core.linalg.det core.linalg.slogdet core.linalg.solve core.linalg.solve_triangular
        nn.celu nn.elu nn.gelu nn.gelu_approx nn.gelu_fast_approx nn.glu nn.hard_tanh nn.hardswish
        nn.leaky_relu nn.log_sigmoid nn.log_softmax nn.mish nn.relu6 nn.selu nn.sigmoid nn.silu
        nn.softmax nn.softmin nn.softplus nn.softshrink nn.softsign nn.tanh
        nn.AvgPool1d.__call__ nn.AvgPool2d.__call__ nn.AvgPool3d.__call__ nn.CELU.__call__
        nn.Dropout.__call__ nn.Dropout2d.__call__ nn.Dropout3d.__call__ nn.ELU.__call__
        nn.GELU.__call__ nn.GLU.__call__ nn.LeakyReLU.__call__ nn.Softshrink.__call__
        nn.losses.cross_entropy nn.losses.log_cosh_loss nn.losses.mse_loss
    """,
    f"float,{_REAL}": """
        core.hadamard_transform core.linalg.norm core.std core.var
        nn.losses.huber_loss nn.losses.l1_loss nn.losses.smooth_l1_loss nn.losses.triplet_loss
    """,
    # An integer softmax is float32 along the last axis, and int32 zeros along any other.
    "float,integer:unknown": "core.softmax",
    # Without reduction these keep integers, which no one trains on.
    "promote,integer:unknown": """
        nn.losses.hinge_loss nn.losses.margin_ranking_loss
    """,
    "same,integer:unknown": "nn.losses.nll_loss",
    "bool": """
        core.all core.allclose core.any core.array_equal core.equal core.greater
        core.greater_equal core.isclose core.isfinite core.isinf core.isnan core.isneginf
        core.isposinf core.less core.less_equal core.logical_and core.logical_not core.logical_or
        core.logical_xor core.not_equal core.random.bernoulli
    """,
    "int32": "core.count_nonzero nn.step nn.Step.__call__",
    "uint8": "core.to_fp8",
    "uint32": """
        core.argmax core.argmin core.argpartition core.argsort core.searchsorted
        core.random.categorical core.random.key core.random.split
    """,
    "uint64": "optimizers.Optimizer.step",
    "float32": """
        core.bartlett core.hanning core.hamming core.blackman core.fast.cross_entropy
        core.fft.irfft core.fft.irfft2 core.fft.irfftn core.fft.istft core.fft.fftfreq
        core.fft.rfftfreq
    """,
    "complex64": """
        core.linalg.eig core.linalg.eigvals core.fft.fft core.fft.ifft core.fft.fft2
        core.fft.ifft2 core.fft.fftn core.fft.ifftn core.fft.rfft core.fft.rfft2 core.fft.rfftn
        core.fft.stft
    """,
    "param:dtype=float32": """
        core.eye core.identity core.linspace core.ones core.tri core.zeros
        core.random.gumbel core.random.laplace core.random.normal
        core.random.truncated_normal core.random.uniform
        nn.ALiBi.create_alibi_matrix nn.ALiBi.create_alibi_slope
        nn.MultiHeadAttention.create_additive_causal_mask
    """,
    "param:dtype=int32": "core.random.randint",
    "param:dtype=bfloat16": "core.from_fp8",
    "param:dtype=promote": "core.arange",
    "param:dtype=from_value(vals)": "core.full",
    "param:dtype=from_value(val)": "core.array",
    "param:dtype=from_value(a)": "core.asarray",
    "param:dtype=unknown": "core.astype core.dequantize core.distributed.recv core.view",
}
