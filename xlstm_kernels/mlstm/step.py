"""One step of the mLSTM, as in generating a token.

Beck et al., "xLSTM: Extended Long Short-Term Memory" (2024), section 2.3, with the stabiliser m of
its appendix. From the state C (DK, DV), n (DK), m of a head, q and k (DK), v (DV), and the gates:

    m' = max(log sigmoid(f) + m, i)
    forget = exp(log sigmoid(f) + m - m'),  admit = exp(i - m')
    C' = forget C + admit k v^T,  n' = forget n + admit k
    h = s C'^T q / (max(|s q^T n'|, exp(-m')) + eps),  s = 1 / sqrt(DK)

Where i and log sigmoid(f) + m are both minus infinity, so is m', and C', n' and h are zero.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.arguments import non_negative
from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm import recurrence
from xlstm_kernels.mlstm.arguments import (
    States,
    initial_states,
    require_sequence,
    require_state_dtype,
    rounding_scale,
)
from xlstm_kernels.mlstm.chunked.operation import Form, sequence_gradient
from xlstm_kernels.msl import LOG_SIGMOID, MLSTM_GATES, PACKS, PAIRS

_OPERATOR = "mlstm_step"
_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 16
_ROWS = 4  # that a simdgroup loads together
_PACK_BYTES = 16
_FEWEST_TILES = 256  # threadgroups that keep a large GPU busy


@on_stream
def mlstm_step(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c: mx.array,
    n: mx.array,
    m: mx.array,
    eps: float = 1e-6,
    dtype_state: mx.Dtype = mx.float32,
    *,
    normalizer_grad: bool = True,
    backend: str | None = None,
    stream: StreamLike = None,
) -> tuple[mx.array, States]:
    """Take the mLSTM one step further.

    Computed in float32; each result is rounded once. Differentiable any number of times, exactly,
    in all arrays. Errors are those of `mlstm_chunkwise`.

    Args:
        q: (B, NH, DK), the query; float32, float16 or bfloat16, as all that follow.
        k: (B, NH, DK), the key, not scaled; the dtype of q.
        v: (B, NH, DV), the value; the dtype of q.
        i: (B, NH) or (B, NH, 1), the input gate before its exp. It may be minus infinity.
        f: (B, NH) or (B, NH, 1), the forget gate before its sigmoid. It may be infinite.
        c: (B, NH, DK, DV), the state C, scaled by exp(-m).
        n: (B, NH, DK), the normaliser's state, scaled by exp(-m).
        m: (B, NH, 1) or (B, NH), the logarithm of their scale.
        eps: a number, zero or positive, added to the denominator. It is not scaled by exp(-m).
        dtype_state: the dtype of the states returned. h is made of them before that rounding.
        normalizer_grad: whether gradients flow through the normaliser and m: see `mlstm_chunkwise`.
        backend: as in `mlstm_chunkwise`.

    Returns:
        h (B, NH, DV) in the dtype of v, and the states c, n and m (B, NH, 1) in `dtype_state`.
    """
    # Gates may have a last axis of one element.
    i, f = (mx.squeeze(x, axis=2) if x.shape == (*q.shape[:2], 1) else x for x in (i, f))
    require_sequence(_OPERATOR, q, k, v, i, f, axes=("B", "NH"))
    if initial_states(_OPERATOR, q, v, (c, n, m)) is None:
        raise ValueError(f"{_OPERATOR}: the states c, n and m must be given")
    require_state_dtype(_OPERATOR, dtype_state)
    form = Form(None, non_negative(_OPERATOR, "eps", eps), normalizer_grad=bool(normalizer_grad))
    operation = _step(resolve(backend), form, dtype_state)
    m = mx.squeeze(m, axis=2) if m.ndim == 3 else m
    h, *states = operation(q, k, v, i, f, c, n, m)
    return h, States(*states)


def mlstm_step_reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    *states: mx.array,
    eps: float = 1e-6,
    dtype_state: mx.Dtype = mx.float32,
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """The h, c, n and m of `mlstm_step`, in MLX operations; i, f and the m given are (B, NH)."""
    c, n, m = states
    i, f, m = (mx.expand_dims(array, axis=2) for array in (i, f, m))
    of_gates = recurrence.factors(i, f, m.astype(mx.float32))
    forget, admit, floor = (mx.squeeze(array, axis=2) for array in of_gates[:-1])
    c, n = recurrence.updated(c, n, k, v, forget, admit)
    h = recurrence.read_out(q, c, n, floor, eps).astype(v.dtype)
    return h, *States(c, n, of_gates.m).stored(dtype_state)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes 32 * PACK columns of C, a lane PACK of them, up to 16 bytes. Its simdgroups
# share the rows, whose keys and queries they find in threadgroup memory. The grid is whole
# threadgroups. All of them run at the same time on a large GPU, so what counts is that loads begin
# early, that little is left to do after the last one, and that the code fits the GPU's cache.


def _launch(
    query: mx.array, _key: mx.array, value: mx.array, *others: mx.array, dtype_state: mx.Dtype
) -> Launch:
    batch, heads, keys = query.shape
    values = value.shape[2]
    stored = others[2].dtype
    pack = _PACK_BYTES // max(stored.size, dtype_state.size)
    while pack > 1 and (values % pack or batch * heads * values < _FEWEST_TILES * 32 * pack):
        pack //= 2
    tiles = math.ceil(values / (_SIMD_WIDTH * pack))
    simdgroups = min(math.ceil(keys / _ROWS), _MAX_SIMDGROUPS)
    leading = (batch, heads)
    return Launch(
        grid=(tiles * _SIMD_WIDTH, heads * simdgroups, batch),
        threadgroup=(_SIMD_WIDTH, simdgroups, 1),
        output_shapes=(value.shape, (*leading, keys, values), query.shape, (*leading, 1)),
        output_dtypes=(value.dtype, dtype_state, dtype_state, dtype_state),
        template=(
            ("T", value.dtype),
            ("State", dtype_state),
            ("Stored", stored),
            ("PACK", pack),
            ("SIMDGROUPS", simdgroups),
            ("ROWS", _ROWS),
        ),
    )


KERNEL = Kernel(
    name="xlstm_mlstm_step",
    inputs=(
        "query",
        "key",
        "value",
        "input_gate",
        "forget_gate",
        "c_before",
        "n_before",
        "m_before",
        "epsilon",
    ),
    outputs=("h", "c_after", "n_after", "m_after"),
    launch=_launch,
    contiguous_inputs=False,
    header=LOG_SIGMOID + PAIRS + MLSTM_GATES + PACKS,
    body="""
    // query, key: (B, NH, DK); value: (B, NH, DV); input_gate, forget_gate, m_before: (B, NH);
    // c_before: (B, NH, DK, DV); n_before: (B, NH, DK): all as they lie; epsilon: 0-d.
    // h, c_after, n_after, m_after: contiguous.
    constexpr uint THREADS = SIMDGROUPS * 32;
    threadgroup float2 factors[THREADS];  // the key, times its gate, and the query of a row
    threadgroup float read_sums[SIMDGROUPS][32 * PACK];
    threadgroup float inner_sums[SIMDGROUPS];
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint member = simdgroup * 32 + lane;
    const uint heads = query_shape[1];
    const uint keys = query_shape[2];
    const uint values = value_shape[2];
    const uint head = threadgroup_position_in_grid.y;
    const uint batch = threadgroup_position_in_grid.z;
    const uint first_column = threadgroup_position_in_grid.x * 32 * PACK;
    const uint column = first_column + lane * PACK;
    const uint rows = column < values ? keys : 0;
    const size_t sequence = static_cast<size_t>(batch) * heads + head;
    auto queries = query + batch * query_strides[0] + head * query_strides[1];
    auto keys_of_head = key + batch * key_strides[0] + head * key_strides[1];
    auto n_old = n_before + batch * n_before_strides[0] + head * n_before_strides[1];
    auto c_old = c_before + batch * c_before_strides[0] + head * c_before_strides[1]
        + column * c_before_strides[3];
    auto c_new = c_after + sequence * keys * values + column;

    // While the first rows are under way, the gates are computed.
    uint row = simdgroup * ROWS;
    auto block = xlstm_read_packs<ROWS, PACK>(c_old + row * c_before_strides[2],
        c_before_strides[2], c_before_strides[3], row < rows ? rows - row : 0);
    const auto value_own = xlstm_load<PACK>(
        value + batch * value_strides[0] + head * value_strides[1] + column * value_strides[2],
        value_strides[2], column < values ? PACK : 0);
    float3 given = 0.0f;
    if (lane == 0) {
        given.x = input_gate[batch * input_gate_strides[0] + head * input_gate_strides[1]];
        given.y = forget_gate[batch * forget_gate_strides[0] + head * forget_gate_strides[1]];
        given.z = m_before[batch * m_before_strides[0] + head * m_before_strides[1]];
    }
    given = simd_broadcast(given, 0);
    const float2 admitted = float2(given.x, 0.0f);
    const float2 kept = xlstm_pair_add(xlstm_log_sigmoid_pair(given.y), given.z);
    // m is one float, and it is that by which C and n are scaled; what its rounding to State
    // changes, they make up for.
    const float2 m = float2(xlstm_pair_max(kept, admitted).x, 0.0f);
    const State m_stored = static_cast<State>(m.x);
    const float lost = m.x - static_cast<float>(m_stored);
    const float rounding = metal::isfinite(lost) ? metal::precise::exp(lost) : 1.0f;
    const float forget = xlstm_gate(kept, m);
    const float admit = xlstm_gate(admitted, m);

    float read[PACK] = {};
    float inner = 0.0f;
    for (uint first = 0; first < keys; first += THREADS) {
        const uint row_own = first + member;
        float2 factor_own = 0.0f;
        if (row_own < keys) {
            const float query_own = static_cast<float>(queries[row_own * query_strides[2]]);
            const float key_own =
                admit * static_cast<float>(keys_of_head[row_own * key_strides[2]]);
            const float n_new =
                forget * static_cast<float>(n_old[row_own * n_before_strides[2]]) + key_own;
            inner += query_own * n_new;
            factor_own = float2(key_own, query_own);
            if (first_column == 0) {
                n_after[sequence * keys + row_own] = static_cast<State>(rounding * n_new);
            }
        }
        factors[member] = factor_own;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma clang loop unroll(disable)
        for (; row < metal::min(first + THREADS, keys); row += SIMDGROUPS * ROWS) {
            #pragma clang loop unroll(full)
            for (uint j = 0; j < ROWS; ++j) {
                const float2 factor = factors[row + j - first];
                xlstm_pack<State, PACK> stored;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {
                    const float c = forget * block.number(j, k) + factor.x * value_own.at[k];
                    read[k] += factor.y * c;
                    stored.at[k] = static_cast<State>(rounding * c);
                }
                if (row + j < rows) {
                    // Contiguous, and PACK divides `values`.
                    *reinterpret_cast<device xlstm_pack<State, PACK>*>(c_new + (row + j) * values) =
                        stored;
                }
            }
            const uint next = row + SIMDGROUPS * ROWS;
            block = xlstm_read_packs<ROWS, PACK>(c_old + next * c_before_strides[2],
                c_before_strides[2], c_before_strides[3], next < rows ? rows - next : 0);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    inner = simd_sum(inner);
    #pragma clang loop unroll(full)
    for (uint k = 0; k < PACK; ++k) {
        read_sums[simdgroup][lane * PACK + k] = read[k];
    }
    if (lane == 0) {
        inner_sums[simdgroup] = inner;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float inner_sum = 0.0f;
    for (uint other = 0; other < SIMDGROUPS; ++other) {
        inner_sum += inner_sums[other];
    }
    const float scale = metal::precise::rsqrt(static_cast<float>(keys));
    const float normaliser = metal::max(metal::abs(scale * inner_sum), xlstm_floor(m));
    for (uint own = member; own < metal::min(32 * uint(PACK), values - first_column);
         own += THREADS) {
        float read_sum = 0.0f;
        for (uint other = 0; other < SIMDGROUPS; ++other) {
            read_sum += read_sums[other][own];
        }
        h[sequence * values + first_column + own] =
            static_cast<T>(scale * read_sum / (normaliser + epsilon));
    }
    if (first_column == 0 && member == 0) {
        m_after[sequence] = m_stored;
    }
    """,
    resident_threadgroups=2,
)


@functools.cache
def _step(backend: str, form: Form, dtype_state: mx.Dtype) -> Operation:
    """The differentiable operation (q, k, v, i, f, c, n, m) -> (h, c, n, m) on one backend."""
    reference = functools.partial(mlstm_step_reference, eps=form.eps, dtype_state=dtype_state)

    def launch(*arrays: mx.array) -> Arrays:
        eps = mx.array(form.eps, dtype=mx.float32)
        return KERNEL(*arrays, eps, backend=backend, dtype_state=dtype_state)

    # A step is a sequence of one.
    of_sequence = sequence_gradient(form, backend, carried=True, masked=False)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        *inputs, c, n, m = primals
        h, *states = cotangents
        states = [array.astype(mx.float32) for array in states]
        if dtype_state != mx.float32:
            gates = (mx.expand_dims(array.astype(mx.float32), axis=2) for array in (*inputs[3:], m))
            scale = rounding_scale(recurrence.factors(*gates).m, dtype_state)
            states[:2] = mx.expand_dims(scale, axis=3) * states[0], scale * states[1]
        whole = of_sequence(
            (
                *(mx.expand_dims(array, axis=2) for array in inputs),
                *(array.astype(mx.float32) for array in (c, n, mx.expand_dims(m, axis=2))),
            ),
            (mx.expand_dims(h, axis=2), *states),
        )
        parts = (mx.squeeze(array, axis=2) for array in (*whole[:5], whole[7]))
        *of_inputs, of_m = parts
        of_states = (*whole[5:7], of_m)
        typed = zip(of_states, (c, n, m), strict=True)
        return (*of_inputs, *(array.astype(state.dtype) for array, state in typed))

    return on_backend(backend, launch, reference, gradient, operator=_OPERATOR)
