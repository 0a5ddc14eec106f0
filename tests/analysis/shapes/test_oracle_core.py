"""Transfer functions of mlx.core agree with MLX, for known and for symbolic sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mlx.core")

from tests.analysis.shapes import oracle

CORE = sorted(
    name for name, drawn in oracle.load().items() if drawn.draw.__module__.endswith("draws_core")
)


@pytest.mark.parametrize("name", CORE)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=15)
def test_transfer_function_agrees_with_mlx(name: str, seed: int) -> None:
    assert oracle.check(name, seed) is None
