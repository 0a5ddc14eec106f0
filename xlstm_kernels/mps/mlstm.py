"""The mLSTM of tensors, in chunks, step by step, and by one step: see `xlstm_kernels.mlstm`."""

from __future__ import annotations

from typing import Any, TypeAlias

import mlx.core as mx
import torch

from xlstm_kernels.arguments import non_negative
from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.arguments import given_states, require_sequence, require_state_dtype
from xlstm_kernels.mlstm.chunked.operation import require_chunk_size
from xlstm_kernels.mlstm.sequence_kernel import KERNELS as SEQUENCE_KERNELS
from xlstm_kernels.mlstm.step import KERNEL as STEP
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import FLOATING, launched, require_mask, require_tensor
from xlstm_kernels.mps.mlstm_passes import Call, backward_pass, forward_pass

#: c (B, NH, DK, DV), n (B, NH, DK) and m (B, NH, 1), float32; c and n are scaled by exp(-m).
States: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def mlstm_chunkwise(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    i: torch.Tensor,
    f: torch.Tensor,
    c_initial: torch.Tensor | None = None,
    n_initial: torch.Tensor | None = None,
    m_initial: torch.Tensor | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    chunk_size: int | None = None,
) -> torch.Tensor | tuple[torch.Tensor, States]:
    """The mLSTM over a sequence, in chunks: `xlstm_kernels.mlstm_chunkwise`, of tensors on "mps".

    All sums, states and products of matrices are float32. The gradient is exact: it includes the
    normaliser.

    q, k (B, NH, S, DK), v (B, NH, S, DV) and the gates i, f (B, NH, S) are not empty. The other
    arguments, results and errors are those of `xlstm_kernels.mlstm_chunkwise`; a tensor on another
    device is a ValueError.
    """
    operator = "mlstm_chunkwise"
    c, n, m = _checked(operator, (q, k, v, i, f), (c_initial, n_initial, m_initial))
    epsilon, size = non_negative(operator, "eps", eps), require_chunk_size(operator, chunk_size)
    length = _chunk_length(q, v, size)
    h, *last = _Chunkwise.apply(q, k, v, i, f, c, n, m, epsilon, length)
    return (h, (last[0], last[1], last[2])) if return_last_states else h


def mlstm_sequence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    i: torch.Tensor,
    f: torch.Tensor,
    c_initial: torch.Tensor | None = None,
    n_initial: torch.Tensor | None = None,
    m_initial: torch.Tensor | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    dtype_state: torch.dtype = torch.float32,
    *,
    normalizer_grad: bool = True,
    mask: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, States]:
    """Run the mLSTM step by step: `xlstm_kernels.mlstm_sequence`, of tensors on "mps".

    Computed in float32 and rounded once. The gradient is computed in chunks.

    Of q, k (B, NH, S, DK), v (B, NH, S, DV), the gates i, f (B, NH, S), the initial states c
    (B, NH, DK, DV), n (B, NH, DK), m (B, NH, 1) and the mask (B, S), any S may be 0. Arguments,
    results and errors are those of `xlstm_kernels.mlstm_sequence`, DK is at most 16384, and a
    tensor on another device is a ValueError.
    """
    operator = "mlstm_sequence"
    given = (c_initial, n_initial, m_initial)
    c, n, m = _checked(operator, (q, k, v, i, f), given, may_be_empty=True)
    require_mask(operator, mask, (q.shape[0], q.shape[2]), "(B, S)")
    require_state_dtype(operator, dtype_state, FLOATING)
    epsilon = non_negative(operator, "eps", eps)
    if q.numel():
        h, c, n, m = _Sequence.apply(q, k, v, i, f, c, n, m, epsilon, mask, bool(normalizer_grad))
    else:
        h = torch.zeros_like(v)
    if not return_last_states:
        return h
    # What the rounding of m has changed.
    scale = torch.exp(torch.nan_to_num(m - m.to(dtype_state).float(), 0.0, 0.0, 0.0))
    c, n = scale[..., None] * c, scale * n
    return h, (c.to(dtype_state), n.to(dtype_state), m.to(dtype_state))


