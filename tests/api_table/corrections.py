"""Corrections of MLX's stubs and annotations, as observed in MLX.

Each correction contains an expression, `run`, whose value on the installed MLX has the type that
`returns` says; a test evaluates every one of them (with `mx`, `nn`, `optim`, `utils`, `x`, a 4x4
float32 array, `net`, a small model, and `opt`, an optimizer that has updated it) and fails where
MLX has come to agree with its stub.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Correction:
    """The result of calling one name, the expression that shows it, and variants.

    `given` has (parameter, result, expression) for parameters that change the result's type when
    they are passed; `wraps` names the parameter whose function a transform wraps; `call_returns`
    says what the returned callable returns; `kind`, and `params` as (name, kinds), are set for a
    name that the files do not declare at all.
    """

    returns: str
    run: str
    given: tuple[tuple[str, str, str], ...] = ()
    wraps: str = ""
    call_returns: str = ""
    kind: str = ""
    params: tuple[tuple[str, str], ...] = ()


# The stub says something else.
LIES: dict[str, Correction] = {
    # Annotated `-> array`; a list of arrays comes back.
    "mlx.core.split": Correction("list[array]", "mx.split(x, 2)"),
    "mlx.core.divmod": Correction("list[array]", "mx.divmod(x, 2)"),
    # Annotated `-> tuple[array, ...]`; a list comes back.
    "mlx.core.broadcast_arrays": Correction("list[array]", "mx.broadcast_arrays(x, x[0])"),
    # Annotated `-> tuple[array, array, array]`; a list comes back, of two arrays in fp modes.
    "mlx.core.quantize": Correction(
        "list[array]", "mx.quantize(wide) + mx.quantize(wide, mode='mxfp4')"
    ),
    # Annotated `-> tuple[int]`, a tuple of one.
    "mlx.core.broadcast_shapes": Correction("shape", "mx.broadcast_shapes((1, 2), (3, 1))"),
    # Annotated `-> tuple[array, array, array]` whatever `compute_uv` is.
    "mlx.core.linalg.svd": Correction(
        "tuple[array,array,array]",
        "mx.linalg.svd(x, stream=mx.cpu)",
        given=(
            (
                "compute_uv",
                "union[array,tuple[array,array,array]]",
                "mx.linalg.svd(x, compute_uv=False, stream=mx.cpu)",
            ),
        ),
    ),
    # Annotated `-> NDArray`; it is a capsule that only a consumer of DLPack understands.
    "mlx.core.array.__dlpack__": Correction("unknown", "x.__dlpack__()"),
}

# The files are correct, but less precise.
REFINEMENTS: dict[str, Correction] = {
    # Annotated as a union of both; only the passing of an option makes a tuple.
    "mlx.core.unique": Correction(
        "array",
        "mx.unique(x, 3)",
        given=(
            ("return_index", "union[array,tuple[array,...]]", "mx.unique(x, 3, True)"),
            ("return_inverse", "union[array,tuple[array,...]]", "mx.unique(x, 3, False, True)"),
            (
                "return_counts",
                "union[array,tuple[array,...]]",
                "mx.unique(x, 3, False, False, True)",
            ),
        ),
    ),
    # Classes whose call doesn't just construct an instance.
    "mlx.core.array": Correction("array", "mx.array(1.0)"),
    "mlx.core.custom_function": Correction(
        "transform", "mx.custom_function(lambda a: a)", wraps="f"
    ),
    # Annotated as a plain `Callable`; these take a function and give one that wraps it.
    "mlx.core.compile": Correction("transform", "mx.compile(lambda a: a)", wraps="fun"),
    "mlx.core.checkpoint": Correction("transform", "mx.checkpoint(lambda a: a)", wraps="fun"),
    "mlx.core.grad": Correction("transform", "mx.grad(lambda a: a.sum())", wraps="fun"),
    "mlx.core.value_and_grad": Correction(
        "transform", "mx.value_and_grad(lambda a: a.sum())", wraps="fun"
    ),
    "mlx.core.vmap": Correction("transform", "mx.vmap(lambda a: a)", wraps="fun"),
    # Annotated `-> object`; functions that give a list of arrays when called.
    "mlx.core.fast.metal_kernel": Correction(
        "callable",
        "mx.fast.metal_kernel('k', ['a'], ['b'], 'b[0] = a[0];')",
        call_returns="list[array]",
    ),
    "mlx.core.fast.cuda_kernel": Correction("callable", "", call_returns="list[array]"),
    # Annotated as returning Module; it is the module that it was called on.
    **{
        f"mlx.nn.Module.{name}": Correction("same", f"net.{name}({args})")
        for name, args in {
            "apply": "lambda a: a",
            "apply_to_modules": "lambda k, m: None",
            "eval": "",
            "freeze": "",
            "load_weights": "[], strict=False",
            "train": "",
            "unfreeze": "",
            "update": "{}",
            "update_modules": "{}",
        }.items()
    },
    # Annotated `Union[List[...], Dict[...]]`; a dict only where a `destination` is passed.
    "mlx.utils.tree_flatten": Correction(
        "list[tuple[str,leaf]]",
        "utils.tree_flatten(net.parameters())",
        given=(
            (
                "destination",
                "union[dict[str,leaf],list[tuple[str,leaf]]]",
                "utils.tree_flatten(net.parameters(), destination={})",
            ),
        ),
    ),
}

# The files say nothing, or `Any`.
GAPS: dict[str, Correction] = {
    "mlx.core.__version__": Correction("str", "mx.__version__", kind="constant"),
    "mlx.core.random.state": Correction("tree", "list(mx.random.state)", kind="property"),
    "mlx.core.async_eval": Correction("none", "mx.async_eval(x)"),
    "mlx.core.depends": Correction("same", "mx.depends(x, x)"),
    "mlx.core.einsum_path": Correction(
        "tuple[list[tuple[int,...]],str]", "mx.einsum_path('ij,jk->ik', x, x)"
    ),
    "mlx.core.load": Correction(
        "union[array,dict[str,array]]",
        "mx.load(saved)",
        given=(("return_metadata", "unknown", "mx.load(saved_safetensors, return_metadata=True)"),),
    ),
    "mlx.core.savez": Correction("none", "mx.savez(scratch + '/a.npz', x)"),
    "mlx.core.savez_compressed": Correction("none", "mx.savez_compressed(scratch + '/b.npz', x)"),
    "mlx.core.save_safetensors": Correction(
        "none", "mx.save_safetensors(scratch + '/c.safetensors', {'x': x})"
    ),
    "mlx.core.save_gguf": Correction("none", "mx.save_gguf(scratch + '/d.gguf', {'x': x}, {})"),
    # `==` gives an array for what converts to one, and False for the rest (`x == "s"`).
    "mlx.core.array.__eq__": Correction("union[array,bool]", "x == 's'"),
    "mlx.core.array.__ne__": Correction("union[array,bool]", "x != 's'"),
    "mlx.core.array.__dlpack_device__": Correction("tuple[int,int]", "x.__dlpack_device__()"),
    "mlx.core.array.tolist": Correction(
        "union[bool,complex,float,int,list[unknown]]", "x.tolist()"
    ),
    # `object` has these; on an array the first three force evaluation.
    "mlx.core.array.__str__": Correction("str", "str(x)", kind="method"),
    "mlx.core.array.__format__": Correction(
        "str", "format(x)", kind="method", params=(("format_spec", "str"),)
    ),
    "mlx.core.array.__reduce_ex__": Correction(
        "tuple[unknown,...]", "x.__reduce_ex__(2)", kind="method", params=(("protocol", "int"),)
    ),
    "mlx.core.array.__hash__": Correction("int", "hash(x)", kind="method"),
    # Decorators: each gives back the custom function that it belongs to.
    "mlx.core.custom_function.vjp": Correction("same", "mx.custom_function(f).vjp(f)"),
    "mlx.core.custom_function.jvp": Correction("same", "mx.custom_function(f).jvp(f)"),
    "mlx.core.custom_function.vmap": Correction("same", "mx.custom_function(f).vmap(f)"),
    "mlx.nn.Module.training": Correction("bool", "net.training"),
    "mlx.nn.Module.state": Correction("same", "net.state"),
    "mlx.nn.Module.is_module": Correction("bool", "nn.Module.is_module(net)"),
    "mlx.nn.Module.valid_child_filter": Correction(
        "bool", "nn.Module.valid_child_filter(net, 'a', net)"
    ),
    "mlx.nn.Module.valid_parameter_filter": Correction(
        "bool", "nn.Module.valid_parameter_filter(net, 'a', x)"
    ),
    "mlx.nn.Module.trainable_parameter_filter": Correction(
        "bool", "nn.Module.trainable_parameter_filter(net, 'a', x)"
    ),
    "mlx.nn.Module.save_weights": Correction("none", "net.save_weights(scratch + '/e.npz')"),
    "mlx.nn.Module.parameters": Correction("tree", "net.parameters()"),
    "mlx.nn.Module.trainable_parameters": Correction("tree", "net.trainable_parameters()"),
    "mlx.nn.Module.filter_and_map": Correction(
        "dict[str,unknown]", "net.filter_and_map(lambda m, k, v: True)"
    ),
    "mlx.nn.Module.children": Correction("dict[str,unknown]", "net.children()"),
    "mlx.nn.Module.leaf_modules": Correction("dict[str,unknown]", "net.leaf_modules()"),
    "mlx.nn.Module.modules": Correction("list[instance:mlx.nn.Module]", "net.modules()"),
    "mlx.nn.Module.named_modules": Correction(
        "list[tuple[str,instance:mlx.nn.Module]]", "net.named_modules()"
    ),
    "mlx.nn.Module.set_dtype": Correction("none", "net.set_dtype(mx.float32)"),
    "mlx.nn.BatchNorm.unfreeze": Correction("none", "nn.BatchNorm(4).unfreeze()"),
    **{
        f"mlx.nn.{layer}.unfreeze": Correction("none", f"nn.{layer}(64, 64).unfreeze()")
        for layer in ("QuantizedAllToShardedLinear", "QuantizedShardedToAllLinear")
    },
    "mlx.nn.AllToShardedLinear.from_linear": Correction(
        "instance:mlx.nn.AllToShardedLinear", "nn.AllToShardedLinear.from_linear(linear)"
    ),
    "mlx.nn.ShardedToAllLinear.from_linear": Correction(
        "instance:mlx.nn.ShardedToAllLinear", "nn.ShardedToAllLinear.from_linear(linear)"
    ),
    "mlx.nn.QuantizedAllToShardedLinear.from_quantized_linear": Correction(
        "instance:mlx.nn.QuantizedAllToShardedLinear",
        "nn.QuantizedAllToShardedLinear.from_quantized_linear(linear.to_quantized())",
    ),
    "mlx.nn.QuantizedShardedToAllLinear.from_quantized_linear": Correction(
        "instance:mlx.nn.QuantizedShardedToAllLinear",
        "nn.QuantizedShardedToAllLinear.from_quantized_linear(linear.to_quantized())",
    ),
    "mlx.nn.QuantizedLinear.from_linear": Correction(
        "instance:mlx.nn.QuantizedLinear", "nn.QuantizedLinear.from_linear(linear)"
    ),
    "mlx.nn.QQLinear.from_linear": Correction(
        "instance:mlx.nn.QQLinear", "nn.QQLinear.from_linear(nn.Linear(64, 64, bias=False))"
    ),
    "mlx.nn.QQLinear.quantize": Correction("none", "nn.QQLinear(64, 64).quantize()"),
    "mlx.nn.QQLinear.dequantize": Correction("none", "nn.QQLinear(64, 64).dequantize()"),
    "mlx.nn.QuantizedEmbedding.from_embedding": Correction(
        "instance:mlx.nn.QuantizedEmbedding",
        "nn.QuantizedEmbedding.from_embedding(nn.Embedding(8, 64))",
    ),
    "mlx.nn.Embedding.to_quantized": Correction(
        "instance:mlx.nn.QuantizedEmbedding", "nn.Embedding(8, 64).to_quantized()"
    ),
    "mlx.nn.Linear.to_quantized": Correction(
        "union[instance:mlx.nn.QQLinear,instance:mlx.nn.QuantizedLinear]", "linear.to_quantized()"
    ),
    "mlx.nn.Embedding.as_linear": Correction("array", "nn.Embedding(8, 4).as_linear(x)"),
    "mlx.nn.QuantizedEmbedding.as_linear": Correction(
        "array", "nn.QuantizedEmbedding(8, 64).as_linear(mx.ones((2, 64)))"
    ),
    "mlx.nn.MultiHeadAttention.create_additive_causal_mask": Correction(
        "array", "nn.MultiHeadAttention.create_additive_causal_mask(4)"
    ),
    "mlx.nn.quantize": Correction("none", "nn.quantize(nn.Sequential(nn.Linear(64, 64)))"),
    "mlx.nn.average_gradients": Correction("same", "nn.average_gradients(net.parameters())"),
    "mlx.nn.value_and_grad": Correction(
        "transform", "nn.value_and_grad(net, lambda a: net(a).sum())", wraps="fn"
    ),
    "mlx.nn.utils.checkpoint": Correction("transform", "nn.utils.checkpoint(net, f)", wraps="fn"),
    "mlx.nn.utils.clip_grad_norm_sharded": Correction(
        "tuple[tree,array]", "nn.utils.clip_grad_norm_sharded(net.parameters(), 1.0)"
    ),
    "mlx.nn.layers.distributed.shard_inplace": Correction(
        "none", "nn.layers.distributed.shard_inplace(nn.Linear(4, 4), 'all-to-sharded')"
    ),
    "mlx.nn.layers.distributed.shard_linear": Correction(
        "instance:mlx.nn.Module",
        "nn.layers.distributed.shard_linear(nn.Linear(4, 4), 'all-to-sharded')",
    ),
    "mlx.nn.layers.distributed.sum_gradients": Correction(
        "callable", "nn.layers.distributed.sum_gradients(mx.distributed.init())"
    ),
    "mlx.optimizers.Optimizer.update": Correction("none", "opt.update(net, net.parameters())"),
    "mlx.optimizers.Optimizer.init": Correction("none", "opt.init(net.parameters())"),
    "mlx.optimizers.Optimizer.apply_gradients": Correction(
        "tree", "opt.apply_gradients(net.parameters(), net.parameters())"
    ),
    "mlx.optimizers.Optimizer.state": Correction("tree", "opt.state"),
    "mlx.optimizers.Optimizer.step": Correction("array", "opt.step"),
    "mlx.optimizers.Optimizer.learning_rate": Correction("array", "opt.learning_rate"),
    "mlx.optimizers.MultiOptimizer.init": Correction("none", "multi.init(net.parameters())"),
    "mlx.optimizers.MultiOptimizer.apply_gradients": Correction(
        "tree", "multi.apply_gradients(net.parameters(), net.parameters())"
    ),
    "mlx.optimizers.MultiOptimizer.state": Correction("tree", "multi.state"),
    "mlx.optimizers.MultiOptimizer.learning_rate": Correction("array", "multi.learning_rate"),
    "mlx.optimizers.clip_grad_norm": Correction(
        "tuple[tree,array]", "optim.clip_grad_norm(net.parameters(), 1.0)"
    ),
    "mlx.utils.tree_merge": Correction("same", "utils.tree_merge({'a': x}, {'b': x})"),
}

# Calls of layers that the sources do not annotate: an array in, an array out. `LSTM` gives its
# hidden and cell states; `Identity` gives what it got; `FullyShardedModule` gives what the module
# that it wraps gives, and `Sequential` what its last layer gives, in practice an array.
ARRAY_LAYERS = """
    AvgPool1d AvgPool2d AvgPool3d CELU Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
    ConvTranspose3d ELU Embedding GELU GLU GRU GroupNorm HardShrink HardTanh Hardswish LayerNorm
    LeakyReLU LogSigmoid LogSoftmax MaxPool1d MaxPool2d MaxPool3d Mish MultiHeadAttention PReLU
    QQLinear QuantizedEmbedding QuantizedLinear RMSNorm RNN ReLU ReLU2 ReLU6 RoPE SELU Sequential
    SiLU Sigmoid SinusoidalPositionalEncoding Softmax Softmin Softplus Softshrink Softsign Step
    Tanh Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
    TransformerEncoderLayer
