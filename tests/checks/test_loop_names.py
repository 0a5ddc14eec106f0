"""LOOP: names that a loop replaces, takes over, renews in part, or changes after they are used."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

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


ATTRIBUTES = """
    r = f(x)
    p = r.logits[:, -1]
    q = r.hidden
    for _ in x:
        s = f(q)
        p = s.logits[:, -1]
"""
ITEMS = ATTRIBUTES.replace(".logits[:, -1]", "[0]").replace(".hidden", "[1]")
FOUND = [
    ("a, b = f(x)\n    for _ in x:\n        use(b)\n        a, _ = f(a)", "b"),
    ("a, b = f(x)\n    while x:\n        a, c = f(b)", "b"),
    (ATTRIBUTES, "q"),
    (ITEMS, "q"),
]


@pytest.mark.parametrize(("body", "name"), FOUND)
def test_a_part_of_the_first_result_is_found(body: str, name: str) -> None:
    assert pointed(f"def g(f, x):\n    {body}\n    return x\n", "LOOP") == [("LOOP-001", name)]


SILENT = [
    "a, b = f(x)\n    for _ in x:\n        a, b = f(b)",
    "a, b = f(x)\n    for _ in x:\n        a, _ = h(b)",  # of another function
    "a, b = f(x)\n    for _ in x:\n        _, a = f(b)",  # another part
    "a, b = f(x)\n    for _ in x:\n        a, _ = f(a)",  # not read
    "a = f(x)\n    b = f(x)\n    for _ in x:\n        a = f(b)",  # results of two calls
    "a, b = f(x)\n    for _ in x:\n        a, _ = f(a)\n        def b(): pass\n        b()",
    "for y in x:\n        a, b = f(x)\n        for _ in y:\n            a, _ = f(b)",
]


@pytest.mark.parametrize("body", SILENT)
def test_other_names_are_silent(body: str) -> None:
    assert pointed(f"def g(f, h, x):\n    {body}\n    return a\n", "LOOP") == []


LATE = "LOOP-004"
LATE_FUNCTIONS = [
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


@pytest.mark.parametrize(("body", "found"), LATE_FUNCTIONS)
def test_names_of_late_functions(body: str, found: list[str]) -> None:
    assert codes(f"import mlx.core as mx\n\n\ndef g(f, x, out):\n    {body}\n", LATE) == found
