"""State recurrence of the chunkwise mLSTM: the states between chunks, from what each chunk adds.

    C_k = exp(G_L) C_{k-1} + U_k,    n_k = exp(G_L) n_{k-1} + u_k

with G of `gates.LogGates`, U_k and u_k of `weighted_rows` (Beck et al., "Tiled Flash Linear
Attention", 2025, section 3). Backward the same recurrence runs from the last chunk to the first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunks import weights_from_start

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates

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
        reverse: from the last chunk to the first.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        return state_scan_reference(added, n_added, gates, c, n, reverse=reverse)
    outputs = _KERNELS[reverse](added, n_added, gates.prefix, c, n, backend=backend)
    return Scan(*outputs)


def state_scan_reference(
    added: mx.array,
    n_added: mx.array,
    gates: LogGates,
    c: mx.array,
    n: mx.array,
    *,
    reverse: bool = False,
) -> Scan:
    """`state_scan` in MLX operations."""
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

# A thread takes an element of C, or of n, and goes along the chunks: neighbours, neighbouring
# elements.


def _launch(added: mx.array, n_added: mx.array, *_others: mx.array) -> Launch:
    batch, heads, _, key_width, value_width = added.shape
    elements = key_width * value_width + key_width
    return Launch(
        grid=(math.ceil(elements / _THREADS) * _THREADS, batch * heads, 1),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=(
            added.shape,
            n_added.shape,
            (batch, heads, key_width, value_width),
            (batch, heads, key_width),
        ),
        output_dtypes=(added.dtype, mx.float32, mx.float32, mx.float32),
        template=(("T", added.dtype),),
    )


def _kernel(reverse: bool) -> Kernel:
    return Kernel(
        name="xlstm_mlstm_state_scan" + "_reverse" * reverse,
        inputs=("added", "n_added", "prefix", "c_begin", "n_begin"),
        outputs=("c_between", "n_between", "c_end", "n_end"),
        launch=_launch,
        body=f"""
    // added, c_between (B, NH, NC, DK, DV); n_added, n_between (B, NH, NC, DK);
    // prefix (B, NH, NC, L); c_begin, c_end (B, NH, DK, DV); n_begin, n_end (B, NH, DK).
    const uint chunks = added_shape[2];
    const uint key_width = added_shape[3];
    const uint size = key_width * added_shape[4];
    const uint length = prefix_shape[3];
    const uint element = thread_position_in_grid.x;
    const size_t sequence = threadgroup_position_in_grid.y;
    const size_t first_chunk = sequence * chunks;
    const uint row = element - size;
    const bool of_c = element < size;
    if (!of_c && row >= key_width) {{
        return;
    }}
    float state = of_c ? c_begin[sequence * size + element] : n_begin[sequence * key_width + row];
    for (uint round = 0; round < chunks; ++round) {{
        const size_t chunk = first_chunk + {"(chunks - 1 - round)" if reverse else "round"};
        const float decay = metal::precise::exp(prefix[chunk * length + length - 1]);
        if (of_c) {{
            const size_t place = chunk * size + element;
            c_between[place] = static_cast<T>(state);
            state = decay * state + static_cast<float>(added[place]);
        }} else {{
            const size_t place = chunk * key_width + row;
            n_between[place] = state;
            state = decay * state + n_added[place];
        }}
    }}
    if (of_c) {{
        c_end[sequence * size + element] = state;
    }} else {{
        n_end[sequence * key_width + row] = state;
    }}
    """,
    )


_KERNELS = {reverse: _kernel(reverse) for reverse in (False, True)}