"""
OTHER_LAYERS = {"LSTM": "tuple[array,array]", "Identity": "same"}

# Functions of `mlx.nn` without annotations; each gives an array.
ARRAY_FUNCTIONS = """
    celu elu gelu_approx gelu_fast_approx hard_shrink hard_tanh hardswish leaky_relu log_sigmoid
    log_softmax relu relu2 relu6 selu sigmoid silu softmax softmin softplus softshrink softsign
    step tanh layers.upsample.upsample_cubic layers.upsample.upsample_linear
    layers.upsample.upsample_nearest
"""

# What optimizers' methods for one parameter give, in every optimizer that has them.
OPTIMIZER_METHODS = {"init_single": "none", "apply_single": "array"}

# What the functions give that these functions return: initialisers and learning-rate schedules.
# Two schedules give a float for a step that is a Python int.
MAKERS = {
    **{
        f"mlx.nn.init.{name}": "array"
        for name in (
            *("constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform"),
            *("identity", "normal", "orthogonal", "sparse", "uniform"),
        )
    },
    "mlx.optimizers.cosine_decay": "array",
    "mlx.optimizers.exponential_decay": "union[array,float]",
    "mlx.optimizers.join_schedules": "array",
    "mlx.optimizers.linear_schedule": "array",
    "mlx.optimizers.step_decay": "union[array,float]",
}

# Attributes that layers set by unpacking what a call gives; the array is there after `__init__`.
ATTRIBUTES = {
    f"mlx.nn.Quantized{layer}.{name}": returns
    for layer in ("Embedding", "Linear", "AllToShardedLinear", "ShardedToAllLinear")
    for name, returns in (
        ("weight", "array"),
        ("scales", "array"),
        ("biases", "union[array,none]"),
    )
}

# Functions whose parameters are annotated `array` and take Python numbers all the same
# (`mx.exp(2.0)` works, `mx.sum(2.0)` raises TypeError): every array parameter of theirs.
NUMBERS_TOO = """
    core.abs core.arccos core.arccosh core.arcsin core.arcsinh core.arctan core.arctanh core.ceil
    core.conj core.conjugate core.cos core.cosh core.erf core.erfinv core.exp core.expm1 core.floor
    core.imag core.isfinite core.isinf core.isnan core.isneginf core.isposinf core.log core.log10
    core.log1p core.log2 core.logical_and core.logical_not core.logical_or core.negative core.real
    core.reciprocal core.round core.rsqrt core.sigmoid core.sign core.sin core.sinh core.sqrt
    core.square core.tan core.tanh
    core.distributed.all_gather core.distributed.all_max core.distributed.all_min
    core.distributed.all_sum core.distributed.sum_scatter
    nn.losses.hinge_loss nn.losses.huber_loss nn.losses.kl_div_loss nn.losses.log_cosh_loss
    nn.losses.triplet_loss nn.prelu
    nn.celu nn.elu nn.gelu nn.gelu_approx nn.gelu_fast_approx nn.hard_shrink nn.hard_tanh
    nn.hardswish nn.leaky_relu nn.log_sigmoid nn.mish nn.relu nn.relu2 nn.relu6 nn.selu nn.sigmoid
    nn.silu nn.softplus nn.softshrink nn.softsign nn.step nn.tanh
    nn.CELU.__call__ nn.ELU.__call__ nn.Embedding.__call__ nn.GELU.__call__ nn.HardShrink.__call__
    nn.HardTanh.__call__ nn.Hardswish.__call__ nn.Identity.__call__ nn.LeakyReLU.__call__
    nn.LogSigmoid.__call__ nn.Mish.__call__ nn.PReLU.__call__ nn.ReLU.__call__ nn.ReLU2.__call__
    nn.ReLU6.__call__ nn.SELU.__call__ nn.Sequential.__call__ nn.SiLU.__call__ nn.Sigmoid.__call__
    nn.Softplus.__call__ nn.Softshrink.__call__ nn.Softsign.__call__ nn.Step.__call__
    nn.Tanh.__call__
