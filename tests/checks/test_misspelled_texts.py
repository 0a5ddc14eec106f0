"""LOGIC-003: texts that are others of the file but for a slip."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

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
