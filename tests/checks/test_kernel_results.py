"""KERNEL-ARGS-004: what is flagged, what is not, and where."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FAMILY = "KERNEL-ARGS-004"
CALL = (
    "K(inputs=[x], grid=(x.size, 1, 1), threadgroup=(32, 1, 1), output_shapes=[x.shape],"
    " output_dtypes=[x.dtype])"
)
KERNEL = (
    'K = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"],\n'
    '    source="uint i = thread_position_in_grid.x; y[i] = x[i];")\n'
    f"def launched(x):\n    return {CALL}\n"
    f"def named(x):\n    if x is None:\n        return {CALL}\n    out = {CALL}\n    return out\n"
    f"def unpacked(x):\n    return {CALL}[0]\n"
    f"def perhaps(x):\n    if x is None:\n        return x\n    return {CALL}\n"
    f"def yielding(x):\n    yield x\n    return {CALL}\n"
    f"@wrapped\ndef decorated(x):\n    return {CALL}\n"
)


def using(*lines: str) -> str:
    body = indent("\n".join(lines), "    ")
    return f"{KERNEL}def use(x: mx.array, n: int, other):\n{body}\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("return y + x", "y"),
        ("return x * y", "y"),
        ("return y @ x", "y"),
        ("x += y", "y"),
        ("return y.astype(mx.float32)", "y.astype"),
        ("return y[:, 0]", "y[:, 0]"),
        ("return y[...]", "y[...]"),
        ("return mx.exp(y)", "y"),
        ("return mx.add(x, y)", "y"),
        ("return mx.where(x > 0, y, x)", "y"),
        ("return mx.fast.rms_norm(y, x, 1e-5)", "y"),
        ("z = launched(x)\nreturn mx.reshape(z, (4, 4))", "z"),
    ],
)
def test_lists_that_stand_for_arrays(line: str, text: str) -> None:
    program = using(f"y = {CALL}", line)
    (found,) = findings(program, FAMILY)
    shown = (IMPORTS + program).split("\n")[found.line - 1]
    assert shown[found.column - 1 : found.end_column - 1] == text


@pytest.mark.parametrize(
    "line",
    [
        "return y + other",
        "y += x",
        "return not y",
        "(z,) = y\nreturn z * 2",
    ],
)
def test_lists_that_are_used_as_lists(line: str) -> None:
    assert codes(using(f"y = {CALL}", line), FAMILY) == []


def test_what_may_be_no_kernel_is_none() -> None:
    program = using(f"J = K if n else other\nreturn {CALL.replace('K', 'J', 1)}.shape")
    assert codes(program, FAMILY) == []
