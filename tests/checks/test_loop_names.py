"""LOOP-002 and -003: dictionaries that iterations replace, and names that a loop takes over."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

LOOPS = [
    ("for k in x:\n        d = {k: mx.abs(k)}\n    return d", ["LOOP-002"]),
    ("for k in x:\n        d = {f'{k}_a': 1}\n    for v in d:\n        use(v)", ["LOOP-002"]),
    ("for k in x:\n        d = {k: 1}\n        use(d)\n    return d", []),
    ("for k in x:\n        d = {k: 1}\n        break\n    return d", []),
    ("for k in x:\n        d = {'a': k}\n    return d", []),
    ("for k in x:\n        d = {k: 1}\n    d = 3\n    return d", []),
    ("y = f(x)\n    for y in x:\n        use(y)\n    return y", ["LOOP-003"]),
    ("y = f(x)\n    for i, y in x:\n        use(y)\n    y = y + 1", ["LOOP-003"]),
    ("y = f(x)\n    for y in x:\n        use(y)\n    y = 1\n    return y", []),
    ("y = f(x)\n    for y in x:\n        use(y)\n    for y in x:\n        use(y)", []),
    ("y = 0\n    for y in x:\n        use(y)\n    return y", []),
    ("for y in x:\n        use(y)\n    return y", []),
]


@pytest.mark.parametrize(("body", "found"), LOOPS)
def test_names_of_loops(body: str, found: list[str]) -> None:
    assert codes(f"def g(f, x, use):\n    {body}\n", "LOOP") == found
