"""The sLSTM: a scalar memory a unit, exponential gates, and a recurrence among a head's units.

With the pre-activations g_t = Wx_t + R y_{t-1} + b of the gates i, f and o and of the candidate z,

    m_t = i_t if n_{t-1} = 0, else max(i_t, log sigmoid(f_t) + m_{t-1})
    i'_t = min(1, exp(i_t - m_t)),   f'_t = min(1, exp(log sigmoid(f_t) + m_{t-1} - m_t))
    c_t = f'_t c_{t-1} + i'_t tanh(z_t),   n_t = f'_t n_{t-1} + i'_t,   y_t = sigmoid(o_t) c_t / n_t

for every unit by itself (Beck et al., "xLSTM", 2024, equations 8 to 17; Poeppel et al., "FlashRNN",
2024). Where nothing was ever let in, n = 0, y is zero.

Only c exp(m) and n exp(m) mean something, and an m of 100 is right to 4e-6 in float32. Inside, m is
therefore a pair of floats. In the states that are told m is rounded, and c and n are scaled by what
that takes away: to go on from them loses nothing, however often a sequence is cut.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_floating
from xlstm_kernels.differentiation import Arrays, Operation, differentiable, gradient_of
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import LOG_SIGMOID, PAIRS
from xlstm_kernels.slstm.arguments import STATES, initial_states, require_inputs, require_mask
from xlstm_kernels.slstm.reference import slstm_reference

_SIMD_WIDTH = 32
# Metal runs 384 threads of any kernel, and fewer than 1024 of one that needs many registers.
_MAX_SIMDGROUPS = 12
_MIN_CAPACITY = 32
_MAX_RESIDENT = 64
_MAX_CAPACITY = 4096  # two values a unit fill the 32 KB of a threadgroup's memory


def slstm(
    Wx: mx.array,  # noqa: N803  # the names are those of FlashRNN, as is the order
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
    function: str = "slstm",
    *,
    backend: str | None = None,
    mask: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Run the sLSTM over a sequence: T steps of N heads with D units each.

    Everything inside is float32, and so are both results whatever the inputs are: y is one of four
    states in one array, and the others need the digits. Use `states[0].astype(Wx.dtype)` where the
    model goes on in half precision.

    Differentiable any number of times, in `Wx`, `R`, `b` and `states`; gradients go through MLX
    operations, so their graph grows with T.

    Args:
        Wx: (B, T, 4, N, D), what the input contributes to i, f, z and o, in this order; float32,
            float16 or bfloat16. It is read as it lies in memory, transposed or not. Any axis may
            be empty.
        R: (4, N, D, D), the recurrent weights of each head, indexed [gate, head, out, in]; any of
            these dtypes.
        b: (4, N, D), the bias; any of these dtypes.
        states: (4, B, 1, N, D) or (4, B, N, D), the initial y, c, n and m, in this order, any of
            these dtypes; what an earlier call returned as `last`, or None for zeros.
        function: only "slstm". FlashRNN has other functions, this pack has not.
        backend: `"metal"`, `"native"` (MLX operations), or None for Metal where it is available and
            the GPU is the default device. Inside `mx.vmap` and `mx.jvp` it must be `"native"`,
            since MLX refuses kernels there.
        mask: (B, T) booleans, or None for all True. A step that is False leaves the states as they
            are, and its y is zero.

    Returns:
        The states after each step, (4, B, T, N, D), and after the last, (4, B, 1, N, D); y, c, n
        and m, in this order, all float32. They differ in one point: where a step is masked, the
        first holds y = 0, and the second the y that the next step feeds back.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit, another function, an unknown backend, and for more
            than 4096 units a head on any backend but `"native"`.
        RuntimeError: for a backend that cannot run here.
    """
    if function != "slstm":
        raise ValueError(
            f'slstm: function must be "slstm", the only one this pack has, got {function!r}'
        )
    return _slstm_of("slstm", (Wx, R, b, states, mask), backend)


