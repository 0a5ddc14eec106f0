"""The mLSTM of tensors, in chunks and by one step: see `xlstm_kernels.mlstm`."""

from __future__ import annotations

from typing import Any, TypeAlias

import mlx.core as mx
import torch

from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.arguments import require_eps
from xlstm_kernels.mlstm.chunked.operation import require_chunk_size
from xlstm_kernels.mlstm.step import KERNELS
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import launched, require_shape, require_tensors
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
    """The mLSTM over a sequence, in chunks: the form for training and for prompts.

    Any length. All sums, states and products of matrices are float32. The gradient is exact: it
    includes the normaliser.

    Args:
        q: (B, NH, S, DK), not empty; float32, float16 or bfloat16. Like k, v and the gates it may
            lie in memory as it will, such as a transposed (B, S, NH, DK).
        k: (B, NH, S, DK) of the same dtype.
        v: (B, NH, S, DV) of the same dtype.
        i: (B, NH, S), input gates before the exponential function.
        f: (B, NH, S), forget gates before the sigmoid.
        c_initial: (B, NH, DK, DV), the state to begin with. The three come together, or not at all.
        n_initial: (B, NH, DK).
        m_initial: (B, NH, 1).
        return_last_states: whether to return the last states as well.
        eps: added to the normaliser.
        chunk_size: steps of a chunk, at least 1, at most 256 of which are taken; None chooses.

    Returns:
        h (B, NH, S, DV) in the dtype of v; or (h, (c, n, m)) with float32 states.

    Raises:
        TypeError: for a dtype that is not listed, an eps or chunk size that is not a number.
        ValueError: for shapes that do not fit, states that are incomplete, a chunk size below 1,
            an eps that is negative or not finite, a tensor on another device than "mps".
    """
    operator = "mlstm_chunkwise"
    if not isinstance(q, torch.Tensor) or q.ndim != 4:
        raise ValueError(f"{operator}: q must be a tensor (B, NH, S, DK)")
    c, n, m = _checked(operator, (q, k, v, i, f), (c_initial, n_initial, m_initial))
    epsilon, size = require_eps(operator, eps), require_chunk_size(operator, chunk_size)
    if size is None:
        row = choice.chosen(q, v, "metal", form=choice.CHUNKWISE)
        size = row.chunk_size
    length = min(size, q.shape[2], choice.GREATEST)
    h, *last = _Chunkwise.apply(q, k, v, i, f, c, n, m, epsilon, length)
    return (h, (last[0], last[1], last[2])) if return_last_states else h


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
    """Take the mLSTM one step further, by one kernel.

    Args:
        q: (B, NH, DK), the query, not empty; float32, float16 or bfloat16.
        k: (B, NH, DK), the key, not scaled; the dtype of q.
        v: (B, NH, DV), the value; the dtype of q.
        i: (B, NH), the input gate before its exp.
        f: (B, NH), the forget gate before its sigmoid.
        c: (B, NH, DK, DV), the state C, scaled by exp(-m).
        n: (B, NH, DK), the normaliser's state, likewise.
        m: (B, NH, 1), the logarithm of their scale.
        eps: a number, zero or positive, added to the denominator.

    Returns:
        h (B, NH, DV) in the dtype of v, and the states, float32.

    Raises:
        TypeError: for a dtype that is not listed, or an `eps` that is not a number.
        ValueError: for shapes that do not fit, a negative or infinite `eps`, a tensor on another
            device than "mps".
    """
    operator = "mlstm_step"
    if not isinstance(q, torch.Tensor) or q.ndim != 3:
        raise ValueError(f"{operator}: q must be a tensor (B, NH, DK)")
    c, n, m = _checked(operator, (q, k, v, i, f), (c, n, m))
    h, *last = _Step.apply(q, k, v, i, f, c, n, m, require_eps(operator, eps))
    return h, (last[0], last[1], last[2])


def _checked(
    operator: str, inputs: tuple[torch.Tensor, ...], given: tuple[torch.Tensor | None, ...]
) -> tuple[torch.Tensor, ...]:
    """The initial states, of inputs and states that fit each other."""
    named = dict(zip("qkvif", inputs, strict=True))
    require_tensors(operator, **named, **dict(zip("cnm", given, strict=True)))
    q, k, v, i, f = inputs
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"{operator}: q, k and v must have one dtype")
    if not q.numel() or not v.numel():
        raise ValueError(f"{operator}: q, k and v must not be empty")
    require_shape(operator, "k", k, tuple(q.shape), "that of q")
    require_shape(operator, "v", v, (*q.shape[:-1], v.shape[-1]), "that of q but for DV")
    require_shape(operator, "i", i, tuple(q.shape[:-1]), "that of q without DK")
    require_shape(operator, "f", f, tuple(q.shape[:-1]), "that of q without DK")
    leading, keys, values = tuple(q.shape[:2]), q.shape[-1], v.shape[-1]
    shapes = ((*leading, keys, values), (*leading, keys), (*leading, 1))
    present = [state for state in given if state is not None]
    if len(present) not in {0, len(given)}:
        raise ValueError(f"{operator}: the states c, n and m come together")
    if not present:
        return tuple(torch.zeros(shape, device=q.device) for shape in shapes)
    for name, state, shape in zip("cnm", present, shapes, strict=True):
        require_shape(operator, name, state, shape, "that of the state")
    return tuple(state.float().contiguous() for state in present)


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


class _Step(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps) to (h, c, n, m): a sequence of one step."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps = arguments
        ctx.save_for_backward(*tensors)
        return launched(KERNELS[mx.float32], *tensors, ctx.eps)

    @staticmethod
    @first_order
    def backward(
        ctx: Any, h: torch.Tensor, *states: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        *inputs, c, n, m = ctx.saved_tensors
        call = Call(*(*(tensor.unsqueeze(2) for tensor in inputs), c, n, m, ctx.eps, 1))
        gradients = backward_pass(call, forward_pass(call), (h.unsqueeze(2), *states))
        return *(gradient.squeeze(2) for gradient in gradients[:5]), *gradients[5:], None
