"""Gradients by kernels, whose own gradient is an error.

PyTorch's `once_differentiable` raises this error only where a cotangent requires a gradient. In
`loss + gradient.square().sum()` it may not, and the second term would silently count for nothing.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

Gradients: TypeAlias = tuple[torch.Tensor | None, ...]


def first_order(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """Decorate the `backward` of an `autograd.Function`: nothing differentiates its results."""

    @functools.wraps(backward)
    def undifferentiated(ctx: Any, *cotangents: torch.Tensor) -> Gradients:
        with torch.no_grad():
            gradients = backward(ctx, *cotangents)
        if not torch.is_grad_enabled():
            return gradients
        present = [gradient for gradient in gradients if gradient is not None]
        refusing = iter(_Refusing.apply(torch.zeros((), requires_grad=True), *present))
        return tuple(None if gradient is None else next(refusing) for gradient in gradients)

    return undifferentiated


class _Refusing(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, _anchor: torch.Tensor, *gradients: torch.Tensor) -> Gradients:
        return tuple(gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(_ctx: Any, *_cotangents: torch.Tensor) -> Gradients:
        raise RuntimeError(
            "xlstm_kernels.mps has gradients of the first order only: these are of kernels"
        )
