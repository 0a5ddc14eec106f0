"""Chunkwise mLSTM: a recurrence over chunks, and within a chunk all steps at once.

The equations of a step are in `xlstm_kernels.mlstm.step`. How it is computed is in
`chunked.passes`.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import non_negative
from xlstm_kernels.executors import StreamLike, on_stream
from xlstm_kernels.mlstm.chunked.operation import (
    Form,
    Result,
    require_chunk_size,
    require_precision,
    run,
)


@on_stream
def mlstm_chunkwise(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c_initial: mx.array | None = None,
    n_initial: mx.array | None = None,
    m_initial: mx.array | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    chunk_size: int | None = None,
    *,
    normalizer_grad: bool = True,
    precision: str = "default",
    mask: mx.array | None = None,
    seq_idx: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> Result:
    """The mLSTM over a sequence, in chunks: the form for training and for prompts.

    Any length; a last chunk that is shorter is filled up. States, gates and sums are float32,
    exponents in twice its digits, so that gates of 100 cost no accuracy; a forget gate of -inf
    resets, an input gate of -inf admits nothing.

    Args:
        q: (B, NH, S, DK); float32, float16 or bfloat16. Like k, v and the gates it may lie in
            memory as it will, such as a transposed (B, S, NH, DK).
        k: (B, NH, S, DK) of the same dtype.
        v: (B, NH, S, DV) of the same dtype.
        i: (B, NH, S), input gates before the exponential function.
        f: (B, NH, S), forget gates before the sigmoid.
        c_initial: (B, NH, DK, DV), the state to begin with. The three come together, or not at all.
        n_initial: (B, NH, DK).
        m_initial: (B, NH, 1).
        return_last_states: whether to return the last states as well.
        eps: added to the normaliser. It counts in units of exp(-m): it weighs more where input
            gates were large.
        chunk_size: steps of a chunk, at least 1, at most 256 of which are taken; None chooses.
        normalizer_grad: whether gradients flow through the normaliser and through m. Without, they
            are those of NX-AI's kernels: correct only if a norm over each head follows.
        precision: of the products of bfloat16 inputs on a GPU. `"default"`: weights and states
            between chunks are rounded to bfloat16 before they are multiplied. `"high"`: they are
            not. float32 inputs keep their digits either way, also where MLX multiplies in TF32.
        mask: (B, S) booleans. Where False the step is skipped: the state stays, h is zero,
            whatever the values of q, k, v and the gates.
        seq_idx: (B, S) integers, for sequences packed into one row: a new sequence begins where
            the number changes. It has the h and the gradients that it has alone, but that eps
            counts from m = i on, and NaN or infinity in another one changes neither. The first
            sequence continues from the initial states, and the last states are those of the last
            one. See `seq_idx_from_cu_seqlens`.
        backend: "metal", "cuda", "native" (MLX operations; `mx.vmap` needs it), or None to choose.

    Returns:
        h (B, NH, S, DV) in the dtype of v; or (h, (c, n, m)) with float32 states.

    Raises:
        TypeError: for a dtype that is not listed, an eps or chunk size that is not a number.
        ValueError: for shapes that do not fit, states that are incomplete, a chunk size below 1,
            an eps that is negative or not finite, an unknown precision or backend.
        RuntimeError: for a backend that cannot run here.
    """
    operator = "mlstm_chunkwise"
    form = Form(
        require_chunk_size(operator, chunk_size),
        non_negative(operator, "eps", eps),
        normalizer_grad=bool(normalizer_grad),
        precision=require_precision(operator, precision),
    )
    given = (c_initial, n_initial, m_initial)
    return run(operator, form, (q, k, v, i, f), given, return_last_states, mask, seq_idx, backend)
