"""Reads of arrays that have been evaluated: in lists, attributes, results and other functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes, effect, findings

if TYPE_CHECKING:
    from pathlib import Path

PULLS = ("GRAPH-BREAK-001", "GRAPH-BREAK-002", "HOST-PULL-001", "HOST-PULL-002")
#: Programs, and the context of the last pull in them.
PROGRAMS = {
    "made of host data where it is known": (
        """
def f(weights: dict):
    out = {}
    for key, value in weights.items():
        if value.ndim == 4:
            value = mx.array(np.transpose(np.array(value)))
        out[key] = mx.array(np.squeeze(np.array(value)))
    return out
""",
        "copy",
    ),
    "computed on another path": (
        """
def f(weights: dict):
    out = {}
    for key, value in weights.items():
        if value.ndim == 4:
            value = mx.sin(value)
        elif value.ndim == 3:
            value = mx.array(np.ones(3))
        out[key] = mx.array(np.squeeze(np.array(value)))
    return out
""",
        "iteration",
    ),
    "some of the pairs": (
        """
def f(tree, ks):
    pairs = [(k, mx.all(v > 0)) for k, v in tree]
    mx.eval([check for k, check in pairs if k in ks])
    return [(k, bool(check)) for k, check in pairs]
""",
        "iteration",
    ),
    "a helper of any arrays": (
        """
def sync(*arrays):
    mx.eval(*arrays)

def f(x: mx.array):
    y = x * 2
    sync(y)
    return mx.array(np.array(y) + 1)
""",
        "copy",
    ),
    "a helper that collects arrays": (
        """
def sync(*trees):
    arrays = []
    for tree in trees:
        arrays += tree
    if not arrays:
        return
    try:
        mx.eval(*arrays)
    except RuntimeError:
        raise

def f(x: mx.array):
    y = x * 2
    sync(y)
    return mx.array(np.array(y) + 1)
""",
        "copy",
    ),
    "a helper that passes them on": (
        """
def sync(x, y):
    mx.eval(x, y)

def both(x, y):
    sync(x, y)

def f(x: mx.array):
    y = x * 2
    both(y, x)
    return mx.array(np.array(y) + 1)
""",
        "copy",
    ),
    "a helper that evaluates another parameter": (
        """
def sync(x, y):
    mx.eval(x)
    return y

def f(x: mx.array):
    y = x * 2
    sync(x, y)
    return mx.array(np.array(y) + 1)
""",
        "once",
    ),
    "an attribute of host data": (
        """
class Tree:
    def __init__(self):
        self.classes: mx.array | None = None

    def fit(self, y):
        self.classes = mx.array(np.unique(y))

    def predict(self, i):
        return mx.array(np.array(self.classes) + i)
""",
        "copy",
    ),
    "an attribute that is computed elsewhere": (
        """
class Tree:
    def __init__(self):
        self.classes: mx.array | None = None

    def fit(self, y: mx.array):
        self.classes = mx.sort(y)

    def predict(self, i):
        return mx.array(np.array(self.classes) + i)
""",
        "once",
    ),
    "a list of host data": (
        """
def f(funcs):
    rows = []
    for func in funcs:
        rows.append(mx.array([float(r) for r in func()]))
    for i in range(3):
        print([float(r) for r in rows[i].tolist()])
""",
        "copy",
    ),
    "by the caller, through a sum": (
        """
def f(x: mx.array, k):
    mask = x > 0
    if int(mx.sum(mask.astype(mx.float32))) < 2:
        return None
    return _find(mask, k)

def _find(mask: mx.array, k):
    return mx.array(np.array(mask) + k)
""",
        "copy",
    ),
    "by one of two callers": (
        """
def _find(mask: mx.array, k):
    return mx.array(np.array(mask) + k)

def f(x: mx.array, k):
    mask = x > 0
    mx.eval(mask)
    return _find(mask, k)

def g(x: mx.array, k):
    return _find(x > 1, k)
""",
        "once",
    ),
    "written to after": (
        """
def f(x: mx.array, i):
    y = mx.array([1.0, 2.0])
    y[i] = x.sum()
    return mx.array(np.array(y) + i)
""",
        "once",
    ),
}


@pytest.mark.parametrize(("program", "context"), PROGRAMS.values(), ids=PROGRAMS)
def test_an_evaluated_array_is_copied_alone(program: str, context: str) -> None:
    found = findings(f"import numpy as np\n{program}", PULLS)
    assert effect(found[-1]) == context


def test_other_files_evaluate_as_well(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "images.py").write_text(
        "import cv2\nimport mlx.core as mx\n"
        "def load(path) -> mx.array:\n    return mx.array(cv2.imread(path))\n"
        "def sync(*arrays):\n    mx.eval(*arrays)\n"
        "def mean(x: mx.array) -> mx.array:\n    y = x / 2\n    mx.eval(y)\n    return y\n"
    )
    source = (
        "import mlx.core as mx\nimport numpy as np\nfrom images import load, mean, sync\n"
        "def f(paths, z: mx.array):\n    found = []\n    for path in paths:\n"
        "        x = load(path)\n"
        "        found.append(np.asarray(mean(x)))\n"
        "        w = z * 2\n        sync(w)\n        found.append(np.asarray(w))\n"
        "    return found\n"
    )
    found = check_source(source, tmp_path / "main.py", Project()).findings
    assert [effect(f) for f in found if f.code == "HOST-PULL-002"] == ["copy"] * 2


def test_compiled_steps_end_with_an_evaluation() -> None:
    program = """
def fit(w: mx.array, batches, epochs):
    @mx.compile
    def step(w, x):
        return {}

    for _ in range(epochs):
        for x in batches:
            w = step(w, x)
            mx.eval(w)
    return w
"""
    gradient = "w - 0.1 * mx.grad(lambda v: mx.sum(v * x))(w)"
    assert codes(program.format(gradient), "HOST-PULL-011") == []
    assert codes(program.format("mx.tanh(w * x)"), "HOST-PULL-011") == ["HOST-PULL-011"]
