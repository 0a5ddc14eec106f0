"""Functions of the same file: what callers pass, what bodies return, how arguments are bound."""

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
