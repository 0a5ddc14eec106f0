"""Runs kernels on an NVIDIA GPU, through `embercoach.cuda`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import mlx.core as mx

from embercoach.installation import install_command
from xlstm_kernels.executors import mlx_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlstm_kernels.kernel import Kernel


class CudaExecutor(mlx_call.MlxExecutor):
    """The executor of `backend="cuda"`."""

    name = "cuda"

    def unavailable(self) -> str | None:
        """CUDA runs where MLX has it, the GPU is the default device, and a compiler is there."""
        if not mx.cuda.is_available():
            return (
                "this MLX has no CUDA, which needs Linux, an NVIDIA GPU and embercoach[cuda]; "
                "use backend='native', or None to choose."
            )
        return mlx_call.no_default_gpu() or _missing()

    def kernel_object(self, kernel: Kernel) -> mlx_call.Call:
        """Build the kernel object, once for each `Kernel`."""
        return mlx_call.built(_builder(kernel.resident_threadgroups), kernel)


@functools.cache
def _missing() -> str | None:
    """Say what is not installed of the compiler of kernels, with the remedy."""
    try:
        from embercoach.cuda.cuda_kernel import missing_compiler
    except ModuleNotFoundError as error:
        return f"the package {error.name} is missing: {install_command('cuda')}."
    return missing_compiler()


@functools.cache
def _builder(resident: int) -> Callable[..., object]:
    from embercoach.cuda.cuda_kernel import cuda_kernel

    return functools.partial(cuda_kernel, resident=resident)
