"""Barriers: their cost, their scope, and what takes their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import mlx.core as mx

from tests.benchmarks.advice.piece import Piece, Variant, kernel, of_kernel
from xlstm_kernels.kernel import Kernel, Launch

_THREADGROUP = "threadgroup_barrier(mem_flags::mem_threadgroup);"
_SIMDGROUP = "simdgroup_barrier(mem_flags::mem_threadgroup);"


def _launch(x: mx.array, *, threads: int, rounds: int) -> Launch:
    template = (("THREADS", threads), ("ROUNDS", rounds))
    return Launch((x.size, 1, 1), (threads, 1, 1), (x.shape,), (x.dtype,), template)


def _spin(name: str, barrier: str) -> Kernel:
    return kernel(f"advice_spin_{name}", "x", "y", _launch)(f"""
    const uint i = thread_position_in_grid.x;
    float value = x[i];
    for (uint round = 0; round < ROUNDS; ++round) {{
        for (uint step = 0; step < 16; ++step) value = metal::fma(value, 0.999f, 0.001f);
        {barrier}
    }}
    y[i] = value;
    """)


SPIN = {
    name: _spin(name, barrier)
    for name, barrier in (("none", ""), ("simdgroup", _SIMDGROUP), ("threadgroup", _THREADGROUP))
}


def _swap(name: str, barrier: str) -> Kernel:
    """Each thread reads what the opposite thread of its threadgroup wrote."""
    return kernel(f"advice_swap_{name}", "x", "y", _launch)(f"""
    threadgroup float shared[THREADS];
    const uint i = thread_position_in_grid.x;
    const uint own = thread_position_in_threadgroup.x;
    float value = x[i];
    for (uint round = 0; round < ROUNDS; ++round) {{
        shared[own] = value;
        {barrier}
        value = shared[THREADS - 1 - own];
        {_THREADGROUP}
    }}
    y[i] = value;
    """)


SWAP = {
    name: _swap(name, barrier)
    for name, barrier in (
        ("threadgroup", _THREADGROUP),
        ("simdgroup", _SIMDGROUP),
        ("device", "threadgroup_barrier(mem_flags::mem_device);"),
        ("none", "threadgroup_barrier(mem_flags::mem_none);"),
    )
}


def _whole_launch(x: mx.array, *, threads: int) -> Launch:
    return Launch((x.size, 1, 1), (threads, 1, 1), (x.shape, x.shape), (x.dtype, x.dtype))


def _reversed_launch(x: mx.array, *, threads: int) -> Launch:
    return Launch((x.size, 1, 1), (threads, 1, 1), (x.shape,), (x.dtype,))


DEVICE_FENCE = kernel("advice_device_fence", "x", "stage y", _whole_launch, init_value=0.0)("""
    const uint i = thread_position_in_grid.x;
    const uint last = static_cast<uint>(x_shape[0]) - 1;
    stage[i] = 2.0f * x[i];
    threadgroup_barrier(mem_flags::mem_device);
    y[i] = stage[last - i] + 1.0f;
    """)
FIRST_PHASE = kernel("advice_first_phase", "x", "y", _reversed_launch)(
    "y[thread_position_in_grid.x] = 2.0f * x[thread_position_in_grid.x];"
)
SECOND_PHASE = kernel("advice_second_phase", "x", "y", _reversed_launch)("""
    const uint i = thread_position_in_grid.x;
    y[i] = x[static_cast<uint>(x_shape[0]) - 1 - i] + 1.0f;
    """)


def _two_launches(x: mx.array, *, backend: str) -> Sequence[mx.array]:
    stage = FIRST_PHASE(x, threads=256, backend=backend)
    return SECOND_PHASE(*stage, threads=256, backend=backend)


def _fenced(x: mx.array, *, backend: str) -> Sequence[mx.array]:
    return DEVICE_FENCE(x, threads=256, backend=backend)[1:]


def _phases_launch(x: mx.array, *, rounds: int) -> Launch:
    template = (("ROUNDS", rounds),)
    return Launch((1024, 1, 1), (1024, 1, 1), (x.shape, x.shape), (x.dtype, x.dtype), template)


#: One threadgroup runs all phases; arrays alternate, so that a phase needs one barrier.
PHASES = kernel("advice_phases", "x", "even odd", _phases_launch)("""
    const uint size = x_shape[0];
    const uint own = thread_position_in_threadgroup.x;
    for (uint i = own; i < size; i += 1024) even[i] = x[i];
    for (uint round = 0; round < ROUNDS; ++round) {
        threadgroup_barrier(mem_flags::mem_device);
        auto from = round % 2 ? odd : even;
        auto to = round % 2 ? even : odd;
        for (uint i = own; i < size; i += 1024)
            to[i] = 0.5f * (from[i] + from[size - 1 - i]) + 1.0f;
    }
    """)
PHASE = kernel("advice_phase", "x", "y", _reversed_launch)("""
    const uint i = thread_position_in_grid.x;
    y[i] = 0.5f * (x[i] + x[static_cast<uint>(x_shape[0]) - 1 - i]) + 1.0f;
    """)


def _one_launch(x: mx.array, *, rounds: int, backend: str) -> Sequence[mx.array]:
    return PHASES(x, rounds=rounds, backend=backend)[:1]  # rounds are even


def _many_launches(x: mx.array, *, rounds: int, backend: str) -> Sequence[mx.array]:
    for _ in range(rounds):
        (x,) = PHASE(x, threads=256, backend=backend)
    return [x]


def numbers(size: int) -> Sequence[mx.array]:
    return [mx.random.normal((size,))]


def pieces(large: bool) -> Iterator[Piece]:
    rounds, size = (256, 2**22) if large else (4, 2**11)
    for threads in (64, 256, 1024):
        yield Piece(
            f"cost of a barrier, {threads} threads",
            "use simdgroup_barrier only where a reduction is warp-local",
            partial(numbers, size),
            tuple(
                of_kernel(name, SPIN[key], threads=threads, rounds=rounds)
                for name, key in (
                    ("no barrier, 16 fma", "none"),
                    ("simdgroup_barrier, 16 fma", "simdgroup"),
                    ("threadgroup_barrier, 16 fma", "threadgroup"),
                )
            ),
        )
    yield Piece(
        "scope and flags of a barrier",
        "threadgroup_barrier(mem_flags::mem_device) for dependencies",
        partial(numbers, size),
        tuple(
            of_kernel(name, SWAP[key], finding=finding, threads=256, rounds=16)
            for name, key, finding in (
                ("threadgroup_barrier, mem_threadgroup", "threadgroup", None),
                ("threadgroup_barrier, mem_device", "device", "wrong-mem-flags"),
                ("threadgroup_barrier, mem_none", "none", "wrong-mem-flags"),
                ("simdgroup_barrier, mem_threadgroup", "simdgroup", "threadgroup-race"),
            )
        ),
    )
    yield Piece(
        "dependency between threadgroups",
        "threadgroup_barrier(mem_flags::mem_device) for dependencies; no global barriers",
        partial(numbers, 2**26 if large else 2**11),
        (
            Variant("two launches", _two_launches),
            Variant("one launch, mem_device", _fenced, finding="device-race"),
        ),
    )
    phases = 64 if large else 4
    sizes = {"small": 10, "medium": 14, "large": 20} if large else {"small": 8, "large": 12}
    for label, exponent in sizes.items():
        yield Piece(
            f"phases over a {label} array",
            "structure multi-phase algorithms as multiple kernels",
            partial(numbers, 2**exponent),
            (
                Variant("a launch for each phase", partial(_many_launches, rounds=phases)),
                Variant("one threadgroup, barriers", partial(_one_launch, rounds=phases)),
            ),
        )
