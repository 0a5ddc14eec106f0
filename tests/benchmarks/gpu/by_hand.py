"""Metal kernels on an NVIDIA GPU against the same algorithms written in CUDA by hand.

Run on a machine with MLX's CUDA backend: ``python -m tests.benchmarks.gpu.by_hand``. Both are timed
in one run, alternately; each time is the least of several, of many launches.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import click
import mlx.core as mx
from msgspec import Struct

from embercoach.cuda.cuda_kernel import cuda_kernel

ROUNDS, LAUNCHES = 7, 40
#: The least speed of the one in Metal, of that by hand.
LEAST = 0.8


class Pair(Struct, frozen=True):
    """An algorithm in both languages, on the same grid.

    Attributes:
        name: of the algorithm.
        metal: the body.
        cuda: the body.
        inputs: arrays.
        output: shape and dtype.
        grid: threads.
        threadgroup: threads of one.
        header: of the CUDA kernel.
    """

    name: str
    metal: str
    cuda: str
    inputs: dict[str, mx.array]
    output: tuple[tuple[int, ...], mx.Dtype]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    header: str = ""


def copy() -> Pair:
    """Four elements a thread."""
    count = 1 << 27
    return Pair(
        "copy",
        """
        uint i = thread_position_in_grid.x;
        ((device float4*)out)[i] = ((const device float4*)x)[i];
        """,
        """
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        ((float4*)out)[i] = ((const float4*)x)[i];
        """,
        {"x": mx.random.normal((count,))},
        ((count,), mx.float32),
        (count // 4, 1, 1),
        (256, 1, 1),
    )


def reduction() -> Pair:
    """The sums of rows, a threadgroup each."""
    rows, columns = 16_384, 8_192
    return Pair(
        "reduction",
        """
        uint row = threadgroup_position_in_grid.x, t = thread_position_in_threadgroup.x;
        threadgroup float parts[32];
        const device float4* p = (const device float4*)(x + row * x_shape[1]);
        float sum = 0;
        for (uint i = t; i < uint(x_shape[1]) / 4; i += 256) {
            float4 v = p[i];
            sum += v.x + v.y + v.z + v.w;
        }
        sum = simd_sum(sum);
        if (thread_index_in_simdgroup == 0) parts[simdgroup_index_in_threadgroup] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < 32) {
            sum = simd_sum(t < 8 ? parts[t] : 0.0f);
            if (t == 0) out[row] = sum;
        }
        """,
        """
        unsigned row = blockIdx.x, t = threadIdx.x;
        __shared__ float parts[32];
        const float4* p = (const float4*)(x + row * x_shape[1]);
        float sum = 0;
        for (unsigned i = t; i < unsigned(x_shape[1]) / 4; i += 256) {
            float4 v = p[i];
            sum += v.x + v.y + v.z + v.w;
        }
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
        if (t % 32 == 0) parts[t / 32] = sum;
        __syncthreads();
        if (t < 32) {
            sum = t < 8 ? parts[t] : 0.0f;
            for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
            if (t == 0) out[row] = sum;
        }
        """,
        {"x": mx.random.normal((rows, columns))},
        ((rows,), mx.float32),
        (rows * 256, 1, 1),
        (256, 1, 1),
    )


def product() -> Pair:
    """A product of half in tiles of 64 x 64, by four simdgroups of 32 x 32."""
    size = 4_096
    loads = """
        for (uint i = t; i < 64 * 8; i += 128) {
            uint row = i / 8, part = i % 8 * 4;
            *(THREADGROUP HALF4*)(left + row * 40 + part) =
                *(const DEVICE HALF4*)(a + (tile.y * 64 + row) * size + k + part);
        }
        for (uint i = t; i < 32 * 16; i += 128) {
            uint row = i / 16, part = i % 16 * 4;
            *(THREADGROUP HALF4*)(right + row * 72 + part) =
                *(const DEVICE HALF4*)(b + (k + row) * size + tile.x * 64 + part);
        }
    """
    metal = (
        """
        const uint size = a_shape[1];
        threadgroup half left[64 * 40], right[32 * 72];
        uint3 tile = threadgroup_position_in_grid;
        uint t = thread_index_in_threadgroup, g = simdgroup_index_in_threadgroup;
        uint top = g / 2 * 32, side = g % 2 * 32;
        simdgroup_float8x8 sums[4][4];
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) sums[i][j] = simdgroup_float8x8(0);
        for (uint k = 0; k < size; k += 32) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            LOADS
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint d = 0; d < 32; d += 8) {
                simdgroup_half8x8 l[4], r[4];
                for (int i = 0; i < 4; ++i) simdgroup_load(l[i], left + (top + 8 * i) * 40 + d, 40);
                for (int j = 0; j < 4; ++j) simdgroup_load(r[j], right + d * 72 + side + 8 * j, 72);
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j)
                        simdgroup_multiply_accumulate(sums[i][j], l[i], r[j], sums[i][j]);
            }
        }
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                simdgroup_store(
                    sums[i][j], out + (tile.y * 64 + top + 8 * i) * size + tile.x * 64 + side
                        + 8 * j, size);
    """.replace("LOADS", loads)
        .replace("THREADGROUP", "threadgroup")
        .replace("DEVICE", "device")
    )
    cuda = """
        using namespace nvcuda;
        const unsigned size = a_shape[1];
        __shared__ __align__(16) __half left[64 * 40], right[32 * 72];
        uint3 tile = blockIdx;
        unsigned t = threadIdx.x, g = t / 32;
        unsigned top = g / 2 * 32, side = g % 2 * 32;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
        for (unsigned k = 0; k < size; k += 32) {
            __syncthreads();
            LOADS
            __syncthreads();
            for (unsigned d = 0; d < 32; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> l[2];
                wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> r[2];
                for (int i = 0; i < 2; ++i)
                    wmma::load_matrix_sync(l[i], left + (top + 16 * i) * 40 + d, 40);
                for (int j = 0; j < 2; ++j)
                    wmma::load_matrix_sync(r[j], right + d * 72 + side + 16 * j, 72);
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], l[i], r[j], sums[i][j]);
            }
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                wmma::store_matrix_sync(
                    out + (tile.y * 64 + top + 16 * i) * size + tile.x * 64 + side + 16 * j,
                    sums[i][j], size, wmma::mem_row_major);
    """.replace("LOADS", loads.replace("uint ", "unsigned "))
    cuda = cuda.replace("THREADGROUP ", "").replace("DEVICE ", "").replace("HALF4", "uint2")
    return Pair(
        "tiled product",
        metal.replace("HALF4", "half4"),
        cuda,
        {name: mx.random.normal((size, size)).astype(mx.float16) for name in "ab"},
        ((size, size), mx.float32),
        (size // 64 * 128, size // 64, 1),
        (128, 1, 1),
        "#include <mma.h>\n",
    )


def scan() -> Pair:
    """Inclusive sums along rows, a threadgroup each, 1,024 elements at a time."""
    rows, columns = 8_192, 8_192
    return Pair(
        "scan",
        """
        uint row = threadgroup_position_in_grid.x, t = thread_position_in_threadgroup.x;
        uint lane = thread_index_in_simdgroup, g = simdgroup_index_in_threadgroup;
        threadgroup float parts[32];
        const uint columns = x_shape[1];
        float before = 0;
        for (uint i = t; i < columns; i += 1024) {
            float v = simd_prefix_inclusive_sum(x[row * columns + i]);
            if (lane == 31) parts[g] = v;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            float own = parts[lane];
            float sums = simd_prefix_inclusive_sum(own);
            v += before + (g > 0 ? simd_shuffle(sums, ushort(g - 1)) : 0.0f);
            before += simd_shuffle(sums, 31);
            out[row * columns + i] = v;
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        """,
        """
        unsigned row = blockIdx.x, t = threadIdx.x, lane = t % 32, g = t / 32;
        __shared__ float parts[32];
        const unsigned columns = x_shape[1];
        float before = 0;
        for (unsigned i = t; i < columns; i += 1024) {
            float v = x[row * columns + i];
            for (int d = 1; d < 32; d *= 2) {
                float other = __shfl_up_sync(~0u, v, d);
                if (lane >= d) v += other;
            }
            if (lane == 31) parts[g] = v;
            __syncthreads();
            float sums = parts[lane];
            for (int d = 1; d < 32; d *= 2) {
                float other = __shfl_up_sync(~0u, sums, d);
                if (lane >= d) sums += other;
            }
            float earlier = __shfl_sync(~0u, sums, g > 0 ? g - 1 : 0);
            v += before + (g > 0 ? earlier : 0.0f);
            before += __shfl_sync(~0u, sums, 31);
            out[row * columns + i] = v;
            __syncthreads();
        }
        """,
        {"x": mx.random.normal((rows, columns))},
        ((rows, columns), mx.float32),
        (rows * 1024, 1, 1),
        (1024, 1, 1),
    )


def quantized() -> Pair:
    """A matrix of 4 bits in groups of 64 times a vector, a simdgroup for each row."""
    rows, columns = 32_768, 8_192
    weights = mx.random.normal((rows, columns)).astype(mx.float16)
    words, scales, biases = mx.quantize(weights, group_size=64, bits=4)
    return Pair(
        "quantized product",
        """
        uint row = thread_position_in_grid.x / 32, lane = thread_index_in_simdgroup;
        const uint words = w_shape[1];
        float sum = 0;
        for (uint i = lane; i < words; i += 32) {
            uint bits = w[row * words + i];
            float scale = scales[row * words / 8 + i / 8], bias = biases[row * words / 8 + i / 8];
            half4 low = *(const device half4*)(x + 8 * i);
            half4 high = *(const device half4*)(x + 8 * i + 4);
            float dots = 0, total = 0;
            for (int j = 0; j < 4; ++j) {
                dots += float(bits >> (4 * j) & 15) * float(low[j]);
                dots += float(bits >> (4 * j + 16) & 15) * float(high[j]);
                total += float(low[j]) + float(high[j]);
            }
            sum += scale * dots + bias * total;
        }
        sum = simd_sum(sum);
        if (lane == 0) out[row] = half(sum);
        """,
        """
        unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
        const unsigned words = w_shape[1];
        float sum = 0;
        for (unsigned i = lane; i < words; i += 32) {
            unsigned bits = w[row * words + i];
            float scale = scales[row * words / 8 + i / 8], bias = biases[row * words / 8 + i / 8];
            uint4 eight = *(const uint4*)(x + 8 * i);
            const __half* values = (const __half*)&eight;
            float dots = 0, total = 0;
            for (int j = 0; j < 8; ++j) {
                float value = __half2float(values[j]);
                dots += float(bits >> (4 * j) & 15) * value;
                total += value;
            }
            sum += scale * dots + bias * total;
        }
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
        if (lane == 0) out[row] = __float2half(sum);
        """,
        {
            "w": words,
            "scales": scales,
            "biases": biases,
            "x": mx.random.normal((columns,)).astype(mx.float16),
        },
        ((rows,), mx.float16),
        (rows * 32, 1, 1),
        (256, 1, 1),
    )


def attention() -> Pair:
    """One query a head over all keys: eight simdgroups, each its part, joined at the end."""
    heads, keys = 256, 8_192
    return Pair(
        "attention decode",
        """
        const uint keys = k_shape[1];
        uint head = threadgroup_position_in_grid.x;
        uint lane = thread_index_in_simdgroup, g = simdgroup_index_in_threadgroup;
        threadgroup float4 sums[8][32];
        threadgroup float tops[8], totals[8];
        float4 query = float4(*(const device half4*)(q + head * 128 + 4 * lane)) * 0.08838835f;
        float top = -INFINITY, total = 0;
        float4 sum = 0;
        for (uint i = g; i < keys; i += 8) {
            uint at = (head * keys + i) * 128 + 4 * lane;
            float score = simd_sum(dot(query, float4(*(const device half4*)(k + at))));
            float next = metal::max(top, score);
            float old = metal::exp(top - next), now = metal::exp(score - next);
            total = total * old + now;
            sum = sum * old + now * float4(*(const device half4*)(v + at));
            top = next;
        }
        sums[g][lane] = sum;
        if (lane == 0) { tops[g] = top; totals[g] = total; }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (g == 0) {
            float most = simd_max(tops[lane % 8]);
            float all = 0;
            float4 result = 0;
            for (uint i = 0; i < 8; ++i) {
                float weight = metal::exp(tops[i] - most);
                all += weight * totals[i];
                result += weight * sums[i][lane];
            }
            *(device half4*)(out + head * 128 + 4 * lane) = half4(result / all);
        }
        """,
        """
        const unsigned keys = k_shape[1];
        unsigned head = blockIdx.x, lane = threadIdx.x % 32, g = threadIdx.x / 32;
        __shared__ float4 sums[8][32];
        __shared__ float tops[8], totals[8];
        auto four = [](const __half* p) {
            uint2 bits = *(const uint2*)p;
            float2 low = __half22float2(*(__half2*)&bits.x);
            float2 high = __half22float2(*(__half2*)&bits.y);
            return make_float4(low.x, low.y, high.x, high.y);
        };
        float4 query = four(q + head * 128 + 4 * lane);
        query.x *= 0.08838835f; query.y *= 0.08838835f;
        query.z *= 0.08838835f; query.w *= 0.08838835f;
        float top = -INFINITY, total = 0;
        float4 sum = make_float4(0, 0, 0, 0);
        for (unsigned i = g; i < keys; i += 8) {
            unsigned at = (head * keys + i) * 128 + 4 * lane;
            float4 key = four(k + at);
            float score = query.x * key.x + query.y * key.y + query.z * key.z + query.w * key.w;
            for (int d = 16; d > 0; d /= 2) score += __shfl_xor_sync(~0u, score, d);
            float next = fmaxf(top, score);
            float old = expf(top - next), now = expf(score - next);
            float4 value = four(v + at);
            total = total * old + now;
            sum.x = sum.x * old + now * value.x;
            sum.y = sum.y * old + now * value.y;
            sum.z = sum.z * old + now * value.z;
            sum.w = sum.w * old + now * value.w;
            top = next;
        }
        sums[g][lane] = sum;
        if (lane == 0) { tops[g] = top; totals[g] = total; }
        __syncthreads();
        if (g == 0) {
            float most = tops[lane % 8];
            for (int d = 4; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
            float all = 0;
            float4 result = make_float4(0, 0, 0, 0);
            for (int i = 0; i < 8; ++i) {
                float weight = expf(tops[i] - most);
                all += weight * totals[i];
                float4 part = sums[i][lane];
                result.x += weight * part.x; result.y += weight * part.y;
                result.z += weight * part.z; result.w += weight * part.w;
            }
            __half2 low = __floats2half2_rn(result.x / all, result.y / all);
            __half2 high = __floats2half2_rn(result.z / all, result.w / all);
            uint2 both = make_uint2(*(unsigned*)&low, *(unsigned*)&high);
            *(uint2*)(out + head * 128 + 4 * lane) = both;
        }
        """,
        {
            "q": mx.random.normal((heads, 128)).astype(mx.float16),
            "k": mx.random.normal((heads, keys, 128)).astype(mx.float16),
            "v": mx.random.normal((heads, keys, 128)).astype(mx.float16),
        },
        ((heads, 128), mx.float16),
        (heads * 256, 1, 1),
        (256, 1, 1),
    )


def launched(kernel: Any, pair: Pair) -> mx.array:
    """Record one launch."""
    shape, dtype = pair.output
    (result,) = kernel(
        inputs=list(pair.inputs.values()),
        grid=pair.grid,
        threadgroup=pair.threadgroup,
        output_shapes=[shape],
        output_dtypes=[dtype],
    )
    return result  # type: ignore[no-any-return]


def seconds(kernel: Any, pair: Pair) -> float:
    """Return the time of one launch, of many."""
    mx.synchronize()
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        mx.async_eval(launched(kernel, pair))
    mx.synchronize()
    return (time.perf_counter() - start) / LAUNCHES


def compare(pair: Pair) -> float:
    """Print the times of a pair; return the speed of Metal's, of that by hand."""
    names = {"input_names": list(pair.inputs), "output_names": ["out"]}
    name = pair.name.replace(" ", "_")
    kernels = (
        cuda_kernel(name=name, source=pair.metal, **names),
        mx.fast.cuda_kernel(name=name, source=pair.cuda, header=pair.header, **names),
    )
    mx.eval(*pair.inputs.values())
    ours, theirs = (launched(kernel, pair).astype(mx.float32) for kernel in kernels)
    off = float((mx.abs(ours - theirs).max() / mx.abs(theirs).max()).item())
    times = [[seconds(kernel, pair) for kernel in kernels] for _ in range(ROUNDS)]
    metal, cuda = (min(column) for column in zip(*times, strict=True))
    click.echo(
        f"{pair.name:18} Metal {metal * 1e3:8.4f} ms, CUDA {cuda * 1e3:8.4f} ms, "
        f"speed {cuda / metal:5.2f}, difference {off:.1e}"
    )
    return cuda / metal


if __name__ == "__main__":
    pairs = (copy, reduction, product, scan, quantized, attention)
    sys.exit(min([compare(make()) for make in pairs]) < LEAST)
