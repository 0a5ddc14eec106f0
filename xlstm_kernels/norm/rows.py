"""Norms of rows in Metal: how a row is spread over threads, and the forward kernel.

A row has its own simdgroups: one for narrow rows, of which a threadgroup takes several at a time,
up to a whole threadgroup. Its elements are in the threads' registers, in packs of 16 bytes, so each
is read once. A threadgroup loops over rows of one head, and reads that head's weight and bias once.
Rows that do not fit the registers (HELD is false) are read again in each pass, chunk by chunk.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS

_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 16
_PACK_BYTES = 16
_ELEMENTS = 16  # the most of a row that a thread keeps in registers, a power of two
_NARROW_ROWS = 4
_MAX_ROW_GROUPS = 65535
# Rows that a simdgroup takes one after the other: the cost of a weight is then small compared with
# them. Fewer if they would leave less in flight than the memory of a large GPU needs to be busy.
_ROWS_PER_SIMDGROUP = 16
_BUSY_ELEMENTS = 2**21
EXTRAS = ("weight", "bias", "gate")


def row_launch(
    values: mx.array,
    *,
    rows_per_simdgroup: int = _ROWS_PER_SIMDGROUP,
    streams: int = 1,
) -> Launch:
    """The launch of a kernel over rows of values (B, S, NH, DH), without its outputs.

    Threadgroups are one row wide, along x over the rows, along y over the heads. A simdgroup takes
    `rows_per_simdgroup` of them, if that leaves enough threadgroups: `streams` arrays like the rows
    are read together.
    """
    batch, length, heads, columns = values.shape
    simdgroups = max(min(math.ceil(columns / (_SIMD_WIDTH * _ELEMENTS)), _MAX_SIMDGROUPS), 1)
    threads, places = simdgroups * _SIMD_WIDTH, _NARROW_ROWS if simdgroups == 1 else 1
    pack = _PACK_BYTES // values.dtype.size
    while pack > 1 and (columns % pack or pack * _SIMD_WIDTH >= 2 * columns):
        pack //= 2
    packs = max(min(math.ceil(columns / (threads * pack)), _ELEMENTS // pack), 1)
    rows = batch * length
    busy = math.ceil(_BUSY_ELEMENTS / (max(columns * heads, 1) * streams))
    together = min(rows, max(busy, math.ceil(rows / rows_per_simdgroup)))
    groups = min(math.ceil(together / places), _MAX_ROW_GROUPS)
    empty = not values.size
    return Launch(
        grid=(0 if empty else groups * threads, heads * places, 1),
        threadgroup=(threads, places, 1),
        output_shapes=(),
        output_dtypes=(),
        template=(
            ("T", values.dtype),
            ("PACK", pack),
            ("VALUES", packs),
            ("SIMDGROUPS", simdgroups),
            ("HELD", packs * pack * threads >= columns),
        ),
    )


def switches(extras: tuple[str, ...], *, centred: bool) -> str:
    """MSL macros: conditions of a body, and its numbers v and k, also without an extra."""
    weighted, biased, gated = (extra in extras for extra in EXTRAS)
    difference = "(held.number(v, k) - mean) - moments.x"
    macros = {
        "WEIGHTED": int(weighted),
        "BIASED": int(biased),
        "GATED": int(gated),
        "CENTRED": int(centred),
        "NORMAL(v, k)": f"({difference if centred else 'held.number(v, k)'}) * scale",
        "WEIGHT(v, k)": "weights.number(v, k)" if weighted else "1.0f",
        "BIAS(v, k)": "biases.number(v, k)" if biased else "-0.0f",
        "OPENED(v, k)": "xlstm_sigmoid(gates.number(v, k))" if gated else "float2(1.0f, 0.0f)",
    }
    return "".join(f"\n    #define {name} {value}" for name, value in macros.items()) + "\n"


def kernel_name(stem: str, extras: tuple[str, ...], *, centred: bool) -> str:
    """The name of the kernel of a layer norm or RMS norm with these extras."""
    suffixes = {"weight": "_weighted", "bias": "_biased", "gate": "_gated"}
    family = "layer" if centred else "rms"
    return f"xlstm_{family}_{stem}" + "".join(suffixes[extra] for extra in extras)


ROWS = (
    PACKS
    + """
    // What a thread has of a row: VALUES packs, `stride` columns apart, from `column` on.
    template <uint VALUES, uint PACK, typename Pointer>
    inline auto xlstm_read_row(
        Pointer row, int64_t step, uint column, uint stride, uint columns) {
        const uint present = column < columns ? (columns - column + stride - 1) / stride : 0;
        return xlstm_read_packs<VALUES, PACK>(row + column * step, stride * step, step, present);
    }
    // The sum of value, a float or a vector, over the simdgroups of a row, given to each thread.
    template <uint SIMDGROUPS, typename Value>
    inline Value xlstm_row_sum(
        Value value, threadgroup Value* partial, uint simdgroup, uint lane) {
        value = simd_sum(value);
        if (SIMDGROUPS == 1) {
            return value;
        }
        // Whatever an earlier sum left in partial has been read.
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane == 0) {
            partial[simdgroup] = value;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        return simd_sum(lane < SIMDGROUPS ? partial[lane] : Value(0.0f));
    }
