"""NAME-006: functions, methods and classes that another of their name replaces."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, pointed

REPLACED = [
    "def f(x):\n    return mx.exp(x)\ndef g(x):\n    return f(x)\ndef f(x):\n    return mx.log(x)",
    "class f:\n    a = mx.exp\nclass f:\n    b = mx.exp",
    "class C:\n    def f(self):\n        return mx.exp\n    def f(self):\n        return self.f",
]


@pytest.mark.parametrize("program", REPLACED)
def test_definitions_that_another_replaces_are_found(program: str) -> None:
    assert pointed(program, "NAME-006") == [("NAME-006", "f")]


KEPT = [
    "def f(x):\n    return mx.exp(x)\ny = f(1)\ndef f(x):\n    return mx.log(x)",
    "def f(x):\n    return mx.exp(x)\ndef g(x, h=f):\n    return h(x)\ndef f(x):\n    return 1",
    "class f:\n    a = mx.exp\nclass g(f):\n    pass\nclass f:\n    b = mx.exp",
    "class f:\n    a = mx.exp\nclass f(f):\n    b = mx.exp",
    "def f(x):\n    return mx.exp(x)\n@register\ndef f(x):\n    return mx.log(x)",
    "@register\ndef f(x):\n    return mx.exp(x)\ndef f(x):\n    return mx.log(x)",
    "def f(x):\n    return mx.exp(x)\ndef f(x):\n    return mx.exp(x)",
    "if mx.exp:\n    def f(x):\n        return 1\nelse:\n    def f(x):\n        return 2",
    "def g(x):\n    def f():\n        return mx.exp\n    def f():\n        return x\n    return f",
]


@pytest.mark.parametrize("program", KEPT)
def test_definitions_that_are_used_or_alternatives_are_silent(program: str) -> None:
    assert codes(program, "NAME-006") == []
