"""The gradients of norms of rows in Metal, all by one kernel, which reads x and dy once.

With n the normalised row, s what it was multiplied by, and r = n * weight + bias:

    p = dy * sigmoid(gate),  g = p * weight
    dx = s (g - mean(g) - n mean(g n)), without mean(g) for the RMS norm
    dweight, dbias = sums over the rows of p * n and of p
    dgate = dy * r * sigmoid'(gate)

Mean and s are computed anew. A threadgroup takes rows of one head, as in `rows`, and keeps the sums
for the weight and the bias in registers until it has been through all of them.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import SIGMOID
from xlstm_kernels.norm.rows import (
    LOCATE,
    MEAN,
    READ_AGAIN,
    ROW,
    ROWS,
    kernel_name,
    row_launch,
    switches,
)

_ROWS_PER_SIMDGROUP = 32


def _launch(extras: tuple[str, ...], values: mx.array, *others: mx.array) -> Launch:
    launch = row_launch(
        values,
        rows_per_simdgroup=_ROWS_PER_SIMDGROUP,
        streams=2 + ("gate" in extras),
    )
    _, _, heads, columns = values.shape
    threads, places, _ = launch.threadgroup
    sums = ((launch.grid[0] // threads * places, heads * columns), mx.float32)
    gate = others[-1]
    made = {"weight": sums, "bias": sums, "gate": (gate.shape, gate.dtype)}
    shapes, dtypes = zip(
        (values.shape, values.dtype), *(made[name] for name in extras), strict=True
    )
    template = (*launch.template, ("GateT", gate.dtype))
    return replace(launch, output_shapes=shapes, output_dtypes=dtypes, template=template)


_BODY = f"""
    // values: (batch, length, heads, columns); epsilon: 0-d; weight, bias: (heads * columns);
    // cotangent, gate: (batch, length, heads * columns), all of any strides. values_gradient: as
    // values, gate_gradient: as gate; weight_sums, bias_sums: (threadgroups * places, heads *
    // columns), of the rows that a place of a threadgroup takes. These are contiguous.
    #if CENTRED
    threadgroup float partial[SIMDGROUPS];
    threadgroup float4 partial_moments[SIMDGROUPS];
    #else
    threadgroup float2 partial_moments[SIMDGROUPS];
    #endif
    {LOCATE}
    const uint first_base = threadgroup_position_in_grid.x * places;
    const int64_t block = static_cast<int64_t>(first_base + place) * features + first;
    #if WEIGHTED
    const auto own_weight_sums = weight_sums + block;
    xlstm_packs<float, VALUES, PACK> weight_held = {{}};
    #endif
    #if BIASED
    const auto own_bias_sums = bias_sums + block;
    xlstm_packs<float, VALUES, PACK> bias_held = {{}};
    #endif
    for (uint base = first_base; base < rows; base += taken) {{
{ROW}
        const auto row_cotangent = cotangent + (batch * cotangent_strides[0]
            + position * cotangent_strides[1] + first * cotangent_strides[2]);
        auto given = xlstm_read_row<VALUES, PACK>(
            row_cotangent, cotangent_strides[2], own, stride, width);

        #if CENTRED
{MEAN}        // Of the differences from the mean as rounded, as in `rows`: d, d^2, g, g d.
        float4 moments = float4(0.0f);
        #else
        float2 moments = float2(0.0f);  // x^2, g x
        #endif
        for (uint start = own; start < own + columns; start += VALUES * stride) {{
            if (!HELD) {{
                given = xlstm_read_row<VALUES, PACK>(
                    row_cotangent, cotangent_strides[2], start, stride, width);
                {READ_AGAIN}
            }}
            #pragma clang loop unroll(full)
            for (uint v = 0; v < VALUES; ++v) {{
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    const float pulled = given.number(v, k) * OPENED(v, k).x * WEIGHT(v, k);
                    #if CENTRED
                    const bool present = start + v * stride + k < width;
                    const float distance = present ? held.number(v, k) - mean : 0.0f;
                    moments += float4(distance, distance * distance, pulled, pulled * distance);
                    #else
                    moments += held.number(v, k) * float2(held.number(v, k), pulled);
                    #endif
                }}
            }}
        }}
        moments = xlstm_row_sum<SIMDGROUPS>(moments, partial_moments, simdgroup, lane)
            / static_cast<float>(columns);
        #if CENTRED
        const float variance = metal::max(moments.y - moments.x * moments.x, 0.0f);
        const float scale = metal::precise::rsqrt(variance + epsilon);
        const float mean_pulled = moments.z;
        const float along = scale * (moments.w - moments.x * moments.z);
        #else
        const float scale = metal::precise::rsqrt(moments.x + epsilon);
        const float mean_pulled = 0.0f;
        const float along = scale * moments.y;
        #endif

        for (uint start = own; start < own + columns; start += VALUES * stride) {{
            if (!HELD) {{
                given = xlstm_read_row<VALUES, PACK>(
                    row_cotangent, cotangent_strides[2], start, stride, width);
                {READ_AGAIN}
            }}
            #pragma clang loop unroll(full)
            for (uint v = 0; v < VALUES; ++v) {{
                const uint column = start + v * stride;
                xlstm_pack<float, PACK> pack;
                xlstm_pack<float, PACK> gate_pack;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    const float normal = NORMAL(v, k);
                    const float2 opened = OPENED(v, k);
                    const float through = given.number(v, k) * opened.x;
                    const float result = normal * WEIGHT(v, k) + BIAS(v, k);
                    gate_pack.at[k] = given.number(v, k) * result * opened.y;
                    pack.at[k] = scale * (through * WEIGHT(v, k) - mean_pulled - normal * along);
                    // Rows that do not fit the registers have their sums in memory, where no other
                    // thread looks at them.
                    #if WEIGHTED
                    if (column < width && HELD) {{
                        weight_held.at[v].at[k] += through * normal;
                    }} else if (column < width) {{
                        own_weight_sums[column + k] = through * normal
                            + (base == first_base ? 0.0f : own_weight_sums[column + k]);
                    }}
                    #endif
                    #if BIASED
                    if (column < width && HELD) {{
                        bias_held.at[v].at[k] += through;
                    }} else if (column < width) {{
                        own_bias_sums[column + k] = through
                            + (base == first_base ? 0.0f : own_bias_sums[column + k]);
                    }}
                    #endif
                }}
                if (column < width) {{
                    const int64_t element = row * features + first + column;
                    xlstm_store(values_gradient + element, pack);
                    #if GATED
                    xlstm_store(gate_gradient + element, gate_pack);
                    #endif
                }}
            }}
        }}
    }}
    #if WEIGHTED || BIASED
    if (HELD) {{
        #pragma clang loop unroll(full)
        for (uint v = 0; v < VALUES; ++v) {{
            const uint column = own + v * stride;
            if (column < columns) {{
                #if WEIGHTED
                xlstm_store(own_weight_sums + column, weight_held.at[v]);
                #endif
                #if BIASED
                xlstm_store(own_bias_sums + column, bias_held.at[v]);
                #endif
            }}
        }}
    }}
    #endif
"""


@functools.cache
def norm_gradient_kernel(extras: tuple[str, ...], *, centred: bool) -> Kernel:
    """The kernel of all gradients of a norm with these extras, of x, epsilon, dy and the extras.

    Those in the weight and the bias are sums over rows, (sums, NH*DH), that are still to be summed.
    """
    outputs = {"weight": "weight_sums", "bias": "bias_sums", "gate": "gate_gradient"}
    return Kernel(
        name=kernel_name("norm_gradient", extras, centred=centred),
        inputs=("values", "epsilon", "cotangent", *extras),
        outputs=("values_gradient", *(outputs[name] for name in extras)),
        launch=functools.partial(_launch, extras),
        header=switches(extras, centred=centred) + ROWS + SIGMOID,
        contiguous_inputs=False,
        body=_BODY,
    )
