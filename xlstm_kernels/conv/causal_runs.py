"""How a causal convolution lies over threads, and the Metal that its two directions share.

A thread takes a run of RUN steps of PACK channels, which it loads and stores together; the lanes of
a simdgroup take neighbouring packs. Its steps, and the K-1 before them, the halo, are in its
registers. The simdgroups of a threadgroup take runs that follow each other, through one sequence
and into the next; they share the filters, and hand on the ends of their runs, through threadgroup
memory. So only the first run of a threadgroup reads its halo from memory, and all other elements
are read once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from xlstm_kernels.kernel import Launch

_SIMD_WIDTH = 32
_STEPS_OF_A_PACKED_RUN = 8
_STEPS_OF_A_RUN = 16
_STEPS_OF_A_LONG_RUN = 32  # a run has to hold the halo of the next one
_STEPS_OF_A_ROUND = 128
_MOST_SIMDGROUPS = 8
_MEMORY = 32 * 1024 // (_SIMD_WIDTH * 4)  # of a threadgroup, in floats for each lane
_STEPS_FOR_A_TAP = 24  # read by a threadgroup at least, if there are: the rest is then below 10 %
_CHANNELS_OF_A_PACK = 4  # a window of more of them would fill the registers
_TAPS_OF_A_PACK = 4  # of wider filters it has fewer channels
_BUSY_THREADS = 2**14
# Several times as many as a large GPU holds at once. Beyond that they take more rounds, since each
# reads the filters and halos, and adds up its sums, once.
_BUSY_THREADGROUPS = 2**11
#: Threadgroups of a kernel over runs that a GPU's core should hold at once.
RESIDENT_THREADGROUPS = 3


@dataclass(frozen=True, slots=True)
class ConvOptions:
    """The options of a call or of its gradient: each of them makes another kernel."""

    biased: bool  # there is a bias
    continued: bool  # there are initial states
    final: bool  # there are final states, or their cotangent
    packed: bool  # there is a `seq_idx`, and there are no states
    activated: bool  # y is silu of the sum

    def named(self, name: str) -> str:
        """The name of the kernel for these options."""
        parts = {
            "_bias": self.biased,
            "_initial": self.continued,
            "_final": self.final,
            "_silu": self.activated,
            "_packed": self.packed,
        }
        return name + "".join(part for part, chosen in parts.items() if chosen)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of steps, and the threads that take them."""

    run: int  # steps of a run
    pack: int  # channels of a thread
    places: int  # the most simdgroups of a threadgroup
    simdgroups: int  # of a threadgroup
    threadgroups: int  # for each 32 packs of channels
    lanes: int  # packs of channels, rounded up to whole simdgroups

    def launch(
        self,
        width: int,
        dtype: mx.Dtype,
        outputs: tuple[tuple[tuple[int, ...], mx.Dtype], ...],
        template: tuple[tuple[str, mx.Dtype], ...] = (),
    ) -> Launch:
        """The launch for filters of `width` taps and x of `dtype`.

        Outputs are shapes and dtypes. The template is that of the body besides T, TAPS, RUN, PLACES
        and PACK.
        """
        shapes, dtypes = zip(*outputs, strict=True)
        return Launch(
            grid=(self.lanes, self.threadgroups * self.simdgroups, 1),
            threadgroup=(_SIMD_WIDTH, self.simdgroups, 1),
            output_shapes=shapes,
            output_dtypes=dtypes,
            template=(
                *(("T", dtype), ("TAPS", width), ("RUN", self.run), ("PLACES", self.places)),
                ("PACK", self.pack),
                *template,
            ),
        )


