"""MLX, NumPy, torch and others told apart; results of their functions and operators."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

SETUP = """
import math
import jax.numpy as jnp
h = mx.ones((2, 2), mx.float16)
b = mx.ones((2, 2), mx.bfloat16)
f = mx.ones((2, 2))
i = mx.ones((2, 2), mx.int32)
n = np.ones((2, 2))
t = torch.ones(2, 2)
"""
EXPRESSIONS = {
    # MLX
    "i / 2": "array[float32]",
    "abs(h)": "array[float16]",
    "h[0, None, ..., :1]": "array[float16]",
    "h.size": "int 4",
    "h.reshape(-1).transpose().sum(axis=0)": "array[float16]",
    "mx.concatenate([h, f])": "array[float32]",
    "mx.array(0.5, dtype=unknown)": "array",
    "h.no_such_method()": "?",
    # NumPy
    "n * 2": "numpy[float]",
    "n.shape": "shape[int]",
    "n.item()": "float",
    "np.prod(h.shape)": "numpy scalar[int]",
    "n.mean()": "numpy scalar[float]",
    "n.mean(axis=0)": "numpy[float]",
    # Others
    "math.isnan(2.5)": "bool",
}


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_an_expression_holds(expression: str, expected: str) -> None:
    assert revealed(f"{SETUP}\nreveal({expression})") == expected


def test_a_dtype_chosen_at_run_time_is_unknown() -> None:
    source = """
        d = mx.float16 if mx.metal.is_available() else mx.float32
        reveal(d)
        reveal(mx.ones(2, d))
    """
    assert all_revealed(source) == ["dtype", "array"]


def test_a_mixed_number_leaves_the_dtype_open() -> None:
    source = """
        def f(x):
            if isinstance(x, (int, float)):
                reveal(mx.array(x))
    """
    assert revealed(source) == "array"


@pytest.mark.parametrize("name", ["copy.copy", "copy.deepcopy", "tqdm.tqdm"])
def test_a_wrapper_passes_its_argument_on(name: str) -> None:
    module = name.partition(".")[0]
    assert revealed(f"import {module}\nreveal({name}(mx.ones(2)))") == "array[float32]"
