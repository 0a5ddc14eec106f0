"""Depth and length: what nests, repeats or grows without end is checked or refused, and ends."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable

import pytest

PRELUDE = "import mlx.core as mx\nx = mx.zeros(3)\n"


def nested(opening: str, closing: str, inside: str = "x") -> Callable[[int], str]:
    return lambda n: f"{PRELUDE}y = {opening * n}{inside}{closing * n}\n"


def blocks(header: str) -> Callable[[int], str]:
    def build(n: int) -> str:
        lines = "".join(f"{' ' * i}{header.format(i)}\n" for i in range(n))
        return f"{PRELUDE}{lines}{' ' * n}float(x)\n"

    return build


#: By name: the text for a size, and two sizes; Python itself takes the smaller one.
DEEP: dict[str, tuple[Callable[[int], str], tuple[int, ...]]] = {
    "parentheses": (nested("(", ")"), (100, 30_000)),
    "unclosed parentheses": (nested("(", ""), (100, 30_000)),
    "calls": (nested("f(", ")"), (100, 10_000)),
    "arguments": (nested("mx.add(x, ", ")"), (100, 1_000)),
    "comprehensions": (nested("[", " for x in y]"), (60, 1_000)),
    "minus signs": (nested("-", ""), (1_000, 100_000)),
    "lambdas": (nested("lambda: ", ""), (100, 10_000)),
    "conditional expressions": (nested("1 if x else ", ""), (100, 10_000)),
    "powers": (nested("x ** ", ""), (100, 10_000)),
    "sums": (nested("x + ", ""), (100, 5_000)),
    "ands": (nested("x and ", ""), (100, 2_000)),
    "comparisons": (nested("x < ", ""), (100, 400)),
    "methods in a row": (nested("", ".sum()"), (100, 3_000)),
    "strings": (nested("'a' ", "", "'b'"), (1_000, 30_000)),
    "f-strings": (nested("f'{x}' ", "", "'b'"), (200, 3_000)),
    "elifs": (
        lambda n: f"{PRELUDE}if a: pass\n" + "elif x.sum() > 1:\n    pass\n" * n,
        (100, 20_000),
    ),
    "functions": (blocks("def f{}():"), (90, 500)),
    "ifs": (blocks("if a{}:"), (90, 500)),
    "fors": (blocks("for a{} in b:"), (60, 500)),
    "withs": (blocks("with a as b{}:"), (90, 500)),
    "tries": (
        lambda n: (
            "".join(f"{' ' * i}try:\n" for i in range(n))
            + f"{' ' * n}pass\n"
            + "".join(f"{' ' * i}except: pass\n" for i in reversed(range(n)))
        ),
        (90,),
    ),
    "patterns": (lambda n: f"match x:\n  case {'[' * n}1{']' * n}: pass\n", (10,)),
}
SOURCES = {f"{name}-{size}": build(size) for name, (build, sizes) in DEEP.items() for size in sizes}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What each source came to, in a process of its own; another goes on where one crashes."""
    found: dict[str, str] = {}
    while left := {name: source for name, source in SOURCES.items() if name not in found}:
        done = subprocess.run(
            [sys.executable, "-m", "tests.robustness.outcome"],
            input="".join(json.dumps(item) + "\n" for item in left.items()),
            capture_output=True,
            text=True,
            check=False,
        )
        found.update(json.loads(line) for line in done.stdout.splitlines())
        crashed = next((name for name in left if name not in found), None)
        if crashed is not None:
            found[crashed] = f"exit {done.returncode}: {done.stderr[-2000:]}"
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_depth_ends_in_an_outcome(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] in ("checked", "refused")


@pytest.mark.parametrize("name", [f"{name}-{sizes[0]}" for name, (_, sizes) in DEEP.items()])
def test_what_python_takes_is_checked(name: str, outcomes: dict[str, str]) -> None:
    try:
        ast.parse(SOURCES[name])
    except SyntaxError:
        assert outcomes[name] == "refused"
    else:
        assert outcomes[name] == "checked"
