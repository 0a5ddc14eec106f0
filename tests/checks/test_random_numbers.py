"""RANDOM: which uses of keys and seeds are flagged, alone and shared by calls."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path


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


CLASS = """
KEY = mx.random.key(0)

def drawn(n):
    return mx.random.normal((n,), key=KEY)

def default(n, key=mx.random.key(0)):
    return mx.random.normal((n,), key=key)

class Noise:
    def __init__(self, seed):
        self.key = mx.random.key(seed)

    def draw(self, n):
        return mx.random.normal((n,), key=self.key)

    def twice(self, n):
        return self.draw(n)

    def all(self, n):
        return [self.draw(n) for _ in range(n)]
"""


@pytest.mark.parametrize(
    ("program", "flagged"),
    [
        ("for _ in range(9):\n    default(3)", True),
        ("a = drawn(3)\nb = drawn(3)", True),
    ],
)
def test_a_key_that_all_calls_share_is_flagged(program: str, flagged: bool) -> None:
    assert ("RANDOM-001" in codes(CLASS + program + "\n", "RANDOM-001")) is flagged


@pytest.mark.parametrize(
    ("program", "flagged"),
    [
        ("noise = Noise(1)\nfor _ in range(9):\n    noise.twice(3)", True),
        ("noise = Noise(1)\na = noise.draw(3)\nb = noise.draw(3)", True),
        ("noise = Noise(1)\na = noise.draw(3)", False),
        ("for i in range(9):\n    Noise(i).draw(3)", False),
        ("for i in range(9):\n    noise = Noise(i)\n    noise.draw(3)", False),
        ("a, b = Noise(1), Noise(2)\na.draw(3)\nb.draw(3)", False),
        ("for key in mx.random.split(KEY, 3):\n    default(3, key)", False),
        ("import time\ntime.perf_counter()\nfor _ in range(9):\n    drawn(3)", False),
    ],
)
def test_a_key_of_an_object(program: str, flagged: bool) -> None:
    source = CLASS.partition("    def all(")[0] + program
    assert bool(codes(source + "\n", "RANDOM-001")) is flagged


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("mx.random.seed(args.seed)", True),
        ('mx.random.seed(args["seed"])', True),
        ("args.seed = args.seed + 1\n        mx.random.seed(args.seed)", False),
        ('args["seed"] += 1\n        mx.random.seed(args["seed"])', False),
        ("args = unknown()\n        mx.random.seed(args.seed)", False),
    ],
)
def test_a_seed_of_the_settings(body: str, flagged: bool) -> None:
    program = f"""
def draw(n):
    return mx.random.normal((n,))

def run(args, unknown, n):
    found = []
    for i in range(n):
        {body}
        found.append(draw(n))
    return found
"""
    assert bool(codes(dedent(program), "RANDOM-004")) is flagged


@pytest.mark.parametrize(
    ("loop", "flagged"),
    [
        ("noise = Noise(0)\nfor _ in range(9):\n    noise.draw((3,))\n", True),
        ("for i in range(9):\n    Noise(i).draw((3,))\n", False),
        ("noise = Noise(0)\nfor _ in range(9):\n    noise.split((3,))\n", False),
    ],
)
def test_a_key_of_an_object_of_another_file(tmp_path: Path, loop: str, flagged: bool) -> None:
    (tmp_path / "noise.py").write_text(
        "import mlx.core as mx\n\n\nclass Noise:\n    def __init__(self, seed):\n"
        "        self.key = mx.random.key(seed)\n\n    def draw(self, shape):\n"
        "        return mx.random.normal(shape, key=self.key)\n\n    def split(self, shape):\n"
        "        return mx.random.normal(shape)\n"
    )
    path = tmp_path / "program.py"
    source = f"import mlx.core as mx\nfrom noise import Noise\n\n{loop}"
    path.write_text(source)
    found = check_source(source, path, Project()).findings
    assert ("RANDOM-001" in [finding.code for finding in found]) is flagged


@pytest.mark.parametrize(
    ("settings", "flagged"),
    [
        ("settings = make(rate=rate)", False),
        ("half = rate / 2\n        settings = make(rate=half)", False),
        ("settings = make(rate=1)", True),
    ],
)
def test_settings_that_a_loop_builds(settings: str, flagged: bool) -> None:
    """Runs with other settings are compared by the same numbers."""
    program = f"""
def run(settings):
    mx.random.seed(42)
    return settings.score(mx.random.normal((4,)))

def compared(rates, make, shared):
    found = []
    for rate in rates:
        {settings}
        found.append(run(settings))
    return found
"""
    assert bool(codes(dedent(program), "RANDOM-004")) is flagged


PROGRAM = """
import random
import numpy as np
from project import set_seed

def main(rows: list, seed: int):
    mx.random.seed(seed)
    BODY
    return mx.random.normal((2,))
"""


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("np.random.shuffle(rows)", True),
        ("random.shuffle(rows)", True),
        ("random.seed(seed)\n    random.shuffle(rows)", False),
        ("set_seed(seed)\n    random.shuffle(rows)", False),
        ("np.random.default_rng(seed).shuffle(rows)", False),
    ],
)
def test_generators_that_nothing_seeds(body: str, flagged: bool) -> None:
    assert bool(codes(PROGRAM.replace("BODY", body), "RANDOM-007")) is flagged
