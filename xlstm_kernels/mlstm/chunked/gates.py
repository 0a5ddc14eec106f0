"""Log-gate prefix sums: the values of every step that depend on the gates alone.

The recurrence m_t = max(log sigmoid(f_t) + m_{t-1}, i_t) (Beck et al., "xLSTM", 2024, equation 15)
does not need the keys. With m known for every step, the factors of a step are at most one,

    log f'_t = log sigmoid(f_t) + m_{t-1} - m_t,    log i'_t = i_t - m_t,

and the weight of step s in the state after step t is exp(log i'_s + sum_{s < r <= t} log f'_r). In
a form that goes in chunks, those sums are differences of a prefix sum G within the chunk. All sums
are kept as pairs of floats (see `pairs`), or as float64 where MLX operations compute them, as G may
be in the thousands where a difference of it near zero matters. A factor below exp(-200) is zero in
float32 whatever it is multiplied with; cut off there, a hard reset (f = -inf) stays a finite
number, and the prefix sums differ by it without a NaN.

A step that is masked has log f' = 0 and log i' = -inf. The variant with a sigmoid input gate
(mLSTMsig; Beck et al., "Tiled Flash Linear Attention", 2025) has log f' = log sigmoid(f), log i' =
log sigmoid(i), needs no m, and its floor is 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.double_float import pairs
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import in_chunks
from xlstm_kernels.msl import LOG_SIGMOID, MLSTM_GATES, PAIRS

if TYPE_CHECKING:
    from xlstm_kernels.double_float.pairs import Pair

_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 32
_CUT = -200.0
_RESET = -1e4  # stands for a forget gate of -inf in sums


class LogGates(NamedTuple):
    """The values of each step that depend on the gates; (B, NH, NC, L) float32, except m.

    The last chunk is filled up with steps that are as if masked.

    Attributes:
        prefix: G, the sum of log f' from the chunk's first step to this one.
        prefix_rest: what is missing of it, a fraction of its last bit.
        admitted: log i', -inf for a masked step.
        admitted_rest: what is missing of it.
        floor: exp(-m), which bounds the normaliser from below; inf for a masked step, so that its
            h is zero.
        m: (B, NH, 1), m after the last step.
    """

    prefix: mx.array
    prefix_rest: mx.array
    admitted: mx.array
    admitted_rest: mx.array
    floor: mx.array
    m: mx.array

    @property
    def exponents(self) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """G and log i', two parts of each."""
        return self.prefix, self.prefix_rest, self.admitted, self.admitted_rest


def log_gates(
    i: mx.array,
    f: mx.array,
    m_initial: mx.array,
    mask: mx.array | None,
    *,
    chunk_size: int,
    sigmoid_input: bool,
    backend: str,
) -> LogGates:
    """Prefix sums of the log-gates, in chunks.

    Args:
        i: (B, NH, S), input gates before their activation.
        f: (B, NH, S), forget gates before their sigmoid.
        m_initial: (B, NH, 1) float32.
        mask: (B, S) booleans, or None for all True.
        chunk_size: steps of a chunk.
        sigmoid_input: the input gate's activation is the sigmoid, else the exponential function.
        backend: as `executors.resolve` returned it.
    """
    if backend != executors.NATIVE:
        kernel = KERNELS[mask is not None, sigmoid_input]
        masks = () if mask is None else (mask,)
        return LogGates(*kernel(i, f, m_initial, *masks, backend=backend, chunk_size=chunk_size))
    # Sums are in float64, which only the CPU has.
    with mx.stream(mx.cpu):
        forget = _doubled(pairs.log_sigmoid(f.astype(mx.float32)))
        admit = i.astype(mx.float32)
        admit = _doubled(pairs.log_sigmoid(admit) if sigmoid_input else pairs.pair(admit))
        if mask is not None:
            live = mx.broadcast_to(mx.expand_dims(mask, axis=1), i.shape)
            forget = mx.where(live, forget, mx.zeros_like(forget))
            admit = mx.where(live, admit, mx.array(-mx.inf, dtype=admit.dtype))
        if sigmoid_input:
            floor, m_last = mx.ones(i.shape, dtype=mx.float32), m_initial
        else:
            forget, admit, floor, m_last = _stabilised(forget, admit, m_initial)
        if mask is not None:
            floor = mx.where(live, floor, mx.array(mx.inf, dtype=floor.dtype))
        cut = mx.array(_CUT, dtype=mx.float64)
        decay = in_chunks(mx.where(forget < cut, cut, forget), chunk_size)
        prefix = _halved(mx.cumsum(decay, axis=-1))
        admitted = _halved(in_chunks(admit, chunk_size, fill=-mx.inf))
        floor = in_chunks(floor, chunk_size, fill=mx.inf)
    return LogGates(prefix.high, prefix.low, admitted.high, admitted.low, floor, m_last)


