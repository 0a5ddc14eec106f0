"""The process of some cases: compiles their kernels, waits for its turn, and measures.

MLX keeps the machine code of `mx.fast.cuda_kernel` kernels in the memory of a process only, so
the process that compiles has to measure.
"""

from __future__ import annotations

import json
import sys
import time

from tests.benchmarks.profile.chain import Chain, Clock, Time  # before MLX: it sets the environment

import mlx.core as mx  # isort: skip

from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.children import READY
from tests.benchmarks.gpu.timing import wake
from tests.benchmarks.profile.cases import cases

ERRORS = (MemoryError, OSError, RuntimeError, TypeError, ValueError)


def main(names: list[str]) -> None:
    """Print `READY`, read the time at which to stop, and print a time in JSON on a line each."""
    known = cases()
    clock = Clock()
    failed: dict[str, str] = {}
    for name in names:
        try:
            Chain(known[name], clock=clock).compile()
        except ERRORS as error:
            failed[name] = str(error)[-600:]
        mx.clear_cache()
    report(READY)
    until = sys.stdin.readline()
    if not until:  # the parent has ended
        return
    matrix = mx.random.normal((2048, 2048))
    wake(mx.matmul, (matrix, matrix))
    for name in names:
        if time.time() > float(until):
            report(f"{name}: skipped, out of time")
            continue
        case = known[name]
        try:
            if name in failed:
                raise ValueError(failed[name])
            row = Chain(case, clock=clock).time()
        except ERRORS as error:
            row = Time(name, case.group, error=str(error)[-600:])
        report(json.dumps(row.record()))
        mx.clear_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
