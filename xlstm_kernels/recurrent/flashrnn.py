"""The LSTM and the sLSTM by the call of NX-AI's package flashrnn (Poeppel et al., 2024)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlstm_kernels import executors
from xlstm_kernels.mlstm.backend import DTYPES
from xlstm_kernels.recurrent.lstm import lstm
from xlstm_kernels.recurrent.slstm.sequence import slstm

if TYPE_CHECKING:
    import mlx.core as mx

#: FlashRNN's back ends but "cuda", which this pack has too.
_BACKENDS = {
    "cuda_fused": None,
    "triton_fused": None,
    "vanilla": "native",
    "vanilla_fwbw": "native",
}


def flashrnn(
    Wx: mx.array,  # noqa: N803
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
    function: str = "lstm",
    *,
    backend: str | None = None,
    dtype: str = "float32",
) -> tuple[mx.array, mx.array]:
    """Run a recurrent network over a sequence: `lstm` or `slstm`, as `function` says.

    FlashRNN's sLSTM keeps n at 1 or more, as every n is that follows the zero state: only initial
    states with an n below 1 go on differently here.

    Args:
        Wx: (B, T, 4, N, D), what the input contributes to i, f, z and o, in this order.
        R: (4, N, D, D), indexed [gate, head, out, in].
        b: (4, N, D).
        states: (S, B, 1, N, D), the S = 2 states y and c of an LSTM, or the S = 4 states y, c, n
            and m of an sLSTM; None for zeros.
        function: "lstm" or "slstm".
        backend: as in `slstm`. FlashRNN's "cuda_fused" and "triton_fused" choose, and its "vanilla"
            and "vanilla_fwbw" run MLX operations, as the LSTM always does.
        dtype: of the results: "float32", "bfloat16" or "float16". Arithmetic is float32.

    Returns:
        The states after each step, (S, B, T, N, D), and after the last, (S, B, 1, N, D).

    Raises:
        TypeError: for a dtype of an array that is not floating.
        ValueError: for shapes that do not fit, another function, dtype or backend.
        RuntimeError: for a backend that cannot run here.
    """
    if dtype not in DTYPES:
        raise ValueError(f"flashrnn: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    chosen = executors.resolve(_BACKENDS.get(backend, backend) if backend is not None else None)
    if function == "lstm":
        results = lstm(Wx, R, b, states)
    elif function == "slstm":
        results = slstm(Wx, R, b, states, backend=chosen)
    else:
        raise ValueError(f"flashrnn: function must be 'lstm' or 'slstm', got {function!r}")
    states_of_each, last = (result.astype(DTYPES[dtype]) for result in results)
    return states_of_each, last
