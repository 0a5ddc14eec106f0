"""The forms of the mLSTM by name, as NX-AI's `mlstm_kernels` has them.

A name says which form computes, and on what:

- with `metal`, a kernel where Metal is available and the GPU is the default device, and MLX's own
  operations elsewhere (`backend=None` of the operators);
- with `native`, MLX's own operations everywhere (`backend="native"`).

NX-AI's names with `triton` mean ours with `metal`, so that their configurations load. Some names
differ there by their numerics or gradients, and no longer do here: every form is stable for any
gates, and every gradient is that of the whole expression. So `chunkwise--native_custbw`, of which
NX-AI's backward pass is written by hand and leaves out the normaliser, is here the same as
`chunkwise--native_autograd`, in values and in gradients (`normalizer_grad=False` gives theirs). The
parallel forms, whose cost grows with the square of the length, are the chunkwise ones here, which
compute the same numbers at less.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import FLOATING
from xlstm_kernels.mlstm.arguments import States
from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.sequence import mlstm_sequence
from xlstm_kernels.mlstm.siging import mlstm_siging_chunkwise
from xlstm_kernels.mlstm.step import mlstm_step

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.chunked import Result

MLSTMKernel: TypeAlias = Callable[..., Any]


def get_mlstm_kernel(name: str) -> MLSTMKernel:
    """A form of the mLSTM that takes a whole sequence, chunkwise or parallel.

    Args:
        name: one of `get_available_mlstm_kernels()`, or NX-AI's name of it with `triton`.

    Returns:
        A function `(q, k, v, i, f, c_initial=None, n_initial=None, m_initial=None,
        return_last_states=False, eps=1e-6, chunk_size=None, *, mask=None)` with the arguments and
        results of `mlstm_chunkwise`. They take `normalizer_grad=True` and `precision="default"`
        too. The one with a sigmoid for its input gate (`siging`) has no m and takes neither: its
        m_initial must be None, its last states are (c, n), and it takes `normalize=True`.

    Raises:
        ValueError: for an unknown name; the message lists those known.
    """
    return _found("mLSTM kernel", name, _KERNELS)


def get_mlstm_sequence_kernel(name: str) -> MLSTMKernel:
    """A form of the mLSTM that goes through a sequence step by step.

    Args:
        name: one of `get_available_mlstm_sequence_kernels()`, or NX-AI's name with `triton`.

    Returns:
        A function `(q, k, v, i, f, c_initial=None, n_initial=None, m_initial=None,
        return_last_states=False, eps=1e-6, dtype_state=mx.float32, *, normalizer_grad=True,
        mask=None)` with the
        arguments and results of `mlstm_sequence`; the last c and n are in `dtype_state`.

    Raises:
        ValueError: for an unknown name; the message lists those known.
    """
    return _found("mLSTM sequence kernel", name, _SEQUENCE_KERNELS)


def get_mlstm_step_kernel(name: str) -> MLSTMKernel:
    """One step of the mLSTM.

    Args:
        name: one of `get_available_mlstm_step_kernels()`, or NX-AI's name with `triton`.

    Returns:
        A function `(q, k, v, i, f, c, n, m, eps=1e-6, dtype_state=mx.float32, *,
        normalizer_grad=True)`, `mlstm_step`.

    Raises:
        ValueError: for an unknown name; the message lists those known.
    """
    return _found("mLSTM step kernel", name, _STEP_KERNELS)


def get_available_mlstm_kernels() -> list[str]:
    """The names that `get_mlstm_kernel` takes, but for NX-AI's with `triton`."""
    return list(_KERNELS)


def get_available_mlstm_sequence_kernels() -> list[str]:
    """The names that `get_mlstm_sequence_kernel` takes, but for NX-AI's with `triton`."""
    return list(_SEQUENCE_KERNELS)


def get_available_mlstm_step_kernels() -> list[str]:
    """The names that `get_mlstm_step_kernel` takes, but for NX-AI's with `triton`."""
    return list(_STEP_KERNELS)


