"""LOOP-004: functions and generators that read the variables of a loop after it."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

LATE = "LOOP-004"
LOOPS = [
    ("return [(c + i for c in x) for i in x]", [LATE]),
    ("return {k: lambda: f(k) for k in x}", [LATE]),
    ("return [[lambda: f(i) for _ in x] for i in x]", [LATE]),
    ("return list((f(i, c) for c in x) for i in x)", [LATE]),
    ("return [(c for c in i) for i in x]", []),
    ("return [tuple(c + i for c in x) for i in x]", []),
    ("return ((c + i for c in x) for i in x)", []),
    ("return [(i for i in x) for i in x]", []),
    ("for i in x:\n        out.append((1, lambda: f(i)))", [LATE]),
    ("for i in x:\n        j = f(i)\n        out[i] = lambda: j", [LATE]),
    ("for i in x:\n        def late():\n            return f(i)\n        out.append(late)", [LATE]),
    ("for i in x:\n        late = lambda: f(i)\n        out.append(late)", [LATE]),
    ("for i in x:\n        late = lambda: f(i)\n        out.append(late())", []),
    ("for i in x:\n        rows = (f(i, c) for c in x)\n        out.append(rows)", [LATE]),
    ("for i in x:\n        rows = (f(i, c) for c in x)\n        out.append(list(rows))", []),
    ("for i, y in x:\n        y.hook = lambda: f(i)", [LATE]),
    ("for i, y in x:\n        y.hook = lambda: f(i)\n        y()", []),
    ("for i in x:\n        out = [f]\n        out.append(lambda: f(i))", []),
    ("for i in x:\n        out.append(lambda i=i: f(i))", []),
    ("for i in x:\n        out.append(lambda: f(i))\n        break", []),
    ("for i in x:\n        out.append(f(lambda: i))", []),
    ("for _ in x:\n        out.append(lambda: f(x))", []),
]


@pytest.mark.parametrize(("body", "found"), LOOPS)
def test_names_of_late_functions(body: str, found: list[str]) -> None:
    assert codes(f"import mlx.core as mx\n\n\ndef g(f, x, out):\n    {body}\n", LATE) == found
