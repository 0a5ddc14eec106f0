"""PARAM-003: defaults that raise where a function uses them."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes


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


PRIVATE = "def _f(x, y=None):\n    return x + y\n"


@pytest.mark.parametrize(("call", "found"), [("_f(3, 4)", 0), ("_f(3)", 1), ("_f(3, *z)", 0)])
def test_calls_of_private_functions(call: str, found: int) -> None:
    assert codes(PRIVATE + call, "PARAM-003") == ["PARAM-003"] * found
