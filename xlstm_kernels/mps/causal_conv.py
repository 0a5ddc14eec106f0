"""The causal depthwise convolution of tensors: see `xlstm_kernels.conv.causal_conv1d`."""

from __future__ import annotations

from typing import Any

import torch

from xlstm_kernels.arguments import require_choice, require_shape
from xlstm_kernels.conv.arguments import ACTIVATIONS, require_filter
from xlstm_kernels.conv.causal_conv1d import conv_kernel
from xlstm_kernels.conv.causal_conv1d_gradient import gradient_call
from xlstm_kernels.conv.causal_runs import ConvOptions
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import launched, require_tensor

_OPERATOR = "causal_conv1d"
_INTEGERS = (torch.int32, torch.int64)


def causal_conv1d(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    initial_states: torch.Tensor | None = None,
    return_final_states: bool = False,
    activation: str | None = None,
    *,
    seq_idx: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Convolve each channel of `x` with its own filter, which sees the present and the past.

    As `xlstm_kernels.causal_conv1d`, whose arguments, results and errors these are, with four
    differences: x (B, S, C) is not empty, states (B, K-1, C) need a K of at least 2, `seq_idx`
    (B, S) is int32 or int64, and a tensor on another device than "mps" is a ValueError.
    """
    require_tensor(_OPERATOR, "x", x)
    if x.ndim != 3 or not x.numel():
        raise ValueError(f"{_OPERATOR}: x must be (B, S, C), not empty, got {tuple(x.shape)}")
    states = ("initial_states", initial_states)
    require_filter(_OPERATOR, x, weight, bias, states, require_tensor)
    require_choice(_OPERATOR, "activation", activation, ACTIVATIONS)
    has_states = initial_states is not None or return_final_states
    if has_states and (weight.shape[1] == 1 or seq_idx is not None):
        raise ValueError(f"{_OPERATOR}: states need 2 taps at least, and no seq_idx")
    if seq_idx is not None:
        require_tensor(_OPERATOR, "seq_idx", seq_idx, _INTEGERS, "int32 or int64")
        require_shape(_OPERATOR, "seq_idx", seq_idx, tuple(x.shape[:2]), "(B, S)")
    result: tuple[torch.Tensor, ...] = _CausalConv.apply(
        x, weight, bias, initial_states, seq_idx, return_final_states, activation is not None
    )
    return (result[0], result[1]) if return_final_states else result[0]


class _CausalConv(torch.autograd.Function):
    """(x, weight, bias, states, seq_idx, final states?, silu?) to (y[, final states])."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, final_states, ctx.activated = arguments
        ctx.save_for_backward(*tensors)
        x, weight, bias, states, seq_idx = tensors
        options = ConvOptions(
            bias is not None, states is not None, final_states, seq_idx is not None, ctx.activated
        )
        given = (tensor for tensor in (bias, states, seq_idx) if tensor is not None)
        return launched(conv_kernel(options), x, weight, *given)

    @staticmethod
    @first_order
    def backward(
        ctx: Any, cotangent: torch.Tensor, final_cotangent: torch.Tensor | None = None
    ) -> tuple[torch.Tensor | None, ...]:
        x, weight, bias, states, seq_idx = ctx.saved_tensors
        optional = (bias, states, final_cotangent, seq_idx)
        kernel, given = gradient_call(optional, activated=ctx.activated)
        in_x, *in_states, block_sums = launched(kernel, x, weight, cotangent, *given)
        sums = block_sums.sum(dim=0)
        in_weight = sums[:-1].transpose(0, 1).to(weight.dtype)
        in_bias = None if bias is None else sums[-1].to(bias.dtype)
        return in_x, in_weight, in_bias, in_states[0] if in_states else None, None, None, None