def slstm_step(
    Wx_t: mx.array,  # noqa: N803
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
    *,
    backend: str | None = None,
) -> mx.array:
    """Run the sLSTM for one step, as a decoder does.

    Args:
        Wx_t: (B, 4, N, D), what the input of this step contributes; see `slstm`, as for the others.
        R: (4, N, D, D).
        b: (4, N, D).
        states: (4, B, 1, N, D) or (4, B, N, D), y, c, n and m; None for zeros.
        backend: as in `slstm`.

    Returns:
        The states after the step, float32: in the shape of `states`, (4, B, N, D) for None. The
        first of the four is y.

    It raises what `slstm` does, under its own name.
    """
    require_floating("slstm_step", "Wx_t", Wx_t)
    if Wx_t.ndim != 4:
        raise ValueError(f"slstm_step: Wx_t must be (B, 4, N, D), got {Wx_t.shape}")
    sequence = mx.expand_dims(Wx_t, axis=1)
    _, last = _slstm_of("slstm_step", (sequence, R, b, states, None), backend)
    return last.reshape(
        (STATES, Wx_t.shape[0], *Wx_t.shape[2:]) if states is None else states.shape
    )


def _slstm_of(
    operator: str,
    arguments: tuple[mx.array, mx.array, mx.array, mx.array | None, mx.array | None],
    backend: str | None,
) -> tuple[mx.array, mx.array]:
    Wx, R, b, states, mask = arguments  # noqa: N806
    require_inputs(operator, Wx, R, b)
    require_mask(operator, mask, Wx.shape[:2])
    batch, steps, _, heads, units = Wx.shape
    initial = initial_states(operator, states, (batch, heads, units))
    masks = () if mask is None else (mask,)
    name = executors.resolve(backend)
    if name != executors.NATIVE and units > _MAX_CAPACITY:
        raise ValueError(
            f"{operator}: a kernel holds at most {_MAX_CAPACITY} units a head, got {units}; "
            "use backend='native'"
        )
    if not steps:
        nothing = mx.zeros((STATES, batch, 0, heads, units), dtype=mx.float32)
        return nothing, mx.expand_dims(initial, axis=2)
    after_each, last = _slstm(name)(Wx, R, b, initial, *masks)
    return after_each, mx.expand_dims(last, axis=2)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup runs one head of one sequence through all steps. Its simdgroups share out the units.
# For each of its units in turn a simdgroup adds up R y with a lane to every 32nd input, so that
# lanes read neighbouring weights; then each lane takes one of these units through its gates, and
# keeps its state in registers. The y of all units goes through threadgroup memory, in which steps
# take turns with two halves, so that one barrier a step is enough. Weights of up to 64 units stay
# in registers; those of more are streamed at every step.

_UNIT_STEP = """
    // What lies `apart` elements from each other: one number of each gate, or of each state.
    template <typename Numbers>
    inline float4 xlstm_slstm_four(Numbers first, long apart) {
        return float4(
            static_cast<float>(first[0]), static_cast<float>(first[apart]),
            static_cast<float>(first[2 * apart]), static_cast<float>(first[3 * apart]));
    }
    // m is a pair, to which c and n belong.
    struct xlstm_slstm_unit {
        float y;
        float c;
        float n;
        float2 m;
    };
    // input, forget: pairs, since near 100 a rounding of theirs would show in the result.
    inline xlstm_slstm_unit xlstm_slstm_step(
        xlstm_slstm_unit before, float2 input, float2 forget, float candidate, float output) {
        const float tail = metal::precise::exp(-metal::abs(forget.x));
        const float slope = (forget.x < 0.0f ? 1.0f : tail) / (1.0f + tail);
        float2 log_forget = xlstm_pair(metal::min(forget.x, 0.0f), -xlstm_log1p(tail));
        log_forget.y += slope * forget.y;

        const float2 decayed = xlstm_pair_sum(before.m, log_forget);
        const bool fresh = before.n == 0.0f;
        xlstm_slstm_unit after;
        after.m = (fresh || xlstm_pair_less(decayed, input)) ? input : decayed;
        // Above zero only where m ignores the past, as that is nothing; it must not become
        // something. Of -inf nothing is left, even where m is that too.
        const float decay = xlstm_pair_difference(decayed, after.m);
        const float kept = decayed.x == -INFINITY
            ? 0.0f : metal::precise::exp(fresh ? metal::min(decay, 0.0f) : decay);
        const float admitted = input.x == -INFINITY
            ? 0.0f : metal::precise::exp(xlstm_pair_difference(input, after.m));
        after.c = kept * before.c + admitted * metal::precise::tanh(candidate);
        after.n = kept * before.n + admitted;
        const float opened = 1.0f + metal::precise::exp(-output);
        after.y = after.n == 0.0f ? 0.0f : after.c / after.n / opened;
        return after;
    }
    // The state as it is told: m rounded to one float, c and n belonging to that.
    inline float4 xlstm_slstm_told(xlstm_slstm_unit unit) {
        const float scale = metal::precise::exp(unit.m.y);
        return float4(unit.y, unit.c * scale, unit.n * scale, unit.m.x);
    }
"""


