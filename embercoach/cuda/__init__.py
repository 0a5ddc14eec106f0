"""Runs Metal kernels of MLX on NVIDIA GPUs, as they are.

`activate()` lets `mx.fast.metal_kernel` work where MLX's GPU is NVIDIA's. A kernel is compiled by
the same compiler, from the same text and with the same Metal library as in the simulator.

Nothing of MLX is imported before it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embercoach.cuda.cuda_activation import Activation, activate
    from embercoach.cuda.launch_entry import CudaError

_HOMES = {
    "Activation": "cuda_activation",
    "CudaError": "launch_entry",
    "activate": "cuda_activation",
}

__all__ = ["Activation", "CudaError", "activate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
