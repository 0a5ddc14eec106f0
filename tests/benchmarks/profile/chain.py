"""Times of a launch on a GPU from its own clock: launches in a chain between two time stamps.

Each launch has one more input, which it does not read: an output of the launch before. MLX so
orders them in one CUDA graph, and the host takes no part between the stamps. What is timed is a
launch and the step from one node of the graph to the next.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

# MLX reads them once. A graph holds at most 255 launches.
os.environ["MLX_MAX_OPS_PER_BUFFER"] = "240"
os.environ["MLX_MAX_MB_PER_BUFFER"] = "1000000"

import mlx.core as mx

from tests.benchmarks.profile.case import Case, Launched
from xlstm_kernels.executors import Executor
from xlstm_kernels.executors.cuda import CudaExecutor

#: Inputs are copied until a chain touches more than so many bytes, two L2 caches of an H200.
COLD_BYTES = 100 * 2**20
MOST_COPIES = 48
LEAST_LAUNCHES, MOST_LAUNCHES = 6, 48
#: A chain takes about so many microseconds, and its memory at most so many bytes.
CHAIN_MICROSECONDS = 20_000.0
CHAIN_BYTES = 24 * 2**30
REPEATS = 9

_STAMP = """
uint64_t now;
asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
if (threadIdx.x == 0) time[0] = now;
through[threadIdx.x] = after[0];
"""


@dataclass(frozen=True, slots=True)
class Time:
    """A case's time on a GPU.

    Attributes:
        name: of the case.
        group: of the case.
        kernel: its name.
        grid: threads.
        threadgroup: threads of one.
        microseconds: of a launch, the median of chains; None if it failed.
        spread: of chains, the greatest less the least time, in parts of the median.
        launches: in a chain.
        copies: of the inputs, which launches read in turn.
        cold: whether a chain touches more memory than the L2 cache holds twice.
        error: of a case that failed.
    """

    name: str
    group: str
    kernel: str = ""
    grid: tuple[int, ...] = ()
    threadgroup: tuple[int, ...] = ()
    microseconds: float | None = None
    spread: float = 0.0
    launches: int = 0
    copies: int = 0
    cold: bool = False
    error: str = ""

    def record(self) -> dict[str, object]:
        """As an object of JSON."""
        return asdict(self)


class Clock:
    """Time stamps of an NVIDIA GPU, in nanoseconds."""

    def __init__(self) -> None:
        self._kernel = mx.fast.cuda_kernel(
            name="profile_stamp",
            input_names=["after"],
            output_names=["time", "through"],
            source=_STAMP,
        )

    def stamp(self, after: mx.array) -> tuple[mx.array, mx.array]:
        """Return the time when `after` exists, and 32 elements that exist no sooner."""
        time, through = self._kernel(
            inputs=[after],
            grid=(32, 1, 1),
            threadgroup=(32, 1, 1),
            output_shapes=[(1,), (32,)],
            output_dtypes=[mx.uint64, after.dtype],
            template=[("T", after.dtype)],
        )
        return time, through


class Chain:
    """Launches of a case, one after the other."""

    def __init__(
        self, case: Case, executor: Executor | None = None, clock: Clock | None = None
    ) -> None:
        self.case = case
        self._executor = executor or CudaExecutor()
        self._clock = clock or Clock()
        launched = case.draw()
        kernel = launched.kernel
        self._launched = launched
        self._kernel = replace(kernel, inputs=(*kernel.inputs, "launch_before"))

    def compile(self) -> None:
        """Launch once."""
        self._nanoseconds([self._launched.inputs], 1)

    def time(self) -> Time:
        """Measure chains of about 20 ms each; the first one is not counted."""
        launched = self._launched
        outputs = _output_bytes(launched)
        each = launched.nbytes + outputs
        self._nanoseconds([launched.inputs], LEAST_LAUNCHES)
        once = self._nanoseconds([launched.inputs], LEAST_LAUNCHES) / LEAST_LAUNCHES
        wanted = max(LEAST_LAUNCHES, -(-COLD_BYTES // max(each, 1)))
        fitting = max(2, int(CHAIN_BYTES / max(outputs, 1)))
        short = max(LEAST_LAUNCHES, int(CHAIN_MICROSECONDS * 1e3 / max(once, 1.0)))
        count = min(max(wanted, 16), short, fitting, MOST_LAUNCHES)
        copies = min(-(-COLD_BYTES // max(launched.nbytes, 1)), count, MOST_COPIES)
        sets = [launched.inputs]
        sets += [tuple(_copy(array) for array in launched.inputs) for _ in range(copies - 1)]
        mx.eval(sets)
        self._nanoseconds(sets, count)
        times = [self._nanoseconds(sets, count) / count / 1e3 for _ in range(REPEATS)]
        median = statistics.median(times)
        return Time(
            self.case.name,
            self.case.group,
            launched.kernel.name,
            launched.launch.grid,
            launched.launch.threadgroup,
            median,
            (max(times) - min(times)) / median,
            count,
            copies,
            copies * launched.nbytes + count * outputs >= COLD_BYTES,
        )

    def _nanoseconds(self, sets: Sequence[tuple[mx.array, ...]], count: int) -> int:
        """Return the time from the end of a first launch to that of `count` more."""
        dtype = self._launched.launch.output_dtypes[0]
        output = self._launch(sets[0], mx.zeros((32,), dtype=dtype))
        begin, through = self._clock.stamp(output)
        for place in range(count):
            through = self._launch(sets[(place + 1) % len(sets)], through)
        end, _ = self._clock.stamp(through)
        mx.eval(begin, end)
        return int(end.item()) - int(begin.item())

    def _launch(self, inputs: tuple[mx.array, ...], before: mx.array) -> mx.array:
        launch = self._launched.launch
        return self._executor.run(self._kernel, (*inputs, before), launch)[0]


def _output_bytes(launched: Launched) -> int:
    outputs = zip(launched.launch.output_shapes, launched.launch.output_dtypes, strict=True)
    total = 0
    for shape, dtype in outputs:
        size = dtype.size
        for extent in shape:
            size *= extent
        total += size
    return total


def _copy(array: mx.array) -> mx.array:
    """Return an array of the same values in other memory."""
    return mx.contiguous(mx.add(array, mx.zeros((), dtype=array.dtype)))
