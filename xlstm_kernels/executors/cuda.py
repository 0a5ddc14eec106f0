"""Runs kernels on an NVIDIA GPU through `mx.fast.cuda_kernel`."""

from __future__ import annotations

import functools
import math
import threading
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx

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
        if mx.default_device() != mx.gpu:
            return (
                f"the default device is {mx.default_device()}; call "
                "mx.set_default_device(mx.gpu), or use backend='native'."
            )
        return None

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
            built = _built(kernel, scalars, thread_limit(threads), mx.fast.cuda_kernel)
        return built(
            inputs=inputs,
            template=launch.template,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            output_shapes=launch.output_shapes,
            output_dtypes=launch.output_dtypes,
            init_value=kernel.init_value,
            verbose=verbose,
        )


_building = threading.Lock()


@functools.cache
def _built(
    kernel: Kernel, scalars: frozenset[str], threads: int, build: Callable[..., object]
) -> Callable[..., list[mx.array]]:
    source = cuda_source(kernel, scalars, threads)
    # MLX's stubs call the result an object, though it is only good for calling.
    built: Any = build(
        name=kernel.name,
        input_names=source.input_names,
        output_names=kernel.outputs,
        source=source.body,
        header=source.header,
        ensure_row_contiguous=kernel.contiguous_inputs,
    )
    return cast("Callable[..., list[mx.array]]", built)
