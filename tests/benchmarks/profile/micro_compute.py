"""Microbenchmarks of arithmetic, synchronization and matrix products."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from tests.benchmarks.profile.case import Case
from tests.benchmarks.profile.micro_case import ATOMICS, F, H, U, micro


def micro_cases() -> Iterator[Case]:
    yield from _arithmetic()
    yield from _synchronization()
    yield from _products()


def _arithmetic() -> Iterator[Case]:
    chain = """
    float x = a[i & 1023];
    for (uint j = 0; j < N; ++j) {
        STEP
    }
    y[i] = x;
    """
    for name, step, threads, rounds in (
        ("fma_one_simdgroup", "x = metal::fma(x, 0.999f, 0.25f);", 32, 2**18),
        ("fma_chain", "x = metal::fma(x, 0.999f, 0.25f);", 2**18, 512),
        ("exp_chain", "x = metal::exp(-x);", 2**18, 64),
        ("exp_one_simdgroup", "x = metal::exp(-x);", 32, 2**14),
        ("division_chain", "x = 1.0f / (x + 1.5f);", 2**18, 64),
        ("rsqrt_chain", "x = metal::rsqrt(x * x + 1.5f);", 2**18, 64),
        ("tanh_chain", "x = metal::precise::tanh(x + 0.1f);", 2**17, 32),
        ("sin_chain", "x = metal::precise::sin(x + 0.1f);", 2**17, 32),
        ("shuffle_chain", "x += simd_shuffle_xor(x, 1);\nx *= 0.499f;", 2**17, 128),
        ("simd_sum_chain", "x = 0.03f * simd_sum(x);", 2**16, 64),
    ):
        yield micro(
            name,
            chain.replace("STEP", step),
            [((1024,), F)],
            ((threads,), F),
            (threads,),
            (min(threads, 256),),
            N=rounds,
        )
    four = """
    float p = a[i & 1023], q = p + 1.0f, r = p + 2.0f, s = p + 3.0f;
    for (uint j = 0; j < 256; ++j) {
        p = metal::fma(p, 0.999f, 0.25f);
        q = metal::fma(q, 0.999f, 0.25f);
        r = metal::fma(r, 0.999f, 0.25f);
        s = metal::fma(s, 0.999f, 0.25f);
    }
    y[i] = p + q + r + s;
    """
    yield micro("fma_four_chains", four, [((1024,), F)], ((2**18,), F), (2**18,))
    integers = """
    uint x = a[i & 1023] + i;
    for (uint j = 0; j < N; ++j) {
        STEP
    }
    y[i] = x;
    """
    words = mx.array(list(range(7, 1031)), dtype=U)
    for name, step, rounds in (
        ("integer_chain", "x = x * 1664525u + 1013904223u;", 256),
        ("integer_division", "x = x / (b[0] + (x & 7)) + 77777u * j;", 32),
        ("integer64", "x = uint((ulong(x) * ulong(x + 3)) >> 16);", 128),
    ):
        yield micro(
            name, integers.replace("STEP", step), [words, words], ((2**17,), U), (2**17,), N=rounds
        )
    branches = """
    float x = a[i & 1023];
    for (uint j = 0; j < 32; ++j) {
        switch (i % WAYS) {
            case 0: x = metal::exp(-x); break;
            case 1: x = metal::precise::sin(x); break;
            case 2: x = 1.0f / (x + 1.5f); break;
            case 3: x = metal::precise::tanh(x); break;
            case 4: x = metal::precise::cos(x); break;
            case 5: x = metal::precise::sqrt(x * x + 1.0f); break;
            case 6: x = metal::precise::log(x * x + 1.5f); break;
            default: x = x * 0.5f + 0.1f; break;
        }
    }
    y[i] = x;
    """
    for ways in (1, 2, 8):
        yield micro(
            f"divergence_{ways}", branches, [((1024,), F)], ((2**17,), F), (2**17,), WAYS=ways
        )


def _synchronization() -> Iterator[Case]:
    barriers = """
    threadgroup float word[256];
    word[member] = a[member];
    float x = 0;
    for (uint j = 0; j < N; ++j) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        x += word[(member + j) & 255];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        word[member] = 0.5f * x;
    }
    y[thread_position_in_grid.x] = x;
    """
    for name, groups, rounds in (("barriers_one_threadgroup", 1, 4096), ("barriers", 1024, 64)):
        yield micro(name, barriers, [((256,), F)], ((groups * 256,), F), (groups * 256,), N=rounds)
    held = """
    threadgroup float words[WORDS];
    words[member] = a[thread_position_in_grid.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float x = words[(member * 7) & 63];
    for (uint j = 0; j < 64; ++j)
        x = metal::exp(-x) + b[(uint(metal::abs(x) * 100.0f) + member + j * 4096) & 0xfffff];
    y[thread_position_in_grid.x] = x;
    """
    for kib in (1, 8, 32):
        yield micro(
            f"occupancy_{kib}_kib",
            held,
            [((2**17,), F), ((2**20,), F)],
            ((2**17,), F),
            (2**17,),
            (64,),
            WORDS=kib * 256,
        )
    for name, where, addresses in (
        ("atomics_one_address", "0", 8),
        ("atomics_256_addresses", "(i * 2654435761u) >> 24", 256),
        ("atomics_own_address", "i", 2**20),
    ):
        count = 2**20
        yield micro(
            name,
            f"if (a[i & 1023] > -9.0f) {{ COUNT(&y[{where}]); }}",
            [((1024,), F)],
            ((addresses,), U),
            (count,),
            header=ATOMICS,
            init_value=0,
        )
    small = "y[i] = a[i] + 1.0f;"
    yield micro("many_threadgroups", small, [((2**20,), F)], ((2**20,), F), (2**20,), (32,))
    yield micro(
        "one_lane_of_32",
        "if (i % 32 == 0) { y[i / 32] = a[i]; }",
        [((2**22,), F)],
        ((2**17,), F),
        (2**22,),
    )


def _products() -> Iterator[Case]:
    matvec = """
    float sum = 0;
    for (uint j = lane * 4; j < N; j += 128) {
        T4 w = *(const device T4*)(a + row * N + j);
        T4 x = *(const device T4*)(b + j);
        sum += float(w.x) * float(x.x) + float(w.y) * float(x.y) + float(w.z) * float(x.z)
            + float(w.w) * float(x.w);
    }
    sum = simd_sum(sum);
    if (lane == 0) y[row] = sum;
    """
    for name, dtype, text in (("matvec_float", F, "float4"), ("matvec_half", H, "half4")):
        yield micro(
            name,
            matvec.replace("T4", text),
            [((4096, 4096), dtype), ((4096,), dtype)],
            ((4096,), dtype),
            (4096 * 32,),
            N=4096,
        )
    naive = """
    uint x = thread_position_in_grid.x, row = thread_position_in_grid.y;
    float sum = 0;
    for (uint j = 0; j < N; ++j) sum += a[row * N + j] * b[j * N + x];
    y[row * N + x] = sum;
    """
    tiled = """
    threadgroup float p[16 * 16], q[16 * 16];
    uint x = thread_position_in_threadgroup.x, r = thread_position_in_threadgroup.y;
    uint column = thread_position_in_grid.x, row = thread_position_in_grid.y;
    float sum = 0;
    for (uint j = 0; j < N; j += 16) {
        p[r * 16 + x] = a[row * N + j + x];
        q[r * 16 + x] = b[(j + r) * N + column];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint m = 0; m < 16; ++m) sum += p[r * 16 + m] * q[m * 16 + x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    y[row * N + column] = sum;
    """
    for name, body, n in (
        ("matmul_naive", naive, 512),
        ("matmul_tiled", tiled, 512),
        ("matmul_tiled_small", tiled, 128),
    ):
        square = (n, n)
        yield micro(name, body, [(square, F), (square, F)], (square, F), square, (16, 16), N=n)
