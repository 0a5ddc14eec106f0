"""GRAPH-BREAK: what takes an array's value on the host, what doesn't, and in which context."""

from __future__ import annotations

from functools import partial

import pytest

from tests.checks.findings import IMPORTS, codes, effect, findings, in_function

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "GRAPH-BREAK"
#: A function of an array ``x``, arrays ``xs``, a number ``n`` and an unknown ``y``.
function = partial(
    in_function,
    "import logging, math, operator\nlogger = logging.getLogger(__name__)\n"
    "def work(x: mx.array, xs: list[mx.array], n: int, y):\n",
)
BODY_LINE = FIRST_LINE + 3

ONE_FINDING = [
    ("002", "math.sqrt(x.sum())"),
    ("002", "math.isnan(x)"),
    ("002", "math.pow(2, x)"),
    ("004", "0 < x < n"),
    ("006", "3 in x"),
    ("006", "y not in x"),
    ("007", "min(x[0], x[1])"),
    ("007", "sum(x)"),
    ("007", "max(xs)"),
    ("007", "any(v for v in xs)"),
    ("008", "f'{n} {x.mean():.2f}'"),
    ("008", "'%s' % x"),
    ("008", "'%d %s' % (n, x)"),
    ("008", "'{}'.format(x)"),
    ("008", "logger.debug('%s', x)"),
    ("008", "print(xs)"),
    ("009", "x == None"),
    ("009", "None == x"),
]


@pytest.mark.parametrize(("number", "expression"), ONE_FINDING)
def test_expressions(number: str, expression: str) -> None:
    (finding,) = findings(function(f"return {expression}"), FAMILY)
    assert finding.code == f"{FAMILY}-{number}"
    assert (finding.line, finding.context) == (
        BODY_LINE,
        "default" if "None" in expression else "minor",
    )


@pytest.mark.parametrize(
    ("number", "body"),
    [
        ("003", "if n:\n    pass\nelif x.sum() > 0:\n    return 1"),
        ("004", "if n and x.any():\n    return 1"),
        ("004", "while n or x.any():\n    x = x - 1"),
        ("005", "assert mx.allclose(x, x + 1), 'differ'"),
        ("009", "if x == None:\n    return 1"),
    ],
)
def test_statements(number: str, body: str) -> None:
    (finding,) = findings(function(body), FAMILY)
    assert finding.code == f"{FAMILY}-{number}"


@pytest.mark.parametrize("test", ["x[v]", "x[v] > n", "n and not x[v]"])
def test_a_comprehension_tests_in_a_loop(test: str) -> None:
    (finding,) = findings(function(f"return [v for v in y if {test}]"), FAMILY)
    number = "004" if "not" in test else "003"
    assert (finding.code, effect(finding)) == (f"{FAMILY}-{number}", "iteration")


