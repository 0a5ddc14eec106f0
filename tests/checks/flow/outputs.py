"""Elements of outputs that several threads write."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

SHARED_OUTPUTS = ()

OWN_OUTPUTS = (
    Kernel(
        "groups_of_unknown_size_that_never_ask_for_the_thread",
        """
        uint row = threadgroup_position_in_grid.x;
        float scale = x[row] / n[row];
        y[row] = y[row] * scale;
        """,
        threadgroup="(t, 1, 1)",
        grid="(rows * t, 1, 1)",
    ),
    Kernel(
        "guard_of_one_thread",
        """
        if (thread_position_in_grid.x == 0) y[0] = x[0] + x[1];
        """,
    ),
)

WRONG = SHARED_OUTPUTS
RIGHT = OWN_OUTPUTS
