"""Runs kernels on an NVIDIA GPU through `mx.fast.cuda_kernel`."""

from __future__ import annotations

import functools
import math
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.executors import mlx_call
from xlstm_kernels.executors.cuda_source import cuda_source, thread_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlstm_kernels.kernel import Kernel, Launch


class CudaExecutor:
    """The executor of `backend="cuda"`: the default stream of the default device."""

    name = "cuda"

    def unavailable(self) -> str | None:
        """CUDA runs where MLX has it and the GPU is the default device."""
        if not mx.cuda.is_available():
            return (
                "this MLX has no CUDA, which needs Linux, an NVIDIA GPU and mlx[cuda13]; "
                "use backend='native', or None to choose."
            )
        return mlx_call.no_default_gpu()

    def run(
        self,
        kernel: Kernel,
        inputs: Sequence[mx.array],
        launch: Launch,
        *,
        verbose: bool = False,
    ) -> Sequence[mx.array]:
        """Record the launch in MLX's graph; it runs when its outputs are evaluated."""
        scalars = frozenset(
            name for name, array in zip(kernel.inputs, inputs, strict=True) if array.ndim == 0
        )
        # MLX clamps the threadgroup to the grid.
        threads = math.prod(map(min, launch.threadgroup, launch.grid))
        with _building:
            call = _built(kernel, scalars, thread_limit(threads), mx.fast.cuda_kernel)
        return mlx_call.recorded(call, kernel, inputs, launch, verbose=verbose)


_building = threading.Lock()
# Of the texts of kernels. MLX copies and hashes a kernel's text in each launch, so that it gets one
# that includes them.
_folder = functools.cache(functools.partial(tempfile.TemporaryDirectory, prefix="xlstm_kernels_"))


@functools.cache
def _built(
    kernel: Kernel, scalars: frozenset[str], threads: int, build: Callable[..., object]
) -> Callable[..., list[mx.array]]:
    source = cuda_source(kernel, scalars, threads)
    stem = f"{kernel.name}_{_built.cache_info().misses}"
    header = _included(f"{stem}_header.cuh", source.header)
    # MLX passes the shapes and strides that this text names.
    body = f"// {' '.join(source.arguments)}\n{_included(f'{stem}.cuh', source.body)}"
    return mlx_call.built(build, kernel, source.input_names, body, header)


def _included(name: str, text: str) -> str:
    path = Path(_folder().name) / name
    path.write_text(text, encoding="utf-8")
    return f'#include "{path.as_posix()}"\n'
