"""Metal kernels for xLSTM on MLX: exact gradients, and a pure-MLX path for other machines."""

from __future__ import annotations

try:
    import mlx.core  # noqa: F401  (imported for the message below)
except ImportError as error:
    raise ImportError(
        f"xlstm_kernels needs MLX, which cannot be imported here ({error}). "
        "Install it with: pip install 'embercoach[kernels]'"
    ) from error

from xlstm_kernels.activation.soft_cap import soft_cap
from xlstm_kernels.kernel import Kernel
from xlstm_kernels.norm.rms_norm import rms_norm

__all__ = ["Kernel", "rms_norm", "soft_cap"]
