"""The contract of an executor, and the choice among those registered.

`"native"` is not an executor. It names the path without kernels: the MLX operations that every
operator of the pack has in addition to its kernel, on MLX's default device. `"cpu"` is that path
where the default device is the CPU, and `"gpu"` the first executor that can run.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NoReturn, Protocol

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlstm_kernels.kernel import Kernel, Launch

NATIVE = "native"
GPU = "gpu"
CPU = "cpu"


class Executor(Protocol):
    """Something that can run a `Kernel`."""

    @property
    def name(self) -> str:
        """The name that `backend=` takes."""

    def unavailable(self) -> str | None:
        """Say why this executor cannot run here and now, with the remedy; None if it can."""

    def run(
        self,
        kernel: Kernel,
        inputs: Sequence[mx.array],
        launch: Launch,
        *,
        verbose: bool = False,
    ) -> Sequence[mx.array]:
        """Run a launch that has threads; return an array for each of `kernel.outputs`.

        The inputs may be tracers of `mx.compile` or `mx.grad`: nothing may look at their values.
        With `verbose` it prints the source that it compiles.
        """


_registered: dict[str, Executor] = {}
_default: ContextVar[str | None] = ContextVar("default", default=None)


def register(executor: Executor) -> None:
    """Add an executor. Of those that can run, the one registered first is the default.

    Raises:
        ValueError: if the name is taken.
    """
    if executor.name in names():
        raise ValueError(f"backend {executor.name!r} is already registered")
    _registered[executor.name] = executor


def unregister(name: str) -> None:
    """Remove an executor.

    Raises:
        ValueError: if no executor has that name.
    """
    if name not in _registered:
        raise ValueError(f"no executor is registered as {name!r}")
    del _registered[name]


def names() -> tuple[str, ...]:
    """Every name that `backend=` takes."""
    return (*_registered, NATIVE, GPU, CPU)


@contextmanager
def default_backend(name: str) -> Iterator[None]:
    """Let `name` run whatever is called inside of the `with` block with `backend=None`.

    Layers and models take no `backend`: `default_backend("native")` lets `mx.vmap`
    map one where kernels run. Errors are those of `resolve`.
    """
    token = _default.set(resolve(name))
    try:
        yield
    finally:
        _default.reset(token)


def named(backend: str | None) -> bool:
    """Return True if a call, or `default_backend`, names its backend."""
    return backend is not None or _default.get() is not None


def resolve(backend: str | None) -> str:
    """Turn the `backend` argument of an operator into the name of what will run.

    None chooses: what `default_backend` says, else the first registered executor that can run
    here, else `"native"`. A name is an order, and never falls back to something else.

    Raises:
        ValueError: for an unknown name.
        RuntimeError: for an executor or device that cannot run here; the message says why.
    """
    backend = _default.get() if backend is None else backend
    if backend is None:
        return _first_able() or NATIVE
    if backend == GPU:
        return _first_able() or _refuse_all()
    if backend == CPU:
        if mx.default_device() != mx.cpu:
            raise RuntimeError(
                f"backend 'cpu' cannot run here: calls run on {mx.default_device()}; "
                "pass stream=mx.cpu, or use backend='native'."
            )
        return NATIVE
    if backend not in names():
        raise ValueError(
            f"unknown backend {backend!r}; "
            f"expected {', '.join(map(repr, names()))}, or None to choose"
        )
    if backend != NATIVE:
        reason = _registered[backend].unavailable()
        if reason is not None:
            raise RuntimeError(f"backend {backend!r} cannot run here: {reason}")
    return backend


def choose(backend: str | None) -> Executor:
    """Return the executor that `resolve(backend)` names.

    Errors are those of `resolve`, and a RuntimeError for None where no executor can run here, and
    for `"native"` and `"cpu"`, which run no kernels.
    """
    if backend in (NATIVE, CPU):
        raise RuntimeError(f"backend {backend!r} is made of MLX operations, it runs no kernels")
    name = resolve(backend)
    return _registered[_refuse_all() if name == NATIVE else name]


def _first_able() -> str | None:
    """The executor registered first of those that can run."""
    return next((name for name, it in _registered.items() if it.unavailable() is None), None)


def _refuse_all() -> NoReturn:
    reasons = [f"{executor.name}: {executor.unavailable()}" for executor in _registered.values()]
    raise RuntimeError("no executor can run kernels here. " + " ".join(reasons))