def mlstm_step(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    i: torch.Tensor,
    f: torch.Tensor,
    c: torch.Tensor,
    n: torch.Tensor,
    m: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, States]:
    """Take the mLSTM one step further: `xlstm_kernels.mlstm_step`, of tensors on "mps".

    q, k (B, NH, DK), v (B, NH, DV) and the gates i, f (B, NH) are not empty; the states are c
    (B, NH, DK, DV), n (B, NH, DK) and m (B, NH, 1). Arguments, results and errors are those of
    `xlstm_kernels.mlstm_step`; a tensor on another device is a ValueError.
    """
    operator = "mlstm_step"
    c, n, m = _checked(operator, (q, k, v, i, f), (c, n, m), axes=("B", "NH"))
    h, *last = _Step.apply(q, k, v, i, f, c, n, m, non_negative(operator, "eps", eps))
    return h, (last[0], last[1], last[2])


def _chunk_length(q: torch.Tensor, v: torch.Tensor, size: int | None = None) -> int:
    """Steps of a chunk: at most `size`, or what the table has for None."""
    if size is None:
        size = choice.chosen(q, v, "metal", form=choice.CHUNKWISE).chunk_size
    steps: int = q.shape[2]
    return min(size, steps, choice.GREATEST)


def _checked(
    operator: str,
    inputs: tuple[torch.Tensor, ...],
    given: tuple[torch.Tensor | None, ...],
    *,
    axes: tuple[str, ...] = ("B", "NH", "S"),
    may_be_empty: bool = False,
) -> tuple[torch.Tensor, ...]:
    """The initial states, of inputs and states that fit each other."""
    q, k, v, i, f = inputs
    require_sequence(operator, q, k, v, i, f, axes, require_tensor)
    if not may_be_empty and not (q.numel() and v.numel()):
        raise ValueError(f"{operator}: q, k and v must not be empty")
    states = given_states(operator, q, v, given, require_tensor)
    if states is not None:
        return tuple(state.float().contiguous() for state in states)
    leading, keys = tuple(q.shape[:2]), q.shape[-1]
    shapes = ((*leading, keys, v.shape[-1]), (*leading, keys), (*leading, 1))
    return tuple(torch.zeros(shape, device=q.device) for shape in shapes)


class _Chunkwise(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps, steps of a chunk) to (h, c, n, m)."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps, ctx.length = arguments
        results = forward_pass(Call(*arguments))
        ctx.save_for_backward(*tensors, *results)
        return results[:-1]

    @staticmethod
    @first_order
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved = ctx.saved_tensors
        call = Call(*(*saved[:8], ctx.eps, ctx.length))
        return *backward_pass(call, saved[8:], cotangents), None, None


class _Sequence(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps, mask, normaliser's gradient?) to (h, c, n, m)."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps, mask, ctx.normalizer_grad = arguments
        ctx.save_for_backward(*tensors, mask)
        masks = () if mask is None else (mask,)
        return launched(SEQUENCE_KERNELS[True][len(masks)], *tensors, *masks, ctx.eps)

    @staticmethod
    @first_order
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *tensors, mask = ctx.saved_tensors
        length = _chunk_length(tensors[0], tensors[2])
        call = Call(*(*tensors, ctx.eps, length, mask, ctx.normalizer_grad))
        return *backward_pass(call, forward_pass(call), cotangents), None, None, None


class _Step(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps) to (h, c, n, m): a sequence of one step."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps = arguments
        ctx.save_for_backward(*tensors)
        return launched(STEP, *tensors, ctx.eps, dtype_state=mx.float32)

    @staticmethod
    @first_order
    def backward(
        ctx: Any, h: torch.Tensor, *states: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        *inputs, c, n, m = ctx.saved_tensors
        call = Call(*(*(tensor.unsqueeze(2) for tensor in inputs), c, n, m, ctx.eps, 1))
        gradients = backward_pass(call, forward_pass(call), (h.unsqueeze(2), *states))
        return *(gradient.squeeze(2) for gradient in gradients[:5]), *gradients[5:], None
