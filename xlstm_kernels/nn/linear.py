"""Linear layers that are fast for a few rows once they are quantized, as in decoding."""

from __future__ import annotations

from typing import Any, cast

import mlx.core as mx
from mlx import nn

from xlstm_kernels import executors
from xlstm_kernels.quantized.matvec import BITS, MAX_ROWS, quantized_matvec


class Linear(nn.Linear):
    """`mlx.nn.Linear`, of which quantization makes a `QuantizedLinear`."""

    def to_quantized(self, *arguments: Any, **settings: Any) -> Any:
        """Return a layer with quantized weights; arguments are those of `mlx.nn.Linear`."""
        if settings.get("quantize_input"):
            return super().to_quantized(*arguments, **settings)
        settings.pop("quantize_input", None)
        return QuantizedLinear.from_linear(self, *arguments, **settings)


class QuantizedLinear(nn.QuantizedLinear):
    """`mlx.nn.QuantizedLinear` that reads the weights once for all rows of x.

    For (B, 1, K), MLX's CUDA backend reads them B times.
    """

    def __call__(self, x: mx.array) -> mx.array:
        """Transform x (..., K)."""
        rows = x.size // x.shape[-1]
        if self.mode == "affine" and self.bits in BITS and rows <= MAX_ROWS and _on_cuda():
            matrix: Any = self.weight, self.scales, self.biases
            y = quantized_matvec(x, *matrix, group_size=self.group_size, bits=self.bits)
            return y + self.bias if "bias" in self else y
        y = cast("mx.array", super().__call__(x.reshape(rows, x.shape[-1])))
        return y.reshape(*x.shape[:-1], y.shape[-1])


def _on_cuda() -> bool:
    return executors.resolve(None) == executors.CudaExecutor.name
