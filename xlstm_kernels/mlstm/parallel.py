"""Parallel mLSTM: every step looks at every earlier one, S x S in all.

The form of attention (Beck et al., "xLSTM", 2024, appendix A.3): D_ts = F_t - F_s + i_s for s <= t,
F the prefix sum of log sigmoid(f), m_t = max(F_t, max_s D_ts), A = exp(D - m) * (q k^T) / sqrt(DK)
and h = A v / (max(|A 1|, exp(-m)) + eps). The F_t in the maximum, which the paper leaves out, is
the m = 0 that the recurrence begins with: with it all forms agree. It is the chunkwise form with a
single chunk, and shares its kernels: no S x S matrix is ever in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlstm_kernels.mlstm.arguments import require_eps
from xlstm_kernels.mlstm.chunked import Form, Result, run

if TYPE_CHECKING:
    import mlx.core as mx


def mlstm_parallel(
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
    *,
    normalizer_grad: bool = True,
    mask: mx.array | None = None,
    backend: str | None = None,
) -> Result:
    """The mLSTM over a sequence, all steps at once; its cost grows with the square of S.

    For short sequences. Arguments, results and errors are those of `mlstm_chunkwise`, which is
    faster from a few hundred steps on; initial and last states are welcome here too.
    """
    operator = "mlstm_parallel"
    form = Form(None, require_eps(operator, eps), normalizer_grad=bool(normalizer_grad))
    given = (c_initial, n_initial, m_initial)
    return run(operator, form, (q, k, v, i, f), given, return_last_states, mask, backend)
