"""Recall and time of xlstm_kernels.search beside faiss-cpu, on the same clustered vectors.

    python -m tests.benchmarks.search [--size 100000] [--dimension 64] [--threads 2]
        [--backend native|cuda|metal] [--seconds 150]

faiss-cpu is installed with `pip install faiss-cpu`. Vectors are drawn in parts, and MLX's index is
built of a stream of them. Each line is printed as soon as it is measured; no measurement begins
after the time limit. Recall is that of faiss's exact search, at 10.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUERIES, K, PART = 1000, 10, 50_000
PROBES = (1, 4, 16, 64)


def timed(call: Callable[[], object], least: int = 1) -> tuple[float, object]:
    """The shortest of a few calls, at most a second of them, after one to warm up."""
    result = call()
    times, begin = [], time.perf_counter()
    while len(times) < least or (len(times) < 5 and time.perf_counter() - begin < 1):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--nlist", type=int, default=None)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--backend", default="native")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--no-faiss", action="store_true", help="measure the memory of MLX alone")
    run(parser.parse_args())


def run(options: argparse.Namespace) -> None:
    begin = time.perf_counter()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import mlx.core as mx
    import numpy as np

    from xlstm_kernels.search import FlatIndex, IVFFlatIndex

    mx.set_default_device(mx.cpu if options.backend == "native" else mx.gpu)
    nlist = options.nlist or max(64, int(options.size**0.5) * 2)
    centers = np.random.default_rng(0).standard_normal((1000, options.dimension))

    def draw(count: int, seed: int) -> np.ndarray:
        generator = np.random.default_rng(seed)
        noise = generator.standard_normal((count, options.dimension), dtype=np.float32)
        return (centers[generator.integers(0, 1000, count)] + 0.5 * noise).astype(np.float32)

    def parts() -> Iterator[np.ndarray]:
        for start in range(0, options.size, PART):
            yield draw(min(PART, options.size - start), 1 + start)

    def in_time() -> bool:
        return time.perf_counter() - begin < options.seconds

    queries = draw(QUERIES, 2**32)
    sample = np.concatenate([part for part, _ in zip(parts(), range(4), strict=False)])
    print(f"N {options.size}, D {options.dimension}, nlist {nlist}, {options.threads} threads")
    before = peak_megabytes()

    truth, faiss_inverted = None, None
    if not options.no_faiss:
        import faiss

        faiss.omp_set_num_threads(options.threads)
        flat = faiss.IndexFlatL2(options.dimension)
        faiss_inverted = faiss.IndexIVFFlat(
            faiss.IndexFlatL2(options.dimension), options.dimension, nlist
        )
        start = time.perf_counter()
        faiss_inverted.train(sample)
        print(f"train  faiss {time.perf_counter() - start:8.2f} s", flush=True)
        start = time.perf_counter()
        for part in parts():
            faiss_inverted.add(part)
            flat.add(part)
        print(f"add    faiss {time.perf_counter() - start:8.2f} s", flush=True)
        faiss_time, (_, truth) = timed(lambda: flat.search(queries, K))
        print(f"flat   faiss {faiss_time * 1e3:8.1f} ms", flush=True)

    given = mx.array(queries)
    index = IVFFlatIndex(options.dimension, nlist)
    start = time.perf_counter()
    index.train(mx.array(sample))
    mx.eval(index.search(given[:0], K, backend=options.backend))
    index.add(mx.array(sample[:1]))
    trained = time.perf_counter() - start
    print(f"train  mlx   {trained:8.2f} s", flush=True)
    rebuilt = IVFFlatIndex(options.dimension, nlist)
    rebuilt.restore(index._centroids, mx.zeros((0, options.dimension)), mx.zeros((0,), mx.int32))
    index = rebuilt
    start = time.perf_counter()
    for part in parts():
        index.add(mx.array(part))
    mx.eval(index.search(given[:1], 1, backend=options.backend))
    print(
        f"add    mlx   {time.perf_counter() - start:8.2f} s, peak memory "
        f"{peak_megabytes():.0f} MB (before {before:.0f})",
        flush=True,
    )

    def recall(ids: object) -> float:
        if truth is None:
            return float("nan")
        pairs = zip(np.array(ids), truth, strict=True)
        return float(np.mean([len(set(a) & set(b)) / K for a, b in pairs]))

    def searched() -> np.ndarray:
        distances, ids = index.search(given, K, backend=options.backend)
        mx.eval(distances, ids)
        return ids

    print("nprobe  faiss ms  recall    mlx ms  recall  ratio")
    for nprobe in PROBES:
        if not in_time():
            return
        line = f"{nprobe:6d}"
        faiss_time = float("nan")
        if faiss_inverted is not None:
            faiss_inverted.nprobe = nprobe
            faiss_time, (_, ids) = timed(lambda: faiss_inverted.search(queries, K))
            line += f"{faiss_time * 1e3:10.1f}{recall(ids):8.4f}"
        index.nprobe = nprobe
        mlx_time, ids = timed(searched)
        line += f"{mlx_time * 1e3:10.1f}{recall(ids):8.4f}{mlx_time / faiss_time:7.2f}"
        print(line, flush=True)
    if not in_time() or options.no_faiss:
        return
    exact = FlatIndex(options.dimension)
    for part in parts():
        exact.add(mx.array(part))

    def exactly() -> np.ndarray:
        distances, ids = exact.search(given, K, backend=options.backend)
        mx.eval(distances, ids)
        return ids

    mlx_time, ids = timed(exactly)
    print(f"flat   mlx   {mlx_time * 1e3:8.1f} ms, recall {recall(ids):.4f}", flush=True)


if __name__ == "__main__":
    main()
