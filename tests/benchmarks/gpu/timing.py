"""Times and memory of calls on MLX's default device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

Function = Callable[..., object]
Inputs = Sequence[mx.array]

#: Medians are of so many rounds.
ROUNDS = 5
#: A round takes about so many seconds; of a call that takes longer there are two.
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
    return in_turn([planned(function, sets)])[0]


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls of a round: so many batches of calls that are evaluated together."""

    function: Function
    sets: Sequence[Inputs]
    batch: int
    batches: int
    rounds: int


def planned(function: Function, sets: Sequence[Inputs]) -> Plan:
    """Call a function twice, which compiles it, and plan its rounds by the time that it took."""
    _round(Plan(function, sets, 1, 1, 1))
    single = _round(Plan(function, sets, 1, 1, 1))
    batch = BATCH if single < SHORT_SECONDS else 1
    batches = max(1, min(20, int(ROUND_SECONDS / (single * batch))))
    return Plan(function, sets, batch, batches, 2 if single > ROUND_SECONDS else ROUNDS)


def in_turn(plans: Sequence[Plan]) -> list[float]:
    """Return the median time of a call of each, in ms; what slows the machine slows all alike.

    After a long call, which may be the CPU's, a GPU is slow for longer than a round: it is woken,
    and long calls come last.
    """
    times: list[list[float]] = [[] for _ in plans]
    if any(plan.rounds < ROUNDS for plan in plans):
        wake(plans[0].function, plans[0].sets[0])
    for rounds in (ROUNDS, 2):
        # The first round leaves memory for all outputs in MLX's cache.
        for _ in range(rounds + 1):
            for plan, found in zip(plans, times, strict=True):
                if plan.rounds == rounds:
                    found.append(_round(plan))
    return [1e3 * statistics.median(found[1:]) for found in times]


def wake(function: Function, inputs: Inputs) -> None:
    """Keep the host and the GPU busy until both run at the clocks of work under way."""
    until = time.perf_counter() + WAKE_SECONDS
    while time.perf_counter() < until:
        mx.eval(function(*inputs))
    mx.clear_cache()


def _round(plan: Plan) -> float:
    mx.synchronize()
    begin = time.perf_counter()
    call = 0
    for _ in range(plan.batches):
        outputs = []
        for _ in range(plan.batch):
            outputs.append(plan.function(*plan.sets[call % len(plan.sets)]))
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
