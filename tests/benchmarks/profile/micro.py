"""Microbenchmarks of memory: each exercises one resource of a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import mlx.core as mx

from tests.benchmarks.profile import micro_compute
from tests.benchmarks.profile.case import Case
from tests.benchmarks.profile.micro_case import GROUP, F, H, U, micro


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
        return micro(name, body, given, ((count,), dtype), (count // width,))

    small = of(count // scale).draw if scale > 1 else None
    return Case(name, GROUP, of(count).draw, small, scale)


def micro_cases() -> Iterator[Case]:
    yield from _streams()
    yield from _strides()
    yield from _transposes()
    yield from _reductions()
    yield from micro_compute.micro_cases()


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
    for (uint j = 0; j < 8; ++j) sum += ((const device float4*)a)[i * 8 + j];
    y[i] = sum.x + sum.y + sum.z + sum.w;
    """
    yield micro("thread_reads_128_bytes", loop, [((2**24,), F)], ((2**19,), F), (2**19,))
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
            "y[i] = a[i * S];",
            [((count * stride,), F)],
            ((count,), F),
            (count,),
            S=stride,
        )
    yield micro(
        "strided_write_16", "y[i * 16] = a[i];", [((count,), F)], ((count * 16,), F), (count,)
    )
    scattered = "y[i] = a[(i * 2654435761u) & (N - 1)];"
    for name, bits in (("gather_large", 25), ("gather_in_cache", 21)):
        yield micro(name, scattered, [((2**bits,), F)], ((2**21,), F), (2**21,), N=2**bits)
    chase = """
    uint at = thread_position_in_grid.x;
    for (uint j = 0; j < 1024; ++j) at = (a[at] + at * 1664525u + 1013904223u) & (N - 1);
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
    for (uint j = r; j < 32; j += 8) tile[j * PITCH + x] = a[(top + j) * N + left + x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = r; j < 32; j += 8) y[(left + j) * N + top + x] = tile[x * PITCH + j];
    """
    square = (size, size)
    yield micro("transpose_naive", naive, [(square, F)], (square, F), square, (32, 8), N=size)
    for name, pitch in (("transpose_tiled", 32), ("transpose_padded", 33)):
        yield micro(
            name, tiled, [(square, F)], (square, F), (size, size // 4), (32, 8), N=size, PITCH=pitch
        )
    loop = """
    threadgroup float words[2048];
    uint member = thread_position_in_threadgroup.x;
    for (uint j = member; j < 2048; j += 256) words[j] = a[j];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float sum = 0;
    for (uint j = 0; j < 256; ++j) sum += words[(member * S + j) & 2047];
    y[thread_position_in_grid.x] = sum;
    """
    for stride in (1, 2, 8, 32):
        yield micro(
            f"banks_stride_{stride}", loop, [((2048,), F)], ((2**16,), F), (2**16,), S=stride
        )


def _reductions() -> Iterator[Case]:
    simd = """
    float sum = 0;
    for (uint j = lane; j < N; j += 32) sum += a[row * N + j];
    sum = simd_sum(sum);
    if (lane == 0) y[row] = sum;
    """
    for name, rows, columns in (("row_sums", 4096, 1024), ("row_sums_long", 64, 2**16)):
        yield micro(name, simd, [((rows, columns), F)], ((rows,), F), (rows * 32,), N=columns)
    thread = """
    float sum = 0;
    for (uint j = 0; j < N; ++j) sum += a[i * N + j];
    y[i] = sum;
    """
    yield micro(
        "row_sums_a_thread_each", thread, [((4096, 1024), F)], ((4096,), F), (4096,), N=1024
    )
    columns = """
    float sum = 0;
    for (uint j = 0; j < ROWS; ++j) sum += a[j * N + i];
    y[i] = sum;
    """
    yield micro(
        "column_sums", columns, [((1024, 8192), F)], ((8192,), F), (8192,), N=8192, ROWS=1024
    )
    tree = """
    threadgroup float parts[256];
    parts[member] = a[group * 256 + member];
    for (uint half_of = 128; half_of > 0; half_of /= 2) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (member < half_of) parts[member] += parts[member + half_of];
    }
    if (member == 0) y[group] = parts[0];
    """
    yield micro("tree_sums", tree, [((2**22,), F)], ((2**14,), F), (2**22,))
    softmax = """
    threadgroup float parts[8];
    float top = -INFINITY, sum = 0;
    for (uint j = member; j < N; j += 256) top = metal::max(top, a[group * N + j]);
    top = simd_max(top);
    if (member % 32 == 0) parts[member / 32] = top;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = 0; j < 8; ++j) top = metal::max(top, parts[j]);
    for (uint j = member; j < N; j += 256) sum += metal::exp(a[group * N + j] - top);
    sum = simd_sum(sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (member % 32 == 0) parts[member / 32] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = 0;
    for (uint j = 0; j < 8; ++j) sum += parts[j];
    for (uint j = member; j < N; j += 256)
        y[group * N + j] = metal::exp(a[group * N + j] - top) / sum;
    """
    for rows, length in ((1024, 4096), (16, 2**16)):
        yield micro(
            f"softmax_{rows}x{length}",
            softmax,
            [((rows, length), F)],
            ((rows, length), F),
            (rows * 256,),
            N=length,
        )
