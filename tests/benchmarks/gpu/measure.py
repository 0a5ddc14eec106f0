"""Figures of every operator: a process for each group, and one for torch and Triton.

MLX caches the PTX of CUDA kernels on disk, but compiling takes 2 to 5 s each, one after another:
before the measurements, every program runs once in a process of its own, several at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from importlib.util import find_spec

import mlx.core as mx

from tests.benchmarks.gpu.check import DTYPES, report
from tests.benchmarks.gpu.figures import (
    EAGER,
    FORWARD,
    OURS,
    TRAINING,
    Figure,
    Report,
    figure,
    line,
)
from tests.benchmarks.gpu.programs import PROGRAMS, SIZES, Program
from tests.benchmarks.gpu.timing import milliseconds, peak_bytes, rotated, with_gradients
from xlstm_kernels.executors import NATIVE

#: The mLSTM is not measured in float32 where batch x steps are more than this.
MOST_FLOAT32 = 2**13
#: torch's kernels are compiled too; what takes longer than this is left out.
TORCH_SECONDS = 90
#: The copy ceiling is that of so many elements.
COPY_ELEMENTS = {"large": 2**27, "medium": 2**25, "tiny": 2**16}

ERRORS = (MemoryError, RuntimeError, TypeError, ValueError)


def measure(
    backend: str,
    size: str,
    dtypes: Sequence[str],
    groups: Sequence[str],
    jobs: int,
    seconds: float,
) -> Report:
    """Print and return the figures; no operator starts after `seconds` of measuring."""
    if backend == "cuda":
        report("compiling")
        _compile_all(backend, size, dtypes, groups, jobs)
    copies = {name: copy_bandwidth(DTYPES[name], COPY_ELEMENTS[size]) for name in dtypes}
    mx.clear_cache()
    others = torch_figures(size, groups) if "bfloat16" in dtypes and backend == "cuda" else []
    until = time.time() + seconds
    figures = []
    for group in groups:
        report(f"\n{group}")
        done = _run_group(backend, size, dtypes, until, group)
        if done.returncode:
            report(f"{group}: exit status {done.returncode}\n{done.stderr[-2000:]}")
        for text in done.stdout.splitlines():
            if not text.startswith("{"):
                report(text)
                continue
            row = joined(figure(json.loads(text)), others)
            figures.append(row)
            report(line(row, copies.get(row.dtype)))
    for name, bandwidth in copies.items():
        report(f"\ncopy, {name}: {bandwidth:.0f} GB/s")
    day = datetime.now(tz=timezone.utc).date().isoformat()
    return Report(device_name(), mx.__version__, day, backend, copies, tuple(figures))


def _compile_all(
    backend: str, size: str, dtypes: Sequence[str], groups: Sequence[str], jobs: int
) -> None:
    """Call every program once, so that its kernels are in MLX's cache."""
    with ThreadPoolExecutor(jobs) as pool:
        for group in groups:
            for program in range(len(list(PROGRAMS[group](SIZES[size])))):
                for dtype in dtypes:
                    pool.submit(_run_group, backend, size, [dtype], 0.0, group, program)


def device_name() -> str:
    """The name of MLX's default device."""
    return str(mx.device_info().get("device_name", mx.default_device()))


def copy_bandwidth(dtype: mx.Dtype, elements: int) -> float:
    """GB/s of an operation that reads and writes each element once."""
    sets = rotated(lambda: [mx.random.normal((elements,)).astype(dtype)])
    return 2 * elements * dtype.size / milliseconds(mx.negative, sets) / 1e6


def joined(row: Figure, others: Sequence[Figure]) -> Figure:
    """Add what other packages took for the same."""
    times = dict(row.milliseconds)
    for other in others:
        same = (row.group, row.shape, row.dtype, row.work)
        if (other.group, other.shape, other.dtype, other.work) == same:
            times.update(other.milliseconds)
    return replace(row, milliseconds=times)


