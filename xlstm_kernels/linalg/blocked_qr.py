"""QR by blocks of Householder reflections: for matrices beyond `householder.fits`.

A kernel factors a panel of up to 32 columns, a threadgroup for each matrix and a SIMD group for
each column, and gives the compact WY form of its reflections: H_0 H_1 ... = I - V T V' (Schreiber
and Van Loan 1989). Another kernel applies that to the columns on the right, and, in the reverse
order, to those of the identity, which become Q. It computes in float32, where MLX's products would
take TF32. All matrices are transposed here, so that lanes read a column's neighbouring elements.
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.arithmetic import replayed
from xlstm_kernels.linalg.householder import REFLECTION

_PANEL = 32
_SIMD_WIDTH = 32
_COLUMNS = 8  # columns of a matrix, and SIMD groups, of a threadgroup


def blocked_qr(
    matrices: mx.array, *, q_columns: int, r_rows: int, backend: str
) -> tuple[mx.array, ...]:
    """Factor a batch of matrices of any size, as `householder.small_qr`."""
    factor = replayed(_by_panels, backend, q_columns=q_columns, r_rows=r_rows)
    factors: tuple[mx.array, ...] = factor(matrices)
    return factors


def _by_panels(
    matrices: mx.array, *, q_columns: int, r_rows: int, backend: str
) -> tuple[mx.array, ...]:
    batch, rows, columns = matrices.shape
    factors = min(rows, columns)
    state = mx.swapaxes(matrices, 1, 2)
    panels = []
    for start in range(0, factors, _PANEL):
        end = min(start + _PANEL, factors)
        v, t = _KERNEL(state[:, start:end, start:], backend=backend)
        (state,) = _REFLECT(state, v, t, backend=backend, forms_q=False)
        panels.append((v, t))
    r = mx.swapaxes(state[:, :, :r_rows], 1, 2)
    if not q_columns:
        return (r,)
    q = mx.broadcast_to(mx.eye(q_columns, rows, dtype=mx.float32), (batch, q_columns, rows))
    for v, t in reversed(panels):
        (q,) = _REFLECT(q, v, t, backend=backend, forms_q=True)
    return mx.swapaxes(q, 1, 2) + _undefined(r, q_columns), r


def _undefined(r: mx.array, columns: int) -> mx.array:
    """0 (B, 1, columns) for columns of Q before R's first diagonal that is not finite, then NaN.

    As in LAPACK, whose products skip the zeros of V and T; 0 times NaN would reach all columns.
    """
    diagonal = mx.diagonal(r, axis1=1, axis2=2)
    found = mx.cumsum(diagonal - diagonal, axis=1)
    last = mx.broadcast_to(found[:, -1:], (found.shape[0], max(columns - found.shape[1], 0)))
    return mx.concatenate([found[:, :columns], last], axis=1)[:, None]


def _launch(panel: mx.array) -> Launch:
    batch, width, _ = panel.shape
    t_shape = (batch, width, width)
    return Launch.of_groups(batch, width * _SIMD_WIDTH, panel.shape, t_shape, WIDTH=width)


_KERNEL = Kernel(
    name="xlstm_qr_panel",
    inputs=("panel",),
    outputs=("v", "t"),
    launch=_launch,
    header=REFLECTION,
    contiguous_inputs=False,
    body="""
    // panel: (batch, WIDTH, length), columns of the panel, of any strides; length >= WIDTH.
    // v: the same, contiguous, R down to the diagonal and V below; t: (batch, WIDTH, WIDTH), upper
    // triangular.
    threadgroup float tails[2];
    threadgroup float taus[WIDTH];
    threadgroup float gram[WIDTH][WIDTH + 1];  // above the diagonal, of the columns of V
    const uint length = panel_shape[2];
    const uint lane = thread_index_in_simdgroup;
    const uint c = simdgroup_index_in_threadgroup;  // the SIMD group's column
    const int64_t matrix = threadgroup_position_in_grid.x;
    const int64_t first = matrix * WIDTH;
    const int64_t given = matrix * panel_strides[0] + c * panel_strides[1];
    device float* mine = v + (first + c) * length;

    float largest = 0.0f;
    for (uint i = lane; i < length; i += 32) {
        const float value = panel[given + i * panel_strides[2]];
        mine[i] = value;
        largest = metal::max(largest, i > 0 ? metal::abs(value) : 0.0f);
    }
    largest = simd_max(largest);
    if (c == 0 && lane == 0) {
        tails[0] = largest;
    }
    xlstm_reflection own = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint k = 0; k < WIDTH; ++k) {
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        const device float* pivot = v + (first + k) * length;
        const float alpha = pivot[k];
        const float tail = tails[k % 2];
        const float scale = xlstm_power_scale(metal::max(tail, metal::abs(alpha)));
        // This lane's first row after k.
        const uint row = k + 1 + (lane + 31 - k % 32) % 32;
        float head = lane == k % 32 ? mine[k] : 0.0f;
        if (c + 1 == k) {
            // No other column needs this one any more: below row c it becomes v.
            head = head * own.scale * own.inverse;
            for (uint i = row; i < length; i += 32) {
                mine[i] = mine[i] * own.scale * own.inverse;
            }
            if (lane == k % 32) {
                mine[k] = head;
            }
        }
        float squares = 0.0f;
        float along = 0.0f;
        for (uint i = row; i < length; i += 32) {
            const float x = pivot[i] * scale;
            squares += x * x;
            along += x * mine[i];
        }
        squares = simd_sum(squares);
        along = simd_sum(along);
        head = simd_sum(head);
        const xlstm_reflection h = xlstm_reflect(alpha, squares, tail, scale);
        const float product = head + along * h.inverse;
        if (c > k) {
            const float weight = h.tau * product;
            largest = 0.0f;
            if (lane == k % 32) {
                mine[k] = head - weight;
            }
            for (uint i = row; i < length; i += 32) {
                const float left = mine[i] - weight * h.inverse * (pivot[i] * scale);
                mine[i] = left;
                largest = metal::max(largest, i > k + 1 ? metal::abs(left) : 0.0f);
            }
            largest = simd_max(largest);
            if (c == k + 1 && lane == 0) {
                tails[(k + 1) % 2] = largest;
            }
        } else if (c == k) {
            own = h;
            if (lane == 0) {
                taus[k] = h.tau;
            }
        } else if (lane == 0) {
            gram[c][k] = product;
        }
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);

    // The last column is still to be scaled.
    if (lane == 0) {
        mine[c] = own.beta;
    }
    for (uint i = WIDTH + lane; c + 1 == WIDTH && i < length; i += 32) {
        mine[i] = mine[i] * own.scale * own.inverse;
    }
    // Row c of T, an element a lane: T[c][k] = -tau_k sum of T[c][l] gram[l][k] over l < k.
    float element = lane == c ? own.tau : 0.0f;
    for (uint k = c + 1; k < WIDTH; ++k) {
        const float term = lane >= c && lane < k ? element * gram[lane][k] : 0.0f;
        const float sum = simd_sum(term);
        element = lane == k ? -taus[k] * sum : element;
    }
    if (lane < WIDTH) {
        t[(first + c) * WIDTH + lane] = element;
    }
    """,
)


def _launch_reflect(state: mx.array, v: mx.array, _t: mx.array, *, forms_q: bool) -> Launch:
    batch, columns, _ = state.shape
    groups, threads = batch * math.ceil(columns / _COLUMNS), _COLUMNS * _SIMD_WIDTH
    return Launch.of_groups(groups, threads, state.shape, WIDTH=v.shape[1], FORMS_Q=forms_q)


_REFLECT = Kernel(
    name="xlstm_qr_reflect",
    inputs=("state", "v", "t"),
    outputs=("reflected",),
    launch=_launch_reflect,
    resident_threadgroups=2,
    contiguous_inputs=False,
    header="""
    // What is not finite counts as zero in Q: see `_undefined`.
    template <bool FORMS_Q>
    inline float xlstm_counted(float value) {
        return FORMS_Q && !metal::isfinite(value) ? 0.0f : value;
    }
    // Element i of column k of V.
    template <bool FORMS_Q, typename Columns>
    inline float xlstm_reflected(Columns v, uint height, uint k, uint i) {
        return i > k ? xlstm_counted<FORMS_Q>(v[k * height + i]) : i == k ? 1.0f : 0.0f;
    }
