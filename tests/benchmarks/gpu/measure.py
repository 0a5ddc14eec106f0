"""Figures of every operator: a process for each program, and one for torch and Triton.

MLX compiles a CUDA kernel in 2 to 10 s, one after another in a process. So the processes compile
at the same time, several programs at once, and then measure one after another.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from importlib.util import find_spec

import mlx.core as mx

from tests.benchmarks import saved_figures
from tests.benchmarks.gpu.check import DTYPES, report
from tests.benchmarks.gpu.children import Child, Start, children
from tests.benchmarks.gpu.figures import EAGER, OURS, Figure, Report, figure, line
from tests.benchmarks.gpu.program import Program
from tests.benchmarks.gpu.programs import PROGRAMS, SIZES
from tests.benchmarks.gpu.timing import milliseconds, rotated

#: A worker that compiles, or measures, for longer than this is stopped.
WORKER_SECONDS = 300
#: torch's kernels are compiled too; what takes longer than this is left out.
TORCH_SECONDS = 90
#: The copy ceiling is that of so many elements.
COPY_ELEMENTS = {"large": 2**27, "medium": 2**25, "tiny": 2**16}


async def measure(
    backend: str, size: str, dtypes: Sequence[str], groups: Sequence[str], jobs: int, seconds: float
) -> Report:
    """Print and return the figures; no figure starts after `seconds` of measuring.

    The missing figures of a process that fails have no times.
    """
    programs = [
        (group, position, program)
        for group in groups
        for position, program in enumerate(PROGRAMS[group](SIZES[size]))
    ]
    async with children() as start:
        report(f"compiling {len(programs)} programs")
        with_torch = "bfloat16" in dtypes and backend == "cuda"
        torch = await torch_process(start, size, groups) if with_torch else None
        workers = await _workers(start, programs, (backend, size, ",".join(dtypes)), jobs)
        copies = {name: copy_bandwidth(DTYPES[name], COPY_ELEMENTS[size]) for name in dtypes}
        mx.clear_cache()
        others = await torch_figures(torch) if torch else []
        until = time.time() + seconds
        figures: list[Figure] = []
        for (group, position, program), worker in zip(programs, workers, strict=True):
            if position == 0:
                report(f"\n{group}")
            shared = [_comparisons(row) for row in figures if row.operator == program.like]
            async for measured in _figures(worker, group, program, dtypes, until):
                row = joined(measured, [*shared, *others])
                figures.append(row)
                report(line(row, copies.get(row.dtype)))
    for name, bandwidth in copies.items():
        report(f"\ncopy, {name}: {bandwidth:.0f} GB/s")
    return Report(
        **saved_figures.origin(), backend=backend, copy_bandwidth=copies, figures=tuple(figures)
    )


async def _workers(
    start: Start, programs: Sequence[tuple[str, int, Program]], settings: Sequence[str], jobs: int
) -> list[Child]:
    """Start a worker for each program, and wait until all have compiled or failed."""
    slots = asyncio.Semaphore(jobs)

    async def compiled(group: str, position: int, program: Program) -> Child:
        name = f"{program.operator} {program.shape}"
        async with slots:
            worker = await start(name, *_module("worker"), *settings, group, str(position))
            errors = [text async for text in worker.lines(WORKER_SECONDS)]
        if errors:
            report("\n".join(errors))
        return worker

    return await asyncio.gather(*(compiled(*one) for one in programs))


async def _figures(
    worker: Child, group: str, program: Program, dtypes: Sequence[str], until: float
) -> AsyncIterator[Figure]:
    """Yield the figures of a worker; those that are missing when it fails have no times."""
    missing = [*program.passes(dtypes)]
    await worker.send(str(until))
    async for record in worker.records(WORKER_SECONDS):
        row = figure(record)
        missing.remove((row.dtype, row.work))
        yield row
    if worker.process.returncode:
        for dtype, work in missing:
            yield Figure(group, program.operator, program.shape, dtype, work, {OURS: None})


def _module(name: str) -> tuple[str, ...]:
    return sys.executable, "-m", f"tests.benchmarks.gpu.{name}"


def copy_bandwidth(dtype: mx.Dtype, elements: int) -> float:
    """GB/s of an operation that reads and writes each element once."""
    sets = rotated(lambda: [mx.random.normal((elements,)).astype(dtype)])
    return 2 * elements * dtype.size / milliseconds(mx.negative, sets) / 1e6


def joined(row: Figure, others: Sequence[Figure]) -> Figure:
    """Add what others took, and their memory, for the same work."""
    times, peaks = dict(row.milliseconds), dict(row.peak_bytes)
    for other in others:
        same = (row.group, row.shape, row.dtype, row.work)
        if (other.group, other.shape, other.dtype, other.work) == same:
            times.update(other.milliseconds)
            peaks.update(other.peak_bytes)
    return replace(row, milliseconds=times, peak_bytes=peaks)


def _comparisons(row: Figure) -> Figure:
    """The same figure without ours."""
    times, peaks = (
        {name: found for name, found in each.items() if name not in {OURS, EAGER}}
        for each in (row.milliseconds, row.peak_bytes)
    )
    return replace(row, milliseconds=times, peak_bytes=peaks)


async def torch_process(start: Start, size: str, groups: Sequence[str]) -> Child | None:
    """Start the process of torch and Triton, which compiles; None where they are not installed."""
    if not all(map(find_spec, ("torch", "triton", "mlstm_kernels"))):
        report("torch, triton and mlstm_kernels are not installed: their columns are missing")
        return None
    return await start("torch", *_module("torch_times"), size, *groups)


async def torch_figures(torch: Child) -> list[Figure]:
    """Figures of torch and Triton, from their process once it has compiled."""
    rows = []
    for _ in ("compiles", "measures"):
        rows += [figure(record) async for record in torch.records(TORCH_SECONDS)]
        await torch.send("")
    return rows
