"""Makes `mx.fast.metal_kernel` work where MLX's GPU is NVIDIA's, for a process or in a context."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from embercoach.cuda.cuda_kernel import CudaKernel, missing_compiler, target
from embercoach.cuda.launch_entry import INSTALL, CudaError
from embercoach.simulator.session.activation import defined


class _Active:
    """The activations in effect, and what they replaced in MLX."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replaced: list[tuple[Any, str, Any]] = []
        self._depth = 0

    def enter(self, *, claims_metal: bool) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._replace(mx.fast, "metal_kernel", metal_kernel(mx.fast.metal_kernel))
            if claims_metal:
                self._replace(mx.metal, "is_available", lambda: True)

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            while self._replaced and not self._depth:
                owner, name, value = self._replaced.pop()
                setattr(owner, name, value)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)


_active = _Active()


class Activation:
    """An activation in effect, until its context ends if it is used as one."""

    def __init__(self, *, claims_metal: bool) -> None:
        _active.enter(claims_metal=claims_metal)

    def __enter__(self) -> None:
        """Enter the context; the activation is in effect already."""

    def __exit__(self, *exception: object) -> None:
        _active.leave()


def activate(*, claim_metal: bool = False) -> Activation:
    """Run kernels of `mx.fast.metal_kernel` on the NVIDIA GPU that MLX uses, as they are.

    Kernels that are built from now on are translated where they are first called; those that were
    built before are MLX's own and stay so. Used as a context, it ends with that.

    Args:
        claim_metal: let `mx.metal.is_available()` answer yes, for programs that take their kernels
            only then. They may also take other paths that need a Mac.

    Raises:
        CudaError: MLX has no CUDA here, there is no compiler, or the GPU is too old.
    """
    if not mx.cuda.is_available():
        raise CudaError(
            f"this MLX has no CUDA: it needs Linux, an NVIDIA GPU and {INSTALL}. To check kernels "
            "without a GPU, use embercoach.simulator"
        )
    problem = missing_compiler()
    if problem is not None:
        raise CudaError(problem)
    target()
    return Activation(claims_metal=claim_metal)


@functools.cache
def metal_kernel(real: Callable[..., Any]) -> Callable[..., CudaKernel]:
    """Return the replacement of `mx.fast.metal_kernel`: one permanent function, usable as a key.

    Args:
        real: MLX's own.
    """

    @functools.wraps(real, assigned=("__doc__",))
    def metal_kernel(*positional: Any, **arguments: Any) -> CudaKernel:
        made = real(*positional, **arguments)  # MLX checks the arguments
        definition, contiguous = defined(positional, arguments)
        return CudaKernel(made, definition, contiguous=contiguous)

    return metal_kernel
