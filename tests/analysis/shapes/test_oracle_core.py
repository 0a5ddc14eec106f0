"""Transfer functions of mlx.core agree with MLX, for known and for symbolic sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mlx.core")

from tests.analysis.shapes import oracle

CORE = sorted(
    name
    for name, drawn in oracle.load().items()
    if drawn.draw.__module__.endswith(("draws_core", "draws_indexing"))
)


#: Functions of many cases, of which an example has more calls than of the others.
MANY = {"mlx.core.array.__getitem__": 60, "mlx.core.array.__setitem__": 40}


@pytest.mark.parametrize("name", CORE)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=8)
def test_transfer_function_agrees_with_mlx(name: str, seed: int) -> None:
    for at in range(MANY.get(name, 8)):
        assert oracle.check(name, seed + at) is None
