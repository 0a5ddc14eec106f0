"""Transfer functions and layers agree with MLX, for known and for symbolic sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from tests.analysis.shapes import oracle

#: How many calls an example has: more for quick ones, and for functions of many cases.
CALLS = {
    name: 8 if drawn.draw.__module__.endswith(("draws_core", "draws_indexing")) else 2
    for name, drawn in oracle.load().items()
} | {"mlx.core.array.__getitem__": 60, "mlx.core.array.__setitem__": 40}


@pytest.mark.parametrize("name", sorted(CALLS))
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=8)
def test_transfer_function_agrees_with_mlx(name: str, seed: int) -> None:
    for at in range(CALLS[name]):
        assert oracle.check(name, seed + at) is None
