"""Norms as layers: over the last axis, or over each head by itself.

Constructors and shapes are those of NX-AI's xLSTM-7B. What differs is the arithmetic: float32 up to
the one rounding at the end, where NX-AI rounds before weight and bias and once more after each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import mlx.core as mx
from mlx import nn

from xlstm_kernels.nn.arguments import require_sequences
from xlstm_kernels.norm.multi_head_norm import multi_head_layer_norm, multi_head_rms_norm
from xlstm_kernels.norm.rms_norm import rms_norm


class _Norm(nn.Module):
    """A weight of ones and a bias of zeros, if they are enabled."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-6,
        use_weight: bool = True,
        use_bias: bool = False,
        force_float32_reductions: bool = True,
        *,
        backend: str | None = None,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.force_float32_reductions = force_float32_reductions
        self.backend = backend
        self.weight = mx.ones((num_features,)) if use_weight else None
        self.bias = mx.zeros((num_features,)) if use_bias else None

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, use_weight={self.weight is not None}, "
            f"use_bias={self.bias is not None}"
        )


class RMSNorm(_Norm):
    """`xlstm_kernels.rms_norm` over the last axis, with a learned weight.

    Args:
        num_features: length of the last axis.
        eps: added to the mean square.
        use_weight: whether there is a `weight` (num_features,), of ones at first.
        use_bias: whether there is a `bias` (num_features,), of zeros at first. It is added to the
            rounded result, which rounds once more.
        force_float32_reductions: taken for NX-AI's sake; reductions are float32 either way.
        backend: as in `xlstm_kernels.rms_norm`.
    """

    def __call__(self, x: mx.array) -> mx.array:
        """Normalise x (..., num_features); the result has its shape and dtype.

        Raises:
            TypeError: for a dtype other than float32, float16 and bfloat16.
            ValueError: for another length of the last axis.
        """
        if x.shape[-1:] != (self.num_features,):
            raise ValueError(
                f"RMSNorm: x must have {self.num_features} features along its last axis, "
                f"got shape {x.shape}"
            )
        normalised = rms_norm(x, self.weight, self.eps, backend=self.backend)
        return normalised if self.bias is None else normalised + self.bias.astype(x.dtype)


class _MultiHeadNorm(_Norm):
    """Calls the norm that a subclass names."""

    _normalise: ClassVar[Callable[..., mx.array]]

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        eps: float = 1e-6,
        use_weight: bool = True,
        use_bias: bool = False,
        force_float32_reductions: bool = True,
        *,
        backend: str | None = None,
    ) -> None:
        super().__init__(
            *(num_heads * head_dim, eps, use_weight, use_bias, force_float32_reductions),
            backend=backend,
        )
        self.num_heads = num_heads
        self.head_dim = head_dim

    def __call__(self, x: mx.array, gate: mx.array | None = None) -> mx.array:
        """Normalise x (B, S, NH, DH), read as it lies; times sigmoid(gate), (B, S, NH*DH), if any.

        Returns:
            (B, S, NH*DH), in the dtype of x.

        Raises:
            TypeError: for a dtype other than float32, float16 and bfloat16.
            ValueError: for other shapes.
        """
        require_sequences(type(self).__name__, x, self.num_heads, self.head_dim)
        return self._normalise(
            x, self.weight, eps=self.eps, bias=self.bias, gate=gate, backend=self.backend
        )


class MultiHeadLayerNorm(_MultiHeadNorm):
    """`xlstm_kernels.multi_head_layer_norm`, with a learned weight: the norm of xLSTM-7B.

    Other arguments are those of `RMSNorm`, with NH*DH features and a bias before the rounding.

    Args:
        num_heads: NH.
        head_dim: DH, over which is normalised.
        eps: added to the variance.
    """

    _normalise = staticmethod(multi_head_layer_norm)


class MultiHeadRMSNorm(_MultiHeadNorm):
    """`xlstm_kernels.multi_head_rms_norm`; as `MultiHeadLayerNorm`, but that no mean is taken away.

    Arguments are those of `MultiHeadLayerNorm`; eps is added to the mean square.
    """

    _normalise = staticmethod(multi_head_rms_norm)