def runs(values: mx.array, width: int, *, windows: int = 1) -> Runs:
    """A row of simdgroups for each 32 packs of channels, in threadgroups that take rounds of runs.

    Args:
        values: (B, S, C), not empty.
        width: taps of a filter.
        windows: how many arrays of steps hand on their ends. Those of wide filters fill the memory
            of a threadgroup, which then has fewer simdgroups.
    """
    batch, steps, channels = values.shape
    run = min(_STEPS_OF_A_PACKED_RUN, steps)
    fitting = _CHANNELS_OF_A_PACK // windows // math.ceil(width / _TAPS_OF_A_PACK)
    pack = max(fitting, 1) if width <= _STEPS_OF_A_PACKED_RUN else 1
    while pack > 1 and (channels % pack or values.size < _BUSY_THREADS * run * pack):
        pack //= 2
    if steps == 1:
        run, places = 1, _MOST_SIMDGROUPS
    elif pack > 1:
        run, places = _STEPS_OF_A_PACKED_RUN, _MOST_SIMDGROUPS
    elif width <= _STEPS_OF_A_RUN:
        run, places = _STEPS_OF_A_RUN, _STEPS_OF_A_ROUND // _STEPS_OF_A_RUN
    else:
        run, places = _STEPS_OF_A_LONG_RUN, _STEPS_OF_A_ROUND // _STEPS_OF_A_LONG_RUN
    if width > 1:
        places = min(places, (_MEMORY // pack - (width + 1)) // (windows * (width - 1)))
    all_runs = batch * math.ceil(steps / run)
    simdgroups = min(places, all_runs)
    steps_of_a_round = simdgroups * (min(steps, run) + width - 1)
    columns = math.ceil(channels / (_SIMD_WIDTH * pack))
    all_rounds = math.ceil(all_runs / simdgroups)
    rounds = max(
        math.ceil(_STEPS_FOR_A_TAP * width / steps_of_a_round),
        columns * all_rounds // _BUSY_THREADGROUPS,
    )
    return Runs(
        run=run,
        pack=pack,
        places=places,
        simdgroups=simdgroups,
        threadgroups=math.ceil(all_rounds / rounds),
        lanes=columns * _SIMD_WIDTH,
    )


_BIAS = """ else if (present) {
            numbers = xlstm_load<PACK>(bias + channel * bias_strides[0], bias_strides[0]);
        }"""


def beginning(*, biased: bool) -> str:
    """MSL up to the loop over rounds: where the thread is, and its filter."""
    return f"""
    using Pack = xlstm_pack<float, PACK>;
    constexpr uint HALO = TAPS - 1;
    constexpr uint SPAN = HALO > 0 ? HALO : 1;  // of an array, which has to have an element
    threadgroup Pack filters[TAPS + 1][32];  // the bias last
    const uint lane = thread_position_in_threadgroup.x;
    const uint place = thread_position_in_threadgroup.y;
    const uint places = threads_per_threadgroup.y;
    const uint channel = thread_position_in_grid.x * PACK;
    const uint steps = values_shape[1];
    const uint channels = values_shape[2];
    const bool present = channel < channels;  // PACK divides their number
    for (uint j = place; j <= TAPS; j += places) {{
        Pack numbers = {{}};
        if (present && j < TAPS) {{
            numbers = xlstm_load<PACK>(
                weight + channel * weight_strides[0] + j * weight_strides[1], weight_strides[0]);
        }}{_BIAS if biased else ""}
        filters[j][lane] = numbers;
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Pack filter[TAPS];
    #pragma clang loop unroll(full)
    for (uint j = 0; j < TAPS; ++j) {{
        filter[j] = filters[j][lane];
    }}
    const Pack offset = filters[TAPS][lane];
    const uint runs = (steps + RUN - 1) / RUN;  // of each sequence
    const uint all_runs = runs * values_shape[0];
    const uint places_of_a_round = places * threadgroups_per_grid.y;
    const uint rounds = (all_runs + places_of_a_round - 1) / places_of_a_round;
    """


#: MSL at the beginning of a round: which run the thread takes.
ROUND = """
        const uint index = (threadgroup_position_in_grid.y * rounds + round) * places + place;
        const bool active = present && index < all_runs;
        const uint batch = index / runs;
        const uint start = (index - batch * runs) * RUN;
        const uint taken = active ? metal::min(RUN + 0u, steps - start) : 0u;  // steps of the run
        // The first run of a threadgroup has nobody to give it its halo.
        const bool leads = active && place == 0 && round == 0 && start > 0;
"""


def element(array: str, step: str) -> str:
    """MSL of the pack of an array (B, ., C) that is the thread's at a step."""
    return f"xlstm_load<PACK>({pointer(array, step)}, {array}_strides[2])"


def run_of(array: str) -> str:
    """MSL of the packs of an array (B, S, C) at the steps of the run, zero beyond the last step."""
    return (
        f"xlstm_load_packs<RUN, PACK>({pointer(array, 'start')}, {array}_strides[1], "
        f"{array}_strides[2], taken)"
    )


def halo_of(array: str) -> str:
    """MSL of the packs of an array (B, S, C) at the steps before a run that begins after step 0."""
    return (
        f"xlstm_load_packs<SPAN, PACK>({pointer(array, 'start - HALO')}, {array}_strides[1], "
        f"{array}_strides[2], HALO)"
    )


def pointer(array: str, step: str) -> str:
    """MSL of where the pack of an array (B, ., C) begins that is the thread's at a step."""
    return (
        f"{array} + batch * {array}_strides[0] + ({step}) * {array}_strides[1] "
        f"+ channel * {array}_strides[2]"
    )


def shared_ends(name: str) -> str:
    """MSL that declares what `halo` needs, outside of the loop over rounds."""
    return f"threadgroup Pack {name}[RUN > 1 ? PLACES : 1][SPAN][32];"


def halo(window: str, ends: str, *, before: str, first: str) -> str:
    """MSL that fills the first HALO packs of a window of HALO + RUN, whose others are the run.

    Args:
        window: the array of registers, zero where this leaves it.
        ends: what `shared_ends` declared.
        before: pack `j` of the halo of a sequence's first run; "" for zero.
        first: MSL that fills the halo of a threadgroup's first run, in the midst of a sequence.
    """
    assign = f"{window}[j] = {before};" if before else ""
    return f"""
        if (leads) {{
            {first}
        }} else if (active && (start == 0 || place == 0)) {{
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                if (start == 0) {{
                    {assign}
                }} else {{
                    // {ends} still holds those of the round before
                    {window}[j] = {ends}[places - 1][j][lane];
                }}
            }}
        }}
        if (runs > 1) {{
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                {ends}[place][j][lane] = {window}[RUN + j];
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                if (place > 0 && start > 0) {{
                    {window}[j] = {ends}[place - 1][j][lane];
                }}
            }}
        }}
    """


def read_halo(array: str, window: str) -> str:
    """MSL that fills the halo of a window of an array (B, S, C) from memory."""
    return f"""
            const auto before = {halo_of(array)};
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                {window}[j] = before.at[j];
            }}
    """


def values_window(*, continued: bool) -> str:
    """MSL of `window`: x at the steps start - HALO to start + RUN - 1, read through `ends`."""
    before = element("states", "j") if continued else ""
    return f"""
        Pack window[HALO + RUN] = {{}};
        const auto run = {run_of("values")};
        #pragma clang loop unroll(full)
        for (uint i = 0; i < RUN; ++i) {{
            window[HALO + i] = run.at[i];
        }}
        {halo("window", "ends", before=before, first=read_halo("values", "window"))}
    """


def counted_taps(name: str, *, before: str, size: str) -> str:
    """MSL of an array whose bit q of element j is set if tap j counts in step q of some steps.

    It does where the step that it is applied to has the same number in `seq_idx`, and no number is
    negative: so the last one does in all steps but padding. What is before the first step is zero,
    and no tap counts there. Each lane compares the numbers of a step, as they are those of all
    channels, and the simdgroup votes.

    Args:
        name: of the array.
        before: how many steps before the run they begin.
        size: how many steps, 64 at most.
    """
    return f"""
        ulong {name}[TAPS] = {{}};
        #pragma clang loop unroll(full)
        for (uint first = 0; first < {size}; first += 32) {{
            const uint later = start + first + lane;  // than the step by {before}
            const auto numbers = seq_idx + batch * seq_idx_strides[0];
            const bool there = index < all_runs && first + lane < {size}
                && later >= {before} && later < steps + {before};
            NumberT number = {{}};
            if (there) {{
                number = numbers[(later - {before}) * seq_idx_strides[1]];
            }}
            #pragma clang loop unroll(full)
            for (uint j = 0; j < TAPS; ++j) {{
                const uint seen = later + j;
                bool counts = there && !(number < 0) && seen >= {before} + HALO;
                if (counts) {{
                    counts = numbers[(seen - {before} - HALO) * seq_idx_strides[1]] == number;
                }}
                {name}[j] |= static_cast<simd_vote::vote_t>(simd_ballot(counts)) << first;
            }}
        }}
    """


def counts(taps: str, tap: str, step: str) -> str:
    """MSL of whether a tap counts in a step of `counted_taps`."""
    return f"({taps}[{tap}] >> ({step}) & 1) != 0"


def convolved(window: str, place: str, taps: str = "") -> str:
    """MSL of `sum`, the filter's answer to the TAPS packs of `window` from `place` on.

    Always in the same order and rounding, so that pieces give what the whole gives.

    Args:
        window: an array of packs.
        place: where the first of them is.
        taps: the `counted_taps` of the steps of the window; "" if all count.
    """
    if_it_counts = f"if ({counts(taps, 'j', f'{place} + HALO')})" if taps else ""
    return f"""
        Pack sum = offset;
        #pragma clang loop unroll(full)
        for (uint j = 0; j < TAPS; ++j) {{
            #pragma clang loop unroll(full)
            for (uint k = 0; k < PACK; ++k) {{
                {if_it_counts}
                sum.at[k] = metal::fma(filter[j].at[k], {window}[{place} + j].at[k], sum.at[k]);
            }}
        }}
    """
