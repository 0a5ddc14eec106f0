"""Microbenchmarks: each exercises one resource of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from tests.benchmarks.profile.case import Case, Launched, random_array
from xlstm_kernels.kernel import Kernel, Launch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from xlstm_kernels.kernel import Setting

F, H, U = mx.float32, mx.float16, mx.uint32
Shape = tuple[int, ...]
GROUP = "microbenchmark"
INDEX = "uint i = thread_position_in_grid.x;\n"
ROW = """\
uint lane = thread_index_in_simdgroup;
uint row = thread_position_in_grid.x / 32;
"""
MEMBER = """\
uint member = thread_position_in_threadgroup.x;
uint group = threadgroup_position_in_grid.x;
"""
#: One header for both dialects: what the CUDA executor's prelude lacks.
ATOMICS = """\
#ifdef __CUDACC__
#define COUNT(p) atomicAdd(p, 1u)
#else
#define COUNT(p) atomic_fetch_add_explicit((device atomic_uint*)(p), 1u, memory_order_relaxed)
#endif
"""


def micro(
    name: str,
    body: str,
    inputs: Sequence[tuple[Shape, mx.Dtype] | mx.array],
    output: tuple[Shape, mx.Dtype],
    grid: Shape,
    threadgroup: Shape = (256,),
    *,
    header: str = "",
    init_value: float | None = None,
    **template: Setting,
) -> Case:
    """A case of one output `y`, and inputs `a`, `b`, `c`."""
    threads, group = ((*size, 1, 1)[:3] for size in (grid, threadgroup))
    launch = Launch(threads, group, (output[0],), (output[1],), tuple(template.items()))
    names = tuple("abcd"[: len(inputs)])
    kernel = Kernel(f"micro_{name}", names, ("y",), body, lambda *_: launch, header, init_value)

    def draw() -> Launched:
        arrays = [
            given if isinstance(given, mx.array) else random_array(*given, seed=place)
            for place, given in enumerate(inputs)
        ]
        return Launched(kernel, tuple(arrays), launch)

    return Case(name, GROUP, draw)


def streamed(
    name: str,
    body: str,
    count: int,
    dtype: mx.Dtype = F,
    width: int = 1,
    reads: int = 1,
    scale: int = 1,
) -> Case:
    """Elementwise on `count` elements, `width` a thread; `1 / scale` of it is profiled."""

    def of(count: int) -> Case:
        given = [((count,), dtype)] * reads
        return micro(name, INDEX + body, given, ((count,), dtype), (count // width,))

    small = of(count // scale).draw if scale > 1 else None
    return Case(name, GROUP, of(count).draw, small, scale)


def micro_cases() -> Iterator[Case]:
    yield from _streams()
    yield from _strides()
    yield from _transposes()
    yield from _reductions()
    yield from _arithmetic()
    yield from _synchronization()
    yield from _products()


def _streams() -> Iterator[Case]:
    copy = "y[i] = a[i];"
    yield streamed("copy_tiny", copy, 2**10)
    yield streamed("copy_small", copy, 2**16)
    yield streamed("copy_float", copy, 2**22)
    yield streamed("copy_half", copy, 2**22, H)
    yield streamed("copy_float_large", copy, 2**28, scale=64)
    four = "((device {0}4*)y)[i] = ((const device {0}4*)a)[i];"
    yield streamed("copy_float4", four.format("float"), 2**24, width=4)
    yield streamed("copy_half4", four.format("half"), 2**24, H, width=4)
    yield streamed("copy_float4_large", four.format("float"), 2**28, width=4, scale=64)
    yield streamed("saxpy", "y[i] = 0.5f * a[i] + b[i];", 2**23, reads=2)
    loop = """
    float4 sum = float4(0.0f);
    for (uint j = 0; j < 8; ++j) {
        sum += ((const device float4*)a)[i * 8 + j];
    }
    y[i] = sum.x + sum.y + sum.z + sum.w;
    """
    yield micro("thread_reads_128_bytes", INDEX + loop, [((2**24,), F)], ((2**19,), F), (2**19,))
    stencil = """
    uint x = thread_position_in_grid.x, row = thread_position_in_grid.y;
    uint left = x == 0 ? 0 : x - 1, right = x == N - 1 ? x : x + 1;
    uint up = row == 0 ? 0 : row - 1, down = row == N - 1 ? row : row + 1;
    y[row * N + x] = 0.5f * a[row * N + x] + 0.125f * (a[row * N + left]
        + a[row * N + right] + a[up * N + x] + a[down * N + x]);
    """
    yield micro(
        "stencil", stencil, [((2048, 2048), F)], ((2048, 2048), F), (2048, 2048), (32, 8), N=2048
    )


def _strides() -> Iterator[Case]:
    count = 2**20
    for stride in (2, 8, 32):
        yield micro(
            f"strided_{stride}",
            INDEX + "y[i] = a[i * S];",
            [((count * stride,), F)],
            ((count,), F),
            (count,),
            S=stride,
        )
    yield micro(
        "strided_write_16",
        INDEX + "y[i * 16] = a[i];",
        [((count,), F)],
        ((count * 16,), F),
        (count,),
    )
    scattered = INDEX + "y[i] = a[(i * 2654435761u) & (N - 1)];"
    for name, bits in (("gather_large", 25), ("gather_in_cache", 21)):
        yield micro(name, scattered, [((2**bits,), F)], ((2**21,), F), (2**21,), N=2**bits)
    chase = """
    uint at = thread_position_in_grid.x;
    for (uint j = 0; j < 1024; ++j) {
        at = (a[at] + at * 1664525u + 1013904223u) & (N - 1);
    }
    y[thread_position_in_grid.x] = at;
    """
    for name, bits in (("pointer_chase_memory", 25), ("pointer_chase_cache", 14)):
        words = mx.zeros((2**bits,), dtype=U)
        yield micro(name, chase, [words], ((32,), U), (32,), (32,), N=2**bits)
    rows = mx.array([(k * 7919) % 32768 for k in range(4096)], dtype=mx.uint32)
    yield micro(
        "embedding",
        "uint x = thread_position_in_grid.x, row = thread_position_in_grid.y;\n"
        "y[row * 1024 + x] = b[a[row] * 1024 + x];",
        [rows, ((32768, 1024), H)],
        ((4096, 1024), H),
        (1024, 4096),
    )


def _transposes() -> Iterator[Case]:
    size = 2048
    naive = """
    uint x = thread_position_in_grid.x, row = thread_position_in_grid.y;
    y[x * N + row] = a[row * N + x];
    """
    tiled = """
    threadgroup float tile[32 * PITCH];
    uint x = thread_position_in_threadgroup.x, r = thread_position_in_threadgroup.y;
    uint left = threadgroup_position_in_grid.x * 32, top = threadgroup_position_in_grid.y * 32;
    for (uint j = r; j < 32; j += 8) {
        tile[j * PITCH + x] = a[(top + j) * N + left + x];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = r; j < 32; j += 8) {
        y[(left + j) * N + top + x] = tile[x * PITCH + j];
    }
    """
    square = (size, size)
    yield micro("transpose_naive", naive, [(square, F)], (square, F), square, (32, 8), N=size)
    for name, pitch in (("transpose_tiled", 32), ("transpose_padded", 33)):
        yield micro(
            name,
            tiled,
            [(square, F)],
            (square, F),
            (size, size // 4),
            (32, 8),
            N=size,
            PITCH=pitch,
        )
    loop = """
    threadgroup float words[2048];
    uint member = thread_position_in_threadgroup.x;
    for (uint j = member; j < 2048; j += 256) {
        words[j] = a[j];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float sum = 0;
    for (uint j = 0; j < 256; ++j) {
        sum += words[(member * S + j) & 2047];
    }
    y[thread_position_in_grid.x] = sum;
    """
    for stride in (1, 2, 8, 32):
        yield micro(
            f"banks_stride_{stride}", loop, [((2048,), F)], ((2**16,), F), (2**16,), S=stride
        )


def _reductions() -> Iterator[Case]:
    simd = (
        ROW
        + """
    float sum = 0;
    for (uint j = lane; j < N; j += 32) {
        sum += a[row * N + j];
    }
    sum = simd_sum(sum);
    if (lane == 0) {
        y[row] = sum;
    }
    """
    )
    for name, rows, columns in (("row_sums", 4096, 1024), ("row_sums_long", 64, 2**16)):
        yield micro(name, simd, [((rows, columns), F)], ((rows,), F), (rows * 32,), N=columns)
    thread = (
        INDEX
        + """
    float sum = 0;
    for (uint j = 0; j < N; ++j) {
        sum += a[i * N + j];
    }
    y[i] = sum;
    """
    )
    yield micro(
        "row_sums_a_thread_each", thread, [((4096, 1024), F)], ((4096,), F), (4096,), N=1024
    )
    columns = (
        INDEX
        + """
    float sum = 0;
    for (uint j = 0; j < ROWS; ++j) {
        sum += a[j * N + i];
    }
    y[i] = sum;
    """
    )
    yield micro(
        "column_sums", columns, [((1024, 8192), F)], ((8192,), F), (8192,), N=8192, ROWS=1024
    )
    tree = (
        MEMBER
        + """
    threadgroup float parts[256];
    parts[member] = a[group * 256 + member];
    for (uint half_of = 128; half_of > 0; half_of /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (member < half_of) {
            parts[member] += parts[member + half_of];
        }
    }
    if (member == 0) {
        y[group] = parts[0];
    }
    """
    )
    yield micro("tree_sums", tree, [((2**22,), F)], ((2**14,), F), (2**22,))
    softmax = (
        MEMBER
        + """
    threadgroup float parts[8];
    float top = -INFINITY, sum = 0;
    for (uint j = member; j < N; j += 256) {
        top = metal::max(top, a[group * N + j]);
    }
    top = simd_max(top);
    if (member % 32 == 0) {
        parts[member / 32] = top;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = 0; j < 8; ++j) {
        top = metal::max(top, parts[j]);
    }
    for (uint j = member; j < N; j += 256) {
        sum += metal::exp(a[group * N + j] - top);
    }
    sum = simd_sum(sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (member % 32 == 0) {
        parts[member / 32] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = 0;
    for (uint j = 0; j < 8; ++j) {
        sum += parts[j];
    }
    for (uint j = member; j < N; j += 256) {
        y[group * N + j] = metal::exp(a[group * N + j] - top) / sum;
    }
    """
    )
    for rows, length in ((1024, 4096), (16, 2**16)):
        yield micro(
            f"softmax_{rows}x{length}",
            softmax,
            [((rows, length), F)],
            ((rows, length), F),
            (rows * 256,),
            N=length,
        )


def _arithmetic() -> Iterator[Case]:
    chain = (
        INDEX
        + """
    float x = a[i & 1023];
    for (uint j = 0; j < N; ++j) {
        STEP
    }
    y[i] = x;
    """
    )
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
    four = (
        INDEX
        + """
    float p = a[i & 1023], q = p + 1.0f, r = p + 2.0f, s = p + 3.0f;
    for (uint j = 0; j < 256; ++j) {
        p = metal::fma(p, 0.999f, 0.25f);
        q = metal::fma(q, 0.999f, 0.25f);
        r = metal::fma(r, 0.999f, 0.25f);
        s = metal::fma(s, 0.999f, 0.25f);
    }
    y[i] = p + q + r + s;
    """
    )
    yield micro("fma_four_chains", four, [((1024,), F)], ((2**18,), F), (2**18,))
    integers = (
        INDEX
        + """
    uint x = a[i & 1023] + i;
    for (uint j = 0; j < N; ++j) {
        STEP
    }
    y[i] = x;
    """
    )
    words = mx.array(list(range(7, 1031)), dtype=U)
    for name, step, rounds in (
        ("integer_chain", "x = x * 1664525u + 1013904223u;", 256),
        ("integer_division", "x = x / (b[0] + (x & 7)) + 77777u * j;", 32),
        ("integer64", "x = uint((ulong(x) * ulong(x + 3)) >> 16);", 128),
    ):
        yield micro(
            name, integers.replace("STEP", step), [words, words], ((2**17,), U), (2**17,), N=rounds
        )
    branches = (
        INDEX
        + """
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
    )
    for ways in (1, 2, 8):
        yield micro(
            f"divergence_{ways}", branches, [((1024,), F)], ((2**17,), F), (2**17,), WAYS=ways
        )


def _synchronization() -> Iterator[Case]:
    barriers = (
        MEMBER
        + """
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
    )
    for name, groups, rounds in (("barriers_one_threadgroup", 1, 4096), ("barriers", 1024, 64)):
        yield micro(name, barriers, [((256,), F)], ((groups * 256,), F), (groups * 256,), N=rounds)
    held = (
        MEMBER
        + """
    threadgroup float words[WORDS];
    words[member] = a[thread_position_in_grid.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float x = words[(member * 7) & 63];
    for (uint j = 0; j < 64; ++j) {
        x = metal::exp(-x) + b[(uint(metal::abs(x) * 100.0f) + member + j * 4096) & 0xfffff];
    }
    y[thread_position_in_grid.x] = x;
    """
    )
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
            INDEX + f"if (a[i & 1023] > -9.0f) {{ COUNT(&y[{where}]); }}",
            [((1024,), F)],
            ((addresses,), U),
            (count,),
            header=ATOMICS,
            init_value=0,
        )
    small = INDEX + "y[i] = a[i] + 1.0f;"
    yield micro("many_threadgroups", small, [((2**20,), F)], ((2**20,), F), (2**20,), (32,))
    yield micro(
        "one_lane_of_32",
        INDEX + "if (i % 32 == 0) { y[i / 32] = a[i]; }",
        [((2**22,), F)],
        ((2**17,), F),
        (2**22,),
    )


def _products() -> Iterator[Case]:
    matvec = (
        ROW
        + """
    float sum = 0;
    for (uint j = lane * 4; j < N; j += 128) {
        T4 w = *(const device T4*)(a + row * N + j);
        T4 x = *(const device T4*)(b + j);
        sum += float(w.x) * float(x.x) + float(w.y) * float(x.y) + float(w.z) * float(x.z)
            + float(w.w) * float(x.w);
    }
    sum = simd_sum(sum);
    if (lane == 0) {
        y[row] = sum;
    }
    """
    )
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
    for (uint j = 0; j < N; ++j) {
        sum += a[row * N + j] * b[j * N + x];
    }
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
        for (uint m = 0; m < 16; ++m) {
            sum += p[r * 16 + m] * q[m * 16 + x];
        }
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
