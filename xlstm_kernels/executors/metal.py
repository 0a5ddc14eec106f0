"""Runs kernels on an Apple GPU through `mx.fast.metal_kernel`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from xlstm_kernels.executors import mlx_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlstm_kernels.kernel import Kernel, Launch


class MetalExecutor(mlx_call.MlxExecutor):
    """The executor of `backend="metal"`."""

    name = "metal"

    def unavailable(self) -> str | None:
        """Metal runs where MLX has it and the GPU is the default device: the rule of mlx-lm."""
        if not mx.metal.is_available():
            return (
                "this MLX has no Metal, which needs macOS on Apple silicon; "
                "use backend='native', or None to choose."
            )
        return mlx_call.no_default_gpu()

    def kernel_object(self, kernel: Kernel) -> mlx_call.Call:
        """Build MLX's kernel object, once for each `Kernel`: a new object may compile anew.

        A simulator may replace MLX for a while. Neither uses kernels that the other has built.
        Threads that ask at the same time get the same object.
        """
        with _building:
            return mlx_call.built(mx.fast.metal_kernel, kernel)


_building = threading.Lock()


def generated_source(kernel: Kernel, inputs: Sequence[mx.array], launch: Launch) -> str:
    """Let MLX check a launch and write its source, as an export of the graph shows it.

    Raise a ValueError for a launch that MLX refuses.
    """

    def call(*arrays: mx.array) -> list[mx.array]:
        return MetalExecutor().run(kernel, arrays, launch)

    records: list[dict[str, Any]] = []
    examples = [mx.zeros(array.shape, dtype=array.dtype) for array in inputs]
    mx.export_function(records.append, call, *examples)
    (arguments,) = (r["arguments"] for r in records if r.get("name") == "CustomKernel")
    return str(arguments[1])
