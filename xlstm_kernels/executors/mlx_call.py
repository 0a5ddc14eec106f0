"""Calls of MLX's kernel objects, which those for Metal and CUDA share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from xlstm_kernels.kernel import Kernel, Launch


def no_default_gpu() -> str | None:
    """Say why kernels do not run if the GPU is not the default device, with the remedy."""
    if mx.default_device() == mx.gpu:
        return None
    return (
        f"the default device is {mx.default_device()}; call "
        "mx.set_default_device(mx.gpu), or use backend='native'."
    )


def built(build: Callable[..., object], kernel: Kernel) -> Callable[..., list[mx.array]]:
    """Let MLX make a kernel object."""
    # MLX's stubs call the result an object, though it is only good for calling.
    result: Any = build(
        name=kernel.name,
        input_names=kernel.inputs,
        output_names=kernel.outputs,
        source=kernel.body,
        header=kernel.header,
        ensure_row_contiguous=kernel.contiguous_inputs,
    )
    return cast("Callable[..., list[mx.array]]", result)


def recorded(
    call: Callable[..., list[mx.array]],
    kernel: Kernel,
    inputs: Sequence[mx.array],
    launch: Launch,
    *,
    verbose: bool,
) -> list[mx.array]:
    """Record a launch in MLX's graph; it runs when its outputs are evaluated."""
    return call(
        inputs=inputs,
        template=launch.template,
        grid=launch.grid,
        threadgroup=launch.threadgroup,
        output_shapes=launch.output_shapes,
        output_dtypes=launch.output_dtypes,
        init_value=kernel.init_value,
        verbose=verbose,
    )
