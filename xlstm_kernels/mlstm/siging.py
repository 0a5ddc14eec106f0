"""mLSTMsig: the mLSTM with a sigmoid for its input gate, which needs no stabiliser.

C_t = sigmoid(f_t) C_{t-1} + sigmoid(i_t) k_t v_t^T, n_t likewise with 1 for v, and with
q_t / sqrt(DK) for q_t: h_t = q_t C_t / (max(|q_t n_t|, 1) + eps), or h_t = q_t C_t alone (Beck et
al., "Tiled Flash Linear Attention", 2025, section 4).
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import non_negative
from xlstm_kernels.executors import StreamLike, on_stream
from xlstm_kernels.mlstm.chunked.operation import Form, require_chunk_size, run


@on_stream
def mlstm_siging_chunkwise(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c_initial: mx.array | None = None,
    n_initial: mx.array | None = None,
    m_initial: None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    normalize: bool = True,
    chunk_size: int | None = 128,
    *,
    normalizer_grad: bool = True,
    mask: mx.array | None = None,
    seq_idx: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array | tuple[mx.array, tuple[mx.array, mx.array]]:
    """The mLSTMsig over a sequence, in chunks.

    Arguments and errors are those of `mlstm_chunkwise`, their order and defaults those of NX-AI's
    `mlstm_siging_chunkwise__xl_chunk`. The gates i and f are before their sigmoids. The initial
    states c (B, NH, DK, DV) and n (B, NH, DK) come together, or not at all; `m_initial` is None, as
    a sigmoid needs no state m. `normalize` says whether to divide by the normaliser.

    Returns:
        h (B, NH, S, DV) in the dtype of v; or (h, (c, n)) with float32 states: there is no m.
    """
    operator = "mlstm_siging_chunkwise"
    form = Form(
        require_chunk_size(operator, chunk_size),
        non_negative(operator, "eps", eps),
        sigmoid_input=True,
        normalizer_grad=bool(normalizer_grad),
        normalize=bool(normalize),
    )
    if m_initial is not None:
        raise ValueError(f"{operator}: a sigmoid input gate has no state m; m_initial must be None")
    if (c_initial is None) != (n_initial is None):
        raise ValueError(f"{operator}: the initial states c and n come together, one is missing")
    m = None if c_initial is None else mx.zeros((*c_initial.shape[:2], 1), dtype=mx.float32)
    given = (c_initial, n_initial, m)
    h, (c, n, _) = run(operator, form, (q, k, v, i, f), given, True, mask, seq_idx, backend)
    return (h, (c, n)) if return_last_states else h
