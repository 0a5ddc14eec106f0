"""LOGIC: tests of which the outcome is known, expressions that end early, and misspelled texts."""

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


FREQUENT = """
def f(w):
    x = mx.exp(w["norm_weight"])
    return x + w["norm_weight"] + w.pop("norm_weight")
def h(w):
    return w["norm.weight"] + w["norm.weight"] + w["norm.weight"]
"""


@pytest.mark.parametrize("text", ["norm_wegiht", "norm_weeight", "norm.weeight", "nnorm_weight"])
def test_a_slip_in_a_word_is_found(text: str) -> None:
    expected = [("LOGIC-003", f'"{text}"')] if text != "nnorm_weight" else []
    program = f'{FREQUENT}def g(w):\n    return w["{text}"]'
    assert pointed(program, "LOGIC-003") == expected


OTHERS = [
    'w["norm_weight_"]',
    'w["norm_weights"]',
    'w["norm_weigth"] + w["norm_weigth"]',
    '{"norm_wegiht": w}',
    'w.replace("norm_wegiht", "norm_weight")',
    'w["norm_wegiht"], norm_wegiht',
    'w["mron_weight"]',
]


@pytest.mark.parametrize("expression", OTHERS)
def test_other_names_and_translations_are_silent(expression: str) -> None:
    assert codes(f"{FREQUENT}def g(w):\n    return {expression}", "LOGIC-003") == []


def test_a_rare_spelling_decides_nothing() -> None:
    program = 'def g(w):\n    mx.exp(w["norm_wegiht"])\n    return w["norm_weight"]'
    assert codes(program, "LOGIC-003") == []
