"""Replacements of names that MLX lacks, has had, or deprecates.

In a text, `{mx}` stands for the file's name of `mlx.core`, `{x}` for the array whose member is
called and `{args}` for the arguments of that call.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

from embercoach.analysis import mlx_api


class Deprecated(NamedTuple):
    """The new name of a deprecated function, and the first release that has it."""

    name: str
    since: str


#: Functions that print a warning, by their canonical names.
DEPRECATED = {
    **{
        f"mlx.core.metal.{name}": Deprecated(f"mlx.core.{name}", "0.24.1")
        for name in (
            *("clear_cache", "get_active_memory", "get_cache_memory", "get_peak_memory"),
            *("reset_peak_memory", "set_cache_limit", "set_memory_limit", "set_wired_limit"),
        )
    },
    "mlx.core.metal.device_info": Deprecated("mlx.core.device_info", "0.30.4"),
}

#: The last release that had a name.
REMOVED = {
    "mlx.core.simplify": "0.0.11",
    **dict.fromkeys(
        [
            f"mlx.core.{name}"
            for name in ("Inf", "Infinity", "NAN", "NINF", "NZERO", "NaN", "PINF", "PZERO", "infty")
        ],
        "0.16.1",
    ),
    "mlx.core.metal.cache_enabled": "0.5.0",
    "mlx.core.metal.set_cache_enabled": "0.5.0",
    "mlx.core.block_sparse_mm": "0.16.0",
    "mlx.core.block_sparse_qmm": "0.16.0",
    "mlx.core.gater_qmm": "0.15.1",
    "mlx.core.distributed.all_reduce_sum": "0.14.1",
    "mlx.core.fast.affine_quantize": "0.20.0",
    "mlx.core.random.permuation": "0.24.1",
    "mlx.nn.losses.BCELoss": "0.0.5",
}

#: Other names of the same thing: what is called for one is called for the other.
RENAMED = {
    f"mlx.core.{name}": f"mlx.core.{other}"
    for name, other in {
        "Inf": "inf",
        "Infinity": "inf",
        "NAN": "nan",
        "NaN": "nan",
        "PINF": "inf",
        "absolute": "abs",
        "amax": "max",
        "amin": "min",
        "as_tensor": "array",
        "block_sparse_mm": "block_masked_mm",
        "bmm": "matmul",
        "cat": "concatenate",
        "clamp": "clip",
        "clear_memory_cache": "clear_cache",
        "clone": "array",
        "copy": "array",
        "div": "divide",
        "double": "float64",
        "empty_cache": "clear_cache",
        "fabs": "abs",
        "float": "float32",
        "from_numpy": "array",
        "gater_qmm": "gather_qmm",
        "half": "float16",
        "infty": "inf",
        "int": "int32",
        "invert": "bitwise_invert",
        "jit": "compile",
        "long": "int64",
        "manual_seed": "random.seed",
        "mm": "matmul",
        "mul": "multiply",
        "neg": "negative",
        "rand": "random.uniform",
        "randn": "random.normal",
        "ravel": "flatten",
        "set_device": "set_default_device",
        "set_seed": "random.seed",
        "sub": "subtract",
        "sync": "synchronize",
        "tensor": "array",
        "true_divide": "divide",
        "unsqueeze": "expand_dims",
        "bool": "bool_",
        "random.permuation": "random.permutation",
        "random.rand": "random.uniform",
        "random.randn": "random.normal",
        "random.choice": "random.categorical",
        "random.PRNGKey": "random.key",
        "distributed.all_reduce_sum": "distributed.all_sum",
        "metal.empty_cache": "clear_cache",
        "metal.synchronize": "synchronize",
    }.items()
} | {
    f"mlx.nn.{name}": f"mlx.nn.{other}"
    for name, other in {
        "BCELoss": "losses.binary_cross_entropy",
        "BCEWithLogitsLoss": "losses.binary_cross_entropy",
        "CrossEntropyLoss": "losses.cross_entropy",
        "KLDivLoss": "losses.kl_div_loss",
        "L1Loss": "losses.l1_loss",
        "MSELoss": "losses.mse_loss",
        "NLLLoss": "losses.nll_loss",
        "SmoothL1Loss": "losses.smooth_l1_loss",
        "Swish": "SiLU",
        "swish": "silu",
        "init.kaiming_normal": "init.he_normal",
        "init.kaiming_uniform": "init.he_uniform",
        "init.xavier_normal": "init.glorot_normal",
        "init.xavier_uniform": "init.glorot_uniform",
    }.items()
}

#: These take other arguments than the name that they replace.
_ARGUMENTS_DIFFER = frozenset(
    (
        *("rand", "randn", "choice", "sub", "clone"),
        *(name.rpartition(".")[2] for name in RENAMED if name.endswith("Loss")),
    )
)

#: What to do where no name replaces another.
ADVICE = {
    "mlx.core.angle": "Use `mx.arctan2(x.imag, x.real)`",
    "mlx.core.argwhere": "Keep the shape static with `mx.where`, or use `np.argwhere`",
    "mlx.core.chunk": "Use `mx.split(x, parts, axis)`",
    "mlx.core.gather": "Use `mx.take_along_axis` or `mx.take`",
    "mlx.core.gpu_available": "Use `mx.metal.is_available()`",
    "mlx.core.hstack": "Use `mx.concatenate` with `axis`",
    "mlx.core.index_select": "Use `mx.take(x, indices, axis)`",
    "mlx.core.masked_fill": "Use `mx.where(mask, value, x)`",
    "mlx.core.nn": "Import it: `import mlx.nn as nn`",
    "mlx.core.no_grad": "Remove it: MLX differentiates only what `mx.grad` is given",
    "mlx.core.nonzero": "Keep the shape static with `mx.where`, or use `np.nonzero`",
    "mlx.core.optimizers": "Import it: `import mlx.optimizers as optim`",
    "mlx.core.permute": "Use `mx.transpose(x, axes)`",
    "mlx.core.simplify": "Remove it: `mx.compile` simplifies graphs",
    "mlx.core.utils": "Import it: `import mlx.utils`",
    "mlx.core.vstack": "Use `mx.concatenate` with `axis`",
    "mlx.core.Tensor": "Use `mx.array`",
    "mlx.core.ndarray": "Use `mx.array`",
    "mlx.core.device": "Use `mx.Device(mx.gpu)`, or `mx.default_device()`",
    "mlx.core.metal.set_cache_enabled": "Use `mx.set_cache_limit(0)` to disable the cache",
    "mlx.nn.Flatten": "Use `mx.flatten(x, start_axis=1)`",
    "mlx.nn.ModuleDict": "Use a dict: `nn.Module` finds the layers in it",
    "mlx.nn.ModuleList": "Use a list: `nn.Module` finds the layers in it",
    "mlx.nn.QuantizedLinear.quantize_module": "Use `nn.quantize(model, group_size, bits)`",
    "mlx.nn.Parameter": "Assign the `mx.array`: public arrays of a module are parameters",
    "mlx.nn.functional": "Use the functions of `mlx.nn` and `mlx.core`",
}

#: Members of arrays as torch and NumPy have them, by what to write for a call of them.
MEMBERS = {
    "bfloat16": "{x}.astype({mx}.bfloat16)",
    "bool": "{x}.astype({mx}.bool_)",
    "byte": "{x}.astype({mx}.uint8)",
    "clone": "{mx}.array({x})",
    "contiguous": "{mx}.contiguous({x})",
    "copy": "{mx}.array({x})",
    "cpu": "{x}",
    "cuda": "{x}",
    "detach": "{mx}.stop_gradient({x})",
    "dim": "{x}.ndim",
    "double": "{x}.astype({mx}.float32)",  # float64 raises on the GPU
    "float": "{x}.astype({mx}.float32)",
    "half": "{x}.astype({mx}.float16)",
    "int": "{x}.astype({mx}.int32)",
    "long": "{x}.astype({mx}.int64)",
    "numel": "{x}.size",
    "t": "{x}.T",
}
#: The same for calls with arguments.
MEMBERS_WITH_ARGUMENTS = {
    "bmm": "{mx}.matmul({x}, {args})",
    "clamp": "{mx}.clip({x}, {args})",
    "expand": "{mx}.broadcast_to({x}, ({args}))",
    "masked_fill": "",
    "mm": "{mx}.matmul({x}, {args})",
    "permute": "{x}.transpose({args})",
    "unsqueeze": "{mx}.expand_dims({x}, {args})",
}
MEMBER_ADVICE = {
    "numpy": "Use `np.array(x)`",
    "to": "Remove it, or convert with `.astype(dtype)`: memory is shared by CPU and GPU",
    "device": "Remove it: memory is shared by CPU and GPU",
    "backward": "Use `mx.grad` or `nn.value_and_grad`",
    "grad": "Use `mx.grad` or `nn.value_and_grad`",
    "requires_grad": "Remove it: `mx.grad` differentiates its arguments",
    "masked_fill": "Use `mx.where(mask, value, x)`",
    "nonzero": "Keep the shape static with `mx.where`, or use `np.nonzero(x)`",
    "chunk": "Use `mx.split(x, parts, axis)`",
    "fill": "Use `mx.full(x.shape, value, dtype=x.dtype)`",
    "fill_": "Use `mx.full(x.shape, value, dtype=x.dtype)`",
    "type": "Use `.astype(dtype)`",
    "gather": "Use `mx.take_along_axis` or `mx.take`",
    "repeat": "Use `mx.tile(x, reps)` for torch's, `mx.repeat(x, n, axis)` for NumPy's",
}

#: Members of tensors and of NumPy's arrays that no table above has a replacement for.
_TENSORS = """
addmm clone_ data_ptr dot element_size expand_as flat get_device index_add index_copy index_put
index_select is_contiguous is_cuda masked_select narrow ndimension new_ones new_zeros norm
pin_memory put ravel repeat_interleave resize scatter scatter_add select stride strides tobytes
tofile topk unbind unfold unflatten view_as
"""
_ELSEWHERE = frozenset(_TENSORS.split())


def is_known_elsewhere(name: str) -> bool:
    """Return whether arrays of other libraries have the member, or MLX has such a function.

    Any other name is evidence against an array, whatever an annotation says.
    """
    if name in MEMBERS or name in MEMBERS_WITH_ARGUMENTS or name in MEMBER_ADVICE:
        return True
    if name in _ELSEWHERE:
        return True
    bare = name.rstrip("_")
    if f"mlx.core.{bare}" in RENAMED:
        return True
    functions = (mlx_api.lookup(f"{owner}.{bare}") for owner in ("mlx.core", "mlx.core.linalg"))
    return any(entry is not None and entry.kind == "function" for entry in functions)


#: Members of torch's modules and optimizers.
#: Members of NumPy's and torch's dtypes.
DTYPE_ADVICE = {
    "is_complex": "Use `mx.issubdtype(dtype, mx.complexfloating)`",
    "is_floating_point": "Use `mx.issubdtype(dtype, mx.floating)`",
    "itemsize": "Use `.size`, the bytes of an element",
    "kind": "Use `mx.issubdtype(dtype, mx.floating)`, or another category",
    "name": "Use `str(dtype)`, as in `mlx.core.float32`",
    "type": "Use the dtype itself",
}
MODULE_ADVICE = {
    "add_module": "Assign the layer to an attribute",
    "backward": "Use `nn.value_and_grad`",
    "cpu": "Remove it: memory is shared by CPU and GPU",
    "cuda": "Remove it: memory is shared by CPU and GPU",
    "load_state_dict": "Use `load_weights`, or assign the optimizer's `state`",
    "named_parameters": "Use `tree_flatten(model.parameters())`",
    "param_groups": "Set `optimizer.learning_rate`, or pass a schedule to the optimizer",
    "named_children": "Use `children()`",
    "register_backward_hook": "Use `nn.value_and_grad`, or `mx.custom_function`",
    "register_buffer": "Assign the array to a private attribute, such as `self._mask`",
    "register_forward_hook": "Replace the layer by one that calls it and keeps the result",
    "register_forward_pre_hook": "Replace the layer by one that changes its input and calls it",
    "register_full_backward_hook": "Use `nn.value_and_grad`, or `mx.custom_function`",
    "register_parameter": "Assign the array to a public attribute",
    "requires_grad_": "Use `freeze()` and `unfreeze()`",
    "state_dict": "Use `parameters()`, or the optimizer's `state`",
    "to": "Remove it, or convert with `set_dtype`: memory is shared by CPU and GPU",
    "zero_grad": "Remove it: `nn.value_and_grad` returns new gradients",
    "set_learning_rate": "Set `optimizer.learning_rate`",
}
_IN_GENERATE = "Import it from `mlx_lm.generate`"
_IN_CACHE = "Import it from `mlx_lm.models.cache`"
_SAMPLER = "Use `make_sampler` of `mlx_lm.sample_utils`"
#: Public names that modules of mlx-lm have had: the last release with each, and what to use.
MLX_LM_GONE = {
    "mlx_lm.generate.load_kv_cache_from_file": (
        *("0.18.1", "Use `load_prompt_cache` of `mlx_lm.models.cache`"),
    ),
    "mlx_lm.models.base.KVCache": ("0.18.2", _IN_CACHE),
    "mlx_lm.models.base.RotatingKVCache": ("0.18.2", _IN_CACHE),
    "mlx_lm.models.base.create_additive_causal_mask": ("0.18.2", "Use `create_attention_mask`"),
    "mlx_lm.models.cache.MambaCache": ("0.30.5", "Use `ArraysCache(size=2)`"),
    "mlx_lm.models.su_rope.SuScaledRotaryEmbedding": (
        *("0.22.0", "Import `SuScaledRoPE` from `mlx_lm.models.rope_utils`"),
    ),
    "mlx_lm.sample_utils.min_p_sampling": ("0.21.5", _SAMPLER),
    "mlx_lm.sample_utils.top_k_sampling": ("0.21.5", _SAMPLER),
    "mlx_lm.sample_utils.top_p_sampling": ("0.21.5", _SAMPLER),
    "mlx_lm.tuner.trainer.save_adapter": ("0.18.2", "Use `mx.save_safetensors`"),
    "mlx_lm.tuner.utils.apply_lora_layers": ("0.18.2", "Use `load_adapters`"),
    "mlx_lm.utils.apply_repetition_penalty": (
        *("0.19.3", "Use `make_logits_processors` of `mlx_lm.sample_utils`"),
    ),
    "mlx_lm.utils.fetch_from_hub": ("0.28.2", "Use `load`"),
    "mlx_lm.utils.get_model_path": ("0.28.2", "Use `load`, or `snapshot_download` of the Hub"),
    "mlx_lm.utils.make_kv_caches": ("0.18.2", "Use `make_prompt_cache` of `mlx_lm.models.cache`"),
    "mlx_lm.utils.save_weights": ("0.24.1", "Use `save_model`"),
    **{
        f"mlx_lm.utils.{name}": ("0.22.2", _IN_GENERATE)
        for name in (
            *("GenerationResponse", "generate", "generate_step", "generation_stream"),
            *("maybe_quantize_kv_cache", "speculative_generate_step", "stream_generate"),
            "wired_limit",
        )
    },
    "mlx_lm.utils.convert": ("0.22.2", "Import it from `mlx_lm.convert`"),
    "mlx_lm.utils.mixed_quant_predicate_builder": ("0.22.2", "Import it from `mlx_lm.convert`"),
}
#: Keyword arguments of torch, by MLX's.
KEYWORDS = {"dim": "axis", "dims": "axes", "keepdim": "keepdims", "start_dim": "start_axis"} | {
    "end_dim": "end_axis",
    "lr": "learning_rate",
}


def takes_other_arguments(name: str) -> bool:
    """Return whether a renamed function takes other arguments than under its other name."""
    return name.rpartition(".")[2] in _ARGUMENTS_DIFFER


_PLACES = (
    *("mlx.core", "mlx.core.linalg", "mlx.core.fft", "mlx.core.fast", "mlx.core.random"),
    *("mlx.nn", "mlx.nn.losses", "mlx.optimizers", "mlx.utils"),
)


def namesakes(module: str, name: str) -> tuple[str, ...]:
    """The names under which other modules of MLX have it: ``mlx.core.linalg.norm`` for ``norm``."""
    found = (f"{place}.{name}" for place in _PLACES if place != module)
    return tuple(full for full in found if mlx_api.lookup(full) is not None)


@lru_cache(maxsize=256)
def similar(module: str, name: str) -> str | None:
    """Return the name in a module that looks most like another one, if any does."""
    from difflib import get_close_matches

    close = get_close_matches(name, _names_in(module), 1, 0.8)
    return f"{module}.{close[0]}" if close else None


@cache
def _names_in(module: str) -> list[str]:
    prefix = f"{module}."
    known = [n.removeprefix(prefix) for n in mlx_api.names() if n.startswith(prefix)]
    return [n for n in known if "." not in n]
