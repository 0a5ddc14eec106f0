"""The process of one subject: compiles its kernels, waits for its turn, and measures.

MLX keeps the machine code of `mx.fast.cuda_kernel` kernels in the memory of a process only, so
the process that compiles has to measure.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict

import mlx.core as mx

from tests.benchmarks.advice.counts import counted
from tests.benchmarks.advice.subjects import SUBJECTS
from tests.benchmarks.advice.timing import times, warm
from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.children import READY
from tests.benchmarks.gpu.timing import wake
from xlstm_kernels.executors import NATIVE


def main(backend: str, subject: str) -> None:
    """Print `READY`, read the time at which to stop, and print a figure in JSON on a line."""
    simulated = backend == NATIVE
    if simulated:
        mx.set_default_device(mx.cpu)
    pieces = list(SUBJECTS[subject](not simulated))
    if not simulated:
        for piece in pieces:
            warm(piece, piece.draw(), backend)
    report(READY)
    until = sys.stdin.readline()
    if not until:  # the parent has ended
        return
    if not simulated:
        matrix = mx.random.normal((2048, 2048))
        wake(mx.matmul, (matrix, matrix))
    for piece in pieces:
        if time.time() > float(until):
            report(f"{piece.name}: skipped, out of time")
            continue
        inputs = piece.draw()
        mx.eval(inputs)
        timed = piece.streams or not simulated
        rows = times(piece, inputs, backend) if timed else counted(piece, inputs)
        for row in rows:
            report(json.dumps(asdict(row)))
        del inputs
        mx.clear_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
