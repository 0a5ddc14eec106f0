"""Joins a kernel, which MLX can neither differentiate nor vectorise, with those transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mlx.core as mx

Arrays: TypeAlias = tuple[mx.array, ...]
Operation: TypeAlias = Callable[..., Any]
Gradient: TypeAlias = Callable[[Arrays, Arrays], Arrays]


def differentiable(
    function: Operation,
    *,
    reference: Operation,
    gradient: Gradient | None = None,
    leading: tuple[int, ...] = (),
) -> Operation:
    """Make `function` work under every transformation of MLX: grad and vjp, jvp, vmap, compile.

    Args:
        function: takes arrays, returns an array or a tuple of arrays; may launch kernels.
        reference: the same in differentiable MLX operations. It serves what has no kernel: jvp,
            vmap over an input that is not in `leading`, and the gradient where that is None.
        gradient: called with the primals and the cotangents of the outputs, returns the gradient
            of each primal. Made of differentiable operations, it has gradients of its own.
        leading: positions of the inputs that take a further leading axis, which every output then
            has too. Under `mx.vmap` over them, `function` runs once, on the whole batch.

    Returns:
        A function of the same arrays. `mx.export_function` refuses it, like every custom function
        of MLX 0.32; export the `reference`.
    """
    operation = mx.custom_function(function)

    @operation.vjp
    def pull_back(primals: Any, cotangents: Any, _outputs: Any) -> Any:
        arrays = _as_tuple(primals)
        if gradient is None:
            _, gradients = mx.vjp(reference, list(arrays), list(_as_tuple(cotangents)))
        else:
            gradients = list(gradient(arrays, _as_tuple(cotangents)))
        return _unwrapped(gradients)

    @operation.jvp
    def push_forward(primals: Any, tangents: Any) -> Any:
        arrays = _as_tuple(primals)
        directions = [
            mx.zeros_like(array) if tangent is None else tangent
            for array, tangent in zip(arrays, _as_tuple(tangents), strict=True)
        ]
        _, outputs = mx.jvp(reference, list(arrays), directions)
        return _unwrapped(outputs)

    @operation.vmap
    def vectorise(inputs: Any, batch_axes: Any) -> Any:
        arrays, axes = _as_tuple(inputs), _as_tuple(batch_axes)
        batched = [i for i, axis in enumerate(axes) if axis is not None]
        outputs: Any
        if set(batched) <= set(leading):
            batch = arrays[batched[0]].shape[axes[batched[0]]]
            outputs = operation(
                *(
                    _with_leading_axis(array, axis, batch) if i in leading else array
                    for i, (array, axis) in enumerate(zip(arrays, axes, strict=True))
                )
            )
        else:
            outputs = mx.vmap(reference, in_axes=axes)(*arrays)
        return outputs, 0 if isinstance(outputs, mx.array) else (0,) * len(outputs)

    return operation


def _with_leading_axis(array: mx.array, axis: int | None, batch: int) -> mx.array:
    """Bring the batch axis to the front; repeat an array that has none along a new one."""
    if axis is None:
        return mx.broadcast_to(array, (batch, *array.shape))
    return mx.moveaxis(array, axis, 0)


def _as_tuple(arrays: Any) -> tuple[Any, ...]:
    """MLX hands a single array over bare, several as a sequence."""
    return tuple(arrays) if isinstance(arrays, (tuple, list)) else (arrays,)


def _unwrapped(arrays: list[mx.array]) -> Any:
    """The inverse of `_as_tuple`."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
