"""LOOP-001: parts of one result, of which a loop renews some."""

from __future__ import annotations

import pytest

from tests.checks.findings import pointed

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
