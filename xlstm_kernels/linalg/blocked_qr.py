"""QR by blocks of Householder reflections: for matrices beyond `householder.fits`.

A kernel factors a panel of up to 32 columns, a threadgroup for each matrix and a SIMD group for
each column, and gives the compact WY form of its reflections: H_0 H_1 ... = I - V T V' (Schreiber
and Van Loan 1989). MLX's matrix products apply that to the columns on the right. All matrices are
transposed here, so that lanes read a column's neighbouring elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import products
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.linalg.householder import REFLECTION

if TYPE_CHECKING:
    from xlstm_kernels.products import Operand

_PANEL = 32
_SIMD_WIDTH = 32


def blocked_qr(
    matrices: mx.array, *, q_columns: int, r_rows: int, backend: str
) -> tuple[mx.array, ...]:
    """Factor a batch of matrices of any size, as `householder.small_qr`."""
    batch, rows, columns = matrices.shape
    factors = min(rows, columns)
    right = mx.swapaxes(matrices, 1, 2)
    panels, blocks = [], []
    for start in range(0, factors, _PANEL):
        width = min(_PANEL, factors - start)
        v, r, t = _KERNEL(right[:, :width], backend=backend)
        right = right[:, width:]
        if right.size:
            right = _reflected(right, v, t)
        before = mx.zeros((batch, width, start), dtype=mx.float32)
        after = mx.swapaxes(right[:, :, :width], 1, 2)
        blocks.append(mx.concatenate([before, r, after], axis=2))
        panels.append((v, t))
        right = right[:, :, width:]
    below = mx.zeros((batch, r_rows - factors, columns), dtype=mx.float32)
    r = mx.concatenate([*blocks, below], axis=1)
    if not q_columns:
        return (r,)
    q = mx.broadcast_to(
        mx.eye(q_columns - factors, rows - factors, dtype=mx.float32),
        (batch, q_columns - factors, rows - factors),
    )
    for v, t in reversed(panels):
        reflections = _finite(v), mx.swapaxes(_finite(t), 1, 2)
        q = _reflected(_bordered(q, v.shape[1]), *reflections)
        q = q + mx.expand_dims(_undefined(v, q.shape[1]), axis=2)
    return mx.swapaxes(q, 1, 2), r


def _finite(array: mx.array) -> mx.array:
    return mx.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)


def _undefined(v: mx.array, columns: int) -> mx.array:
    """0 for the columns of Q before the first reflection that is not finite, NaN from there on.

    As in LAPACK, whose products skip the zeros of V and T; 0 times NaN would reach all columns.
    """
    first = mx.cumsum(mx.sum(v - v, axis=2), axis=1)
    rest = (*first.shape[:1], columns - first.shape[1])
    return mx.concatenate([first, mx.broadcast_to(first[:, -1:], rest)], axis=1)


def _reflected(rows: mx.array, v: mx.array, t: mx.array) -> mx.array:
    """Rows (B, R, M) times I - V T V', of V' (B, K, M) and T (B, K, K)."""
    exact = products.exact()
    vectors: Operand = exact.operand(v)
    along = exact.operand(exact.operand(rows) @ vectors.transposed)
    weights = exact.operand(mx.negative(along @ exact.operand(t)))
    return weights.times(vectors, plus=rows)


def _bordered(q: mx.array, width: int) -> mx.array:
    """Q' with `width` rows and columns of the identity before it."""
    batch, _, length = q.shape
    identity = mx.broadcast_to(
        mx.eye(width, width + length, dtype=mx.float32), (batch, width, width + length)
    )
    return mx.concatenate([identity, mx.pad(q, [(0, 0), (0, 0), (width, 0)])], axis=1)


def _launch(panel: mx.array) -> Launch:
    batch, width, _ = panel.shape
    threads = width * _SIMD_WIDTH
    return Launch(
        grid=(batch * threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=(panel.shape, (batch, width, width), (batch, width, width)),
        output_dtypes=(mx.float32,) * 3,
        template=(("WIDTH", width),),
    )


_KERNEL = Kernel(
    name="xlstm_qr_panel",
    inputs=("panel",),
    outputs=("v", "r", "t"),
    launch=_launch,
    header=REFLECTION,
    body="""
    // panel, v: (batch, WIDTH, length), columns of the panel, contiguous; length >= WIDTH.
    // r, t: (batch, WIDTH, WIDTH), upper triangular.
    threadgroup float tails[2];
    threadgroup float taus[WIDTH];
    threadgroup float gram[WIDTH][WIDTH + 1];  // above the diagonal, of the columns of V
    const uint length = panel_shape[2];
    const uint lane = thread_index_in_simdgroup;
    const uint c = simdgroup_index_in_threadgroup;  // the SIMD group's column
    const int64_t first = static_cast<int64_t>(threadgroup_position_in_grid.x) * WIDTH;
    device float* mine = v + (first + c) * length;

    float largest = 0.0f;
    for (uint i = lane; i < length; i += 32) {
        const float value = panel[(first + c) * length + i];
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

    // Column c of R, and V in the place of the panel: its last column is still to be scaled.
    for (uint i = lane; i < WIDTH; i += 32) {
        const float above = i < c ? mine[i] : 0.0f;
        r[(first + i) * WIDTH + c] = i == c ? own.beta : above;
    }
    for (uint i = lane; i < length; i += 32) {
        if (i <= c) {
            mine[i] = i == c ? 1.0f : 0.0f;
        } else if (c + 1 == WIDTH) {
            mine[i] = mine[i] * own.scale * own.inverse;
        }
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
