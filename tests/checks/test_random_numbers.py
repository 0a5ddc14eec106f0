"""RANDOM: which uses of keys and seeds are flagged, and which are not."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import codes


def function(body: str, *, name: str = "work") -> str:
    """A function of a key, a flag and a count; ``R`` is ``mx.random``."""
    body = dedent(body).strip().replace("R.", "mx.random.")
    return f"def {name}(key, flag, n):\n" + indent(body, "    ")


@pytest.mark.parametrize(
    "body",
    [
        "a = [R.normal(key=key), R.uniform(key=key)]",
        "if flag:\n    a = R.normal(key=key)\nb = R.normal(key=key)",
        "return [R.normal(key=key) for _ in range(n)]",
        "ks = R.split(key)\nreturn R.normal(key=ks[0]), R.normal(key=ks[0])",
        "draw = lambda k: R.normal(key=k)\na = draw(key)\nb = draw(key)",
        (
            "for i in range(n):\n    k = R.key(i)\n    a = R.normal(key=k)\n"
            "    b = R.bernoulli(0.5, (3,), k)"
        ),
    ],
)
def test_a_key_that_is_used_twice_is_flagged(body: str) -> None:
    assert "RANDOM-001" in codes(function(body), "RANDOM")


@pytest.mark.parametrize(
    "body",
    [
        (
            "key, sub = R.split(key)\na = R.normal(key=sub)\n"
            "key, sub = R.split(key)\nb = R.normal(key=sub)"
        ),
        "if flag:\n    a = R.normal(key=key)\nelse:\n    a = R.uniform(key=key)",
        "if flag:\n    a = R.normal(key=key)\nif not flag:\n    b = R.normal(key=key)",
        "for i in range(n):\n    a = R.normal(key=key)\n    break",
        "return [R.normal(key=k) for k in R.split(key, n)]",
        "ks = R.split(key)\nreturn R.normal(key=ks[0]), R.normal(key=ks[1])",
        "try:\n    a = R.normal(key=key)\nexcept ValueError:\n    a = R.normal(key=key)",
    ],
)
def test_other_uses_of_keys_are_not_flagged(body: str) -> None:
    assert codes(function(body), "RANDOM") == []


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("p = mx.softmax(n, axis=-1)\nreturn R.categorical(mx.log(p))", False),
        ("p = mx.softmax(n, axis=-1)\nq = mx.log(p)\nreturn R.categorical(q)", False),
    ],
)
def test_probabilities_are_not_logits(body: str, flagged: bool) -> None:
    assert ("RANDOM-005" in codes(function(body), "RANDOM")) is flagged


WALK = """
class Walk:
    def __init__(self, seed):
        self.key = mx.random.key(seed)

    def run(self, n):
        for _ in range(n):
            LINE
            yield mx.random.normal((2,), key=k)
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("k = mx.random.split(self.keys)[0]", []),
    ],
)
def test_a_key_that_only_init_sets(line: str, expected: list[str]) -> None:
    assert codes(WALK.replace("LINE", line), "RANDOM") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nonlocal key", []),
        ("n += len(str(key))", ["RANDOM-001"]),
    ],
)
def test_a_key_of_the_function_around(line: str, expected: list[str]) -> None:
    program = f"""
def make(n):
    key = mx.random.key(0)

    def draw(n):
        for _ in range(n):
            {line}
            yield mx.random.normal((2,), key=key)

    return draw(n)
"""
    assert codes(program, "RANDOM") == expected
