"""Functions of the same file: what callers pass, what bodies return, how arguments are bound."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

PARAMETERS = {
    "positional": ("def f(x):\n    reveal(x)\nf(mx.ones(2))", "array[float32]"),
    "keyword": ("def f(x):\n    reveal(x)\nf(x=mx.ones(2))", "array[float32]"),
    "two callers": ("def f(x):\n    reveal(x)\nf(mx.ones(2))\nf(3)", "array[float32] | int"),
    "two dtypes": ("def f(x):\n    reveal(x)\nf(mx.ones(2))\nf(mx.ones(2, mx.int8))", "array"),
    "no caller": ("def f(x):\n    reveal(x)", "?"),
    "an unknown caller says nothing": ("def f(x):\n    reveal(x)\nf(y)", "?"),
    "caller in a function below": (
        "def f(x):\n    reveal(x)\ndef g():\n    f(mx.ones(2))",
        "array[float32]",
    ),
    "caller in a method": (
        (
            "class A:\n    def f(self, x):\n        reveal(x)\n    def g(self):\n"
            "        self.f(mx.ones(2))"
        ),
        "array[float32]",
    ),
    "inner function": (
        "def f(x):\n    def g(y):\n        reveal(y)\n    g(x)\nf(mx.ones(2))",
        "array[float32]",
    ),
    "positional only": ("def f(x, /):\n    reveal(x)\nf(mx.ones(2))", "array[float32]"),
    "keyword only": ("def f(*, x):\n    reveal(x)\nf(x=mx.ones(2))", "array[float32]"),
    "after *args of the caller": ("def f(x, y):\n    reveal(y)\nf(*a, mx.ones(2))", "?"),
    "*args": ("def f(*xs):\n    reveal(xs)\nf(mx.ones(2), mx.zeros(3))", "tuple[array[float32]]"),
    "default number": ("def f(n=3):\n    reveal(n)", "? | int"),
    "default and caller": (
        "def f(x=3):\n    reveal(x)\nf(mx.ones(2))",
        "array[float32] | int",
    ),
    "annotated default": ("def f(n: int = 3):\n    reveal(n)", "int"),
    "default None": ("def f(x=None):\n    reveal(x)", "? | None"),
    "lambda": ("f = lambda x: reveal(x)\nf(mx.ones(2))", "array[float32]"),
    "passed through functools.partial": (
        "from functools import partial\ndef f(n, x):\n    reveal(x)\npartial(f, mx.ones(2))(3)",
        "int",
    ),
    "known for taking arrays only": ("def f(x):\n    y = mx.exp(x)\n    reveal(x)", "array"),
    "known by astype": ("def f(x):\n    y = x.astype(mx.float16)\n    reveal(x)", "array"),
}


@pytest.mark.parametrize(("source", "expected"), PARAMETERS.values(), ids=PARAMETERS)
def test_a_parameter_holds(source: str, expected: str) -> None:
    assert revealed(source) == expected


RESULTS = {
    "by its argument": ("def f(x):\n    return x + 1", "f(mx.ones(2, mx.int8))", "array[int8]"),
    "by another argument": ("def f(x):\n    return x + 1", "f(3)", "int"),
    "by its annotation": ("def f(x) -> mx.array: ...", "f(3)", "array"),
    "vague annotation": (
        "def f(x) -> tuple:\n    return x, 3",
        "f(mx.ones(2))",
        "tuple(array[float32], int 3)",
    ),
    "two returns": (
        "def f(c):\n    if c:\n        return mx.ones(2)\n    return 3",
        "f(1)",
        "array[float32] | int 3",
    ),
    "falls through": (
        "def f(c):\n    if c:\n        return mx.ones(2)",
        "f(1)",
        "None | array[float32]",
    ),
    "nothing": ("def f(): pass", "f()", "None"),
    "bare return": ("def f():\n    return", "f()", "None"),
    "always raises": ("def f():\n    raise ValueError", "f()", "?"),
    "early return": (
        "def f(x):\n    if x is None:\n        return None\n    return x * 2",
        "f(mx.ones(2))",
        "None | array[float32]",
    ),
    "recursive": (
        "def f(n):\n    return f(n - 1) if n else mx.ones(2)",
        "f(3)",
        "? | array[float32]",
    ),
    "mutually recursive": (
        "def f(n):\n    return g(n)\ndef g(n):\n    return f(n)",
        "f(3)",
        "?",
    ),
    "endless loop": (
        "def f():\n    while True:\n        if c:\n            return mx.ones(2)",
        "f()",
        "array[float32]",
    ),
    "inside with": (
        "def f():\n    with mx.stream(mx.cpu):\n        return mx.ones(2)",
        "f()",
        "array[float32]",
    ),
    "inside try": (
        "def f():\n    try:\n        return mx.ones(2)\n    finally:\n        pass",
        "f()",
        "array[float32]",
    ),
    "tuple": ("def f(x):\n    return x, x.shape", "f(mx.ones(2))[1]", "shape(int)"),
    "lambda": ("f = lambda x: x * 2", "f(mx.ones(2))", "array[float32]"),
    "closure": (
        "def f(x):\n    def g():\n        return x\n    return g()",
        "f(mx.ones(2))",
        "array[float32]",
    ),
    "a function": ("def f():\n    def g():\n        return 3\n    return g", "f()", "def f.g"),
    "called result": (
        "def f():\n    def g():\n        return mx.ones(2)\n    return g",
        "f()()",
        "array[float32]",
    ),
    "generator": ("def f():\n    yield mx.ones(2)", "f()", "iterator[array[float32]]"),
    "cached": (
        "import functools\n@functools.lru_cache(maxsize=3)\ndef f():\n    return mx.ones(2)",
        "f()",
        "array[float32]",
    ),
    "context manager": (
        "from contextlib import contextmanager\n@contextmanager\ndef f():\n    yield mx.ones(2)",
        "f()",
        "?",
    ),
    "compiled": ("@mx.compile\ndef f(x):\n    return x", "f(mx.ones(2))", "array[float32]"),
    "instance": ("class A: pass\ndef f():\n    return A()", "f()", "A()"),
    "chosen function": (
        "def a(): return mx.ones(2)\ndef b(): return 3\nf = a if c else b",
        "f()",
        "array[float32] | int 3",
    ),
    "in a dict": ("d = {'a': lambda: mx.ones(2)}", "d['a']()", "array[float32]"),
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


def test_gradients_of_a_module_are_a_tree() -> None:
    source = """
        def loss(model, x):
            return model(x).sum()
        model = nn.Linear(2, 3)
        value, grads = nn.value_and_grad(model, loss)(model, mx.ones(2))
        reveal(value)
        reveal(grads)
    """
    assert all_revealed(source) == ["array", "tree"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(a):\n    return f([a])\nf(1)",
        "def f(a):\n    for i in range(3):\n        a = [a, a]\n    return f([a])\nf(1)",
        "def f(a):\n    return f({'a': a, 'b': a})\nf(1)",
        "f = lambda x: f((x, x))\nf(1)",
    ],
)
def test_growing_arguments_of_a_recursion_end(source: str) -> None:
    revealed(f"{source}\nreveal(f(1))")
