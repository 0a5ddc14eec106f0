"""Names: where they are looked up, and what shadows what."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

CASES = {
    "unbound": ("reveal(nothing)", "?"),
    "module level": ("x = mx.zeros(3)\nreveal(x)", "array[float32]"),
    "seen from a function": ("x = mx.zeros(3)\ndef f():\n    reveal(x)", "array[float32]"),
    "bound after the function": ("def f():\n    reveal(x)\nx = mx.zeros(3)", "array[float32]"),
    "closure": (
        "x = 1\ndef f():\n    x = mx.ones(2)\n    def g():\n        reveal(x)",
        "array[float32]",
    ),
    "local hides global": ("x = mx.ones(2)\ndef f():\n    x = 'a'\n    reveal(x)", "'a'"),
    "parameter hides global": ("x = mx.ones(2)\ndef f(x: int):\n    reveal(x)", "int"),
    "class scope is no closure": (
        "x = mx.ones(2)\nclass A:\n    x = 3\n    def f(self):\n        reveal(x)",
        "array[float32]",
    ),
    "global": (
        "x = 1\ndef f():\n    global x\n    x = mx.ones(2)\nf()\nreveal(x)",
        "array[float32] | int 1",
    ),
    "del": ("x = mx.ones(2)\ndel x\nreveal(x)", "?"),
    "del of an attribute's owner": ("x = mx.ones(2)\ny = x\ndel x\nreveal(y)", "array[float32]"),
    "comprehension target stays inside": (
        "x = mx.ones(3)\nys = [x for x in range(3)]\nreveal(x)",
        "array[float32]",
    ),
    "lambda parameter stays inside": (
        "x = mx.ones(3)\nf = lambda x: x\nreveal(x)",
        "array[float32]",
    ),
    "walrus": (
        "def f(x: mx.array):\n    if (n := x.sum()) is not None:\n        reveal(n)",
        "array",
    ),
    "builtin": ("reveal(len)", "builtins.len"),
    "shadowed builtin": ("len = mx.ones\nreveal(len(3))", "array[float32]"),
    "shadowed builtin parameter": ("def f(max: mx.array):\n    reveal(max)", "array"),
    "import": ("reveal(mx)", "mlx.core"),
    "import of the package": ("import mlx\nreveal(mlx.core.zeros(3))", "array[float32]"),
    "import of the submodule": ("import mlx.core\nreveal(mlx.core.zeros(3))", "array[float32]"),
    "from package import module": (
        "from mlx import core as c\nreveal(c.ones(2))",
        "array[float32]",
    ),
    "from module import names": (
        "from mlx.core import ones as o, float16\nreveal(o(2, float16))",
        "array[float16]",
    ),
    "import inside a function": (
        "def f():\n    import mlx.core as m\n    reveal(m.ones(2))",
        "array[float32]",
    ),
    "guarded import": (
        "try:\n    import mlx.core as m\nexcept ImportError:\n    m = None\nreveal(m.ones(2))",
        "array[float32]",
    ),
    "deep import path": (
        "import mlx.nn.layers.linear as l\nreveal(l.Linear(2, 3)(mx.ones(2)))",
        "array",
    ),
    "name bound to a module": ("m = mx\nreveal(m.ones(2))", "array[float32]"),
    "name bound to a function": ("f = mx.ones\nreveal(f(2))", "array[float32]"),
    "rebound": ("x = mx.ones(2)\nx = x.shape\nreveal(x)", "shape(int 2)"),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_a_name_holds(source: str, expected: str) -> None:
    assert revealed(source) == expected


def test_a_name_holds_what_it_held_at_that_line() -> None:
    source = """
        x = mx.ones(2)
        reveal(x)
        x = 3
        reveal(x)
        x = None
        reveal(x)
    """
    assert all_revealed(source) == ["array[float32]", "int 3", "None"]


def test_a_star_import_of_mlx_leaves_builtins_unknown() -> None:
    # mlx.core has a ``max`` of its own, and which names it exports is not decided here.
    assert revealed("from mlx.core import *\nreveal(max(mx.ones(2)))") == "?"
