"""Norms of tensors: see `xlstm_kernels.norm`."""

from __future__ import annotations

from typing import Any

import torch

from xlstm_kernels.arguments import non_negative, require_shape
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import launched, require_tensor
from xlstm_kernels.norm.multi_head_norm import require_heads
from xlstm_kernels.norm.row_gradients import norm_gradient_kernel
from xlstm_kernels.norm.rows import EXTRAS, norm_kernel


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6
) -> torch.Tensor:
    """Scale each row of `x` to a root mean square of one, then by `weight`.

    x (..., D), weight (D,) or None, the result and errors are those of `xlstm_kernels.rms_norm`. It
    is rounded once; a tensor on another device than "mps" is a ValueError.
    """
    require_tensor("rms_norm", "x", x)
    if not x.ndim:
        raise ValueError("rms_norm: x must have an axis to normalise over")
    if weight is not None:
        require_tensor("rms_norm", "weight", weight)
    require_shape("rms_norm", "weight", weight, (x.shape[-1],), "(D,)")
    epsilon = non_negative("rms_norm", "eps", eps)
    rows = x.reshape((1, -1, 1, x.shape[-1])) if x.numel() else x.reshape((0, 1, 1, x.shape[-1]))
    normalised: torch.Tensor = _Norm.apply(rows, weight, None, None, epsilon, False)
    return normalised.reshape(x.shape)


def multi_head_layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    *,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
) -> torch.Tensor:
    """Bring each head of `x` to mean zero and variance one; then weight, bias and output gate.

    x (B, S, NH, DH), weight and bias (NH*DH,), gate and result (B, S, NH*DH) and errors are those
    of `xlstm_kernels.multi_head_layer_norm`; a tensor on another device than "mps" is a ValueError.
    """
    return _of_heads("multi_head_layer_norm", x, (weight, bias, gate), eps, centred=True)


def multi_head_rms_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    *,
    bias: torch.Tensor | None = None,
    gate: torch.Tensor | None = None,
) -> torch.Tensor:
    """Bring each head of `x` to a root mean square of one; then weight, bias and output gate.

    As `multi_head_layer_norm`, but that no mean is taken away.
    """
    return _of_heads("multi_head_rms_norm", x, (weight, bias, gate), eps, centred=False)


def _of_heads(
    operator: str,
    x: torch.Tensor,
    extras: tuple[torch.Tensor | None, ...],
    eps: float,
    *,
    centred: bool,
) -> torch.Tensor:
    require_heads(operator, x, dict(zip(EXTRAS, extras, strict=True)), require_tensor)
    epsilon = non_negative(operator, "eps", eps)
    normalised: torch.Tensor = _Norm.apply(x, *extras, epsilon, centred)
    return normalised


class _Norm(torch.autograd.Function):
    """(x, weight, bias, gate, eps, centred) to the normalised heads, (B, S, NH*DH)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *others: Any) -> torch.Tensor:
        *extras, ctx.eps, ctx.centred = others
        ctx.save_for_backward(x, *extras)
        given = {name: e for name, e in zip(EXTRAS, extras, strict=True) if e is not None}
        kernel = norm_kernel(tuple(given), centred=ctx.centred)
        (normalised,) = launched(kernel, x, ctx.eps, *given.values())
        return normalised

    @staticmethod
    @first_order
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, *extras = ctx.saved_tensors
        given = {name: e for name, e in zip(EXTRAS, extras, strict=True) if e is not None}
        kernel = norm_gradient_kernel(tuple(given), centred=ctx.centred)
        read = (extra for name, extra in given.items() if name in kernel.inputs)
        outputs = launched(kernel, x, ctx.eps, cotangent, *read)
        found = dict(zip(kernel.outputs, outputs, strict=True))
        for name in ("weight", "bias"):
            if name in given:
                found[name] = found[f"{name}_sums"].sum(dim=0).to(given[name].dtype)
        gradients = (found.get("weight"), found.get("bias"))
        return found["values_gradient"], *gradients, found.get("gate_gradient"), None, None
