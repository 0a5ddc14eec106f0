"""HOST-PULL: what brings an array's data to the host, what doesn't, and in which context."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "HOST-PULL"


def function(body: str) -> str:
    """A function of an array ``x``, an ndarray ``a``, a number ``n`` and an unknown ``y``."""
    start = (
        "import pickle, struct\nimport numpy as np\nimport torch\n"
        "def work(x: mx.array, a: np.ndarray, n: int, y):\n"
    )
    return start + indent(dedent(body).strip(), "    ")


BODY_LINE = FIRST_LINE + 4

ONE_FINDING = [
    ("001", "x.tolist()"),
    ("001", "x[0].tolist()"),
    ("001", "mx.argmax(x).tolist()"),
    ("001", "(x > 0).tolist()"),
    ("002", "np.array(x)"),
    ("002", "np.asarray(x, dtype=np.float32)"),
    ("002", "np.array(x.astype(mx.float32))"),
    ("002", "np.array([x, x])"),
    ("002", "np.ascontiguousarray(x)"),
    ("003", "np.exp(x)"),
    ("003", "np.mean(x)"),
    ("003", "np.linalg.norm(x)"),
    ("003", "np.concatenate([x, x])"),
    ("003", "np.save('f.npy', x)"),
    ("003", "np.allclose(x, a)"),
    ("004", "a * x"),
    ("004", "np.ones(3) + x"),
    ("004", "a - x.sum()"),
    ("005", "memoryview(x)"),
    ("005", "bytes(x)"),
    ("005", "bytearray(x)"),
    ("005", "pickle.dumps(x)"),
    ("005", "struct.pack('f', x)"),
    ("006", "torch.from_numpy(np.array(x))"),
    ("006", "torch.tensor(x.tolist())"),
    ("006", "torch.tensor(x)"),
    ("006", "torch.as_tensor(np.asarray(x))"),
    ("007", "mx.array(np.array(x))"),
    ("007", "mx.array(x.tolist())"),
    ("007", "mx.array(x.item())"),
    ("009", "mx.zeros((x, 3))"),
    ("009", "mx.ones((x.max(),))"),
    ("009", "x.reshape((x, -1))"),
    ("009", "mx.sum(x, axis=x)"),
    ("009", "range(x)"),
    ("009", "[1, 2, 3][x]"),
    ("009", "mx.repeat(x, x[0])"),
    ("012", "x[:x]"),
    ("012", "x[x[0]:]"),
    ("012", "mx.arange(x)"),
    ("012", "mx.arange(0, x.max(), 2)"),
]


@pytest.mark.parametrize(("number", "expression"), ONE_FINDING)
def test_expressions(number: str, expression: str) -> None:
    (finding,) = findings(function(f"return {expression}"), FAMILY)
    assert finding.code == f"{FAMILY}-{number}"
    assert (finding.line, finding.context) in ((BODY_LINE, "function"), (BODY_LINE, "sink"))


SILENT = [
    "y.tolist()",
    "a.tolist()",
    "x.shape",
    "list(x.shape)",
    "x.astype(mx.float32)",
    "np.array(a)",
    "np.array(y)",
    "np.array(n)",
    "np.array(x.shape)",
    "np.zeros(x.shape)",
    "np.exp(n)",
    "np.prod(x.shape)",
    "np.ones(x.shape[0])",
    "np.float32(n)",
    "np.random.randint(n)",
    "np.finfo(np.float32)",
    "a * n",
    "a * y",
    "a * a",
    "x * a",
    "x * mx.array(a)",
    "mx.array(a)",
    "mx.array(np.ones(3))",
    "mx.array([1, 2])",
    "mx.array(y.tolist())",
    "mx.array(x)",
    "bytes(n)",
    "pickle.dumps(a)",
    "struct.pack('f', n)",
    "torch.from_numpy(a)",
    "torch.tensor([1, 2])",
    "torch.tensor(y)",
    "mx.zeros((n, 3))",
    "mx.zeros(x.shape)",
    "mx.zeros_like(x)",
    "x.reshape(n, -1)",
    "x.reshape(x.shape[0], -1)",
    "mx.sum(x, axis=n)",
    "range(n)",
    "range(x.shape[0])",
    "range(len(x))",
    "[1, 2, 3][n]",
    "x[x]",
    "x[x > 0]",
    "x[n:]",
    "x[: x.shape[0] // 2]",
    "y[x]",
    "mx.arange(n)",
    "mx.arange(x.shape[0])",
    "mx.take(x, x)",
    "mx.eval(x)",
    "mx.save('f.npy', x)",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_pulls_nothing(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []


def test_a_trip_is_told_once_and_where_it_starts() -> None:
    (finding,) = findings(function("return mx.array(np.array(x)) + 1"), FAMILY)
    assert (finding.code, finding.column) == (f"{FAMILY}-007", 12)
    assert codes(function("return mx.array(x.item())"), "GRAPH-BREAK") == []


def test_what_numpy_computes_is_no_mere_trip() -> None:
    found = codes(function("return mx.array(np.linalg.norm(x))"), FAMILY)
    assert found == [f"{FAMILY}-003"]


def test_a_pull_through_a_name_is_told_where_it_happens() -> None:
    (finding,) = findings(function("b = np.array(x)\nreturn b.sum() + b.tolist()[0]"), FAMILY)
    assert (finding.code, finding.line) == (f"{FAMILY}-002", BODY_LINE)


def test_bfloat16_does_not_go_into_numpy() -> None:
    (finding,) = findings(function("return np.array(x.astype(mx.bfloat16))"), FAMILY)
    assert "bfloat16" in finding.message
    (finding,) = findings(function("return np.array(x.astype(mx.float16))"), FAMILY)
    assert "bfloat16" not in finding.message


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(n):\n    s = x[i].item()",
        "for i in range(n):\n    s = float(x[i])",
        "for i in range(n):\n    s = int(x[i, 0])",
        "for i in range(n):\n    s = x[i + 1].item()",
        "for v in x:\n    s = v.item()",
        "for v in x:\n    s = float(v)",
        "for i, v in enumerate(x):\n    s = v.item()",
        "for i in range(n):\n    for j in range(n):\n        s = x[i, j].item()",
    ],
)
def test_element_loops(loop: str) -> None:
    (finding,) = findings(function(loop), FAMILY)
    assert (finding.code, finding.context) == (f"{FAMILY}-008", "loop")
    assert finding.line == BODY_LINE + loop.count("\n")
    assert codes(function(loop), "GRAPH-BREAK") == []


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(n):\n    s = x[0].item()",
        "for i in range(n):\n    x = x + 1\n    s = x.sum().item()",
        "for i in range(n):\n    s = y[i].item()",
        "for v in y:\n    s = v.item()",
        "for v in x.tolist():\n    s = float(v)",
        "for i in range(n):\n    s = x[i] + 1",
    ],
)
def test_loops_over_something_else(loop: str) -> None:
    assert f"{FAMILY}-008" not in codes(function(loop), FAMILY)


KERNEL = (
    "k = mx.fast.metal_kernel(name='k', input_names=['a'], output_names=['o'], source='o=a;')\n"
    "def run(x: mx.array, n: int, f: mx.array):\n"
    "    f = f.astype(mx.float32)\n"
    "    return k(inputs=[x], grid={grid}, threadgroup={group}, output_shapes=[x.shape],\n"
    "             output_dtypes=[x.dtype])\n"
)


@pytest.mark.parametrize(
    ("grid", "group", "count"),
    [
        ("(x.max(), 1, 1)", "(1, 1, 1)", 1),
        ("(n, x[0], 1)", "(1, 1, 1)", 1),
        ("(n, 1, 1)", "(x, 1, 1)", 1),
        ("(x, x, 1)", "(x, 1, 1)", 2),
        ("(n, 1, 1)", "(1, 1, 1)", 0),
        ("(x.size, 1, 1)", "(x.shape[0], 1, 1)", 0),
        ("(f, 1, 1)", "(1, 1, 1)", 0),
    ],
)
def test_kernel_grids(grid: str, group: str, count: int) -> None:
    found = findings(KERNEL.format(grid=grid, group=group), f"{FAMILY}-010")
    assert len(found) == count
    assert all(f.line == FIRST_LINE + 3 for f in found)


TRAINING = """
def f(model, optimizer, x: mx.array):
    step = nn.value_and_grad(model, model.loss)
    for epoch in range(3):
        for batch in x:
            loss, gradients = step(batch)
            optimizer.update(model, gradients)
            x = mx.tanh(x) * loss
            mx.eval(x)
