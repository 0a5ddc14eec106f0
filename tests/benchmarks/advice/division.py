"""Integer division and modulo, in a hot loop and in index arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import mlx.core as mx

from tests.benchmarks.advice.piece import Piece, Variant, of_kernel
from xlstm_kernels.kernel import Kernel, Launch

#: Numbers below 2^20: their product with a divisor fits in 32 bits, as the reciprocal needs.
_DIVISOR = 1021
_SHIFTED = 1024
_LOOP = """
    const uint i = thread_position_in_grid.x;
    if (i >= static_cast<uint>(x_shape[0])) return;
    uint value = x[i];
    for (uint round = 0; round < ROUNDS; ++round) {
        const uint quotient = QUOTIENT;
        const uint rest = value - quotient * DIVISOR;
        value = (rest * 997u + quotient + round) & 0xFFFFFu;
    }
    y[i] = value;
"""


def _loop_launch(x: mx.array, *_scalars: mx.array, rounds: int, divisor: int = 0) -> Launch:
    template = (("ROUNDS", rounds), *((("DIVISOR", divisor),) if divisor else ()))
    return Launch((x.size, 1, 1), (256, 1, 1), (x.shape,), (x.dtype,), template)


def _loop(name: str, quotient: str, divisor: str = "DIVISOR") -> Kernel:
    return Kernel(
        name=f"advice_divide_{name}",
        inputs=("x", "divisor", "reciprocal"),
        outputs=("y",),
        launch=_loop_launch,
        body=_LOOP.replace("QUOTIENT", quotient).replace("DIVISOR", divisor),
    )


RUNTIME = _loop("runtime", "value / DIVISOR", "divisor")
CONSTANT = _loop("constant", "value / DIVISOR", "static_cast<uint>(DIVISOR)")
RECIPROCAL = _loop(
    "reciprocal", "static_cast<uint>((static_cast<ulong>(value) * reciprocal) >> 32)", "divisor"
)


def _loop_inputs(divisor: int, large: bool) -> Sequence[mx.array]:
    x = mx.random.randint(0, 2**20, (2**24 if large else 2**10,)).astype(mx.uint32)
    reciprocal = mx.array(2**32 // divisor + 1, dtype=mx.uint32)
    return [x, mx.array(divisor, dtype=mx.uint32), reciprocal]


_TAPS = """
    const int width = TIME;
    const int64_t at = PLACE;
    const float before = t >= 1 ? x[at - 1] : 0.0f;
    const float after = t + 1 < width ? x[at + 1] : 0.0f;
    y[at] = metal::fma(after, k[c * 3 + 2], metal::fma(x[at], k[c * 3 + 1], before * k[c * 3]));
"""
_FLAT = """
    const uint total = static_cast<uint>(BATCH * CHANNELS * TIME);
    const uint i = thread_position_in_grid.x;
    if (i >= total) return;
    const int rest = static_cast<int>(i % static_cast<uint>(CHANNELS * TIME));
    const int c = rest / TIME;
    const int t = rest % TIME;
"""
_RUNTIME = {"BATCH": "x_shape[0]", "CHANNELS": "x_shape[1]", "TIME": "x_shape[2]"}


def _flat_launch(x: mx.array, _k: mx.array, *, constant: bool = False) -> Launch:
    names = zip(("BATCH", "CHANNELS", "TIME"), x.shape, strict=True)
    return Launch(
        (x.size, 1, 1), (256, 1, 1), (x.shape,), (x.dtype,), tuple(names) if constant else ()
    )


def _cubic_launch(x: mx.array, _k: mx.array) -> Launch:
    batch, channels, steps = x.shape
    return Launch((steps, channels, batch), (256, 1, 1), (x.shape,), (x.dtype,))


def _taps(name: str, body: str, launch: object) -> Kernel:
    return Kernel(f"advice_taps_{name}", ("x", "k"), ("y",), body, launch)  # type: ignore[arg-type]


def _named(text: str) -> str:
    for name, size in _RUNTIME.items():
        text = text.replace(name, size)
    return text


_FLAT_BODY = (_FLAT + _TAPS).replace("PLACE", "static_cast<int64_t>(i)")
FLAT = _taps("flat", _named(_FLAT_BODY), _flat_launch)
FLAT_CONSTANT = _taps("flat_constant", _FLAT_BODY, _flat_launch)
CUBIC = _taps(
    "cubic",
    _named(
        """
    const int t = thread_position_in_grid.x;
    const int c = thread_position_in_grid.y;
    if (t >= TIME) return;
"""
        + _TAPS.replace(
            "PLACE", "(static_cast<int64_t>(thread_position_in_grid.z) * CHANNELS + c) * TIME + t"
        )
    ),
    _cubic_launch,
)


def tapped(large: bool) -> Sequence[mx.array]:
    """x (B, C, L) and the taps (C, 3) of the guide's depthwise convolution."""
    shape = (16, 1024, 4096) if large else (2, 3, 300)
    return [mx.random.normal(shape), mx.random.normal((shape[1], 3))]


def pieces(large: bool) -> Iterator[Piece]:
    rounds = 256 if large else 4
    for divisor in (_DIVISOR, _SHIFTED):
        yield Piece(
            f"division in a hot loop, by {divisor}",
            "division by a non-compile-time constant is extremely slow",
            partial(_loop_inputs, divisor, large),
            (
                of_kernel("runtime divisor", RUNTIME, rounds=rounds),
                of_kernel("template constant", CONSTANT, rounds=rounds, divisor=divisor),
                of_kernel("reciprocal from the host", RECIPROCAL, rounds=rounds),
            ),
        )
    yield Piece(
        "division of an index, once per element",
        "use a grid of several dimensions instead of `/` and `%`",
        partial(tapped, large),
        (
            of_kernel("runtime `/` and `%`", FLAT),
            of_kernel("`/` and `%` of template constants", FLAT_CONSTANT, constant=True),
            Variant("grid of three dimensions", CUBIC),
        ),
    )
