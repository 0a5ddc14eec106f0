"""LOGIC: flags that are compared to None, and conditional expressions that end at a comma."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

CLASS = """
class Base:
    flag: bool = True

class A(Base):
    def __init__(self, a: bool, b=None, c: bool = False):
        self.a = a
        self.b = b
        self.c = c
        self.d = True

    def set(self):
        self.c = None

    def f(self, p: bool, q: bool = None, r: bool = True, s=True):
        r = self.other()
        return {test}
"""


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("self.a is not None", ["self.a is not None"]),
        ("self.d is None", ["self.d is None"]),
        ("p is None", ["p is None"]),
        ("self.b is None or self.c is None", []),
        ("q is None or r is None or s is None", []),
        ("self.a is True or p == None", []),
    ],
)
def test_flags_that_are_compared_to_none(test: str, found: list[str]) -> None:
    program = CLASS.format(test=test)
    assert pointed(program, "LOGIC") == [("LOGIC-001", text) for text in found]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("f(x) if x else None, None", 1),
        ("f(x) if x else 0, 0", 1),
        ("f(x) if x else (None, None)", 0),
        ("(f(x) if x else None), None", 0),
        ("f(x) if x else None, 1", 0),
        ("x if x else None, None", 0),
    ],
)
def test_conditional_expressions_that_end_at_a_comma(value: str, found: int) -> None:
    program = f"def g(f, x):\n    a, b = {value}\n    return a, b\n"
    assert codes(program, "LOGIC") == ["LOGIC-002"] * found
