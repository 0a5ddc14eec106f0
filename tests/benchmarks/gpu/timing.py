"""Times and memory of calls on MLX's default device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import mlx.core as mx

Function = Callable[..., object]
Inputs = Sequence[mx.array]

#: Medians are of so many rounds.
ROUNDS = 5
#: A round takes about so many seconds.
ROUND_SECONDS = 0.03
#: Calls faster than this are evaluated in batches, so that the host is not what is measured. Calls
#: of a batch run at the same time where they leave a part of the GPU idle.
SHORT_SECONDS = 0.0002
BATCH = 16
#: A host and a GPU that waited are slower for so many seconds at most.
WAKE_SECONDS = 0.5
#: Inputs are rotated until they exceed two L2 caches of an H200.
ROTATED_BYTES = 128 * 2**20
MOST_SETS = 48


def rotated(draw: Callable[[], Inputs]) -> list[Inputs]:
    """Draw as many sets of inputs as a cache cannot hold."""
    sets = [draw()]
    size = sum(array.nbytes for array in sets[0])
    sets += [draw() for _ in range(min(MOST_SETS, ROTATED_BYTES // max(size, 1)))]
    mx.eval(sets)
    return sets


def milliseconds(function: Function, sets: Sequence[Inputs]) -> float:
    """Return the median time of one call among many that are under way."""
    _round(function, sets, 1)  # compiles
    single = _round(function, sets, 1)
    batch = BATCH if single < SHORT_SECONDS else 1
    batches = max(1, min(20, int(ROUND_SECONDS / (single * batch))))
    # The first round leaves memory for all outputs in MLX's cache.
    times = [_round(function, sets, batch, batches) for _ in range(ROUNDS + 1)]
    return 1e3 * statistics.median(times[1:])


def wake(function: Function, inputs: Inputs) -> None:
    """Keep the host and the GPU busy until both run at the clocks of work under way."""
    until = time.perf_counter() + WAKE_SECONDS
    while time.perf_counter() < until:
        mx.eval(function(*inputs))
    mx.clear_cache()


def _round(function: Function, sets: Sequence[Inputs], batch: int, batches: int = 1) -> float:
    mx.synchronize()
    begin = time.perf_counter()
    call = 0
    for _ in range(batches):
        outputs = []
        for _ in range(batch):
            outputs.append(function(*sets[call % len(sets)]))
            call += 1
        mx.async_eval(outputs)
        del outputs
    mx.synchronize()
    return (time.perf_counter() - begin) / call


def peak_bytes(function: Function, inputs: Inputs) -> int:
    """Return the most memory of one call, outputs included, inputs not."""
    mx.synchronize()
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(function(*inputs))
    mx.synchronize()
    return mx.get_peak_memory() - before


def with_gradients(function: Callable[..., mx.array]) -> Function:
    """Both passes: takes the cotangent first, returns the output and the gradients."""

    def both(cotangent: mx.array, *arrays: mx.array) -> list[mx.array]:
        outputs, gradients = mx.vjp(lambda *a: [function(*a)], list(arrays), [cotangent])
        return [*outputs, *gradients]

    return both
