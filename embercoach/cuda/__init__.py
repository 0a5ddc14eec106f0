"""Runs Metal kernels of MLX on NVIDIA GPUs, as they are.

`activate()` lets `mx.fast.metal_kernel` work where MLX's GPU is NVIDIA's. A kernel is compiled by
the same compiler, from the same text and with the same Metal library as in the simulator.
"""

from __future__ import annotations

from embercoach.cuda.cuda_activation import Activation, activate
from embercoach.cuda.launch_entry import CudaError

__all__ = ["Activation", "CudaError", "activate"]
