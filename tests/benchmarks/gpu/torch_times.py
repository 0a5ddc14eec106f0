"""Times of NX-AI's kernels in torch: `mlstm_kernels` (Triton), and `xlstm` for the sLSTM.

Runs in a separate process, and only where these packages and a GPU are at hand. It compiles, prints
`READY`, and measures once it has read a line.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec

import torch

from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.children import READY
from tests.benchmarks.gpu.figures import FORWARD, TORCH, TRAINING, TRITON, Figure
from tests.benchmarks.gpu.program import Shape
from tests.benchmarks.gpu.programs import SIZES
from tests.benchmarks.gpu.timing import ROUND_SECONDS, ROUNDS

TRITON_CHUNKS = (64, 128)
ERRORS = (ImportError, RuntimeError, ValueError)


Timed = Callable[[Callable[[], object]], float]


def compiled(function: Callable[[], object]) -> float:
    """Call it once, for no time."""
    function()
    torch.cuda.synchronize()
    return 0.0


def milliseconds(function: Callable[[], object]) -> float:
    """Return the median time of one call among many that are under way."""

    def took(calls: int) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / calls

    took(2)  # compiles
    calls = max(1, min(200, int(ROUND_SECONDS / took(1))))
    return 1e3 * statistics.median(took(calls) for _ in range(ROUNDS))


def limit_chunk(shape: Shape, timed: Timed) -> Iterator[Figure]:
    """`chunkwise--triton_limit_chunk` in bfloat16, with the faster of two chunks."""
    from mlstm_kernels.torch import get_mlstm_kernel

    kernel = get_mlstm_kernel("chunkwise--triton_limit_chunk")
    batch, heads, steps, keys, values = shape
    gate = (batch, heads, steps)
    drawn = [
        torch.randn(*one, device="cuda").bfloat16()
        for one in ((*gate, keys), (*gate, keys), (*gate, values), (*gate, values))
    ]
    gates = [torch.randn(*gate, device="cuda"), torch.randn(*gate, device="cuda") + 3]
    inputs = [array.requires_grad_() for array in (*drawn[:3], *gates)]

    def forward(chunk: int) -> torch.Tensor:
        found = kernel(*inputs, chunk_size=chunk, autocast_kernel_dtype=torch.bfloat16)
        return found[0] if isinstance(found, tuple) else found

    times: dict[str, list[float]] = {FORWARD: [], TRAINING: []}
    for chunk in TRITON_CHUNKS:
        with suppress(RuntimeError, ValueError), torch.no_grad():
            times[FORWARD].append(timed(lambda c=chunk: forward(c)))
        with suppress(RuntimeError, ValueError):
            times[TRAINING].append(
                timed(lambda c=chunk: torch.autograd.grad(forward(c), inputs, drawn[3]))
            )
    for work, found in times.items():
        if found:
            yield Figure(
                "mlstm_chunkwise", "limit_chunk", shape, "bfloat16", work, {TRITON: min(found)}
            )


def cell(shape: Shape, timed: Timed) -> Iterator[Figure]:
    """The sLSTM of `xlstm` with its CUDA kernel."""
    from xlstm.blocks.slstm.cell import sLSTMCell, sLSTMCellConfig

    batch, steps, heads, units = shape
    config = sLSTMCellConfig(
        hidden_size=heads * units, num_heads=heads, backend="cuda", batch_size=batch
    )
    module = sLSTMCell(config).cuda()
    x = torch.randn(batch, steps, 4 * heads * units, device="cuda", requires_grad=True)

    def forward() -> torch.Tensor:
        found = module(x)
        return found[0] if isinstance(found, tuple) else found

    with torch.no_grad():
        times = {FORWARD: timed(forward)}
    times[TRAINING] = timed(lambda: forward().sum().backward())
    for work, found in times.items():
        yield Figure("slstm", "sLSTMCell", shape, "bfloat16", work, {TORCH: found})


def main(size: str, *groups: str) -> None:
    """Print a figure in JSON on each line."""
    tasks = []
    if "mlstm_chunkwise" in groups:
        tasks += [(limit_chunk, shape) for shape in SIZES[size].mlstm]
    if "slstm" in groups and find_spec("xlstm"):
        tasks += [(cell, shape) for shape in SIZES[size].slstm]
    for task, shape in tasks:
        with suppress(*ERRORS):  # reported when it is measured
            list(task(shape, compiled))
        torch.cuda.empty_cache()
    report(READY)
    sys.stdin.readline()
    for task, shape in tasks:
        try:
            for row in task(shape, milliseconds):
                report(json.dumps(asdict(row)))
        except ERRORS as error:
            report(f"{task.__name__} {shape}: {str(error)[:200]}")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
