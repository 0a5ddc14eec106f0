"""The kernels of the pack for PyTorch on a Mac: functions of tensors on the device "mps".

Each text is written from a `Kernel` (`xlstm_kernels.executors.mps_source`) and compiled by
`torch.mps.compile_shader`. Operators have the names, arguments and layouts of `xlstm_kernels`, and
gradients of the first order, by the pack's own gradient kernels. Tensors are float32, float16 or
bfloat16, else a TypeError. One on another device is a ValueError: nothing falls back to PyTorch's
operations.

The package is named after PyTorch's device: a package named `torch` would hide PyTorch from the
scripts in it.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401  (imported for the message below)
except ImportError as error:
    raise ImportError(
        f"xlstm_kernels.mps needs PyTorch, which cannot be imported here ({error}). "
        "Install it with: pip install 'embercoach[torch]'"
    ) from error

from xlstm_kernels.mps.causal_conv import causal_conv1d
from xlstm_kernels.mps.launching import launched
from xlstm_kernels.mps.mlstm import mlstm_chunkwise, mlstm_sequence, mlstm_step
from xlstm_kernels.mps.norms import multi_head_layer_norm, multi_head_rms_norm, rms_norm
from xlstm_kernels.mps.scalar_lstm import slstm
from xlstm_kernels.mps.soft_caps import soft_cap

__all__ = [
    "causal_conv1d",
    "launched",
    "mlstm_chunkwise",
    "mlstm_sequence",
    "mlstm_step",
    "multi_head_layer_norm",
    "multi_head_rms_norm",
    "rms_norm",
    "slstm",
    "soft_cap",
]
