"""Paired times: in each round every variant runs, so that all of them have the same machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import mlx.core as mx

from tests.benchmarks.advice.figures import Figure
from tests.benchmarks.advice.piece import Piece, Variant

Call = Callable[[], Sequence[mx.array]]

#: Medians are of so many rounds.
ROUNDS = 9
#: A variant runs for about so many seconds in a round.
ROUND_SECONDS = 0.02
MOST_CALLS = 50
ERRORS = (MemoryError, RuntimeError, TypeError, ValueError)


def warm(piece: Piece, inputs: Sequence[mx.array], backend: str) -> dict[str, str]:
    """Call every variant once, which compiles it; return the errors of those that fail."""
    errors = {}
    for variant in piece.variants:
        try:
            mx.eval(variant.call(*inputs, backend=backend))
        except ERRORS as error:
            errors[variant.name] = str(error)[:300]
        mx.clear_cache()
    return errors


def times(piece: Piece, inputs: Sequence[mx.array], backend: str) -> list[Figure]:
    """Time the variants of a piece; those that fail have an error."""
    errors = warm(piece, inputs, backend)
    calls: dict[str, Call] = {
        variant.name: partial(variant.call, *inputs, backend=backend)
        for variant in piece.variants
        if variant.name not in errors
    }
    counts = {name: _count(call) for name, call in calls.items()}
    rounds = [
        {name: _seconds(call, counts[name]) for name, call in calls.items()}
        for _ in range(ROUNDS + 1)  # the first one fills MLX's cache of memory
    ][1:]
    base = next(iter(calls), "")
    different = _different(piece, calls)
    return [_figure(piece, variant, rounds, base, different, errors) for variant in piece.variants]


def _figure(
    piece: Piece,
    variant: Variant,
    rounds: Sequence[dict[str, float]],
    base: str,
    different: dict[str, int],
    errors: dict[str, str],
) -> Figure:
    name = variant.name
    row = Figure(piece.name, piece.claim, name)
    if name in errors:
        return replace(row, error=errors[name])
    return replace(
        row,
        milliseconds=1e3 * statistics.median(taken[name] for taken in rounds),
        ratio=statistics.median(taken[name] / taken[base] for taken in rounds),
        different=different.get(name),
    )


def _count(call: Call) -> int:
    return max(1, min(MOST_CALLS, int(ROUND_SECONDS / _seconds(call, 1))))


def _seconds(call: Call, count: int) -> float:
    """Return the seconds of one call among `count` that are under way."""
    mx.synchronize()
    begin = time.perf_counter()
    last: Sequence[mx.array] = ()
    for _ in range(count):
        last = call()
        mx.async_eval(last)
    mx.eval(last)  # outputs of all streams
    mx.synchronize()
    return (time.perf_counter() - begin) / count


def _different(piece: Piece, calls: dict[str, Call]) -> dict[str, int]:
    """Count the elements that differ from those of the first variant."""
    found: dict[str, int] = {}
    base: Sequence[mx.array] = ()
    for variant in piece.variants:
        if variant.name in calls and variant.same:
            outputs = calls[variant.name]()
            base = base or outputs
            found[variant.name] = differing(outputs, base)
            mx.clear_cache()
    return found


def differing(outputs: Sequence[mx.array], base: Sequence[mx.array]) -> int:
    """Count the elements that differ by more than the order of float32 sums explains."""
    counts = [
        mx.sum(mx.abs(a.astype(mx.float32) - b) > 1e-4 * mx.abs(b).max())
        for a, b in zip(outputs, base, strict=True)
    ]
    return int(mx.stack(counts).sum().item())
