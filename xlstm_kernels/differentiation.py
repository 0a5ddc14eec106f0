"""Gives an operation that MLX cannot differentiate, such as a kernel, a gradient.

A gradient is all that a kernel can be given. Under `mx.vmap` and `mx.jvp`, MLX 0.32 walks the
inside of a custom function, whatever rules that has, and refuses the kernel it finds there; and
`mx.export_function` refuses custom functions altogether.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import mlx.core as mx

Arrays: TypeAlias = tuple[mx.array, ...]
Operation: TypeAlias = Callable[..., Any]
Gradient: TypeAlias = Callable[[Arrays, Arrays], Arrays]


def differentiable(
    function: Operation, gradient: Callable[..., Arrays], *, of_outputs: bool = False
) -> Operation:
    """Return `function` with a custom gradient.

    Args:
        function: takes arrays, returns an array or a tuple of arrays; may launch kernels.
        gradient: called with the inputs of `function` and the cotangents of its outputs, returns
            the gradient in each input. Made of differentiable operations, it has a gradient too.
        of_outputs: call it with the outputs of `function` as well.
    """
    operation = mx.custom_function(function)

    @operation.vjp
    def pull_back(primals: Any, cotangents: Any, outputs: Any) -> Any:
        more = (_as_tuple(outputs),) if of_outputs else ()
        gradients = gradient(_as_tuple(primals), _as_tuple(cotangents), *more)
        return gradients[0] if len(gradients) == 1 else gradients

    return operation


def gradient_of(reference: Operation) -> Gradient:
    """Return the gradient that MLX derives from `reference`, which uses MLX operations."""

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        _, gradients = mx.vjp(reference, list(primals), list(cotangents))
        return tuple(gradients)

    return gradient


def _as_tuple(arrays: Any) -> Arrays:
    """MLX hands a single array over bare, several as a sequence."""
    return tuple(arrays) if isinstance(arrays, (tuple, list)) else (arrays,)
