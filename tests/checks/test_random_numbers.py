"""RANDOM: which uses of keys and seeds are flagged, and which are not."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import codes


def function(body: str, *, name: str = "work") -> str:
    """A function of a key, a flag and a count."""
    return f"def {name}(key, flag, n):\n" + indent(dedent(body).strip(), "    ")


@pytest.mark.parametrize(
    "body",
    [
        "a = mx.random.normal(key=key)\nb = mx.random.normal(key=key)",
        "a = [mx.random.normal(key=key), mx.random.uniform(key=key)]",
        "a = mx.random.normal(key=key)\nkey = mx.random.split(key)[0]",
        "a, b = mx.random.split(key)\nc = mx.random.normal(key=key)",
        "a = mx.random.split(key)\nb = mx.random.split(key)",
        "if flag:\n    a = mx.random.normal(key=key)\nb = mx.random.normal(key=key)",
        "for i in range(n):\n    a = mx.random.normal(key=key)",
        "while flag():\n    a = mx.random.split(key)[0]",
        "return [mx.random.normal(key=key) for _ in range(n)]",
        "ks = mx.random.split(key)\nreturn mx.random.normal(key=ks[0]), mx.random.normal(key=ks[0])",
        "draw = lambda k: mx.random.normal(key=k)\na = draw(key)\nb = draw(key)",
        "for i in range(n):\n    k = mx.random.key(i)\n    a = mx.random.normal(key=k)\n"
        "    b = mx.random.bernoulli(0.5, (3,), k)",
    ],
)
def test_a_key_that_is_used_twice_is_flagged(body: str) -> None:
    assert "RANDOM-001" in codes(function(body), "RANDOM")


@pytest.mark.parametrize(
    "body",
    [
        "key, sub = mx.random.split(key)\na = mx.random.normal(key=sub)\n"
        "key, sub = mx.random.split(key)\nb = mx.random.normal(key=sub)",
        "if flag:\n    a = mx.random.normal(key=key)\nelse:\n    a = mx.random.uniform(key=key)",
        "if flag:\n    return mx.random.normal(key=key)\nreturn mx.random.uniform(key=key)",
        "return mx.random.normal(key=key) if flag else mx.random.uniform(key=key)",
        "if flag:\n    a = mx.random.normal(key=key)\nif not flag:\n    b = mx.random.normal(key=key)",
        "for k in mx.random.split(key, n):\n    a = mx.random.normal(key=k)",
        "for i in range(n):\n    key, sub = mx.random.split(key)\n    a = mx.random.normal(key=sub)",
        "for i in range(n):\n    if flag:\n        return mx.random.normal(key=key)",
        "for i in range(n):\n    a = mx.random.normal(key=key)\n    break",
        "return [mx.random.normal(key=k) for k in mx.random.split(key, n)]",
        "ks = mx.random.split(key)\nreturn mx.random.normal(key=ks[0]), mx.random.normal(key=ks[1])",
        "a = mx.random.normal()\nb = mx.random.normal(key=None)\nc = mx.random.normal(key=None)",
        "a = sorted(n, key=key)\nb = sorted(n, key=key)",
        "try:\n    a = mx.random.normal(key=key)\nexcept ValueError:\n    a = mx.random.normal(key=key)",
    ],
)
def test_other_uses_of_keys_are_not_flagged(body: str) -> None:
    assert codes(function(body), "RANDOM") == []


def test_tests_may_draw_twice_to_compare() -> None:
    body = "a = mx.random.normal(key=key)\nb = mx.random.normal(key=key)"
    assert codes(function(body, name="test_equal"), "RANDOM") == []


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("return mx.random.categorical(mx.softmax(n, axis=-1))", True),
        (
            "p = mx.softmax(n, axis=-1)\nreturn mx.random.categorical(p[:, 0].astype(mx.float32))",
            True,
        ),
        ("p = nn.softmax(n)\nreturn mx.random.categorical(logits=p)", True),
        ("n = mx.softmax(n, axis=-1)\nreturn mx.random.categorical(n)", True),
        ("p = mx.softmax(n, axis=-1)\nreturn mx.random.categorical(mx.log(p))", False),
        ("p = n\nif flag:\n    p = mx.softmax(n, axis=-1)\nreturn mx.random.categorical(p)", False),
        ("p = mx.softmax(n, axis=-1)\nq = mx.log(p)\nreturn mx.random.categorical(q)", False),
    ],
)
def test_probabilities_are_not_logits(body: str, flagged: bool) -> None:
    assert ("RANDOM-005" in codes(function(body), "RANDOM")) is flagged
