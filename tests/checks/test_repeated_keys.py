"""RANDOM-001 and RANDOM-004: keys and seeds that calls of a function share."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path

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
