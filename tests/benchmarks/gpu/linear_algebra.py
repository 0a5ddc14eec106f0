"""Linear algebra on a GPU beside MLX's CPU stream and torch: `python -m ...gpu.linear_algebra`.

Prints a line for each function and size as it is measured: milliseconds of a call, ours and theirs,
and the backward error of ours divided by that of LAPACK in float32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import mlx.core as mx
import numpy as np

from tests.benchmarks import saved_figures
from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.timing import milliseconds, wake
from xlstm_kernels import executors, linalg

OURS, CPU, TORCH = "ours", "MLX, CPU stream", "torch"
#: (matrices, rows = columns): many small matrices, and a few large ones.
SIZES = {
    "large": ((4096, 16), (4096, 32), (4096, 64), (64, 128), (16, 256), (1, 512), (1, 1024)),
    "tiny": ((4, 8), (1, 48)),
}
#: Errors are taken on so many matrices, since float64 is slow.
CHECKED = 16


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A function of square matrices, for each contestant, and what its result should restore.

    Attributes:
        name: of the function.
        ours: takes the matrices and `backend`.
        cpu: takes the matrices, runs on MLX's CPU stream.
        torch: the function in `torch.linalg`.
        restored: from the result in float64, what should equal the matrices.
        positive: the matrices are symmetric and positive definite; symmetric where False.
    """

    name: str
    ours: Callable[..., object]
    cpu: Callable[[mx.array], object]
    torch: str
    restored: Callable[..., np.ndarray]
    positive: bool | None = None


def transposed(array: np.ndarray) -> np.ndarray:
    return np.swapaxes(array, -1, -2)


