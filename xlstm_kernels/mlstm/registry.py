"""The mLSTM by the names of NX-AI's `mlstm_kernels` 2.0.6, and by ours with `metal`.

A name says which mLSTM it is, with an exponential input gate or a sigmoid (`siging`), and what
follows `eps` by position. What computes it is chosen for each call: see docs/coming-from.md. The
parallel forms, whose cost grows with the square of the length, are chunkwise here.

Accepted and ignored is what `_IGNORED` lists, since nothing here depends on it. Other unknown
settings are errors, also where NX-AI's functions swallow any.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.sequence import mlstm_sequence
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise
from xlstm_kernels.mlstm.step import mlstm_step

MLSTMKernel: TypeAlias = Callable[..., Any]


def get_mlstm_kernel(name: str) -> MLSTMKernel:
    """A form of the mLSTM that takes a whole sequence, chunkwise or parallel.

    Args:
        name: one of `get_available_mlstm_kernels()`.

    Returns:
        `mlstm_chunkwise` or, for `siging`, `mlstm_siging_chunkwise`, with the order of arguments
        that NX-AI's function of this name has.

    Raises:
        ValueError: for an unknown name; the message lists those known.
    """
    return _found("mLSTM kernel", name, _KERNELS)


def get_mlstm_sequence_kernel(name: str) -> MLSTMKernel:
    """A form of the mLSTM that goes through a sequence step by step: `mlstm_sequence`.

    `name` is one of `get_available_mlstm_sequence_kernels()`; another one is a ValueError.
    """
    return _found("mLSTM sequence kernel", name, _SEQUENCE_KERNELS)


def get_mlstm_step_kernel(name: str) -> MLSTMKernel:
    """One step of the mLSTM: `mlstm_step`.

    `name` is one of `get_available_mlstm_step_kernels()`; another one is a ValueError.
    """
    return _found("mLSTM step kernel", name, _STEP_KERNELS)


def get_available_mlstm_kernels() -> list[str]:
    """The names that `get_mlstm_kernel` takes."""
    return list(_KERNELS)


def get_available_mlstm_sequence_kernels() -> list[str]:
    """The names that `get_mlstm_sequence_kernel` takes."""
    return list(_SEQUENCE_KERNELS)


def get_available_mlstm_step_kernels() -> list[str]:
    """The names that `get_mlstm_step_kernel` takes."""
    return list(_STEP_KERNELS)


def _found(kind: str, name: str, kernels: Mapping[str, MLSTMKernel]) -> MLSTMKernel:
    if name not in kernels:
        raise ValueError(f"unknown {kind} {name!r}; expected one of {', '.join(kernels)}")
    return kernels[name]


_TRITON = (
    "chunk_size_inter",
    "chunk_size_intra",
    "siz_b_L_parallel",
    "siz_b_L_loop",
    "siz_b_DH_parallel",
    "siz_b_DH_loop",
    "num_warps_intra",
    "num_warps_inter",
    "num_stages_intra",
    "num_stages_inter",
    "recompute_states_in_bw",
    "autocast_kernel_dtype",
)
_IGNORED = (*_TRITON, "stable_fgate", "chunk_size")


def _ordered(operator: MLSTMKernel, *after_eps: str) -> MLSTMKernel:
    """`operator` with these arguments after `eps`, by position, and what is ignored."""
    own = dict(inspect.signature(operator).parameters)
    first = [*list(own)[: list(own).index("eps") + 1], *after_eps]
    unused = inspect.Parameter("unused", inspect.Parameter.KEYWORD_ONLY, default=None)
    signature = inspect.Signature(
        [
            own.get(name, unused).replace(
                name=name,
                kind=unused.kind if name not in first else unused.POSITIONAL_OR_KEYWORD,
            )
            for name in dict.fromkeys((*first, *own, *_IGNORED))
        ]
    )

    @functools.wraps(operator)
    def call(*arrays: Any, **settings: Any) -> Any:
        given = signature.bind(*arrays, **settings).arguments
        return operator(**{name: value for name, value in given.items() if name in own})

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


_CHUNKS = _ordered(mlstm_chunkwise, "chunk_size", "autocast_kernel_dtype")
_XL_CHUNKS = _ordered(mlstm_chunkwise, "chunk_size", *_TRITON)
_XL_CHUNKS_SIGING = _ordered(mlstm_siging_chunkwise, "normalize", "chunk_size", *_TRITON)
_PARALLEL = _ordered(mlstm_chunkwise, "autocast_kernel_dtype")
_PARALLEL_SIGING = _ordered(
    mlstm_siging_chunkwise, "stable_fgate", "normalize", "autocast_kernel_dtype"
)
_SEQUENCE = _ordered(mlstm_sequence, "dtype_state")
_STEP = _ordered(mlstm_step, "dtype_state")

_KERNELS: Mapping[str, MLSTMKernel] = {
    "chunkwise--native_autograd": _CHUNKS,
    "chunkwise--native_custbw": _CHUNKS,
    "chunkwise--triton_limit_chunk": _CHUNKS,
    "chunkwise--triton_xl_chunk": _XL_CHUNKS,
    "chunkwise--triton_xl_chunk_siging": _XL_CHUNKS_SIGING,
    "parallel--native_autograd": _CHUNKS,
    "parallel--native_custbw": _PARALLEL,
    "parallel--native_stablef_autograd": _CHUNKS,
    "parallel--native_stablef_custbw": _PARALLEL,
    "parallel--triton_limit_headdim": _PARALLEL,
    "parallel--native_siging_autograd": _PARALLEL_SIGING,
    "parallel--native_siging_custbw": _PARALLEL_SIGING,
    "chunkwise--metal_xl_chunk": _XL_CHUNKS,
    "chunkwise--metal_xl_chunk_siging": _XL_CHUNKS_SIGING,
    "parallel--metal": _CHUNKS,
}
_SEQUENCE_KERNELS: Mapping[str, MLSTMKernel] = dict.fromkeys(
    ("native_sequence__native", "native_sequence__triton", "native_sequence__metal"), _SEQUENCE
)
_STEP_KERNELS: Mapping[str, MLSTMKernel] = dict.fromkeys(("native", "triton", "metal"), _STEP)