def _launch(gate_input: mx.array, *_others: mx.array) -> Launch:
    """Sizes are rounded up, as each is compiled: 32, 64, 128 and so on."""
    batch, steps, _, heads, units = gate_input.shape
    capacity = max(_MIN_CAPACITY, 1 << (units - 1).bit_length())
    resident = capacity <= _MAX_RESIDENT
    rows = 6 if capacity == _MAX_RESIDENT else 4
    simdgroups = min(math.ceil(units / rows), _MAX_SIMDGROUPS)
    slots = math.ceil(units / (_MAX_SIMDGROUPS * _SIMD_WIDTH))
    threads = simdgroups * _SIMD_WIDTH
    return Launch(
        grid=(threads * heads * batch, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=((STATES, batch, steps, heads, units), (STATES, batch, heads, units)),
        output_dtypes=(mx.float32, mx.float32),
        template=(
            ("CAPACITY", capacity),  # units, at least
            ("ROWS", rows),  # units whose sums a simdgroup works on at once
            ("SLOTS", slots),  # units that a lane owns, at most
            ("RESIDENT", resident),  # the weights stay in registers
        ),
    )


def _kernel(suffix: str, mask_input: tuple[str, ...], live: str) -> Kernel:
    return Kernel(
        name=f"xlstm_slstm{suffix}",
        inputs=("gate_input", "recurrent", "bias", "initial", *mask_input),
        outputs=("states", "last"),
        launch=_launch,
        contiguous_inputs=False,
        header=LOG_SIGMOID + PAIRS + _UNIT_STEP,
        body=f"""
    // gate_input: (B, T, 4, N, D), strided. Contiguous: recurrent (4, N, D, D), bias (4, N, D),
    // initial, last (4, B, N, D), mask (B, T), states (4, B, T, N, D).
    constexpr uint LANES = 32;
    constexpr uint CHUNKS = RESIDENT ? CAPACITY / LANES : 1;
    threadgroup float hidden[2 * CAPACITY];

    const uint lane = thread_index_in_simdgroup;
    const uint batch = gate_input_shape[0];
    const uint steps = gate_input_shape[1];
    const uint heads = gate_input_shape[3];
    const uint units = gate_input_shape[4];
    const uint sequence = threadgroup_position_in_grid.x / heads;
    const uint head = threadgroup_position_in_grid.x % heads;
    const uint share = (units + simdgroups_per_threadgroup - 1) / simdgroups_per_threadgroup;
    const uint first = simdgroup_index_in_threadgroup * share;
    const uint count = first < units ? metal::min(share, units - first) : 0;
    const uint chunks = RESIDENT ? CHUNKS : (units + LANES - 1) / LANES;

    const long along_time = gate_input_strides[1];
    const long along_gates = gate_input_strides[2];
    const long along_units = gate_input_strides[4];
    const size_t step_size = static_cast<size_t>(heads) * units;
    const size_t one_state = batch * step_size;
    const size_t one_gate = step_size * units;
    const size_t own_head = static_cast<size_t>(head) * units + first;
    const auto incoming = gate_input + sequence * gate_input_strides[0]
        + head * gate_input_strides[3] + first * along_units;
    const auto weights = recurrent + own_head * units;
    const auto starting = initial + sequence * step_size + own_head;
    const auto leaving = states + step_size * sequence * steps + own_head;
    const auto ending = last + sequence * step_size + own_head;

    float4 resident[RESIDENT ? ROWS * CHUNKS : 1];
    if (RESIDENT) {{
        for (uint row = 0; row < ROWS; ++row) {{
            for (uint chunk = 0; chunk < CHUNKS; ++chunk) {{
                const uint from = chunk * LANES + lane;
                resident[row * CHUNKS + chunk] = (row < count && from < units)
                    ? xlstm_slstm_four(weights + row * units + from, one_gate) : float4(0.0f);
            }}
        }}
    }}

    xlstm_slstm_unit unit[SLOTS];
    float4 offset[SLOTS];
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * LANES + lane;
        unit[slot] = {{0.0f, 0.0f, 0.0f, float2(0.0f)}};
        offset[slot] = float4(0.0f);
        if (own < count) {{
            const float4 start = xlstm_slstm_four(starting + own, one_state);
            unit[slot] = {{start.x, start.y, start.z, float2(start.w, 0.0f)}};
            offset[slot] = xlstm_slstm_four(bias + own_head + own, step_size);
            hidden[first + own] = unit[slot].y;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint step = 0; step < steps; ++step) {{
        const auto arriving = incoming + step * along_time;
        const uint reading = (step & 1) * CAPACITY;
        const uint writing = CAPACITY - reading;
        const bool live = {live};
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            const uint own = slot * LANES + lane;
            // Asked for before the sums, which need not wait for it.
            const float4 gates = own < count
                ? xlstm_slstm_four(arriving + own * along_units, along_gates) : float4(0.0f);
            float4 fed_back = float4(0.0f);
            const uint end = metal::min(count, (slot + 1) * LANES);
            for (uint start = slot * LANES; start < end; start += ROWS) {{
                const uint rows = metal::min(static_cast<uint>(ROWS), end - start);
                float4 sums[ROWS];
                for (uint row = 0; row < ROWS; ++row) {{
                    sums[row] = float4(0.0f);
                }}
                for (uint chunk = 0; chunk < chunks; ++chunk) {{
                    const uint from = chunk * LANES + lane;
                    if (from < units) {{
                        const float y = hidden[reading + from];
                        for (uint row = 0; row < ROWS; ++row) {{
                            if (RESIDENT) {{
                                sums[row] += resident[row * CHUNKS + chunk] * y;
                            }} else if (row < rows) {{
                                const size_t weight =
                                    static_cast<size_t>(start + row) * units + from;
                                sums[row] += xlstm_slstm_four(weights + weight, one_gate) * y;
                            }}
                        }}
                    }}
                }}
                for (uint row = 0; row < ROWS; ++row) {{
                    const float4 sum = float4(
                        simd_sum(sums[row].x), simd_sum(sums[row].y),
                        simd_sum(sums[row].z), simd_sum(sums[row].w));
                    fed_back = start + row == own ? sum : fed_back;
                }}
            }}
            if (own < count) {{
                const float4 open = gates + offset[slot] + fed_back;
                const xlstm_slstm_unit after = xlstm_slstm_step(
                    unit[slot],
                    xlstm_pair_add(xlstm_pair(gates.x, offset[slot].x), fed_back.x),
                    xlstm_pair_add(xlstm_pair(gates.y, offset[slot].y), fed_back.y),
                    open.z, open.w);
                if (live) {{
                    unit[slot] = after;
                }}
                hidden[writing + first + own] = unit[slot].y;
                const float4 told = xlstm_slstm_told(unit[slot]);
                const auto state = leaving + step * step_size + own;
                const size_t states_apart = steps * one_state;
                state[0] = live ? told.x : 0.0f;
                state[states_apart] = told.y;
                state[2 * states_apart] = told.z;
                state[3 * states_apart] = told.w;
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}

    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * LANES + lane;
        if (own < count) {{
            const float4 told = xlstm_slstm_told(unit[slot]);
            ending[own] = told.x;
            ending[one_state + own] = told.y;
            ending[2 * one_state + own] = told.z;
            ending[3 * one_state + own] = told.w;
        }}
    }}
    """,
    )


# Indexed by the number of masks.
_KERNELS = (
    _kernel("", (), "true"),
    _kernel("_masked", ("mask",), "mask[static_cast<size_t>(sequence) * steps + step]"),
)


@functools.cache
def _slstm(backend: str) -> Operation:
    """The differentiable operation (Wx, R, b, initial) or (..., mask) -> (states, last)."""

    def launch(gate_input: mx.array, *others: mx.array) -> Arrays:
        laid_out = (mx.contiguous(array) for array in others)
        return _KERNELS[len(others) - 3](gate_input, *laid_out, backend=backend)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        inputs, masks = primals[:4], primals[4:]

        def unmasked_inputs(*arrays: mx.array) -> Arrays:
            return slstm_reference(*arrays, *masks)

        gradients = gradient_of(unmasked_inputs)(inputs, cotangents)
        return (*gradients, *(mx.zeros_like(mask) for mask in masks))

    forward = slstm_reference if backend == executors.NATIVE else launch
    return differentiable(forward, gradient)