"""

# Parameters that the files leave without a type, or with one that says too little, by the name
# they have in a package; `?` where None is taken too, `=` where it may be left out.
PARAMETERS: dict[str, dict[str, str]] = {
    "mlx.core.save_gguf": {"metadata": "any="},
    "mlx.nn.": {
        "x": "array",
        "queries": "array",
        "keys": "array",
        "values": "array",
        "src": "array",
        "tgt": "array",
        "memory": "array",
        "hidden": "array?",
        "cell": "array?",
        "mask": "array?",
        "x_mask": "array?",
        "memory_mask": "array?",
        "src_mask": "array?",
        "tgt_mask": "array?",
        "reduction": "str",
        "gradients": "tree",
        "parameters": "tree",
        "activation": "callable",
    },
    "mlx.optimizers.": {
        "gradients": "tree",
        "parameters": "tree",
        "state": "tree",
        "grads": "tree",
        "max_norm": "float",
    },
    "mlx.core.array.": {"shape": "ints", "axes": "ints"},
    "mlx.core.einsum": {"operands": "array"},
    "mlx.core.einsum_path": {"operands": "array"},
    "mlx.core.eval": {"args": "tree"},
    "mlx.core.async_eval": {"args": "tree"},
}
# `freeze(keys=)` and `Module.update(parameters)` share names with the above and are not arrays.
NOT_ARRAYS = frozenset({"mlx.nn.Module.freeze", "mlx.nn.Module.unfreeze"})

# Other names of the same thing, which the stubs declare as separate functions.
ALIASES = {
    "mlx.core.concat": "mlx.core.concatenate",
    "mlx.core.conjugate": "mlx.core.conj",
    "mlx.core.permute_dims": "mlx.core.transpose",
}
