"""The LSTM with the shapes of the sLSTM: N heads of D units, whose recurrence stays in the head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlstm_kernels.recurrent.cells import LSTM, run

if TYPE_CHECKING:
    import mlx.core as mx


def lstm(
    Wx: mx.array,  # noqa: N803  # the names are those of FlashRNN, as is the order
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Run the LSTM over a sequence: T steps of N heads with D units each.

    Everything inside is float32, and so are both results. Differentiable any number of times. The
    graph grows with T.

    Args:
        Wx: (B, T, 4, N, D), what the input contributes to i, f, z and o, in this order; float32,
            float16 or bfloat16. Any axis may be empty.
        R: (4, N, D, D), the recurrent weights of each head, indexed [gate, head, out, in]; any of
            these dtypes.
        b: (4, N, D), the bias; any of these dtypes.
        states: (2, B, 1, N, D) or (2, B, N, D), the initial y and c, in this order, any of these
            dtypes; what an earlier call returned as `last`, or None for zeros.

    Returns:
        The states y and c after each step, (2, B, T, N, D), and after the last, (2, B, 1, N, D).

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit.
    """
    return run(LSTM, Wx, R, b, states)
