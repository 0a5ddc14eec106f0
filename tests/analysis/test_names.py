"""Names: where they are looked up, and what shadows what."""

from __future__ import annotations

import pytest

from tests.analysis.inference import revealed

CASES = {
    "del": ("x = mx.ones(2)\ndel x\nreveal(x)", "?"),
    "del of an attribute's owner": ("x = mx.ones(2)\ny = x\ndel x\nreveal(y)", "array[float32]"),
    "walrus": (
        "def f(x: mx.array):\n    if (n := x.sum()) is not None:\n        reveal(n)",
        "array",
    ),
    "guarded import": (
        "try:\n    import mlx.core as m\nexcept ImportError:\n    m = None\nreveal(m.ones(2))",
        "array[float32]",
    ),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_a_name_holds(source: str, expected: str) -> None:
    assert revealed(source) == expected


def test_a_star_import_of_mlx_leaves_builtins_unknown() -> None:
    # mlx.core has a ``max`` of its own, and which names it exports is not decided here.
    assert revealed("from mlx.core import *\nreveal(max(mx.ones(2)))") == "?"
