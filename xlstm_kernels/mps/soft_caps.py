"""The soft cap, y = c * tanh(x / c), of tensors: see `xlstm_kernels.activation.soft_cap`."""

from __future__ import annotations

import math
from typing import Any

import torch

from xlstm_kernels.activation.soft_cap import FORWARD, GRADIENT, require_cap
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import launched, require_tensor


def soft_cap(values: torch.Tensor, cap_value: float | torch.Tensor | None) -> torch.Tensor:
    """Bound `values` smoothly to the interval [-cap_value, cap_value].

    Arguments, result and errors are those of `xlstm_kernels.soft_cap`; a tensor on another device
    than "mps" is a ValueError.
    """
    require_tensor("soft_cap", "values", values)
    if cap_value is None:
        return values
    cap: float | torch.Tensor
    if isinstance(cap_value, torch.Tensor):
        require_tensor("soft_cap", "cap_value", cap_value)
        if cap_value.ndim:
            raise ValueError(
                "soft_cap: cap_value must be a number or have no dimension, got shape "
                f"{tuple(cap_value.shape)}"
            )
        cap = cap_value.float()
    else:
        cap = require_cap(cap_value)
    capped: torch.Tensor = _SoftCap.apply(values, cap)
    return capped


class _SoftCap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, cap: float | torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values, *((cap,) if isinstance(cap, torch.Tensor) else ()))
        ctx.cap = None if isinstance(cap, torch.Tensor) else cap
        (capped,) = launched(FORWARD, _rows(values), cap)
        return capped.reshape(values.shape)

    @staticmethod
    @first_order
    def backward(ctx: Any, cotangent: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values, *caps = ctx.saved_tensors
        cap = caps[0] if caps else ctx.cap
        of_cap = _cap_gradient(values, cotangent, caps[0]) if ctx.needs_input_grad[1] else None
        (gradient,) = launched(GRADIENT, _rows(values), _rows(cotangent), cap)
        return gradient.reshape(values.shape), of_cap


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    columns = tensor.shape[-1] if tensor.ndim else 1
    return tensor.reshape((tensor.numel() // max(columns, 1), columns))


def _cap_gradient(values: torch.Tensor, cotangent: torch.Tensor, cap: torch.Tensor) -> torch.Tensor:
    """The sum of cotangent * (tanh(z) - z sech^2(z)); see `cap_gradient_reference`."""
    scaled = torch.clamp(values.float() / cap, -50.0, 50.0)
    decay = torch.exp(-2.0 * scaled.abs())
    direct = torch.tanh(scaled) - scaled * (4.0 * decay / (1.0 + decay).square())
    u = 2.0 * scaled
    series = torch.zeros_like(u)
    for power in (11, 9, 7, 5, 3):
        series = series * u.square() + 1.0 / math.factorial(power)
    near_zero = u * u.square() * series / (1.0 + torch.cosh(u))
    slope = torch.where(scaled.abs() < 0.5, near_zero, direct)
    return torch.sum(cotangent.float() * slope)
