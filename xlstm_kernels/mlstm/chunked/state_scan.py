"""State recurrence of the chunkwise mLSTM: the states between chunks, from what each chunk adds.

    C_k = exp(G_L) C_{k-1} + U_k,    n_k = exp(G_L) n_{k-1} + u_k

with G of `gates.LogGates`, U_k and u_k of `weighted_rows` (Beck et al., "Tiled Flash Linear
Attention", 2025, section 3). Backward the same recurrence runs from the last chunk to the first.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import weights_from_start
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.msl import PACKS

_THREADS = 256


class Scan(NamedTuple):
    """The states between chunks.

    Attributes:
        c: (B, NH, NC, DK, DV), before each chunk; of a backward scan, after it.
        n: (B, NH, NC, DK) float32, likewise.
        c_end: (B, NH, DK, DV) float32, after the last chunk; before the first.
        n_end: (B, NH, DK) float32, likewise.
    """

    c: mx.array
    n: mx.array
    c_end: mx.array
    n_end: mx.array


def state_scan(
    added: mx.array,
    n_added: mx.array,
    gates: LogGates,
    c: mx.array,
    n: mx.array,
    *,
    given: bool = True,
    reverse: bool = False,
    backend: str,
) -> Scan:
    """The states between chunks; `Scan.c` in the dtype of `added`, summed in float32.

    Args:
        added: U, (B, NH, NC, DK, DV).
        n_added: u, (B, NH, NC, DK) float32.
        gates: of the chunks.
        c: (B, NH, DK, DV) float32, before the first chunk; with `reverse`, after the last.
        n: (B, NH, DK) float32, likewise.
        given: whether c and n may differ from zero.
        reverse: from the last chunk to the first.
        backend: as `executors.resolve` returned it.
    """
    if backend != executors.NATIVE:
        begin = (c, n) if given else ()
        kernel = KERNELS[given, reverse]
        return Scan(*kernel(added, n_added, gates.prefix, *begin, backend=backend))
    decay = weights_from_start(gates)[..., -1]
    order = range(added.shape[2])
    c_between, n_between = [], []
    for chunk in reversed(order) if reverse else order:
        c_between.append(c)
        n_between.append(n)
        kept = mx.expand_dims(decay[:, :, chunk], axis=-1)
        c = mx.expand_dims(kept, axis=-1) * c + added[:, :, chunk].astype(mx.float32)
        n = kept * n + n_added[:, :, chunk]
    step = -1 if reverse else 1
    c_all = mx.stack(c_between[::step], axis=2).astype(added.dtype)
    return Scan(c_all, mx.stack(n_between[::step], axis=2), c, n)


# --- Metal -------------------------------------------------------------------------------------

# A thread takes a pack of elements of C, or an element of n, and goes along the chunks.

_PACK_BYTES = 16


def _launch(added: mx.array, n_added: mx.array, *_others: mx.array) -> Launch:
    batch, heads, _, key_width, value_width = added.shape
    pack = _PACK_BYTES // added.dtype.size
    threads = math.ceil(key_width * value_width / pack) + key_width
    return Launch(
        grid=(math.ceil(threads / _THREADS) * _THREADS, batch * heads, 1),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=(
            added.shape,
            n_added.shape,
            (batch, heads, key_width, value_width),
            (batch, heads, key_width),
        ),
        output_dtypes=(added.dtype, mx.float32, mx.float32, mx.float32),
        template=(("PACK", pack),),
    )


def _kernel(given: bool, reverse: bool) -> Kernel:
    first_chunk = "(chunks - 1 - begin)" if reverse else "begin"
    c = "xlstm_load<PACK>(c_begin + sequence * size + element, 1, left)"
    return Kernel(
        name="xlstm_mlstm_state_scan" + "_reverse" * reverse + "_of_zero" * (not given),
        inputs=("added", "n_added", "prefix") + ("c_begin", "n_begin") * given,
        outputs=("c_between", "n_between", "c_end", "n_end"),
        launch=_launch,
        header=PACKS,
        body=f"""
    // added, c_between (B, NH, NC, DK, DV); n_added, n_between (B, NH, NC, DK);
    // prefix (B, NH, NC, L); c_begin, c_end (B, NH, DK, DV); n_begin, n_end (B, NH, DK).
    constexpr uint CHUNKS = 4;  // under way together
    const uint chunks = added_shape[2];
    const uint key_width = added_shape[3];
    const uint size = key_width * added_shape[4];
    const uint length = prefix_shape[3];
    const uint packs_of_c = (size + PACK - 1) / PACK;
    const uint member = thread_position_in_grid.x;
    const size_t sequence = threadgroup_position_in_grid.y;
    if (member < packs_of_c) {{
        const uint element = member * PACK;
        const uint left = metal::min(size - element, uint(PACK));
        xlstm_pack<float, PACK> state = {c if given else "{}"};
        for (uint begin = 0; begin < chunks; begin += CHUNKS) {{
            const uint present = metal::min(chunks - begin, CHUNKS);
            const size_t first = sequence * chunks + {first_chunk};
            const auto gained = xlstm_load_packs<CHUNKS, PACK>(added + first * size + element,
                {"-static_cast<int64_t>(size)" if reverse else "size"}, 1, present, left);
            // Of constant length, so that the packs stay in registers.
            #pragma clang loop unroll(full)
            for (uint i = 0; i < CHUNKS; ++i) {{
                if (i < present) {{
                    const size_t chunk = first {"-" if reverse else "+"} i;
                    const float decay = metal::precise::exp(prefix[chunk * length + length - 1]);
                    xlstm_store(c_between + chunk * size + element, state, left);
                    #pragma clang loop unroll(full)
                    for (uint k = 0; k < PACK; ++k) {{
                        state.at[k] = decay * state.at[k] + gained.at[i].at[k];
                    }}
                }}
            }}
        }}
        xlstm_store(c_end + sequence * size + element, state, left);
    }} else if (member - packs_of_c < key_width) {{
        const uint row = member - packs_of_c;
        float state = {"n_begin[sequence * key_width + row]" if given else "0.0f"};
        for (uint begin = 0; begin < chunks; ++begin) {{
            const size_t chunk = sequence * chunks + {first_chunk};
            const float decay = metal::precise::exp(prefix[chunk * length + length - 1]);
            n_between[chunk * key_width + row] = state;
            state = decay * state + n_added[chunk * key_width + row];
        }}
        n_end[sequence * key_width + row] = state;
    }}
    """,
    )


KERNELS = {
    (given, reverse): _kernel(given, reverse)
    for given, reverse in ((True, False), (False, False), (True, True))
}
