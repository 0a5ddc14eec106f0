"""The process of one program: compiles it, waits for its turn, and measures it.

MLX keeps the machine code of `mx.fast.cuda_kernel` kernels in the memory of a process only, so
the process that compiles a program has to measure it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial

import mlx.core as mx

from tests.benchmarks.gpu.check import DTYPES, report
from tests.benchmarks.gpu.children import READY
from tests.benchmarks.gpu.figures import EAGER, OURS, TRAINING, Figure
from tests.benchmarks.gpu.program import Program
from tests.benchmarks.gpu.programs import PROGRAMS, SIZES
from tests.benchmarks.gpu.timing import (
    Plan,
    in_turn,
    peak_bytes,
    planned,
    rotated,
    wake,
    with_gradients,
)
from xlstm_kernels.executors import NATIVE, resolve

ERRORS = (MemoryError, RuntimeError, TypeError, ValueError)


def main(backend: str, size: str, dtypes: str, group: str, position: str) -> None:
    """Compile, print `READY`, read the time at which to stop; print a figure in JSON on a line."""
    if backend == NATIVE:
        mx.set_default_device(mx.cpu)
    program = list(PROGRAMS[group](SIZES[size]))[int(position)]
    passes = [*program.passes(dtypes.split(","))]
    for dtype, work in passes:
        warm(program, backend, dtype, work)
    report(READY)
    until = sys.stdin.readline()
    if not until:  # the parent has ended
        return
    with suppress(*ERRORS):  # reported in `measured`
        wake(_ours(program, backend, passes[0][1]), inputs(program, *passes[0]))
    for dtype, work in passes:
        if time.time() > float(until):
            report(f"{program.operator} {program.shape} {dtype}, {work}: skipped, out of time")
        else:
            report(json.dumps(asdict(measured(program, group, backend, dtype, work))))


def warm(program: Program, backend: str, dtype: str, work: str) -> None:
    """Call every contestant once; those that fail are called again, and reported, in `measured`."""
    arrays = inputs(program, dtype, work)
    for _, function in contestants(program, backend, work):
        with suppress(*ERRORS):
            mx.eval(function(*arrays))
        mx.clear_cache()
    del arrays
    mx.clear_cache()


def measured(program: Program, group: str, backend: str, dtype: str, work: str) -> Figure:
    """Measure all contestants, round by round in turn; report those that fail."""
    sets = rotated(partial(inputs, program, dtype, work))
    plans: dict[str, Plan] = {}
    times: dict[str, float | None] = {}
    peaks: dict[str, int] = {}
    for name, function in contestants(program, backend, work):
        times[name] = None
        try:
            plans[name] = planned(function, sets)
            peaks[name] = peak_bytes(function, sets[0])
        except ERRORS as error:  # a kernel that does not compile does not end the table
            report(f"{program.operator} {program.shape} {dtype}, {name}: {str(error)[:300]}")
    times.update(zip(plans, in_turn([*plans.values()]), strict=True))
    mx.clear_cache()
    moved = program.moved_bytes(DTYPES[dtype], work)
    return Figure(group, program.operator, program.shape, dtype, work, times, moved, peaks)


def inputs(program: Program, dtype: str, work: str) -> list[mx.array]:
    """Draw inputs, the cotangent first where there is one."""
    kind = DTYPES[dtype]
    cotangent = [program.cotangent(kind)] if work == TRAINING else []
    return [*cotangent, *program.draw(kind)]


def contestants(
    program: Program, backend: str, work: str
) -> Iterator[tuple[str, Callable[..., object]]]:
    """Ours compiled and eager, then the comparisons, for one kind of work."""
    yield OURS, _ours(program, backend, work, compiled=program.compiled or backend != NATIVE)
    yield EAGER, _ours(program, backend, work, compiled=False)
    for name, other in program.others.items():
        yield name, _worked(other, work, compiled=program.compiled)


def _ours(
    program: Program, backend: str, work: str, *, compiled: bool = False
) -> Callable[..., object]:
    # Without a name the operator may take MLX's operations, as it does for users.
    named = None if backend == resolve(None) else backend
    return _worked(partial(program.ours, backend=named), work, compiled=compiled)


def _worked(function: Callable[..., object], work: str, *, compiled: bool) -> Callable[..., object]:
    worked = with_gradients(function) if work == TRAINING else function
    return mx.compile(worked) if compiled else worked


if __name__ == "__main__":
    main(*sys.argv[1:])
