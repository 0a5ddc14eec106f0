"""HOST-PULL: what brings an array's data to the host, what doesn't, and in which context."""

from __future__ import annotations

from functools import partial

import pytest

from tests.checks.findings import IMPORTS, codes, findings, in_function

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "HOST-PULL"
#: A function of an array ``x``, an ndarray ``a``, a number ``n`` and an unknown ``y``.
function = partial(
    in_function,
    "import pickle, struct\nimport numpy as np\nimport torch\n"
    "def work(x: mx.array, a: np.ndarray, n: int, y):\n",
)
BODY_LINE = FIRST_LINE + 4

ONE_FINDING = [
    ("001", "x.tolist()"),
    ("002", "np.asarray(x, dtype=np.float32)"),
    ("002", "np.array([x, x])"),
    ("003", "np.mean([x, x])"),
    ("003", "np.concatenate([x, x])"),
    ("003", "np.save('f.npy', x)"),
    ("003", "np.allclose(x, a)"),
    ("004", "a * x"),
    ("005", "memoryview(x)"),
    ("005", "bytes(x)"),
    ("005", "bytearray(x)"),
    ("006", "torch.from_numpy(np.array(x))"),
    ("006", "torch.tensor(x.tolist())"),
    ("006", "torch.tensor(x)"),
    ("007", "mx.array(np.array(x))"),
    ("007", "mx.array(x.item())"),
    ("009", "range(x)"),
    ("009", "[1, 2, 3][x]"),
    ("012", "x[:x]"),
    ("012", "x[x[0]:]"),
    ("012", "mx.arange(x)"),
    ("012", "mx.arange(0, x.max(), 2)"),
]


@pytest.mark.parametrize(("number", "expression"), ONE_FINDING)
def test_expressions(number: str, expression: str) -> None:
    (finding,) = findings(function(f"return {expression}"), FAMILY)
    assert finding.code == f"{FAMILY}-{number}"
    assert (finding.line, finding.context) in ((BODY_LINE, "minor"), (BODY_LINE, "default"))


SILENT = [
    "x.shape",
    "np.array(a)",
    "np.prod(x.shape)",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_pulls_nothing(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []


def test_bfloat16_does_not_go_into_numpy() -> None:
    family = (FAMILY, "DTYPE-021")
    half = function("return np.array(x.astype(mx.bfloat16))")
    assert codes(half, family) == ["DTYPE-021"]
    assert codes(half.replace("bfloat16", "float16"), family) == ["HOST-PULL-002"]


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(n):\n    s = x[i + 1].item()",
        "for v in x:\n    s = v.item()",
        "for i, v in enumerate(x):\n    s = v.item()",
    ],
)
def test_element_loops(loop: str) -> None:
    (finding,) = findings(function(loop), FAMILY)
    assert (finding.code, finding.context) == (f"{FAMILY}-008", "avoidable")
    assert finding.line == BODY_LINE + loop.count("\n")
    assert codes(function(loop), "GRAPH-BREAK") == []


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
            "avoidable",
        ),
        (
            "class A(nn.Module):\n    def __call__(self, x):\n        mx.eval(x)\n        return x",
            "minor",
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
        STEP + "    for i in range(n):\n        for j in range(n):\n            x = x * 2\n"
        "            if j % 8 == 0:\n                mx.eval(x)",
        TRAINING,
    ],
)
def test_evaluation_where_it_belongs(program: str) -> None:
    assert codes(program, FAMILY) == []


@pytest.mark.parametrize(
    "program",
    [
        "import torch\ndef f(x: torch.Tensor):\n    return x.tolist()",
    ],
)
def test_other_values_and_names(program: str) -> None:
    assert codes(program, FAMILY) == []


@pytest.mark.parametrize(
    ("expression", "help_text"),
    [
        ("np.where(x)", "Select with mx.where(condition, x, y), or convert once at the end"),
        ("np.nonzero(x)", "Use MLX's own functions, or convert once at the end"),
    ],
)
def test_the_function_of_mlx_takes_the_same_arguments(expression: str, help_text: str) -> None:
    (finding,) = findings(f"import numpy as np\n{function(f'return {expression}')}", FAMILY)
    assert finding.help == help_text


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


def test_steps_of_functions_end_with_an_evaluation() -> None:
    program = """
def fit(w: mx.array, batches, epochs, step):
    for _ in range(epochs):
        for x in batches:
            w = {}
            mx.eval(w)
    return w
"""
    assert codes(program.format("step(w, x)"), "HOST-PULL-011") == []
    assert codes(program.format("mx.tanh(w * x)"), "HOST-PULL-011") == ["HOST-PULL-011"]


@pytest.mark.parametrize(
    ("step", "flagged"),
    [
        ("y = mx.argmax(model(y), axis=-1)", True),
        ("logits = model(y)\n        y = mx.argmax(logits, axis=-1)", True),
        ("y = mx.argmax(model(x), axis=-1)", False),
        ("y = y + model(x)", False),
    ],
)
def test_an_evaluation_before_a_token_is_read_is_a_note(step: str, flagged: bool) -> None:
    program = f"""
def generate(model, x, y: mx.array, n, out):
    for _ in range(n):
        {step}
        mx.eval(y)
        out.append(y.item())
"""
    found = findings(program, ("HOST-PULL-011",))
    assert [f.context for f in found] == ["minor"] * flagged