""",
    body=f"""
    // state: (batch, columns, length), of any strides; reflected: the same, contiguous; v: (batch,
    // WIDTH, length - start); t: (batch, WIDTH, WIDTH). V and T are contiguous.
    constexpr uint COLUMNS = {_COLUMNS};
    constexpr uint SHARE = (WIDTH + COLUMNS - 1) / COLUMNS;  // rows of V' that a SIMD group takes
    threadgroup float along[COLUMNS][{_PANEL}];
    threadgroup float weights[{_PANEL}][COLUMNS];
    const uint columns = state_shape[1];
    const uint length = state_shape[2];
    const uint height = v_shape[2];
    const uint start = length - height;
    const uint own = thread_position_in_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint part = simdgroup_index_in_threadgroup;
    const uint groups = (columns + COLUMNS - 1) / COLUMNS;
    const int64_t matrix = threadgroup_position_in_grid.x / groups;
    const uint base = threadgroup_position_in_grid.x % groups * COLUMNS;
    const uint present = metal::min(columns - base, COLUMNS);
    const auto given = state + matrix * state_strides[0] + base * state_strides[1];
    const auto vectors = v + matrix * WIDTH * height;
    const bool moves = base + present > start;
    if (moves) {{
        float sums[COLUMNS][SHARE] = {{}};
        #pragma unroll 2
        for (uint i = lane; i < height; i += 32) {{
            float found[SHARE];
            #pragma clang loop unroll(full)
            for (uint k = 0; k < SHARE; ++k) {{
                const uint row = part * SHARE + k;
                found[k] =
                    row < WIDTH ? xlstm_reflected<FORMS_Q>(vectors, height, row, i) : 0.0f;
            }}
            #pragma clang loop unroll(full)
            for (uint c = 0; c < COLUMNS; ++c) {{
                const float element = c < present
                    ? given[c * state_strides[1] + (start + i) * state_strides[2]] : 0.0f;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < SHARE; ++k) {{
                    sums[c][k] += element * found[k];
                }}
            }}
        }}
        #pragma clang loop unroll(full)
        for (uint k = 0; k < SHARE; ++k) {{
            const uint row = part * SHARE + k;
            #pragma clang loop unroll(full)
            for (uint c = 0; c < COLUMNS; ++c) {{
                const float sum = simd_sum(sums[c][k]);
                if (lane == 0 && row < WIDTH) {{
                    along[c][row] = sum;
                }}
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        // A SIMD group has a column, and a lane a reflection.
        float weight = 0.0f;
        #pragma unroll 4
        for (uint k = 0; lane < WIDTH && k < WIDTH; ++k) {{
            const float element =
                t[(matrix * WIDTH + (FORMS_Q ? lane : k)) * WIDTH + (FORMS_Q ? k : lane)];
            weight += along[part][k] * xlstm_counted<FORMS_Q>(element);
        }}
        if (lane < WIDTH) {{
            weights[lane][part] = weight;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}
    for (uint i = own; i < length; i += COLUMNS * 32) {{
        float changes[COLUMNS] = {{}};
        if (moves && i >= start) {{
            #pragma unroll 4
            for (uint k = 0; k < WIDTH; ++k) {{
                const float value = xlstm_reflected<FORMS_Q>(vectors, height, k, i - start);
                #pragma clang loop unroll(full)
                for (uint c = 0; c < COLUMNS; ++c) {{
                    changes[c] += value * weights[k][c];
                }}
            }}
        }}
        #pragma clang loop unroll(full)
        for (uint c = 0; c < COLUMNS; ++c) {{
            const uint column = base + c;
            if (c >= present) {{
                continue;
            }}
            float value = given[c * state_strides[1] + i * state_strides[2]];
            if (column >= start && i >= start) {{
                const uint k = column - start;
                if (FORMS_Q || k >= WIDTH) {{
                    value -= changes[c];
                }} else {{
                    value = i > column ? 0.0f : vectors[k * height + i - start];
                }}
            }}
            reflected[(matrix * columns + column) * length + i] = value;
        }}
    }}
    """,
)