def torch_figures(size: str, groups: Sequence[str]) -> list[Figure]:
    """Figures of torch and Triton, from a separate process; none where they are not installed."""
    if not all(map(find_spec, ("torch", "triton", "mlstm_kernels"))):
        report("torch, triton and mlstm_kernels are not installed: their columns are missing")
        return []
    command = [sys.executable, "-m", "tests.benchmarks.gpu.torch_times", size, *groups]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TORCH_SECONDS
        )
        output, error = done.stdout, done.stderr if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output, error = (expired.stdout or b"").decode(), f"stopped after {TORCH_SECONDS} s"
    if error:
        report(f"torch: {error[-2000:]}")
    rows = [text for text in output.splitlines() if text.startswith("{")]
    return [figure(json.loads(text)) for text in rows]


def _run_group(
    backend: str,
    size: str,
    dtypes: Sequence[str],
    until: float,
    group: str,
    program: int | None = None,
) -> subprocess.CompletedProcess[str]:
    arguments = [backend, size, ",".join(dtypes), str(until), group]
    arguments += [] if program is None else [str(program)]
    command = [sys.executable, "-m", "tests.benchmarks.gpu.measure", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def measure_group(
    backend: str, size: str, dtypes: str, until: str, group: str, program_index: str = ""
) -> None:
    """Print a figure in JSON on each line; with `until` 0, only call everything once."""
    if backend == NATIVE:
        mx.set_default_device(mx.cpu)
    deadline = float(until)
    timed = milliseconds if deadline else called
    programs = list(PROGRAMS[group](SIZES[size]))
    for program in programs if program_index == "" else [programs[int(program_index)]]:
        for name in dtypes.split(","):
            if name == "float32" and _is_big(program):
                continue
            if deadline and time.time() > deadline:
                report(f"{program.operator} {program.shape} {name}: skipped, out of time")
                continue
            for row in figures_of(program, group, name, backend, timed):
                report(json.dumps(asdict(row)))


def _is_big(program: Program) -> bool:
    return len(program.shape) == 5 and program.shape[0] * program.shape[2] > MOST_FLOAT32


def called(function: Callable[..., object], sets: Sequence[Sequence[mx.array]]) -> float:
    """Compile a function, without timing it."""
    mx.eval(function(*sets[0]))
    return 0.0


def figures_of(
    program: Program, group: str, dtype: str, backend: str, timed: Callable[..., float]
) -> Iterator[Figure]:
    """Measure the forward pass, and the forward and backward passes where there is a gradient."""
    kind = DTYPES[dtype]
    for work in (FORWARD, TRAINING)[: 1 if program.output is None else 2]:
        training = work == TRAINING
        sets = rotated(
            lambda training=training: [
                *([program.cotangent(kind)] if training else []),
                *program.draw(kind),
            ]
        )
        times: dict[str, float | None] = {}
        peaks: dict[str, int] = {}
        for name, function in contestants(program, backend, training):
            try:
                times[name] = timed(function, sets)
                peaks[name] = peak_bytes(function, sets[0])
            except ERRORS as error:  # a kernel that does not compile does not end the table
                times[name] = None
                report(f"{program.operator} {program.shape} {dtype}, {name}: {str(error)[:300]}")
            mx.clear_cache()
        moved = program.moved_bytes(kind, work)
        yield Figure(group, program.operator, program.shape, dtype, work, times, moved, peaks)


def contestants(
    program: Program, backend: str, training: bool
) -> Iterator[tuple[str, Callable[..., object]]]:
    """Ours compiled and eager, then the comparisons, for one kind of work."""
    ours = partial(program.ours, backend=backend)
    yield OURS, _worked(ours, training, compiled=program.compiled or backend != NATIVE)
    yield EAGER, _worked(ours, training, compiled=False)
    for name, other in program.others.items():
        yield name, _worked(other, training, compiled=program.compiled)


def _worked(
    function: Callable[..., object], training: bool, *, compiled: bool
) -> Callable[..., object]:
    worked = with_gradients(function) if training else function
    return mx.compile(worked) if compiled else worked


if __name__ == "__main__":
    measure_group(*sys.argv[1:])