def own_name(name: str) -> str:
    """Our own name for what NX-AI names with `triton`; any other name as it is."""
    return _OURS.get(name, name)


def _found(kind: str, name: str, kernels: Mapping[str, MLSTMKernel]) -> MLSTMKernel:
    kernel = kernels.get(own_name(name))
    if kernel is None:
        raise ValueError(f"unknown {kind} {name!r}; expected one of {', '.join(kernels)}")
    return kernel


def _siging(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c_initial: mx.array | None = None,
    n_initial: mx.array | None = None,
    m_initial: None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    chunk_size: int | None = None,
    *,
    normalize: bool = True,
    mask: mx.array | None = None,
    backend: str | None = None,
) -> mx.array | tuple[mx.array, tuple[mx.array, mx.array]]:
    """`mlstm_siging_chunkwise`, with the place of the other forms' m_initial."""
    if m_initial is not None:
        raise ValueError(
            "mlstm_siging_chunkwise: a sigmoid input gate has no state m; m_initial must be None"
        )
    return mlstm_siging_chunkwise(
        *(q, k, v, i, f, c_initial, n_initial),
        return_last_states,
        eps,
        chunk_size,
        normalize,
        mask=mask,
        backend=backend,
    )


def _sequence(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c_initial: mx.array | None = None,
    n_initial: mx.array | None = None,
    m_initial: mx.array | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    dtype_state: mx.Dtype = mx.float32,
    *,
    normalizer_grad: bool = True,
    mask: mx.array | None = None,
    backend: str | None = None,
) -> Result:
    """`mlstm_sequence`, with the dtype of the last c and n."""
    if dtype_state not in FLOATING:
        raise TypeError(
            f"mlstm_sequence: dtype_state must be float32, float16 or bfloat16, got {dtype_state}"
        )
    initial = (c_initial, n_initial, m_initial)
    result = mlstm_sequence(
        *(q, k, v, i, f, *initial, return_last_states, eps),
        normalizer_grad=normalizer_grad,
        mask=mask,
        backend=backend,
    )
    if isinstance(result, mx.array):
        return result
    h, last = result
    return h, stored(last, dtype_state)


def stored(states: States, dtype: mx.Dtype) -> States:
    """States whose c and n are of `dtype`; m, their logarithm's scale, stays float32."""
    return States(states.c.astype(dtype), states.n.astype(dtype), states.m)


def _native(kernel: MLSTMKernel) -> MLSTMKernel:
    return functools.partial(kernel, backend=executors.NATIVE)


_KERNELS: Mapping[str, MLSTMKernel] = {
    "chunkwise--native_autograd": _native(mlstm_chunkwise),
    "chunkwise--native_custbw": _native(mlstm_chunkwise),
    "chunkwise--metal_xl_chunk": mlstm_chunkwise,
    "chunkwise--metal_xl_chunk_siging": _siging,
    "parallel--native_autograd": _native(mlstm_chunkwise),
    "parallel--native_stablef_autograd": _native(mlstm_chunkwise),
    "parallel--metal": mlstm_chunkwise,
}
_SEQUENCE_KERNELS: Mapping[str, MLSTMKernel] = {
    "native_sequence__native": _native(_sequence),
    "native_sequence__metal": _sequence,
}
_STEP_KERNELS: Mapping[str, MLSTMKernel] = {
    "native": _native(mlstm_step),
    "metal": mlstm_step,
}
# NX-AI's names: their limits on chunk sizes and head dimensions are not ours.
_OURS: Mapping[str, str] = {
    "chunkwise--triton_xl_chunk": "chunkwise--metal_xl_chunk",
    "chunkwise--triton_limit_chunk": "chunkwise--metal_xl_chunk",
    "chunkwise--triton_xl_chunk_siging": "chunkwise--metal_xl_chunk_siging",
    "parallel--triton_limit_headdim": "parallel--metal",
    "native_sequence__triton": "native_sequence__metal",
    "triton": "metal",
}