SILENT = [
    "x.items",
    "1 if isinstance(x, mx.array) else 2",
    "n in x.shape",
    "x in {y: 1}",
    "n in [1, 2]",
    "sorted(xs, key=len)",
    "'%s' % n",
    "logger.info('%s', x.shape)",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_stays_on_the_device_or_was_never_there(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []


@pytest.mark.parametrize(
    "program",
    [
        "import numpy as np\ndef f(x):\n    return x.item()",
        "import torch\ndef f(x):\n    return x.sum().item()",
        "import numpy as np\nx = np.ones(3)\nprint(x, x.sum().item(), float(x[0]))",
    ],
)
def test_other_values_and_names(program: str) -> None:
    assert codes(program, FAMILY) == []


CONTEXTS = {
    "compiled": "@mx.compile\ndef f(x: mx.array):\n    return x * float(PULL)",
    "vmapped is compiled": "def f(x: mx.array):\n    return x * PULL\ng = mx.vmap(f)",
    "differentiated": "def f(x: mx.array):\n    return (x * PULL).sum()\ng = mx.grad(f)",
    "iteration": "def f(x: mx.array):\n    for i in range(9):\n        x = x + 1\n        s = PULL",
    "called in a loop": (
        "def f(x: mx.array):\n    return PULL\n"
        "class A:\n    def g(self, x: mx.array):\n        return f(x)\n"
        "    def h(self, xs: list[mx.array]):\n        return [self.g(x) for x in xs]"
    ),
    "called once in a loop's function": (
        "def f(x: mx.array):\n    return PULL\n"
        "def g(xs):\n    for x in xs:\n        pass\n    return f(mx.ones(3))\n"
        "while True:\n    g([])"
    ),
    "called for two items": (
        "def f(x: mx.array):\n    return PULL\nfor x in (mx.ones(1), mx.ones(2)):\n    f(x)"
    ),
    "loop of a script": "x = mx.ones(3)\nwhile True:\n    x = x + 1\n    s = PULL",
    "forward pass": "class A(nn.Module):\n    def __call__(self, x):\n        return PULL",
    "once": "def f(x: mx.array):\n    return PULL",
    "copy": "def f(x: mx.array):\n    mx.eval(x)\n    return PULL",
    "a condition": (
        "def f(x: mx.array):\n    for i in range(9):\n        x = x + 1\n"
        "        if i % 10 == 0:\n            s = PULL"
    ),
    "a script": "x = mx.ones(3)\ns = PULL",
    "script in main": "def main():\n    x = mx.ones(3)\n    return PULL",
    "test": "def test_f():\n    x = mx.ones(3)\n    return PULL",
    "test of a loop": "def test_f():\n    x = mx.ones(3)\n    for i in range(3):\n        s = PULL",
}
WORDS = {
    "vmapped is compiled": "compiled",
    "loop of a script": "iteration",
    "called in a loop": "iteration",
    "called once in a loop's function": "once",
    "called for two items": "once",
    "script in main": "once",
    "a script": "once",
    "a condition": "once",
    "test of a loop": "test",
}


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize(
    ("number", "expression"),
    [("001", "x.item()"), ("002", "int(x)")],
)
def test_contexts(name: str, number: str, expression: str) -> None:
    program = CONTEXTS[name].replace("PULL", expression)
    (finding,) = findings(program, f"{FAMILY}-{number}")
    assert effect(finding) == WORDS.get(name, name)
    lines = (IMPORTS + program).split("\n")
    assert expression in lines[finding.line - 1]


@pytest.mark.parametrize(
    ("test", "guarded"),
    [
        ("x is not None and (x != 0).all()", True),
        ("n > 3 and x.any()", True),
        ("n > 3 and n < 9 and x.any()", True),
        ("n > 3 and x.any() and y.any()", True),
    ],
)
def test_a_guard_stays_before_the_test_of_an_array(test: str, guarded: bool) -> None:
    last = findings(function(f"if {test}:\n    return 1"), f"{FAMILY}-004")[-1]
    assert ("Keep the guard" in last.help) == guarded
    assert ("logical_and" in last.help) != guarded


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # `hasattr` narrows what is an array or a number.
        ("return n.item() if hasattr(n, 'item') else int(n)", ["001"]),
        ("if hasattr(n, 'item'):\n        n = n.item()\n    return int(n)", ["001"]),
        ("if not hasattr(n, 'item'):\n        return int(n)\n    return n.item()", ["001"]),
        ("if not hasattr(x, 'item'):\n        return int(x)", []),
        # What `mx.eval` evaluates is MLX's, also where the file names other libraries.
        ("t = f(x)\n    mx.eval(t)\n    return t.item()", ["001"]),
        ("t = f(x)\n    mx.async_eval(t)\n    return t.item()", ["001"]),
        ("t = f(x)\n    return t.item()", []),
    ],
)
def test_narrowed_and_evaluated_values(body: str, expected: list[str]) -> None:
    program = (
        "import numpy as np\nfrom typing import Union\n"
        f"def work(x: mx.array, n: Union[int, mx.array], f):\n    {body}\n"
    )
    assert codes(program, FAMILY) == [f"{FAMILY}-{number}" for number in expected]


@pytest.mark.parametrize(
    ("made", "flagged"),
    [
        ("def __init__(self, dim, norm=None):\n        self.norm = norm(dim)", False),
        (
            "def __init__(self, dim, norm=None):\n        self.norm = norm(dim) if norm else None",
            False,
        ),
        ("def build(self, norm: nn.Module):\n        self.norm = norm(64, eps=1e-5)", False),
    ],
)
def test_what_a_module_class_makes_is_no_array(made: str, flagged: bool) -> None:
    made = made.replace("norm=None", "norm: Optional[nn.Module] = None")
    program = f"""
from typing import Optional

class Embed(nn.Module):
    {made}

    def __call__(self, x):
        return self.norm(x) if self.norm and x.ndim else x
"""
    assert codes(program, FAMILY) == [f"{FAMILY}-004"] * flagged


def test_a_text_in_return_tensors_hides_no_evaluated_array() -> None:
    program = """
def generate(model, tokenizer, sampler):
    inputs = tokenizer("a", return_tensors="np")
    token = sampler(model(inputs["input_ids"]))
    mx.eval(token)
    return token.item()
"""
    (finding,) = findings(program, f"{FAMILY}-001")
    assert effect(finding) == "copy"


GRADIENTS = """
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_map, tree_unflatten

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
grad = nn.value_and_grad(model, lambda m, x: m(x).mean())

def total(grads):
    return sum(g.sum() for _, g in tree_flatten(grads))

def step(x: mx.array):
    loss, grads = grad(model, x)
    return READ

def train(x):
    return RUN(x)
"""


@pytest.mark.parametrize(("run", "context"), [("mx.compile(step)", "compiled"), ("step", "minor")])
@pytest.mark.parametrize(
    "read",
    [
        "loss.item()",
        "grads['layers'].item()",
        "total(grads).item()",
        "total(tree_map(mx.square, grads)).item()",
        "total(tree_unflatten(tree_flatten(grads))).item()",
        "tree_map(lambda g: g.item(), grads)",
        "float(optim.clip_grad_norm(grads, 1.0)[1])",
        "1 if total(grads) > 2 else 0",
        "mx.grad(mx.sum)(x).item()",
    ],
)
def test_gradients_are_traced_where_their_function_is(read: str, run: str, context: str) -> None:
    (finding,) = findings(GRADIENTS.replace("READ", read).replace("RUN", run), FAMILY)
    assert finding.context == context


def test_what_a_compiled_function_does_not_take_is_no_tracer() -> None:
    program = GRADIENTS.replace("READ", "x + total(model.parameters()).item()")
    (finding,) = findings(program.replace("RUN", "mx.compile(step)"), FAMILY)
    assert finding.context == "minor"
