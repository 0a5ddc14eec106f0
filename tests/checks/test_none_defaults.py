"""PARAM-003: defaults that raise where a function uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return x + list(y)", 1),
        ("for one in y:\n    x = x + one\nreturn x", 1),
        ("return f(*y)", 1),
        ("return -y", 1),
        ("for i in range(3):\n    x = x * y\nreturn x", 1),
        ("return '%s' % y", 0),
        ("return not y", 0),
        ("return y.shape", 0),
        ("if len(x) == 3:\n    return x\nreturn x + y", 0),
        ("if x is not y:\n    pass\nreturn x + y", 0),
        ("y = g(y)\nreturn x + y", 0),
        ("return [x + y for _ in range(3)]", 1),
        ("def g():\n    return x + y\nreturn g", 0),
        ("raise NotImplementedError\nreturn x + y", 0),
    ],
)
def test_uses(body: str, found: int) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    program = f"def f(x, y=None):\n{lines}\n"
    assert codes(program, "PARAM-003") == ["PARAM-003"] * found


SHAPED = "def f(x, y=None):\n    return x + y.shape[0]\n"
PRIVATE = "def _f(x, y=None):\n    return x + y\n"


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (SHAPED + "f(3)", 1),
        (SHAPED + "f(3, y=z)", 0),
        (SHAPED + "f(*z)", 0),
        (SHAPED + "try:\n    f(3)\nexcept AttributeError:\n    pass", 0),
        (PRIVATE + "_f(3, 4)", 0),
        (PRIVATE + "_f(3)", 1),
    ],
)
def test_calls(program: str, found: int) -> None:
    assert codes(program, "PARAM-003") == ["PARAM-003"] * found


def test_defaults_that_a_call_hands_on(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("def merged(scales=None):\n    return scales + [1.0]\n")
    user = tmp_path / "user.py"
    start = "import mlx.core as mx\nfrom parts import merged\n"
    for body, count in {
        "def f(scales=None):\n    return mx.array(merged(scales=scales))\n": 1,
        "def f(scales=None):\n    return mx.array(merged(scales=scales or []))\n": 0,
        "def f(scales=None):\n    print(scales is None)\n    return mx.array(merged(scales))\n": 0,
        "def f(scales):\n    return mx.array(merged(scales))\n": 0,
        "def f():\n    return mx.array(merged())\n": 1,
    }.items():
        found = check_source(start + body, user, Project()).findings
        assert [one.code for one in found if one.code == "PARAM-003"] == ["PARAM-003"] * count