"""
)

#: MSL of what the rows of a threadgroup have in common.
LOCATE = """
    const uint length = values_shape[1];
    const uint columns = values_shape[3];
    const uint rows = values_shape[0] * length;
    const int64_t features = static_cast<int64_t>(values_shape[2]) * columns;
    const int64_t head = threadgroup_position_in_grid.y;
    const int64_t first = head * columns;  // feature of the head
    const uint own = thread_position_in_threadgroup.x * PACK;
    const uint stride = threads_per_threadgroup.x * PACK;
    const uint place = thread_position_in_threadgroup.y;
    const uint places = threads_per_threadgroup.y;
    const uint simdgroup = thread_position_in_threadgroup.x / 32;
    const uint lane = thread_index_in_simdgroup;
    const uint taken = threadgroups_per_grid.x * places;
    #if WEIGHTED
    const auto head_weight = weight + first * weight_strides[0];
    auto weights = xlstm_read_row<VALUES, PACK>(
        head_weight, weight_strides[0], own, stride, columns);
    #endif
    #if BIASED
    const auto head_bias = bias + first * bias_strides[0];
    auto biases = xlstm_read_row<VALUES, PACK>(head_bias, bias_strides[0], own, stride, columns);
    #endif
"""

#: MSL of one of the rows, `base` being the first of the threadgroup's.
ROW = """
        // All threads stay for the barriers; those without a row have no columns.
        const uint row = metal::min(base + place, rows - 1);
        const uint width = base + place < rows ? columns : 0;
        const int64_t batch = row / length;
        const int64_t position = row % length;
        const auto row_values = values + (batch * values_strides[0]
            + position * values_strides[1] + head * values_strides[2]);
        auto held = xlstm_read_row<VALUES, PACK>(
            row_values, values_strides[3], own, stride, width);
        #if GATED
        const auto row_gate = gate + (batch * gate_strides[0]
            + position * gate_strides[1] + first * gate_strides[2]);
        auto gates = xlstm_read_row<VALUES, PACK>(row_gate, gate_strides[2], own, stride, width);
        #endif
"""

#: MSL of the mean of a row, or without CENTRED that of its squares.
MEAN = """
        float sum = 0.0f;
        for (uint start = own; start < own + columns; start += VALUES * stride) {
            if (!HELD) {
                held = xlstm_read_row<VALUES, PACK>(
                    row_values, values_strides[3], start, stride, width);
            }
            #pragma clang loop unroll(full)
            for (uint v = 0; v < VALUES; ++v) {
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {
                    #if CENTRED
                    sum += held.number(v, k);
                    #else
                    sum += held.number(v, k) * held.number(v, k);
                    #endif
                }
            }
        }
        sum = xlstm_row_sum<SIMDGROUPS>(sum, partial, simdgroup, lane);
        const float mean = sum / static_cast<float>(columns);
