"""What simulating costs, as times and ratios of one run: ``python -m tests.benchmarks.simulator``.

Kernels are compiled into an empty cache (cold), then found there (warm), and run checked and
unchecked on the same inputs. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from embercoach.simulator import activate
from embercoach.simulator.build.objects import build
from embercoach.simulator.build.toolchain import find_toolchain
from embercoach.simulator.session.capture import CapturedDefinition, capture

if TYPE_CHECKING:
    from embercoach.simulator.build.toolchain import Toolchain

SUM_OF_ROWS = """
threadgroup float parts[32];
uint row = threadgroup_position_in_grid.x;
uint lane = thread_position_in_threadgroup.x;
float sum = 0;
for (uint i = lane; i < N; i += 256) {
    float value = x[row * N + i];
    sum += value * value;
}
sum = simd_sum(sum);
if (thread_index_in_simdgroup == 0) {
    parts[simdgroup_index_in_threadgroup] = sum;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
float total = 0;
for (uint i = 0; i < 8; ++i) {
    total += parts[i];
}
float scale = metal::rsqrt(total / N + 1e-5f);
for (uint i = lane; i < N; i += 256) {
    y[row * N + i] = x[row * N + i] * scale;
}
"""
ELEMENTWISE = """
uint i = thread_position_in_grid.x;
y[i] = metal::precise::tanh(x[i]) * x[i];
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """A kernel and how it is launched on a ``rows`` by ``columns`` array."""

    name: str
    body: str
    rows: int
    columns: int
    threads_a_row: int
    template: tuple[tuple[str, int], ...] = ()

    def arguments(self, x: mx.array) -> dict[str, Any]:
        """Of a call of the kernel."""
        return {
            "inputs": [x],
            "template": list(self.template),
            "grid": (self.rows * self.threads_a_row, 1, 1),
            "threadgroup": (256, 1, 1),
            "output_shapes": [x.shape],
            "output_dtypes": [x.dtype],
        }


WORKLOADS = (
    Workload("RMS norm, 64 x 4096", SUM_OF_ROWS, 64, 4096, 256, (("N", 4096),)),
    Workload("tanh gate, 262144", ELEMENTWISE, 1, 262_144, 262_144),
)


def generated(work: Workload, tag: str) -> tuple[CapturedDefinition, str]:
    """A kernel of a body that no cache knows, and the text that MLX generates for it."""
    body = f"{work.body}// {tag}\n"
    arguments = {"name": "bench", "input_names": ["x"], "output_names": ["y"], "source": body}
    kernel = mx.fast.metal_kernel(**arguments)
    definition = CapturedDefinition("bench", ("x",), ("y",), body, "")
    launch = work.arguments(mx.zeros((work.rows, work.columns)))
    return definition, capture(kernel, definition, (), launch).source


def compiling(work: Workload, toolchain: Toolchain, tag: str, cache: Path) -> tuple[float, float]:
    """Seconds that a kernel takes to build, cold and found in the cache."""
    definition, source = generated(work, tag)
    times = []
    for _ in range(2):
        start = time.perf_counter()
        build(source, "bench", definition.body, "", checks=True, toolchain=toolchain, cache=cache)
        times.append(time.perf_counter() - start)
    return times[0], times[1]


def in_kernel(work: Workload, toolchain: Toolchain, rounds: int, *, checks: bool) -> float:
    """Median seconds that all threads take in one run, as the recorder tells them."""
    with activate(checks=checks, toolchain=toolchain) as recorder:
        kernel = mx.fast.metal_kernel(
            name="bench_run", input_names=["x"], output_names=["y"], source=work.body
        )
        x = mx.random.normal((work.rows, work.columns))
        for _ in range(rounds + 1):
            mx.eval(kernel(**work.arguments(x)))
        if any(launch.findings for launch in recorder.launches):
            raise SystemExit(f"{work.name}: findings in a clean kernel")
        return statistics.median(launch.seconds for launch in recorder.launches[1:])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="runs of each (default 7)")
    options = parser.parse_args()
    out = sys.stdout
    with tempfile.TemporaryDirectory(prefix="embercoach-objects-") as folder:
        toolchain = find_toolchain()
        first, _ = compiling(WORKLOADS[0], toolchain, "first", Path(folder))
        out.write(f"first kernel of a cache, the Metal library with it: {first:.3f} s\n")
        times = [
            compiling(work, toolchain, str(number), Path(folder))
            for work in WORKLOADS
            for number in range(options.rounds)
        ]
        cold, warm = (statistics.median(column) for column in zip(*times, strict=True))
        out.write(f"a kernel cold: {cold:.3f} s (bar 0.5), warm: {warm * 1000:.1f} ms (bar 10)\n")
        for work in WORKLOADS:
            checked = in_kernel(work, toolchain, options.rounds, checks=True)
            plain = in_kernel(work, toolchain, options.rounds, checks=False)
            out.write(
                f"{work.name:<20} checked {checked * 1000:6.1f} ms, plain {plain * 1000:6.1f} ms:"
                f" {checked / plain:4.1f} times (bar 10)\n"
            )
            out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
