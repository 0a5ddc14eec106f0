"""Contexts of findings: compiled, differentiated, loop, forward, evaluated, periodic, and so on."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from embercoach.analysis.project.project import Project
from embercoach.checks import check_source
from embercoach.rulebook import CONTEXTS
from tests.analysis.inference import PRELUDE


def context(source: str, code: str = "GRAPH-BREAK-001", name: str = "program.py") -> str | None:
    """The context of the first finding of a code, None if there is none."""
    text = PRELUDE + "from functools import partial\n" + textwrap.dedent(source)
    report = check_source(text, Path("/nowhere") / name, Project())
    found = [f.context for f in report.findings if f.code == code]
    assert set(found) <= set(CONTEXTS)
    return found[0] if found else None


F = "def f(x: mx.array):\n    return x.item()\n"
COMPILED = {
    "decorator": "@mx.compile\ndef f(x):\n    return x.item()\nf(mx.ones(1))",
    "decorator, called": "@mx.compile()\ndef f(x: mx.array):\n    return x.item()",
    "decorator by partial": (
        "@partial(mx.compile, inputs=[])\ndef f(x: mx.array):\n    return x.item()"
    ),
    "decorator with arguments": (
        "@partial(mx.compile, shapeless=True)\ndef f(x: mx.array):\n    return x.item()"
    ),
    "call": F + "g = mx.compile(f)",
    "call with state": F + "g = mx.compile(f, inputs=s, outputs=s)",
    "call by keyword": F + "g = mx.compile(fun=f)",
    "call before the function runs": (
        "def main():\n    g = mx.compile(f)\ndef f(x: mx.array):\n    return x.item()"
    ),
    "lambda": "g = mx.compile(lambda x: x.item())\ng(mx.ones(1))",
    "of a gradient": "def f(x: mx.array):\n    return x.item()\ng = mx.compile(mx.grad(f))",
    "inner function": (
        "def make():\n    def f(x: mx.array):\n        return x.item()\n    return mx.compile(f)"
    ),
    "method": (
        "class A:\n    def __init__(self):\n        self.g = mx.compile(self.f)\n"
        "    def f(self, x: mx.array):\n        return x.item()"
    ),
    "layer": (
        "class A(nn.Module):\n    def __call__(self, x):\n        x.item()\nf = mx.compile(A())"
    ),
    "called by a compiled function": (F + "@mx.compile\ndef g(x: mx.array):\n    return f(x)"),
    "imported name": "from mlx.core import compile as c\n@c\n" + F,
    "vmapped": "def f(x: mx.array):\n    return x.item()\ng = mx.vmap(f)",
    "vmapped decorator": "@mx.vmap\ndef f(x: mx.array):\n    return x.item()",
    "derived in the body": "@mx.compile\ndef f(x: mx.array):\n    y = x.sum()\n    return y.item()",
    "in a loop of it": (
        "@mx.compile\ndef f(x: mx.array):\n    for i in range(3):\n        x.item()\n    return x"
    ),
    "without an annotation": "@mx.compile\ndef f(x):\n    return x.item()",
    "a result without an annotation": "@mx.compile\ndef f(x):\n    return x.sum().item()",
    "vmapped without an annotation": "def f(x):\n    return x.sum().item()\ng = mx.vmap(f)",
    "a layer's result": (
        "layer = nn.Linear(2, 2)\n@mx.compile\ndef f(x):\n    y = layer(x)\n    return y.item()"
    ),
    "partial that is bound to a name": (
        "c = partial(mx.compile, inputs=[])\n@c\ndef f(x: mx.array):\n    return x.item()"
    ),
    "call of a partial": F + "g = partial(mx.compile, inputs=[])(f)",
    "in a test": "@mx.compile\ndef test_f(x: mx.array):\n    return x.item()",
}


@pytest.mark.parametrize("source", COMPILED.values(), ids=COMPILED)
def test_compiled(source: str) -> None:
    assert context(source) == "compiled"


NOT_COMPILED = {
    "another function": F + "@mx.compile\ndef g(x):\n    return x",
    "a constant of the module": (
        "C = mx.ones(1)\n@mx.compile\ndef f(x: mx.array):\n    return x * C.item()"
    ),
    "a constant of the body": "@mx.compile\ndef f(x: mx.array):\n    x * mx.array(2.0).item()",
    "the compiled function's caller": (
        "@mx.compile\ndef f(x): return x\ndef g(x: mx.array):\n    return f(x).item()"
    ),
    "another library's compile": ("@torch.compile\ndef f(x: mx.array):\n    return x.item()"),
}


@pytest.mark.parametrize("source", NOT_COMPILED.values(), ids=NOT_COMPILED)
def test_not_compiled(source: str) -> None:
    assert context(source) not in ("compiled", "differentiated")


LOSS = "def loss(w: mx.array, x: mx.array):\n    {}\n"
DIFFERENTIATED = {
    "returned": ("return x.sum() * w.sum().item()", "mx.grad(loss)"),
    "through a name": ("s = w.sum().item()\n    return x.sum() * s", "mx.grad(loss)"),
    "through arithmetic": (
        "s = w.item()\n    t = 2 * s + 1\n    return x.sum() * t",
        "mx.grad(loss)",
    ),
    "through a tuple": ("s = (w.item(), 3)\n    return x.sum() * s[0]", "mx.grad(loss)"),
    "in a tuple": ("return x.sum() * w.item(), x", "mx.value_and_grad(loss)"),
    "on one branch": (
        "if x.ndim:\n        s = w.item()\n    else:\n        s = 1\n    return x.sum() * s",
        "mx.grad(loss)",
    ),
    "value_and_grad": ("return x.sum() * w.item()", "mx.value_and_grad(loss)"),
    "vjp": ("return x.sum() * w.item()", "mx.vjp(loss, [w, x], [c])"),
    "jvp": ("return x.sum() * w.item()", "mx.jvp(loss, [w, x], [c])"),
    "lambda": ("return x.sum() * w.item()", "mx.grad(lambda w, x: loss(w, x))"),
}


@pytest.mark.parametrize(("body", "use"), DIFFERENTIATED.values(), ids=DIFFERENTIATED)
def test_differentiated(body: str, use: str) -> None:
    assert (
        context(LOSS.format(body) + f"def main(model, w, x, c):\n    {use}\n") == "differentiated"
    )


LOGGED = {
    "printed": "print(w.sum().item())\n    return (x * w).sum()",
    "logged into a list": "log.append(w.item())\n    return (x * w).sum()",
    "a shape": "n = int(w.sum().item())\n    return x.reshape(-1).sum()",
    "a condition": "if w.item() > 3:\n        raise ValueError\n    return (x * w).sum()",
    "unused": "s = w.item()\n    return (x * w).sum()",
    "overwritten": "s = w.item()\n    s = 3\n    return x.sum() * s",
}


@pytest.mark.parametrize("body", LOGGED.values(), ids=LOGGED)
def test_differentiated_without_reaching_the_result(body: str) -> None:
    source = "log = []\n" + LOSS.format(body) + "g = mx.grad(loss)\n"
    assert context(source) == "function"


def test_a_cast_and_a_truth_test_detach_too() -> None:
    body = "s = float(w.sum())\n    return x.sum() * s"
    assert context(LOSS.format(body) + "g = mx.grad(loss)", "GRAPH-BREAK-002") == "differentiated"
    body = "return x.sum() * np.array(w).sum()"
    assert context(LOSS.format(body) + "g = mx.grad(loss)", "HOST-PULL-002") == "differentiated"
    body = "s = mx.array(w.item())\n    return (x * s).sum()"
    assert context(LOSS.format(body) + "g = mx.grad(loss)", "HOST-PULL-007") == "differentiated"


def test_a_gradient_function_s_own_result_is_not_differentiated() -> None:
    source = LOSS.format("return (x * w).sum()") + (
        "def step(w: mx.array, x: mx.array):\n    value, grad = mx.value_and_grad(loss)(w, x)\n"
        "    return value.item()\n"
    )
    assert context(source) == "sink"


PLACES = {
    "function": ("def f(x: mx.array):\n    return x * x.item()", "function"),
    "function that returns it": ("def f(x: mx.array):\n    return x.item()", "sink"),
    "method": ("class A:\n    def f(self, x: mx.array):\n        return x.item()", "sink"),
    "for": ("def f(xs: list[mx.array]):\n    for x in xs:\n        x.item()", "loop"),
    "while": ("def f(x: mx.array):\n    while g():\n        x.item()", "loop"),
    "while's condition": (
        "def f(x: mx.array):\n    while x.item() > 1:\n        x = x / 2",
        "loop",
    ),
    "for's iterable": (
        "def f(x: mx.array):\n    for i in range(x.item()):\n        pass",
        "sink",
    ),
    "comprehension": ("def f(xs: list[mx.array]):\n    return [x.item() for x in xs]", "loop"),
    "comprehension's iterable": (
        "def f(x: mx.array):\n    return [i for i in range(x.item())]",
        "sink",
    ),
    "loop in a method": (
        "class A:\n    def f(self, x: mx.array):\n        for i in range(3):\n            x.item()",
        "loop",
    ),
    "after a loop": (
        "def f(x: mx.array):\n    for i in range(3):\n        pass\n    return x.item()",
        "sink",
    ),
    "function inside a loop": (
        "for i in range(3):\n    def f(x: mx.array):\n        return x.item()",
        "sink",
    ),
    "loop at top level": ("x = mx.ones(1)\nfor i in range(3):\n    x.item()", "loop"),
    "else of a loop": (
        "def f(x: mx.array):\n    for i in range(3):\n        pass\n    else:\n        x.item()",
        "sink",
    ),
    "forward": (
        "class A(nn.Module):\n    def __call__(self, x):\n        return x.item()",
        "forward",
    ),
    "loop in forward": (
        (
            "class A(nn.Module):\n    def __call__(self, x):\n        for i in range(3):\n"
            "            x.item()"
        ),
        "loop",
    ),
    "another method of a layer": (
        "class A(nn.Module):\n    def f(self, x: mx.array):\n        return x.item()",
        "sink",
    ),
    "call of no layer": (
        "class A:\n    def __call__(self, x: mx.array):\n        x.item()",
        "sink",
    ),
    "top level": ("x = mx.ones(1)\nx.item()", "script"),
    "under if main": ("if __name__ == '__main__':\n    mx.ones(1).item()", "script"),
    "main": ("def main():\n    mx.ones(1).item()", "script"),
    "inner main": ("def f():\n    def main():\n        mx.ones(1).item()", "sink"),
    "with": ("def f(x: mx.array):\n    with g():\n        x.item()", "sink"),
    "lambda": ("f = lambda: mx.ones(1).item()", "sink"),
    "class body": ("class A:\n    x = mx.ones(1).item()", "script"),
    "decorated": ("@something\ndef f(x: mx.array):\n    return x.item()", "sink"),
    "default": ("def f(x=mx.ones(1).item()): pass", "script"),
}


@pytest.mark.parametrize(("source", "expected"), PLACES.values(), ids=PLACES)
def test_place(source: str, expected: str) -> None:
    assert context(source) == expected


EVALUATED = {
    "just evaluated": "mx.eval(x)\n    x.item()",
    "with others": "mx.eval(y, x)\n    x.item()",
    "in a list": "mx.eval([x, y])\n    x.item()",
    "some statements later": "mx.eval(x)\n    n = 3\n    print(n)\n    x.item()",
    "on a branch": "mx.eval(x)\n    if y.ndim:\n        x.item()",
    "an item": "mx.eval(x)\n    x[0].item()",
    "a view": "mx.eval(x)\n    x.reshape(-1)[0].item()",
    "an item of a dictionary": (
        "out = {'a': x, 'b': y}\n    mx.eval(out['a'])\n    out['a'][0].astype(mx.int32).item()"
    ),
}


@pytest.mark.parametrize("body", EVALUATED.values(), ids=EVALUATED)
def test_evaluated(body: str) -> None:
    assert context(f"def f(x: mx.array, y: mx.array):\n    {body}") == "evaluated"


NOT_EVALUATED = {
    "another": "mx.eval(y)\n    x.item()",
    "rebound": "mx.eval(x)\n    x = x + 1\n    x.item()",
    "in place": "mx.eval(x)\n    x += 1\n    x.item()",
    "on one branch": "if y.ndim:\n        mx.eval(x)\n    x.item()",
    "afterwards": "x.item()\n    mx.eval(x)",
    "derived": "mx.eval(x)\n    x.sum().item()",
    "another item of a dictionary": (
        "out = {'a': x, 'b': y}\n    mx.eval(out['a'])\n    out['b'].item()"
    ),
    "a dictionary made again": (
        "out = {'a': x}\n    mx.eval(out['a'])\n    out = {'a': x + y}\n    out['a'].item()"
    ),
    "after mx.async_eval of another on one branch": (
        "if y.ndim:\n        mx.async_eval(y)\n    x.item()"
    ),
}


@pytest.mark.parametrize("body", NOT_EVALUATED.values(), ids=NOT_EVALUATED)
def test_not_evaluated(body: str) -> None:
    assert context(f"def f(x: mx.array, y: mx.array):\n    {body}") == "sink"


PERIODIC = ["i % 10 == 0", "not i % 10", "(i + 1) % n == 0", "i % 10 == 0 and verbose", "i % 10"]


@pytest.mark.parametrize("test", PERIODIC)
def test_periodic(test: str) -> None:
    source = f"""
        def f(x: mx.array, n: int, verbose: bool):
            for i in range(100):
                if {test}:
                    x.item()
    """
    assert context(source) == "periodic"


@pytest.mark.parametrize("test", ["i > 10", "verbose", "n % 2 == 0 or verbose"])
def test_what_runs_every_time_is_not_periodic(test: str) -> None:
    source = f"""
        def f(x: mx.array, n: int, verbose: bool):
            for i in range(100):
                if i % 10 == 0:
                    pass
                elif {test}:
                    pass
                x.item()
    """
    assert context(source) == "loop"


def test_the_other_branch_of_a_periodic_test_is_not_periodic() -> None:
    source = """
        def f(x: mx.array):
            for i in range(100):
                if i % 10 == 0:
                    pass
                else:
                    x.item()
    """
    assert context(source) == "loop"


TESTS = {
    "a file's name": ("x = mx.ones(1)\nx.item()", "test_f.py"),
    "a file's other name": ("x = mx.ones(1)\nx.item()", "f_test.py"),
    "a folder": ("def f(x: mx.array):\n    x.item()", "tests/helper.py"),
    "conftest": ("def f(x: mx.array):\n    x.item()", "conftest.py"),
    "a function": ("def test_f():\n    mx.ones(1).item()", "test_f.py"),
    "a loop in a test": (
        "def test_f():\n    for i in range(3):\n        mx.ones(1).item()",
        "f_test.py",
    ),
    "inside a test": ("def test_f():\n    def g():\n        mx.ones(1).item()", "test_f.py"),
}


@pytest.mark.parametrize(("source", "name"), TESTS.values(), ids=TESTS)
def test_tests(source: str, name: str) -> None:
    assert context(source, name=name) == "test"


@pytest.mark.parametrize("name", ["attest.py", "latest/f.py", "contest.py", "testing_tools.py"])
def test_what_only_sounds_like_a_test(name: str) -> None:
    assert context("def f(x: mx.array):\n    x.item()", name=name) == "sink"


NO_TESTS = {
    "a function": ("def test_step(x: mx.array):\n    x.item()", "sink"),
    "a loop over data": (
        "def test(xs: list[mx.array]):\n    for x in xs:\n        x.item()",
        "loop",
    ),
    "a class": ("class TestA:\n    def check(self):\n        mx.ones(1).item()", "sink"),
}


@pytest.mark.parametrize(("source", "expected"), NO_TESTS.values(), ids=NO_TESTS)
def test_what_pytest_collects_is_a_test(source: str, expected: str) -> None:
    assert context(source, name="trainer.py") == expected


#: What a function does with `s`, the number that it has read from the array `x`.
USES = {
    "returned": ("return s", "sink"),
    "printed": ("print(f'{s:.3f}')", "sink"),
    "saved": ("json.dump({'loss': s}, file)", "sink"),
    "a size": ("return mx.zeros((int(s), 3))", "sink"),
    "a branch": ("return y if s > 3 else -y", "sink"),
    "a guard": ("if s > 3:\n        raise ValueError(s)", "sink"),
    "an image": ("return Image.fromarray(np.array(s))", "sink"),
    "an operand": ("return y * s", "function"),
    "an operand after host arithmetic": ("t = 2 * s + 1\n    return t - y", "function"),
    "a comparison": ("return y > s", "function"),
    "an argument": ("return mx.maximum(y, s)", "function"),
    "an array again": ("return mx.array([s, s])", "function"),
}


@pytest.mark.parametrize(("use", "expected"), USES.values(), ids=USES)
def test_a_value_that_no_array_needs_is_a_sink(use: str, expected: str) -> None:
    source = f"def f(x: mx.array, y: mx.array):\n    s = x.max().item()\n    {use}"
    assert context(source) == expected


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("f(x)", "sink"),
        ("for i in range(9):\n        f(x)", "loop"),
        ("for i in range(9):\n        if i % 10 == 0:\n            f(x)", "sink"),
    ],
)
def test_a_function_that_a_loop_calls_is_no_sink(caller: str, expected: str) -> None:
    source = f"def f(x: mx.array):\n    return x.item()\ndef g(x: mx.array):\n    {caller}"
    assert context(source) == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        # A look at the first element is no loop.
        ("for a in b:\n    x.item()\n    break", "script"),
        (
            "for a in b:\n    x.item()\n    if a:\n        break\n    else:\n        raise a",
            "script",
        ),
        ("while True:\n    x.item()\n    break", "script"),
        ("for a in b:\n    for c in a:\n        x.item()\n    break", "loop"),
        ("for a in b:\n    for c in a:\n        x.item()\n        break", "loop"),
        ("for a in b:\n    x.item()\n    if a:\n        break", "loop"),
        ("for a in b:\n    x.item()\n    if a:\n        continue\n    break", "loop"),
        (
            "for a in b:\n    try:\n        x.item()\n        break\n    except E:\n        pass",
            "loop",
        ),
    ],
)
def test_what_runs_once_is_no_loop(loop: str, expected: str) -> None:
    assert context(f"x = mx.ones(1)\n{loop}") == expected


EPOCHS = """
def epoch(model, data):
    for x in data:
        loss = model(x)
        mx.eval(loss)
    return mx.sum(loss)

def step(model, x):
    loss = mx.sum(model(x))
    mx.eval(loss)
    return loss

"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(m, d):\n    for i in d:\n        x = epoch(m, i)\n        print(x.item())", "sink"),
        (
            "def f(m, d):\n    for i in d:\n        x = epoch(m, i)\n        log.info(x.item())",
            "sink",
        ),
        (
            "def f(m, d):\n    for i in d:\n        x = step(m, i)\n        print(x.item())",
            "evaluated",
        ),
        (
            "def f(m, d):\n    for i in d:\n        x = epoch(m, i)\n        y = min(9, x.item())",
            "sink",
        ),
        (
            "def f(d: dict[str, mx.array]):\n    for v in d.values():\n        print(v.item())",
            "sink",
        ),
        ("for n in range(3):\n    print(n, mx.ones(1).item())", "sink"),
        ("for n in range(3):\n    x = mx.ones(n) + 1\n    print(n, mx.sum(x).item())", "sink"),
    ],
)
def test_a_log_line_of_epochs_or_results_is_a_sink(source: str, expected: str) -> None:
    assert context(EPOCHS + source) == expected
