"""Recurrent networks by the call of NX-AI's package flashrnn (Poeppel et al., 2024)."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import require_choice
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.mlstm.backend import DTYPES
from xlstm_kernels.recurrent.lstm import ELMAN, GRU, LSTM, run
from xlstm_kernels.recurrent.slstm.sequence import slstm

#: FlashRNN's back ends but "cuda", which this pack has too.
_BACKENDS = {
    "cuda_fused": None,
    "triton_fused": None,
    "vanilla": "native",
    "vanilla_fwbw": "native",
}
#: The functions without a kernel.
_NATIVE = {cell.name: cell for cell in (LSTM, GRU, ELMAN)}


@on_stream
def flashrnn(
    Wx: mx.array,
    R: mx.array,
    b: mx.array,
    states: mx.array | None = None,
    function: str = "lstm",
    *,
    backend: str | None = None,
    dtype: str = "float32",
    stream: StreamLike = None,
) -> tuple[mx.array, mx.array]:
    """Run a recurrent network over a sequence: "lstm", "slstm", "gru" or "elman".

    The sLSTM has kernels. The others run in MLX operations, on every backend.

    FlashRNN's sLSTM keeps n at 1 or more, as every n is that follows the zero state: only initial
    states with an n below 1 go on differently here. Errors are those of `slstm`, and a ValueError
    for another `dtype`.

    Args:
        Wx: (B, T, G, N, D), what the input contributes to i, f, z and o, in this order; of a GRU
            G is 3 for r, z and n, and of an Elman network 1.
        R: (4, N, D, D), indexed [gate, head, out, in]; of a GRU 3 for g, r and z; 1.
        b: (4, N, D); of a GRU for g, r, z and n; 1.
        states: (S, B, 1, N, D), the S = 2 states y and c of an LSTM, the S = 4 states y, c, n and
            m of an sLSTM, or else y alone, S = 1; None for zeros.
        function: its name.
        backend: as in `slstm`. FlashRNN's "cuda_fused" and "triton_fused" choose, and its "vanilla"
            and "vanilla_fwbw" run MLX operations.
        dtype: of the results: "float32", "bfloat16" or "float16". Arithmetic is float32.

    Returns:
        The states after each step, (S, B, T, N, D), and after the last, (S, B, 1, N, D).
    """
    require_choice("flashrnn", "dtype", dtype, DTYPES)
    require_choice("flashrnn", "function", function, ("slstm", *_NATIVE))
    chosen = resolve(_BACKENDS.get(backend, backend) if backend is not None else None)
    if function == "slstm":
        results = slstm(Wx, R, b, states, backend=chosen)
    else:
        results = run(_NATIVE[function], Wx, R, b, states)
    states_of_each, last = (result.astype(DTYPES[dtype]) for result in results)
    return states_of_each, last