"""

#: MSL of another part of a row that does not fit the registers, from `start` on.
READ_AGAIN = """
                held = xlstm_read_row<VALUES, PACK>(
                    row_values, values_strides[3], start, stride, width);
                #if WEIGHTED
                weights = xlstm_read_row<VALUES, PACK>(
                    head_weight, weight_strides[0], start, stride, columns);
                #endif
                #if BIASED
                biases = xlstm_read_row<VALUES, PACK>(
                    head_bias, bias_strides[0], start, stride, columns);
                #endif
                #if GATED
                gates = xlstm_read_row<VALUES, PACK>(
                    row_gate, gate_strides[2], start, stride, width);
                #endif
"""

_BODY = f"""
    // values: (batch, length, heads, columns); epsilon: 0-d; weight, bias: (heads * columns);
    // gate, normalised: (batch, length, heads * columns), normalised contiguous.
    threadgroup float partial[SIMDGROUPS];
    #if CENTRED
    threadgroup float2 partial_moments[SIMDGROUPS];
    #endif
    {LOCATE}
    for (uint base = threadgroup_position_in_grid.x * places; base < rows; base += taken) {{
{ROW}
        const auto row_normalised = normalised + (row * features + first);
{MEAN}        #if CENTRED
        // The mean as rounded lies close to the values if these lie close to each other, and then
        // the difference is exact: its small mean and squares keep digits that a big mean lacks.
        float2 moments = float2(0.0f);
        for (uint start = own; start < own + columns; start += VALUES * stride) {{
            if (!HELD) {{
                held = xlstm_read_row<VALUES, PACK>(
                    row_values, values_strides[3], start, stride, width);
            }}
            #pragma clang loop unroll(full)
            for (uint v = 0; v < VALUES; ++v) {{
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    const bool present = start + v * stride + k < width;
                    const float distance = present ? held.number(v, k) - mean : 0.0f;
                    moments += float2(distance, distance * distance);
                }}
            }}
        }}
        moments = xlstm_row_sum<SIMDGROUPS>(moments, partial_moments, simdgroup, lane)
            / static_cast<float>(columns);
        const float variance = metal::max(moments.y - moments.x * moments.x, 0.0f);
        const float scale = metal::precise::rsqrt(variance + epsilon);
        #else
        const float scale = metal::precise::rsqrt(mean + epsilon);
        #endif

        for (uint start = own; start < own + columns; start += VALUES * stride) {{
            if (!HELD) {{
                {READ_AGAIN}
            }}
            #pragma clang loop unroll(full)
            for (uint v = 0; v < VALUES; ++v) {{
                const uint column = start + v * stride;
                xlstm_pack<float, PACK> pack;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    pack.at[k] = NORMAL(v, k) * WEIGHT(v, k) + BIAS(v, k);
                    #if GATED
                    pack.at[k] = metal::fast::divide(
                        pack.at[k], 1.0f + metal::precise::exp(-gates.number(v, k)));
                    #endif
                }}
                if (column < width) {{
                    xlstm_store(row_normalised + column, pack);
                }}
            }}
        }}
    }}
"""


def _launch(values: mx.array, *_others: mx.array) -> Launch:
    batch, length, heads, columns = values.shape
    return replace(
        row_launch(values),
        output_shapes=((batch, length, heads * columns),),
        output_dtypes=(values.dtype,),
    )


@functools.cache
def norm_kernel(extras: tuple[str, ...] = (), *, centred: bool = False) -> Kernel:
    """The kernel of an RMS norm, or with `centred` of a layer norm, over the last of four axes.

    Its inputs are the values (B, S, NH, DH), epsilon (0-d), and the extras: weight (NH*DH), bias
    (NH*DH) and gate (B, S, NH*DH), all of any strides. It gives (B, S, NH*DH).
    """
    return Kernel(
        name=kernel_name("norm", extras, centred=centred),
        inputs=("values", "epsilon", *extras),
        outputs=("normalised",),
        launch=_launch,
        header=switches(extras, centred=centred) + ROWS,
        contiguous_inputs=False,
        body=_BODY,
    )