DECOMPOSITIONS = {
    one.name: one
    for one in (
        Decomposition(
            "cholesky",
            linalg.cholesky,
            partial(mx.linalg.cholesky, stream=mx.cpu),
            "cholesky",
            lambda lower: lower @ transposed(lower),
            positive=True,
        ),
        Decomposition(
            "qr", linalg.qr, partial(mx.linalg.qr, stream=mx.cpu), "qr", lambda q, r: q @ r
        ),
        Decomposition(
            "eigh",
            linalg.eigh,
            partial(mx.linalg.eigh, stream=mx.cpu),
            "eigh",
            lambda values, vectors: (vectors * values[..., None, :]) @ transposed(vectors),
            positive=False,
        ),
        Decomposition(
            "svd",
            linalg.svd,
            partial(mx.linalg.svd, stream=mx.cpu),
            "svd",
            lambda u, s, vh: (u * s[..., None, :]) @ vh,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `error` is a multiple of LAPACK's."""

    function: str
    shape: tuple[int, int]
    milliseconds: dict[str, float] = field(default_factory=dict)
    error: float | None = None

    def line(self) -> str:
        times = self.milliseconds
        cells = [f"{times[key]:.4g}" if key in times else "-" for key in (OURS, CPU, TORCH)]
        ratio = f"{times[CPU] / times[OURS]:.1f}" if {OURS, CPU} <= times.keys() else "-"
        error = "-" if self.error is None else f"{self.error:.2f}"
        size = "x".join(map(str, (*self.shape, self.shape[1])))
        return f"| {self.function} | {size} | {' | '.join(cells)} | {ratio} | {error} |"


HEADER = f"| function | size | {OURS} | {CPU} | {TORCH} | CPU stream / ours | error |"


def draw(shape: tuple[int, int], positive: bool | None) -> np.ndarray:
    """Matrices of condition number about 1e3, float32."""
    batch, size = shape
    random = np.random.default_rng(batch + size)
    if positive is None:
        drawn = random.standard_normal((batch, size, size))
    else:
        basis = np.linalg.qr(random.standard_normal((min(batch, CHECKED), size, size)))[0]
        values = np.logspace(0, 3, size) * (1 if positive else np.resize((1, -1), size))
        drawn = np.resize(basis * values @ transposed(basis), (batch, size, size))
        drawn = (drawn + transposed(drawn)) / 2
    return drawn.astype(np.float32)


def backward_error(one: Decomposition, matrices: np.ndarray, result: Sequence[np.ndarray]) -> float:
    """The greatest ||A - restored|| / ||A|| over matrices, in Frobenius's norm."""
    restored = one.restored(*(part.astype(np.float64) for part in result))
    exact = matrices.astype(np.float64)
    norms = np.linalg.norm(exact, axis=(-1, -2))
    return float(np.max(np.linalg.norm(exact - restored, axis=(-1, -2)) / norms))


def as_arrays(result: object) -> list[np.ndarray]:
    return [np.array(part) for part in (result if isinstance(result, (tuple, list)) else [result])]


def measured(one: Decomposition, shape: tuple[int, int], backend: str) -> Row:
    """Times and error of ours, and the time of MLX's CPU stream."""
    drawn = draw(shape, one.positive)
    matrices = mx.array(drawn)
    ours = partial(one.ours, backend=backend)
    some = drawn[:CHECKED]
    error = backward_error(one, some, as_arrays(ours(mx.array(some))))
    # NumPy computes in float64; MLX's CPU stream is LAPACK in float32.
    error /= backward_error(one, some, as_arrays(one.cpu(mx.array(some))))
    if backend != executors.NATIVE:
        wake(ours, (matrices,))
    times = {OURS: milliseconds(ours, [(matrices,)])}
    rounds: list[float] = []
    while sum(rounds) < 1.5 and len(rounds) < 5:
        begin = time.perf_counter()
        mx.eval(one.cpu(matrices))
        rounds.append(time.perf_counter() - begin)
    times[CPU] = 1e3 * statistics.median(rounds)
    return Row(one.name, shape, times, error)


def torch_rows(size: str) -> None:
    """Print a time of torch in JSON for each function and size."""
    import torch

    from tests.benchmarks.gpu.torch_times import milliseconds as of_torch

    for one in DECOMPOSITIONS.values():
        function = getattr(torch.linalg, one.torch)
        for shape in SIZES[size]:
            matrices = torch.from_numpy(draw(shape, one.positive)).cuda()
            options = {"full_matrices": False} if one.name == "svd" else {}
            took = of_torch(lambda f=function, m=matrices, o=options: f(m, **o))
            report(json.dumps([one.name, shape, took]))


def torch_times(size: str, seconds: float) -> dict[tuple[str, tuple[int, int]], float]:
    """Milliseconds of torch, as far as its process came in `seconds`."""
    command = [sys.executable, "-m", __spec__.name, "--torch", "--size", size]
    try:
        text = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=seconds, check=False
        ).stdout
    except subprocess.TimeoutExpired as stopped:
        report(f"torch: stopped after {seconds:g} s")
        text = (stopped.stdout or b"").decode()
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
    return {(name, tuple(shape)): took for name, shape, took in rows}


def rows(size: str, backend: str, names: Sequence[str], seconds: float) -> Iterator[Row]:
    """All lines that begin within `seconds`."""
    until = time.monotonic() + seconds
    with_torch = backend == executors.CudaExecutor.name and find_spec("torch")
    of_torch = torch_times(size, seconds / 3) if with_torch else {}
    for name in names:
        for shape in SIZES[size]:
            if time.monotonic() > until:
                report(f"{name} {shape}: no time left")
                continue
            row = measured(DECOMPOSITIONS[name], shape, backend)
            if (name, shape) in of_torch:
                row.milliseconds[TORCH] = of_torch[name, shape]
            yield row


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=executors.names(), default=executors.resolve(None))
    parser.add_argument("--size", choices=SIZES, default="large")
    parser.add_argument("--function", choices=DECOMPOSITIONS, action="append")
    parser.add_argument("--seconds", type=float, default=150.0, help="no line begins after them")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.torch:
        torch_rows(options.size)
        return 0
    if options.backend == executors.NATIVE:
        mx.set_default_device(mx.cpu)
    report(HEADER)
    report("| - " * 7 + "|")
    found = []
    names = options.function or list(DECOMPOSITIONS)
    for row in rows(options.size, options.backend, names, options.seconds):
        report(row.line())
        found.append(row)
    if options.json:
        saved_figures.write(options.json, {"rows": [asdict(row) for row in found]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
