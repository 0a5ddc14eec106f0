"""NAME-005: names that some branches bind, read in any case."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

#: Functions of a, b, and xs, after a line that makes the file one of MLX.
DOUBTFUL = [
    ("if a: y = 1", "mx.exp(y)"),
    ("if a: y = 1\nelse: z = 2", "mx.exp(y)"),
    ("if a: y = 1\nelif b: pass\nelse: y = 2", "mx.exp(y)"),
    ("if a is not None: y = a\nelif b is not None: y = b", "mx.exp(y)"),
    ("if isinstance(a, int): y = a\nelif isinstance(a, list): pass\nelse: y = b", "mx.exp(y)"),
    ("if a:\n    import mlx.nn as y", "y.relu(b)"),
    ("if a: y = 1\nif b: z = 1", "mx.exp(y)"),
    ("if a: y = 1", "y += 1"),
    ("if a: y = 1", "[y for x in y]"),
    ("if a:\n    y = 1\n    return y", "mx.exp(y)"),
    ("if a: y = 1\nelif b: raise ValueError(y)", "b"),
    ("for x in xs:\n    if a: y = x\n    mx.exp(y)", "b"),
    ("with b:\n    if a: y = 1", "mx.exp(y)"),
    ("if a:\n    if b: y = 1\nelse: y = 2", "mx.exp(y)"),
    ("if a: y = 1\ndef later(): return y", "mx.exp(y)"),
]


def program(body: str, last: str) -> str:
    lines = f"{body}\nreturn {last}" if "+=" not in last else f"{body}\n{last}\nreturn y"
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"def f(a, b, xs):\n    mx.eval(xs)\n{indented}"


@pytest.mark.parametrize(("body", "last"), DOUBTFUL)
def test_a_read_in_any_case_of_what_a_branch_binds_is_found(body: str, last: str) -> None:
    assert pointed(program(body, last), "NAME-005") == [("NAME-005", "y")]


CERTAIN = [
    ("if a: y = 1\nelse: y = 2", "y"),
    ("if a: y = 1\nelse: raise ValueError", "y"),
    ("if a: y = 1\nelse: parser.error('no')", "y"),
    ("if a: y = 1\nelse: stop()", "y"),
    ("if a: y = 1\nelse: assert_never(a)", "y"),
    ("if a: y = 1\nelse: assert a in (1, 2)", "y"),
    ("if not a: return None\nif a: y = 1", "y"),
    ("assert a or b\nif a: y = 1\nelif b: y = 2", "y"),
    ("if a: y = 1\nif not a: y = 2", "y"),
    ("if a: y = 1\nif not a: return None", "y"),
    ("if a is None: y = 1\nelif a is not None: y = 2", "y"),
    ("if a == 1: y = 1\nelif a == 2: y = 2", "y"),
    ("if mx.metal.is_available(): y = 1\nelif mx.cuda.is_available(): y = 2", "y"),
    ("if a: y = 1", "y if a else b"),
    ("if a: y = 1", "a and y"),
    ("if a: y = 1", "[y for x in xs]"),
    ("if a: y = 1", "lambda: y"),
    ("found = False\nif a:\n    y = 1\n    found = True\nif found: b = y", "b"),
    ("use = a is None\nif use: y = 1\nif a is None: b = y", "b"),
    ("if a: y = 1\nassert a", "y"),
    ("if a: y = 1\ntry:\n    b = y\nexcept Exception: pass", "b"),
    ("for x in xs:\n    if x: y = 1", "y"),
    ("for i, x in xs:\n    if i == 0: y = x\n    else: y = y + x\n    b = y", "b"),
    ("for x in xs:\n    if self.first:\n        y = x\n        self.first = False\n    b = y", "b"),
    ("while True:\n    if a: y = 1\n    else: continue\n    b = y", "b"),
    ("try: y = 1\nexcept ValueError:\n    if a: y = 2", "y"),
    ("match a:\n    case 1: y = 1", "y"),
    ("if a:\n    with b: return 1\nelse: y = 2", "y"),
    ("if a:\n    match b:\n        case 1: return 1\n        case _: return 2\nelse: y = 2", "y"),
    ("if a:\n    while True: b = stop\nelse: y = 2", "y"),
    ("if a: global y\ny = 1", "y"),
    ("if (y := a): b = y", "y"),
    ("if a: y = 1\ndel y\ny = 2", "y"),
    ("if a: exec('y = 2')\nif b: y = 1", "y"),
    ("if a: y = 1\nclass C:\n    y = 2", "C"),
]


@pytest.mark.parametrize(("body", "last"), CERTAIN)
def test_reads_that_a_test_or_a_loop_decides_are_silent(body: str, last: str) -> None:
    ends = "\ndef stop():\n    raise SystemExit"
    assert codes(program(body, last) + ends, "NAME-005") == []
