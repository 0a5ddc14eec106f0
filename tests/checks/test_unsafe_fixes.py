"""Unsafe fixes compute the same where the case says so, and settle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from embercoach.checks import Project, check_source
from embercoach.fixes.application import settle

HEADER = "import mlx.core as mx\nimport numpy as np\n"


def offered(source: str) -> list[Any]:
    findings = check_source(source, Path("program.py"), Project()).findings
    return [f.fix for f in findings if f.fix is not None and not f.code.startswith("PYTHON-SCALAR")]


def fixed(body: str) -> str:
    """A body after all fixes, which must settle and leave nothing to fix."""
    done = settle(HEADER + body, offered)
    assert done.trouble is None
    assert offered(done.text) == []
    return done.text.removeprefix(HEADER)


def result(body: str, *arguments: object) -> Any:
    names: dict[str, Any] = {"mx": mx, "np": np}
    exec(compile(body, "program.py", "exec"), names)
    with mx.stream(mx.cpu):
        return plain(names["f"](*arguments))


def plain(value: Any) -> Any:
    if isinstance(value, mx.array):
        return str(value.dtype), value.tolist()
    if isinstance(value, np.ndarray):
        return "numpy", value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


X, ROWS = mx.array([3, 1, 2]), mx.array([[1, 2], [3, 4], [5, 6]])

READS = {
    "elements": (
        (
            "def f(x: mx.array):\n    n = 0\n    for i in range(3):\n        n += x[i].item()\n"
            "    return n\n"
        ),
        (
            "def f(x: mx.array):\n    n = 0\n    x_values = x.tolist()\n    for i in range(3):\n"
            "        n += x_values[i]\n    return n\n"
        ),
        (X,),
    ),
    "casts of two arrays": (
        (
            "def f(x: mx.array, y: mx.array):\n    n = 0\n    for i in range(1, 3):\n"
            "        n += int(x[i - 1]) * int(y[i, 0].item())\n    return n\n"
        ),
        (
            "def f(x: mx.array, y: mx.array):\n    n = 0\n    x_values = x.tolist()\n"
            "    y_values = y.tolist()\n    for i in range(1, 3):\n"
            "        n += int(x_values[i - 1]) * int(y_values[i][0])\n    return n\n"
        ),
        (X, ROWS),
    ),
    "outside of two loops": (
        (
            "def f(x: mx.array):\n    n = 0\n    for i in range(3):\n        for j in range(2):\n"
            "            n += int(x[i, j])\n    return n\n"
        ),
        (
            "def f(x: mx.array):\n    n = 0\n    x_values = x.tolist()\n    for i in range(3):\n"
            "        for j in range(2):\n            n += int(x_values[i][j])\n    return n\n"
        ),
        (ROWS,),
    ),
    "outside of the inner loop alone": (
        (
            "def f(x: mx.array):\n    n = 0\n    for i in range(3):\n        x = x + 1\n"
            "        for j in range(3):\n            n += int(x[j])\n    return n\n"
        ),
        (
            "def f(x: mx.array):\n    n = 0\n    for i in range(3):\n        x = x + 1\n"
            "        x_values = x.tolist()\n        for j in range(3):\n"
            "            n += int(x_values[j])\n    return n\n"
        ),
        (X,),
    ),
    "rows": (
        (
            "def f(x: mx.array):\n    n = 0\n    for i, s in enumerate('abc'):\n"
            "        a, b = x[i].tolist()\n        n += a * b\n    return n\n"
        ),
        (
            "def f(x: mx.array):\n    n = 0\n    x_values = x.tolist()\n"
            "    for i, s in enumerate('abc'):\n"
            "        a, b = x_values[i]\n        n += a * b\n    return n\n"
        ),
        (ROWS,),
    ),
    "a comprehension": (
        "def f(x: mx.array):\n    return [float(x[i]) for i in range(2)]\n",
        (
            "def f(x: mx.array):\n    x_values = x.tolist()\n"
            "    return [float(x_values[i]) for i in range(2)]\n"
        ),
        (X,),
    ),
    "iteration": (
        (
            "def f(x: mx.array):\n    n = 0\n    for i, v in enumerate(x):\n"
            "        n += v.item() * int(v) + i\n    return n\n"
        ),
        (
            "def f(x: mx.array):\n    n = 0\n    for i, v in enumerate(x.tolist()):\n"
            "        n += v * int(v) + i\n    return n\n"
        ),
        (X,),
    ),
    "iteration of a comprehension": (
        "def f(x: mx.array):\n    return [v.item() for v in x if int(v) > 1]\n",
        "def f(x: mx.array):\n    return [v for v in x.tolist() if int(v) > 1]\n",
        (X,),
    ),
    "variables that are cast at once": (
        (
            "def f(x: mx.array):\n    n = 0\n    for a, b in x:\n        a, b = int(a), int(b)\n"
            "        n += a.bit_length() + b\n    return n\n"
        ),
        (
            "def f(x: mx.array):\n    n = 0\n    for a, b in x.tolist():\n"
            "        a, b = int(a), int(b)\n"
            "        n += a.bit_length() + b\n    return n\n"
        ),
        (ROWS,),
    ),
}
OTHERS = {
    "membership": (
        "def f(x: mx.array):\n    return 2 in x, 7 not in x\n",
        "def f(x: mx.array):\n    return mx.any(x == 2).item(), not mx.any(x == 7).item()\n",
        (X,),
    ),
    "a round trip": (
        "def f(x: mx.array):\n    return mx.array(np.array(x)), mx.array(x.tolist())\n",
        "def f(x: mx.array):\n    return mx.array(x), mx.array(x)\n",
        (X,),
    ),
    "a weak scalar, also for integers": (
        "def f(x: mx.array):\n    return x * mx.array(0.5)\n",
        "def f(x: mx.array):\n    return x * 0.5\n",
        (X,),
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "arguments"), {**READS, **OTHERS}.values(), ids={**READS, **OTHERS}
)
def test_fixes_that_compute_the_same(
    before: str, after: str, arguments: tuple[object, ...]
) -> None:
    assert fixed(before) == after
    assert result(after, *arguments) == result(before, *arguments)


def test_a_fix_that_changes_the_result() -> None:
    before = "def f():\n    return np.float32(0.5) * mx.array([1.0, 2.0])\n"
    after = "def f():\n    return float(np.float32(0.5)) * mx.array([1.0, 2.0])\n"
    assert fixed(before) == after
    assert result(after) == ("mlx.core.float32", [0.5, 1.0]) != result(before)


LOOP = "def f(x: mx.array, n: int):\n    y = x\n    for i in range(n):\n        {}\n"
NONE = {
    "an element changes": LOOP.format("y[i] = y[i].item() + 1"),
    "an array that may be false": LOOP.format("n = y[i].item() if y else 0"),
    "an array that may be None": LOOP.format("n = 0 if y is None else y[i].item()"),
    "a statement that begins no line": LOOP.format("pass").replace(
        "    for i", "    y = x + 1; z = [y[i].item() for i in range(n)]\n    for i"
    ),
    "another use of the variable": (
        "def f(x: mx.array, k: list):\n    for v in x:\n"
        "        k.append(v)\n        print(v.item())\n"
    ),
    "an index that is not only counted": LOOP.format("n = n + y[n].item()"),
    "a part that changes": LOOP.format("print(y[:i].sum().item())"),
    "NumPy's result is kept": "def f(x: mx.array):\n    return np.array(x).transpose(1, 0)\n",
    "a row that is changed": (
        "def f(x: mx.array):\n    for i, row in enumerate(x):\n        row = row + i\n"
        "        print(row.tolist())\n"
    ),
    "the iterable of a comprehension": LOOP.format("z = [k for k in (y + i).tolist()]"),
    "a conversion": "def f(x: mx.array):\n    return mx.array(np.array(x, dtype=np.float32))\n",
    "one element of unknown shape": "def f(x: mx.array):\n    return mx.array(x.item())\n",
    "an operand of unknown type": "def f(x: mx.array, v):\n    return v in x\n",
}


@pytest.mark.parametrize("body", NONE.values(), ids=NONE)
def test_no_fix(body: str) -> None:
    assert check_source(HEADER + body, Path("program.py"), Project()).findings
    assert offered(HEADER + body) == []


KERNEL = '''
k = mx.fast.metal_kernel(
    name="k",
    input_names=["x"],
    output_names=["y"],
    source="""
        uint i = {index};
        y[i] = x[i];
    """,
)
'''


def test_kernel_names() -> None:
    body = KERNEL.replace("y[i] = x[i]", "out0[i] = i < inp0_shape[0] ? inp0[i] : 0")
    assert fixed(body.format(index="thread_position_in_grid.x")) == (
        KERNEL.replace("x[i];", "i < x_shape[0] ? x[i] : 0;").format(
            index="thread_position_in_grid.x"
        )
    )


def test_grids_of_threadgroups() -> None:
    launch = (
        "def f(x: mx.array):\n"
        "    return k(inputs=[x], grid=((x.size + 255) // 256, 1, 1), threadgroup=(256, 1, 1),\n"
        "        output_shapes=[x.shape], output_dtypes=[x.dtype])\n"
    )
    groups = "threadgroup_position_in_grid.x * 256 + thread_position_in_threadgroup.x"
    text = fixed(KERNEL.format(index=groups) + launch)
    assert "grid=(((x.size + 255) // 256) * 256, 1, 1)" in text
    threads = KERNEL.format(index="thread_position_in_grid.x") + launch
    assert fixed(threads) == threads


def test_barrier_flags() -> None:
    body = KERNEL.replace(
        "y[i] = x[i];",
        "threadgroup float tile[64];\n        tile[i % 64] = x[i];\n"
        "        threadgroup_barrier(mem_flags::mem_none);\n        y[i] = tile[63 - i % 64];",
    ).format(index="thread_position_in_grid.x")
    launch = (
        "def f(x: mx.array):\n"
        "    return k(inputs=[x], grid=(64, 1, 1), threadgroup=(64, 1, 1),\n"
        "        output_shapes=[x.shape], output_dtypes=[x.dtype])\n"
    )
    assert fixed(body + launch) == body.replace("mem_none", "mem_threadgroup") + launch
