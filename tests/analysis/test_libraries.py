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
    "f": "array[float32]",
    "h + h": "array[float16]",
    "h * 2": "array[float16]",
    "2.5 - h": "array[float16]",
    "i * 2.5": "array[float32]",
    "i + 1": "array[int32]",
    "i / 2": "array[float32]",
    "i / i": "array[float32]",
    "h * b": "array[float32]",
    "h @ f": "array[float32]",
    "-h": "array[float16]",
    "~i": "array[int32]",
    "abs(h)": "array[float16]",
    "i << 1": "array[int32]",
    "h == 1": "array[bool]",
    "h < h": "array[bool]",
    "h is None": "bool",
    "1 in h": "bool",
    "not h": "bool",
    "h[0]": "array[float16]",
    "h[0, None, ..., :1]": "array[float16]",
    "h[i]": "array[float16]",
    "h.T": "array[float16]",
    "h.shape": "shape(int 2, int 2)",
    "h.shape[0]": "int 2",
    "h.size": "int 4",
    "h.ndim": "int 2",
    "h.dtype": "dtype[float16]",
    "h.at[0].add(1)": "array[float16]",
    "h.astype(mx.int8)": "array[int8]",
    "h.astype(f.dtype)": "array[float32]",
    "h.astype(unknown)": "array",
    "h.item()": "float",
    "i.item()": "int",
    "(i == 1).item()": "bool",
    "h.tolist()": "list[float]",
    "h.sum()": "array[float16]",
    "h.reshape(-1).transpose().sum(axis=0)": "array[float16]",
    "mx.exp(h)": "array[float16]",
    "mx.exp(i)": "array[float32]",
    "mx.maximum(h, 3)": "array[float16]",
    "mx.where(i == 1, h, 0.0)": "array[float16]",
    "mx.where(i == 1, h, mx.array(0.0))": "array[float32]",
    "mx.softmax(i)": "array[float32]",
    "mx.argmax(h)": "array[uint32]",
    "mx.sum(i == 1)": "array[int32]",
    "mx.concatenate([h, h])": "array[float16]",
    "mx.concatenate([h, f])": "array[float32]",
    "mx.stack([h] * 2)": "array[float16]",
    "mx.split(h, 2)": "list[array[float16]]",
    "mx.linalg.qr(f)": "tuple(array[float32], array[float32])",
    "mx.arange(3)": "array[int32]",
    "mx.arange(3.0)": "array[float32]",
    "mx.full((2,), 3)": "array[int32]",
    "mx.zeros_like(h)": "array[float16]",
    "mx.fft.fft(f)": "array[complex64]",
    "mx.abs(mx.fft.fft(f))": "array[float32]",
    "mx.array(3)": "array[int32]",
    "mx.array(0.5)": "array[float32]",
    "mx.array(True)": "array[bool]",
    "mx.array(2j)": "array[complex64]",
    "mx.array([1, 2.0])": "array[float32]",
    "mx.array([[True]])": "array[bool]",
    "mx.array(0.5, mx.bfloat16)": "array[bfloat16]",
    "mx.array(0.5, dtype=unknown)": "array",
    "mx.array(h)": "array[float16]",
    "mx.array(n)": "array",
    "mx.eval(f)": "None",
    "mx.float16": "dtype[float16]",
    "mx.bool_": "dtype[bool]",
    "mx.inf": "float",
    "mx.finfo(mx.float16).min": "float",
    "mx.random.randint(0, 3, (2,))": "array[int32]",
    "h.no_such_method()": "?",
    "mx.no_such_function(h)": "?",
    # NumPy
    "n": "numpy[float]",
    "n * 2": "numpy[float]",
    "n * f": "numpy[float]",
    "f * n": "array[float32]",
    "n + i": "numpy[float]",
    "n > 1": "numpy[bool]",
    "n[0]": "numpy[float]",
    "n.shape": "shape[int]",
    "n.tolist()": "list[float]",
    "n.item()": "float",
    "n.astype(np.int32)": "numpy[int]",
    "np.array(f)": "numpy",
    "np.float32(3)": "numpy scalar[float]",
    "np.int64(3)": "numpy scalar[int]",
    "np.sqrt(2.0)": "numpy scalar[float]",
    "np.float32(0.5) * f": "numpy[float]",
    "np.pi": "float",
    "np.inf": "float",
    "np.prod(h.shape)": "numpy scalar[int]",
    "n.mean()": "numpy scalar[float]",
    "n.sum()": "numpy scalar[float]",
    "n.mean(axis=0)": "numpy[float]",
    # torch
    "t": "torch",
    "t * 2": "torch",
    "t.shape": "shape[int]",
    "t.numpy()": "numpy",
    "t.sum()": "torch",
    "torch.tensor(h.tolist())": "torch",
    "torch.nn.Linear(2, 3)(t)": "torch",
    "mx.array(t.numpy())": "array",
    # Others
    "math.sqrt(2)": "float",
    "math.pi * 2": "float",
    "math.floor(2.5)": "int",
    "math.isnan(2.5)": "bool",
    "jnp.ones(3)": "?",
    "jnp.ones(3) * 2": "?",
    "jnp.ones(3).item()": "?",
    "f + unknown": "array",
    "unknown + f": "array",
    "f + 'a'": "array",
}


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_an_expression_holds(expression: str, expected: str) -> None:
    assert revealed(f"{SETUP}\nreveal({expression})") == expected


def test_optimizers() -> None:
    source = """
        import mlx.optimizers as optim
        o = optim.Adam(1e-3)
        reveal(o)
        reveal(o.learning_rate)
        reveal(o.state)
    """
    assert all_revealed(source) == ["mlx.optimizers.Adam()", "array", "tree"]


def test_a_kernel_returns_a_list_of_arrays() -> None:
    source = """
        k = mx.fast.metal_kernel(
            name="k", input_names=["x"], output_names=["y", "z"], source="y[0] = x[0];"
        )
        outs = k(
            inputs=[mx.ones(2)], output_shapes=[(2,), (2,)], output_dtypes=[mx.float16, mx.int8],
            grid=(1, 1, 1), threadgroup=(1, 1, 1),
        )
        reveal(k)
        reveal(outs)
        reveal(outs[1])
    """
    assert all_revealed(source) == [
        "kernel",
        "list(array[float16], array[int8])",
        "array[int8]",
    ]


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
