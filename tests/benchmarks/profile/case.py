"""A launch of one kernel whose predicted time is compared with its time on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.executors import registry
from xlstm_kernels.kernel import Kernel, Launch


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel, its inputs, and its launch."""

    kernel: Kernel
    inputs: tuple[mx.array, ...]
    launch: Launch

    @property
    def nbytes(self) -> int:
        """Bytes of the inputs."""
        return sum(array.nbytes for array in self.inputs)


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at one size.

    Attributes:
        name: unique.
        group: microbenchmark, pack, mlx-lm or mlx-vlm.
        draw: the launch that is timed.
        simulated: the launch that is profiled, a part of the timed one; None if it is the same.
        scale: how often the profiled launch is contained in the timed one.
    """

    name: str
    group: str
    draw: Callable[[], Launched]
    simulated: Callable[[], Launched] | None = None
    scale: int = 1


def held_out(name: str) -> bool:
    """Return whether the fit of constants leaves a case out: half of all, by a hash."""
    return sha256(name.encode()).digest()[0] % 2 == 1


class RecordingExecutor:
    """Records launches; outputs are random, so that nothing runs."""

    name = "recording"

    def __init__(self) -> None:
        self.launches: list[Launched] = []

    def unavailable(self) -> str | None:
        return None

    def run(
        self, kernel: Kernel, inputs: Sequence[mx.array], launch: Launch, *, verbose: bool = False
    ) -> Sequence[mx.array]:
        self.launches.append(Launched(kernel, tuple(map(mx.contiguous, inputs)), launch))
        outputs = zip(launch.output_shapes, launch.output_dtypes, strict=True)
        return [random_array(shape, dtype) for shape, dtype in outputs]


@contextmanager
def recording() -> Iterator[RecordingExecutor]:
    """Register an executor `backend="recording"`."""
    executor = RecordingExecutor()
    registry.register(executor)
    try:
        yield executor
    finally:
        registry.unregister(executor.name)


def random_array(shape: tuple[int, ...], dtype: mx.Dtype, seed: int = 0) -> mx.array:
    """Small random numbers; zeros for integers, which may be positions."""
    if not mx.issubdtype(dtype, mx.floating):
        return mx.zeros(shape, dtype=dtype)
    return mx.random.normal(shape, dtype=dtype, scale=0.5, key=mx.random.key(seed))


def launch_of(call: Callable[[], object], kernel: str, nth: int = 0) -> Launched:
    """Return the nth launch of a kernel that an operator makes.

    Raises:
        ValueError: if it makes none.
    """
    with recording() as executor, executors.default_backend(executor.name):
        call()
    made = [launched for launched in executor.launches if launched.kernel.name == kernel]
    if len(made) <= nth:
        names = sorted({launched.kernel.name for launched in executor.launches})
        raise ValueError(f"{kernel} must be launched, got {names}")
    return made[nth]
