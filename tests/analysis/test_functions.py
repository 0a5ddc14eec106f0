"""Functions, layers and libraries: what callers pass, what bodies and libraries return."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

PARAMETERS = {
    "*args": ("def f(*xs):\n    reveal(xs)\nf(mx.ones(2), mx.zeros(3))", "tuple[array[float32]]"),
    "passed through functools.partial": (
        "from functools import partial\ndef f(n, x):\n    reveal(x)\npartial(f, mx.ones(2))(3)",
        "int",
    ),
}


@pytest.mark.parametrize(("source", "expected"), PARAMETERS.values(), ids=PARAMETERS)
def test_a_parameter_holds(source: str, expected: str) -> None:
    assert revealed(source) == expected


RESULTS = {
    "by its annotation": ("def f(x) -> mx.array: ...", "f(3)", "array"),
    "vague annotation": (
        "def f(x) -> tuple:\n    return x, 3",
        "f(mx.ones(2))",
        "tuple(array[float32], int 3)",
    ),
    "inside with": (
        "def f():\n    with mx.stream(mx.cpu):\n        return mx.ones(2)",
        "f()",
        "array[float32]",
    ),
    "cached": (
        "import functools\n@functools.lru_cache(maxsize=3)\ndef f():\n    return mx.ones(2)",
        "f()",
        "array[float32]",
    ),
    "chosen function": (
        "def a(): return mx.ones(2)\ndef b(): return 3\nf = a if c else b",
        "f()",
        "array[float32] | int 3",
    ),
}


@pytest.mark.parametrize(("source", "call", "expected"), RESULTS.values(), ids=RESULTS)
def test_a_call_returns(source: str, call: str, expected: str) -> None:
    assert revealed(f"{source}\nreveal({call})") == expected


def test_a_coroutine_is_awaited() -> None:
    source = "async def f():\n    return mx.ones(2)\nasync def g():\n    reveal(await f())"
    assert revealed(source) == "array[float32]"


def test_transforms_return_what_their_functions_do() -> None:
    source = """
        def f(x):
            return x.sum()
        reveal(mx.compile(f)(mx.ones(2, mx.float16)))
        reveal(mx.vmap(f)(mx.ones(2, mx.float16)))
        reveal(mx.grad(f)(mx.ones(2, mx.float16)))
        reveal(mx.value_and_grad(f)(mx.ones(2, mx.float16))[0])
    """
    compiled, mapped, gradient, value = all_revealed(source)
    assert compiled == mapped == value == "array[float16]"
    assert gradient in ("array", "array[float16]")


@pytest.mark.parametrize(
    "source",
    [
        "def f(a):\n    for i in range(3):\n        a = [a, a]\n    return f([a])\nf(1)",
        "def f(a):\n    return f({'a': a, 'b': a})\nf(1)",
    ],
)
def test_growing_arguments_of_a_recursion_end(source: str) -> None:
    revealed(f"{source}\nreveal(f(1))")


def test_parameters_are_a_tree_of_arrays() -> None:
    source = """
        from mlx.utils import tree_flatten, tree_map
        net = nn.Linear(2, 3)
        reveal(net.parameters())
        for name, value in tree_flatten(net.parameters()):
            reveal(name)
            reveal(value)
        reveal(tree_map(lambda p: p.astype(mx.float16), net.parameters()))
        reveal(net.parameters()["weight"])
    """
    assert all_revealed(source) == ["tree", "str", "array", "tree", "array | tree"]


def test_super_call() -> None:
    source = """
        class Net(nn.Linear):
            def __call__(self, x):
                reveal(super().__call__(x))
    """
    assert revealed(source) == "array"


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