"""


STEP = "def f(x: mx.array, n: int):\n"


@pytest.mark.parametrize(
    ("program", "context"),
    [
        (
            STEP + "    for i in range(n):\n        for j in range(n):\n"
            "            x = x * 2\n            mx.eval(x)",
            "loop",
        ),
        (
            STEP + "    while n:\n        for j in range(n):\n"
            "            x = mx.tanh(x)\n            mx.eval(x)",
            "loop",
        ),
        (
            "class A(nn.Module):\n    def __call__(self, x):\n        mx.eval(x)\n        return x",
            "forward",
        ),
    ],
)
def test_evaluation_too_often(program: str, context: str) -> None:
    (finding,) = findings(program, FAMILY)
    assert (finding.code, finding.context) == (f"{FAMILY}-011", context)
    assert "mx.eval" in (IMPORTS + program).split("\n")[finding.line - 1]


@pytest.mark.parametrize(
    "program",
    [
        STEP + "    mx.eval(x)",
        STEP + "    for i in range(n):\n        x = x * 2\n        mx.eval(x)",
        STEP + "    for i in range(n):\n        for j in range(n):\n            x = x * 2\n"
        "        mx.eval(x)",
        STEP + "    for i in range(n):\n        for j in range(n):\n            x = x * 2\n"
        "            if j % 8 == 0:\n                mx.eval(x)",
        STEP + "    for i in range(n):\n        for j in range(n):\n            y = x * j\n"
        "            mx.eval(y)",
        TRAINING,
        "class A(nn.Module):\n    def load(self, x: mx.array):\n        mx.eval(x)",
        "class A:\n    def __call__(self, x: mx.array):\n        mx.eval(x)",
    ],
)
def test_evaluation_where_it_belongs(program: str) -> None:
    assert codes(program, FAMILY) == []


CONTEXTS = {
    "compiled": "@mx.compile\ndef f(x: mx.array):\n    return PULL",
    "differentiated": "def f(x: mx.array):\n    return x.sum() * PULL[0]\ng = mx.grad(f)",
    "loop": "def f(x: mx.array):\n    while True:\n        s = PULL",
    "forward": "class A(nn.Module):\n    def __call__(self, x):\n        return PULL",
    "function": "def f(x: mx.array):\n    return x * PULL",
    "sink": "def f(x: mx.array):\n    return PULL",
    "evaluated": "def f(x: mx.array):\n    mx.eval(x)\n    return PULL",
    "periodic": (
        "def f(x: mx.array):\n    for i in range(9):\n        if i % 5 == 0:\n            s = PULL"
    ),
    "script": "x = mx.ones(3)\ns = PULL",
    "test": "def test_f():\n    x = mx.ones(3)\n    return PULL",
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize(
    ("number", "expression"), [("001", "x.tolist()"), ("002", "np.array(x)"), ("003", "np.exp(x)")]
)
def test_contexts(context: str, number: str, expression: str) -> None:
    program = "import numpy as np\n" + CONTEXTS[context].replace("PULL", expression)
    (finding,) = findings(program, FAMILY)
    assert (finding.code, finding.context) == (f"{FAMILY}-{number}", context)
    assert expression in (IMPORTS + program).split("\n")[finding.line - 1]


@pytest.mark.parametrize(
    "program",
    [
        "import jax.numpy as np\ndef f(x: mx.array):\n    return np.array(x)",
        "import numpy as np\ndef f(x):\n    return x.tolist()",
        "import torch\ndef f(x: torch.Tensor):\n    return x.tolist()",
        "import pandas\ndef f(x: pandas.Series):\n    return x.tolist()",
        "import numpy as np\ndef f(np, x: mx.array):\n    return np.array(x)",
    ],
)
def test_other_values_and_names(program: str) -> None:
    assert codes(program, FAMILY) == []


@pytest.mark.parametrize(
    ("receiver", "expected"),
    [("options.sizes", []), ("sizes", [f"{FAMILY}-001"]), ("self.table.column", [])],
)
def test_an_attribute_with_a_tolist_may_be_no_array(receiver: str, expected: list[str]) -> None:
    assert (
        codes(f"def f(self, options, sizes):\n    return {receiver}.tolist()", FAMILY) == expected
    )


@pytest.mark.parametrize(
    ("expression", "help_text"),
    [
        ("np.where(x)", "Select with mx.where(condition, x, y), or convert once at the end"),
        ("np.where(x, x, x)", "Use mx.where"),
        ("np.exp(x)", "Use mx.exp"),
        ("np.nonzero(x)", "Use MLX's own functions, or convert once at the end"),
    ],
)
def test_the_function_of_mlx_takes_the_same_arguments(expression: str, help_text: str) -> None:
    (finding,) = findings(f"import numpy as np\n{function(f'return {expression}')}", FAMILY)
    assert finding.help == help_text


@pytest.mark.parametrize(
    ("loop", "gathers"),
    [
        ("for i in range(n):\n    a = x[i].item()", False),
        ("for v in x:\n    a = v.item()", False),
        ("for i in chosen:\n    a = x[i].item()", True),
        ("a = {i: x[i].item() for i in chosen}", True),
    ],
)
def test_a_loop_over_chosen_elements_gathers_them(loop: str, gathers: bool) -> None:
    (finding,) = findings(function(loop), f"{FAMILY}-008")
    assert ("x[indices].tolist()" in finding.help) == gathers


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("out = {'x': []}\n    for i in y:\n        out['x'].append(np.ones(3))", False),
        ("out = {'x': np.ones(3), 'name': 'a'}", False),
        ("out = {'x': np.ones(3)}\n    out['x'] = mx.array(out['x'])", True),
        ("out = {'x': [], 'y': []}\n    for k in out:\n        out[k] = mx.array(y)", True),
        ("out = {'x': np.ones(3), 'y': read(y)}", True),
        ("out = read(y)", True),
    ],
)
def test_a_dictionary_without_arrays_in_spite_of_its_annotation(body: str, flagged: bool) -> None:
    program = f"""
import numpy as np

def load(y, read) -> dict[str, mx.array]:
    {body}
    return out

def use(y, read):
    return np.stack(load(y, read)["x"])
"""
    assert codes(program, "HOST-PULL-003") == ["HOST-PULL-003"] * flagged
