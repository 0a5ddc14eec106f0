"""Calls of MLX's kernel objects, which the executors for Metal and CUDA share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlstm_kernels.kernel import Kernel, Launch

    #: A kernel object of MLX: called with the inputs and the metadata of a launch.
    Call: TypeAlias = Callable[..., list[mx.array]]


def no_default_gpu() -> str | None:
    """Say why kernels do not run if the GPU is not the default device, with the remedy."""
    if mx.default_device() == mx.gpu:
        return None
    return (
        f"calls run on {mx.default_device()}; pass stream=mx.gpu, "
        "call mx.set_default_device(mx.gpu), or use backend='native'."
    )


@functools.cache
def built(build: Callable[..., object], kernel: Kernel) -> Call:
    """Let MLX make a kernel object, once for each kernel and builder."""
    # MLX's stubs call the result an object, though it is only good for calling.
    result: Any = build(
        name=kernel.name,
        input_names=kernel.inputs,
        output_names=kernel.outputs,
        source=kernel.body,
        header=kernel.header,
        ensure_row_contiguous=kernel.contiguous_inputs,
    )
    call: Call = result
    return call


class MlxExecutor:
    """Runs kernels on the default stream of the default device; a subclass builds them."""

    def kernel_object(self, kernel: Kernel) -> Call:
        """Build MLX's kernel object, once for each kernel."""
        raise NotImplementedError

    def run(
        self,
        kernel: Kernel,
        inputs: Sequence[mx.array],
        launch: Launch,
        *,
        verbose: bool = False,
    ) -> list[mx.array]:
        """Record the launch in MLX's graph; it runs when its outputs are evaluated."""
        return self.kernel_object(kernel)(
            inputs=inputs,
            template=launch.template,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            output_shapes=launch.output_shapes,
            output_dtypes=launch.output_dtypes,
            init_value=kernel.init_value,
            verbose=verbose,
        )
