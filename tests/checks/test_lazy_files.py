"""LAZY-004: archives that are saved to the path that they are loaded from."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes


def saved(body: str) -> list[str]:
    """The codes of LAZY for a function that loads ``w`` from ``path``."""
    lines = "".join(f"    {line}\n" for line in f"w = mx.load(path)\n{body}".splitlines())
    return codes(f"def f(path, other, use):\n{lines}", "LAZY-004")


@pytest.mark.parametrize(
    "body",
    [
        "mx.savez(path, **w)",
        "mx.savez(path, **{k: v * 2 for k, v in w.items()})",
        "mx.savez_compressed(path, a=w['a'], b=w['b'] + 1)",
        "half = {k: v.astype(mx.float16) for k, v in w.items()}\nmx.savez(path, **half)",
        "w['scale'] = mx.array(2.0)\nif other:\n    mx.savez(path, **w)",
        "mx.savez(path, **mx.load(path))",
    ],
)
def test_arrays_that_are_saved_before_they_are_read_are_flagged(body: str) -> None:
    assert saved(body) == ["LAZY-004"]


@pytest.mark.parametrize(
    "body",
    [
        "mx.savez(other, **w)",
        "path = path + '.new'\nmx.savez(path, **w)",
        "use(w)\nmx.savez(path, **w)",
        "print(w)\nmx.savez(path, **w)",
        "mx.savez(path, a=mx.zeros(3))",
        "w = {'a': mx.zeros(3)}\nw = use()\nmx.savez(path, **use())",
    ],
)
def test_other_archives_are_not_flagged(body: str) -> None:
    assert saved(body) == []


def test_a_path_of_another_format_is_not_flagged() -> None:
    program = "w = mx.load('w.safetensors')\nmx.savez('w.safetensors', **w)"
    assert codes(program, "LAZY-004") == []
