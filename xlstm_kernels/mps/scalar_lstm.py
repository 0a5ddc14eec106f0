"""The sLSTM of tensors: see `xlstm_kernels.recurrent.slstm.sequence`."""

from __future__ import annotations

import math
from typing import Any

import torch

from xlstm_kernels.arguments import require_shape
from xlstm_kernels.executors.metal import MetalExecutor
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import launched, require_mask, require_tensor
from xlstm_kernels.recurrent.slstm import gradient_kernel, sequence_kernel
from xlstm_kernels.recurrent.slstm.arguments import STATES, require_inputs
from xlstm_kernels.recurrent.slstm.layout import MAX_CAPACITY, Shares, most_threads

_OPERATOR = "slstm"


def slstm(
    Wx: torch.Tensor,  # the names are those of FlashRNN, as is the order
    R: torch.Tensor,
    b: torch.Tensor,
    states: torch.Tensor | None = None,
    *,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the sLSTM over a sequence: T steps of N heads with D units each.

    As `xlstm_kernels.slstm`, whose arguments, results and errors these are: Wx (B, T, 4, N, D), not
    empty; R (4, N, D, D); b (4, N, D); states (4, B, 1, N, D) or (4, B, N, D); and mask (B, T). D
    is at most 4096, and a tensor on another device than "mps" is a ValueError.

    Everything inside is float32, and so are both results. The gradient is exact: it includes the
    stabiliser m, so that c, n and m may be used like y.
    """
    require_inputs(_OPERATOR, Wx, R, b, accept=require_tensor)
    batch, steps, _, heads, units = Wx.shape
    if not Wx.numel() or units > MAX_CAPACITY:
        raise ValueError(
            f"{_OPERATOR}: Wx must have 1 to {MAX_CAPACITY} units, and no axis that is empty, got "
            f"{tuple(Wx.shape)}"
        )
    plain = (STATES, batch, heads, units)
    if states is None:
        states = torch.zeros(plain, dtype=torch.float32, device=Wx.device)
    require_tensor(_OPERATOR, "states", states)
    states = states.squeeze(2) if states.ndim == 5 else states
    require_shape(_OPERATOR, "states", states, plain, "(4, B, N, D)")
    require_mask(_OPERATOR, mask, (batch, steps), "(B, T)")
    after_each, last = _Slstm.apply(Wx, R, b, states.float(), mask)
    return after_each, last.unsqueeze(2)


def _arranged(shares: Shares, recurrent: torch.Tensor, *, backward: bool = False) -> torch.Tensor:
    """R as a kernel reads it: see `Shares.arranged`."""
    units = recurrent.shape[-1]
    rows, columns = shares.rows - units, shares.columns * shares.slots - units
    axes = (1, 2, 3, 0) if backward else (1, 3, 2, 0)
    padded = torch.nn.functional.pad(recurrent.permute(axes), (0, 0, 0, columns, 0, rows))
    # A copy begins at a multiple of 16 bytes, as the kernel's loads ask for.
    return padded.clone(memory_format=torch.contiguous_format)


class _Slstm(torch.autograd.Function):
    """(Wx, R, b, initial states, mask) to (the states after each step, and after the last)."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> tuple[torch.Tensor, ...]:
        gate_input, recurrent, bias, initial, mask = tensors
        masks = () if mask is None else (mask.contiguous(),)
        units = recurrent.shape[-1]
        threads = most_threads(MetalExecutor.name, units)
        states, last = launched(
            sequence_kernel.KERNELS[len(masks)],
            gate_input,
            _arranged(Shares.of(units, threads), recurrent),
            bias.contiguous(),
            initial.contiguous(),
            *masks,
            threads=threads,
        )
        ctx.save_for_backward(*tensors, states)
        return states, last

    @staticmethod
    @first_order
    def backward(
        ctx: Any, states_cotangent: torch.Tensor, last_cotangent: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        gate_input, recurrent, bias, initial, mask, states = ctx.saved_tensors
        masks = () if mask is None else (mask.contiguous(),)
        batch, steps, gates, heads, units = gate_input.shape
        heard = _heard(initial[0], states[0], mask).reshape(batch * steps, heads, units)
        weights = recurrent.float()
        fed_back = heard.transpose(0, 1) @ weights.transpose(-1, -2)
        threads = most_threads(MetalExecutor.name, units)
        gradient, of_initial = launched(
            gradient_kernel.KERNELS[len(masks)],
            gate_input,
            _arranged(Shares.of(units, threads), recurrent, backward=True),
            bias.contiguous(),
            fed_back,
            initial.contiguous(),
            states,
            states_cotangent,
            last_cotangent,
            math.inf,
            *masks,
            threads=threads,
            cut=False,
        )
        by_unit = gradient.reshape(batch * steps, gates, heads, units)
        of_weights = by_unit.permute(1, 2, 3, 0) @ heard.transpose(0, 1)
        return (
            gradient.to(gate_input.dtype),
            of_weights.to(recurrent.dtype),
            gradient.sum(dim=(0, 1)).to(bias.dtype),
            of_initial,
            None,
        )


def _heard(first: torch.Tensor, y: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The y that R feeds back at each step, (B, T, N, D): that of the last step not masked.

    `first` is the initial y (B, N, D); y, (B, T, N, D), is zero where it is masked.
    """
    before = torch.cat((first.unsqueeze(1), y[:, :-1]), dim=1)
    if mask is None:
        return before
    # The place that follows the n-th step that is not masked, by n.
    live = mask[:, :-1].long()
    count = live.cumsum(dim=1)
    order = torch.arange(1, y.shape[1], device=y.device)
    following = torch.zeros_like(mask, dtype=torch.long).scatter(1, live * count, live * order)
    place = following.gather(1, torch.nn.functional.pad(count, (1, 0)))
    return before.gather(1, place[:, :, None, None].expand_as(before))
