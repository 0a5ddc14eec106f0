"""Recall and time of xlstm_kernels.search beside faiss-cpu, on the same clustered vectors.

    python -m tests.benchmarks.search [--size 100000] [--dimension 64] [--threads 2]
        [--backend native|cuda|metal] [--seconds 150] [--no-faiss]

Vectors are drawn in parts, and each index is built of a stream of them. Lines are printed as they
are measured; no measurement begins after the time limit. Recall at 10 is that of faiss's exact
search. `--no-faiss` leaves it out, so that the peak memory is that of the pack alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

QUERIES, K, PART, SAMPLE_PARTS = 1000, 10, 50_000, 4
PROBES = (1, 4, 16, 64)


@dataclass(frozen=True)
class Data:
    size: int
    dimension: int

    @property
    def codes(self) -> int:
        """The bytes of a vector's code."""
        return self.dimension // 4

    @cached_property
    def centers(self) -> np.ndarray:
        return np.random.default_rng(0).standard_normal((1000, self.dimension))

    def draw(self, count: int, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        noise = generator.standard_normal((count, self.dimension), dtype=np.float32)
        chosen = self.centers[generator.integers(0, 1000, count)]
        return (chosen + 0.5 * noise).astype(np.float32)

    def parts(self) -> Iterator[np.ndarray]:
        for start in range(0, self.size, PART):
            yield self.draw(min(PART, self.size - start), 1 + start)

    def sample(self) -> np.ndarray:
        return np.concatenate(
            [part for part, _ in zip(self.parts(), range(SAMPLE_PARTS), strict=False)]
        )


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def shortest(call: Callable[[], Any]) -> tuple[float, Any]:
    """The least milliseconds of up to five calls in about a second, after one to warm up."""
    result, times, begin = call(), [], time.perf_counter()
    while not times or (len(times) < 5 and time.perf_counter() - begin < 1):
        times.append(seconds(call))
    return min(times) * 1e3, result


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def recall(ids: object, truth: np.ndarray | None) -> float:
    if truth is None:
        return float("nan")
    pairs = zip(np.array(ids), truth, strict=True)
    return float(np.mean([len(set(found) & set(exact)) / K for found, exact in pairs]))


class Faiss:
    """faiss's indexes of the data, and the exact neighbors of the queries."""

    def __init__(self, data: Data, nlist: int, threads: int, queries: np.ndarray) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self.queries = queries
        self.flat = faiss.IndexFlatL2(data.dimension)
        quantizer = faiss.IndexFlatL2(data.dimension)
        self.inverted = faiss.IndexIVFFlat(quantizer, data.dimension, nlist)
        coarse = faiss.IndexFlatL2(data.dimension)
        self.quantized = faiss.IndexIVFPQ(coarse, data.dimension, nlist, data.codes, 8)
        self._quantizers = quantizer, coarse
        say(f"train  faiss {seconds(lambda: self.inverted.train(data.sample())):8.2f} s")
        say(f"       PQ    {seconds(lambda: self.quantized.train(data.sample())):8.2f} s")
        say(f"add    faiss {seconds(lambda: self._add(data)):8.2f} s")
        time_, (_, self.truth) = shortest(lambda: self.flat.search(queries, K))
        say(f"flat   faiss {time_:8.1f} ms")

    def _add(self, data: Data) -> None:
        for part in data.parts():
            for index in (self.inverted, self.quantized, self.flat):
                index.add(part)

    def probe(self, index: Any, nprobe: int) -> tuple[float, float]:
        index.nprobe = nprobe
        time_, (_, ids) = shortest(lambda: index.search(self.queries, K))
        return time_, recall(ids, self.truth)


class Pack:
    """The pack's indexes of the data."""

    def __init__(self, data: Data, nlist: int, backend: str, queries: np.ndarray) -> None:
        import mlx.core as mx

        from xlstm_kernels.search import FlatIndex, IVFFlatIndex, IVFPQIndex

        mx.set_default_device(mx.cpu if backend == "native" else mx.gpu)
        self.mx, self.backend, self.queries = mx, backend, mx.array(queries)
        self.flat = FlatIndex(data.dimension)
        self.inverted = IVFFlatIndex(data.dimension, nlist)
        self.quantized = IVFPQIndex(data.dimension, nlist, data.codes)
        say(f"train  mlx   {seconds(lambda: self._train(self.inverted, data)):8.2f} s")
        before = peak_megabytes()
        time_ = seconds(lambda: self._add(self.inverted, data))
        say(f"add    mlx   {time_:8.2f} s, peak {peak_megabytes():.0f} MB (before {before:.0f})")

    def quantize(self, data: Data) -> None:
        say(f"train  mlx PQ{seconds(lambda: self._train(self.quantized, data)):8.2f} s")
        say(f"add    mlx PQ{seconds(lambda: self._add(self.quantized, data)):8.2f} s")

    def _train(self, index: Any, data: Data) -> None:
        index.train(self.mx.array(data.sample()))

    def _add(self, index: Any, data: Data) -> None:
        for part in data.parts():
            index.add(self.mx.array(part))
        self.search(index)

    def search(self, index: Any) -> Any:
        found = index.search(self.queries, K, backend=self.backend)
        self.mx.eval(found)
        return found[1]

    def probe(self, index: Any, nprobe: int, truth: np.ndarray | None) -> tuple[float, float]:
        index.nprobe = nprobe
        time_, ids = shortest(lambda: self.search(index))
        return time_, recall(ids, truth)

    def exact(self, data: Data, truth: np.ndarray | None) -> None:
        for part in data.parts():
            self.flat.add(self.mx.array(part))
        time_, ids = shortest(lambda: self.search(self.flat))
        say(f"flat   mlx   {time_:8.1f} ms, recall {recall(ids, truth):.4f}")


def measure(options: argparse.Namespace) -> None:
    begin = time.perf_counter()
    data = Data(options.size, options.dimension)
    nlist = options.nlist or 2 * int(options.size**0.5)
    say(f"N {data.size}, D {data.dimension}, nlist {nlist}, {options.threads} threads")
    queries = data.draw(QUERIES, 2**32)
    reference = None if options.no_faiss else Faiss(data, nlist, options.threads, queries)
    truth = None if reference is None else reference.truth
    pack = Pack(data, nlist, options.backend, queries)
    end = begin + options.seconds
    probe(reference, pack, "inverted", end)
    if time.perf_counter() < end:
        pack.quantize(data)
        probe(reference, pack, "quantized", end)
    if time.perf_counter() < end and not options.no_faiss:
        pack.exact(data, truth)


def probe(reference: Faiss | None, pack: Pack, kind: str, end: float) -> None:
    say(f"{kind}\nnprobe  faiss ms  recall    mlx ms  recall  ratio")
    for nprobe in PROBES:
        if time.perf_counter() > end:
            return
        theirs, truth = (float("nan"),) * 2, None
        if reference is not None:
            theirs, truth = reference.probe(getattr(reference, kind), nprobe), reference.truth
        ours = pack.probe(getattr(pack, kind), nprobe, truth)
        times = f"{theirs[0]:10.1f}{theirs[1]:8.4f}{ours[0]:10.1f}{ours[1]:8.4f}"
        say(f"{nprobe:6d}{times}{ours[0] / theirs[0]:7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--nlist", type=int, default=None)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--backend", default="native")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--no-faiss", action="store_true")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    measure(options)


if __name__ == "__main__":
    main()
