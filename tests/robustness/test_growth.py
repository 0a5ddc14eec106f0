"""Values that grow, step by step or call by call: they are followed no further than is useful."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embercoach.config import Settings
from embercoach.engine.inspection import Inspector
from embercoach.engine.verdict import Judge
from tests.robustness.outcome import outcome_of

PATH = Path("/nowhere/program.py")
IMPORTS = "import mlx.core as mx\n"
GROWING = {
    "lists": ("x = 1\n", "x = [x, x]\n"),
    "tuples": ("x = 1\n", "x = (x, x, x)\n"),
    "dicts": ("x = 1\n", "x = {'a': x, 'b': x}\n"),
    "strings": ("s = 'a'\n", "s = s + s\n"),
    "formatted strings": ("s = 'a'\n", "s = f'{s}{s}'\n"),
    "joined strings": ("s = 'a'\n", "s = s.join([s, s, s])\n"),
    "replaced strings": ("s = 'aa'\n", "s = s.replace('a', s)\n"),
    "numbers": ("n = 9\n", "n = n * n\n"),
    "lambdas": ("f = lambda x: x\n", "f = lambda x, g=f: g(g(x))\n"),
    "compiled functions": ("f = lambda x: x\n", "f = mx.compile(f)\n"),
    "partial functions": ("import functools\nf = print\n", "f = functools.partial(f, f)\n"),
    "unions": ("x = None\n", "if c: x = [x, 1, 'a', None]\n"),
    "appended lists": ("x = []\n", "x.append([x, x])\n"),
    "items": ("d = {}\n", "d[len(d)] = [d, d]\n"),
    "loops": ("x = []\n", "for i in x: x = [x, i]\n"),
    "classes": ("class A: pass\nclass B: pass\n", "class A(A, B): pass\nclass B(A, B): pass\n"),
}


@pytest.mark.parametrize(("start", "step"), GROWING.values(), ids=GROWING)
def test_what_grows_ends(start: str, step: str) -> None:
    name = start.rpartition(" = ")[0].rpartition("\n")[2] or "A"
    source = (
        f"{IMPORTS}{start}{step * 30}if c:\n    {name} = None\n"
        f"def g(y={name}): return y\ng({name})\n"
    )
    assert outcome_of(source, PATH) == "checked"


def functions_calling(body: str, count: int = 20) -> str:
    """Functions that each call the next: ``{next}`` in the body, of the parameter ``a``."""
    functions = (
        f"def f{i}(a):\n    return {body.format(next=f'f{i + 1}')}\n" for i in range(count)
    )
    return "".join(functions) + f"def f{count}(a):\n    return a\nf0(mx.ones(2))\n"


CALLING = {
    "twice": "{next}(a) + {next}([a])",
    "wrapped": "{next}([a, a])",
    "in a dict": "{next}({{'a': a, 'b': a}})",
    "three kinds": "{next}(a) + {next}(str(a)) + {next}(a.x)",
    "a lambda": "{next}(lambda: {next}(a))",
    "itself": "{next}(a) if a else f0(a)",
}


@pytest.mark.parametrize("body", CALLING.values(), ids=CALLING)
def test_chains_of_calls_end(body: str) -> None:
    assert outcome_of(IMPORTS + functions_calling(body), PATH) == "checked"


RECURSIVE = """\
def f{0}(x: mx.array, *a, **k):
    for q in x: x = f{1}(x, f{2}(q))
    return [x, f{3}(x)]
"""
UNIT = "// embercoach: ignore[X]\nkernel void f() {"


def recursive(n: int) -> str:
    return "".join(RECURSIVE.format(i, (7 * i + 3) % n, (5 * i + 2) % n, i - 1) for i in range(n))


def constants(n: int) -> str:
    links = (f"const int n{i + 1} = {' + '.join([f'n{i}'] * n)};" for i in range(7))
    return f"{UNIT} const int n0 = unknown; {''.join(links)} float a[n7]; }}"


def parameters(n: int) -> str:
    return ", ".join(f"a{i}" for i in range(n))


#: Texts of a size, and sizes: the larger one takes as many more steps, and hardly more.
SHAPES: dict[str, tuple[str, Callable[[int], str], int, int]] = {
    "functions that call each other": ("a.py", recursive, 10, 60),
    "codes of a suppression": ("a.py", lambda n: "x = 1  # noqa: " + "DTYPE-001, " * n, 200, 800),
    "parameters": (
        "a.py",
        lambda n: f"def f({parameters(n)}): x\nf({'mx.ones(1), ' * n})",
        60,
        360,
    ),
    "heads of methods": ("a.mm", lambda n: "- (void)draw:(int)x " * n + "{}", 50, 200),
    "sizes of arrays": ("a.metal", constants, 1, 2),
    "dimensions": ("a.metal", lambda n: f"{UNIT} float a{'[2]' * n}; }}", 150, 600),
    "declared names": ("a.metal", lambda n: f"{UNIT} int a{', b' * n}; }}", 150, 600),
}


def steps(name: str, text: str) -> int:
    """The lines that run while a file is checked: the same on every machine."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> Callable[..., object]:
        nonlocal count
        count += 1
        return trace

    path, settings = PATH.with_name(name), Settings(root=PATH.parent)
    source = IMPORTS + text if name == "a.py" else text
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        inspection = Inspector().inspect(source.encode(), path)
        Judge(settings).judge(path, name, inspection)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_in_proportion(shape: str) -> None:
    name, make, few, many = SHAPES[shape]
    steps(name, make(few - 1))  # what is imported and kept on the way is not counted
    assert steps(name, make(many)) < 1.5 * many / few * steps(name, make(few))