def _stabilised(
    forget: mx.array, admit: mx.array, m_initial: mx.array
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """Decay log f' (before it is cut off) and log i' in float64, the floor, and the last m."""
    nothing = mx.array(-mx.inf, dtype=mx.float64)
    first, gate = m_initial.astype(mx.float64), admit
    sums = mx.cumsum(mx.maximum(forget, mx.array(_RESET, dtype=mx.float64)), axis=-1)
    order = mx.arange(admit.shape[-1]).astype(mx.float64)
    places = [mx.where(mx.isneginf(forget), order, nothing)]
    places.append(mx.where(mx.isneginf(gate), nothing, order))
    greatest, reset, admitted = _running_maxima(mx.stack([gate - sums, *places]))
    greatest = mx.maximum(first, greatest)
    # Where the gate is what m becomes, it is that to the last digit.
    after = mx.where(gate - sums == greatest, gate, sums + greatest)
    # Nothing is left after a reset, or if nothing was there, until a gate admits something.
    never = mx.isneginf(mx.maximum(admitted, reset))
    off = mx.logical_or(admitted < reset, mx.logical_and(mx.isneginf(first), never))
    after = mx.where(off, nothing, after)
    # The caller gets m as one float: from the last step on everything is scaled by just that.
    m_last = after[..., -1:].astype(mx.float32)
    after = mx.concatenate([after[..., :-1], m_last.astype(mx.float64)], axis=-1)
    before = mx.concatenate([first, after[..., :-1]], axis=-1)
    # Where nothing is left, the differences would be of infinities.
    scale = mx.where(off, mx.zeros_like(after), after)
    decay = mx.where(off, nothing, before + forget) - scale
    admit = mx.where(off, nothing, gate) - scale
    return decay, admit, pairs.exp(_halved(mx.negative(after))), m_last


def _running_maxima(numbers: mx.array) -> mx.array:
    """The greatest number up to each place of the last axis; mx.cummax has no JVP."""
    reach = 1
    while reach < numbers.shape[-1]:
        front = mx.full((*numbers.shape[:-1], reach), -mx.inf, dtype=numbers.dtype)
        earlier = mx.concatenate([front, numbers[..., :-reach]], axis=-1)
        numbers, reach = mx.maximum(numbers, earlier), 2 * reach
    return numbers


def _doubled(pair: Pair) -> mx.array:
    return pair.high.astype(mx.float64) + pair.low.astype(mx.float64)


def _halved(numbers: mx.array) -> Pair:
    """Two float32 for each float64; infinities have no second part."""
    high = numbers.astype(mx.float32)
    low = (numbers - high.astype(mx.float64)).astype(mx.float32)
    return pairs.Pair(high, mx.where(mx.isinf(high), mx.zeros_like(low), low))


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes the sequence of one head, a simdgroup a span of whole chunks, 32 steps at a
# time, a lane a step. Composing two spans of steps, (A, M) then (A', M'), gives (A + A',
# max(M + A', M')): A is the sum of the log forget gates, M what m becomes of -inf. Scans over it
# double their reach five times a block. First each simdgroup composes its span, so that it knows
# the m that it begins with; then it goes through the span again.

_SCANS = """
    constant float xlstm_cut = -200.0f;

    inline float2 xlstm_up(float2 pair, uint distance) {
        return float2(simd_shuffle_up(pair.x, distance), simd_shuffle_up(pair.y, distance));
    }
    inline float2 xlstm_of_last_lane(float2 pair) {
        return float2(simd_broadcast(pair.x, 31), simd_broadcast(pair.y, 31));
    }
    // Of each lane's step, sum and after, become those of all steps up to the lane's.
    inline void xlstm_compose(thread float2& sum, thread float2& after, uint lane) {
        for (uint distance = 1; distance < 32; distance *= 2) {
            const float2 earlier_sum = xlstm_up(sum, distance);
            const float2 earlier = xlstm_up(after, distance);
            if (lane >= distance) {
                const float2 decayed = xlstm_pair_sum(earlier, sum);
                after = xlstm_pair_less(after, decayed) ? decayed : after;
                sum = xlstm_pair_sum(earlier_sum, sum);
            }
        }
    }
"""

_SPANS = """
    threadgroup float2 span_sum[32];
    threadgroup float2 span_after[32];
    float2 whole = float2(0.0f, 0.0f);
    float2 greatest = float2(-INFINITY, 0.0f);
    for (uint first = begin; first < end; first += 32) {{
        const uint step = first + lane;
{gates}
        float2 sum = float2(forget, 0.0f);
        float2 after = admit;
        xlstm_compose(sum, after, lane);
        sum = xlstm_of_last_lane(sum);
        after = xlstm_of_last_lane(after);
        const float2 decayed = xlstm_pair_sum(greatest, sum);
        greatest = xlstm_pair_less(after, decayed) ? decayed : after;
        whole = xlstm_pair_sum(whole, sum);
    }}
    if (lane == 0) {{
        span_sum[simdgroup] = whole;
        span_after[simdgroup] = greatest;
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint span = 0; span < simdgroup; ++span) {{
        const float2 decayed = xlstm_pair_sum(m, span_sum[span]);
        m = xlstm_pair_less(span_after[span], decayed) ? decayed : span_after[span];
    }}
"""

_GATES = """
        // log f' and log i' of this step, and the floor, of the scan over m.
        float2 sum = float2(forget, 0.0f);
        float2 after = admit;
        xlstm_compose(sum, after, lane);
        const float2 kept = xlstm_pair_sum(m, sum);
        after = xlstm_pair_less(after, kept) ? kept : after;
        if (step + 1 == steps && step < end) {
            // The caller gets m as one float: from here on everything is scaled by just that.
            after.y = 0.0f;
            m_last[batch * heads + head] = after.x;
        }
        float2 before = xlstm_up(after, 1);
        before = lane == 0 ? m : before;
        m = xlstm_of_last_lane(after);
        const bool off = after.x == -INFINITY;
        forget = off ? xlstm_cut : xlstm_pair_difference(xlstm_pair_add(before, forget), after);
        admit = off ? float2(-INFINITY, 0.0f)
            : xlstm_pair_sum(admit, float2(-after.x, -after.y));
        const float least = metal::precise::exp(-after.x) * (1.0f - after.y);
"""

_SIGMOID_GATES = """
        const float least = 1.0f;
        if (step + 1 == steps && step < end) {
            m_last[batch * heads + head] = m.x;
        }
"""


def _launch(input_gate: mx.array, *_others: mx.array, chunk_size: int) -> Launch:
    batch, heads, steps = input_gate.shape
    chunks = math.ceil(steps / chunk_size)
    whole = (batch, heads, chunks, chunk_size)
    simdgroups = min(chunks, _MAX_SIMDGROUPS)
    return Launch(
        grid=(_SIMD_WIDTH, simdgroups * heads, batch),
        threadgroup=(_SIMD_WIDTH, simdgroups, 1),
        output_shapes=(*[whole] * 5, (batch, heads, 1)),
        output_dtypes=(mx.float32,) * 6,
        template=(("CHUNK", chunk_size),),
    )


def _kernel(masked: bool, sigmoid_input: bool) -> Kernel:
    live = "mask[batch * mask_strides[0] + step * mask_strides[1]]" if masked else "true"
    gate = "static_cast<float>(input_gate[at])"
    exponent = f"xlstm_log_sigmoid_pair({gate})" if sigmoid_input else f"float2({gate}, 0.0f)"
    gates = f"""
        float forget = 0.0f;
        float2 admit = float2(-INFINITY, 0.0f);
        const bool live = step < metal::min(steps, end) && {live};
        if (live) {{
            const auto at = batch * forget_gate_strides[0] + head * forget_gate_strides[1]
                + step * forget_gate_strides[2];
            forget = xlstm_log_sigmoid(static_cast<float>(forget_gate[at]));
        }}
        if (live) {{
            const auto at = batch * input_gate_strides[0] + head * input_gate_strides[1]
                + step * input_gate_strides[2];
            admit = {exponent};
        }}"""
    return Kernel(
        name="xlstm_mlstm_gates" + "_sigmoid" * sigmoid_input + "_masked" * masked,
        inputs=("input_gate", "forget_gate", "m_initial") + ("mask",) * masked,
        outputs=(
            "prefix",
            "prefix_rest",
            "admitted",
            "admitted_rest",
            "least_normaliser",
            "m_last",
        ),
        launch=_launch,
        contiguous_inputs=False,
        header=LOG_SIGMOID + PAIRS + MLSTM_GATES + _SCANS,
        body=f"""
    // input_gate, forget_gate: (B, NH, S); m_initial: (B, NH, 1); mask: (B, S); all strided.
    // prefix, prefix_rest, admitted, admitted_rest, least_normaliser: (B, NH, NC, CHUNK).
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint head = threadgroup_position_in_grid.y;
    const uint batch = threadgroup_position_in_grid.z;
    const uint heads = input_gate_shape[1];
    const uint steps = input_gate_shape[2];
    const uint chunks = (steps + CHUNK - 1) / CHUNK;
    const uint span_steps =
        (chunks + simdgroups_per_threadgroup - 1) / simdgroups_per_threadgroup * CHUNK;
    const uint begin = simdgroup * span_steps;
    const uint end = metal::min(begin + span_steps, chunks * CHUNK);
    const size_t row = (static_cast<size_t>(batch) * heads + head) * chunks * CHUNK;
    float2 m = float2(m_initial[batch * m_initial_strides[0] + head * m_initial_strides[1]], 0.0f);
{"" if sigmoid_input else _SPANS.format(gates=gates)}
    float2 carried = float2(0.0f, 0.0f);
    for (uint first = begin; first < end; first += 32) {{
        const uint step = first + lane;
{gates}
{_SIGMOID_GATES if sigmoid_input else _GATES}
        forget = forget < xlstm_cut ? xlstm_cut : forget;  // A NaN stays one.
        forget = step < steps ? forget : 0.0f;  // Behind the last step nothing changes.

        // The sum of log f' since the chunk began: lanes beyond its first step do not count.
        const uint place = step % CHUNK;
        float2 sum_in_chunk = float2(forget, 0.0f);
        for (uint distance = 1; distance < 32; distance *= 2) {{
            const float2 earlier = xlstm_up(sum_in_chunk, distance);
            if (lane >= distance && place >= distance) {{
                sum_in_chunk = xlstm_pair_sum(earlier, sum_in_chunk);
            }}
        }}
        sum_in_chunk = place > lane ? xlstm_pair_sum(carried, sum_in_chunk) : sum_in_chunk;
        carried = xlstm_of_last_lane(sum_in_chunk);
        if (step < end) {{
            prefix[row + step] = sum_in_chunk.x;
            prefix_rest[row + step] = sum_in_chunk.y;
            admitted[row + step] = admit.x;
            admitted_rest[row + step] = admit.y;
            least_normaliser[row + step] = live ? least : INFINITY;
        }}
    }}
    """,
    )


KERNELS = {
    (masked, sigmoid_input): _kernel(masked, sigmoid_input)
    for masked in (False, True)
    for sigmoid_input in (False, True)
}
