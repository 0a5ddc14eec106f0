"""What the checks find in a small program."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import TYPE_CHECKING

from embercoach.checks import Project, check_source

if TYPE_CHECKING:
    from embercoach.finding import Finding

IMPORTS = "import mlx.core as mx\nimport mlx.nn as nn\n"


def findings(program: str, family: str | tuple[str, ...]) -> list[Finding]:
    """The findings of families of codes in a program that MLX's imports go before.

    A program with test functions is a test file.
    """
    name = "test_program.py" if "def test_" in program else "program.py"
    found = check_source(_source(program), Path(name), Project()).findings
    chosen = [finding for finding in found if finding.code.startswith(family)]
    return sorted(chosen, key=lambda finding: finding.sort_key)


def codes(program: str, family: str | tuple[str, ...]) -> list[str]:
    """Their codes, in the order of the source."""
    return [finding.code for finding in findings(program, family)]


def effect(finding: Finding) -> str:
    """What a read of an array costs, by its message, or its context where the program fails."""
    if finding.context in ("compiled", "differentiated", "test"):
        return finding.context
    for end in ("iteration", "forward pass", "copy"):
        if finding.message.endswith(end):
            return end
    return "once"


def messages(program: str, family: str) -> list[str]:
    """Their messages, in the order of the source."""
    return [finding.message for finding in findings(program, family)]


def pointed(program: str, family: str | tuple[str, ...]) -> list[tuple[str, str]]:
    """Their codes, and the source text that each points at."""
    lines = _source(program).split("\n")
    found = []
    for f in findings(program, family):
        assert f.line == f.end_line, f
        found.append((f.code, lines[f.line - 1][f.column - 1 : f.end_column - 1]))
    return found


def launched(
    body: str,
    *,
    inputs: str = '"x", "n"',
    passed: str = "x, 4",
    header: str = "",
    template: str = "",
    dtype: str = "x.dtype",
) -> str:
    """A kernel, and a function of an array ``x`` that launches it for 32 threads."""
    return (
        f'K = mx.fast.metal_kernel(name="k", input_names=[{inputs}], output_names=["y"],\n'
        f'    header="""{header}""", source="""{body}""")\n'
        "def launch(x):\n"
        f"    return K(inputs=[{passed}], grid=(32, 1, 1), threadgroup=(32, 1, 1),\n"
        f"             template=[{template}],\n"
        f"             output_shapes=[x.shape], output_dtypes=[{dtype}])[0]\n"
    )


def in_function(head: str, body: str) -> str:
    """A program of imports and the head of a function, and its body."""
    return head + indent(dedent(body).strip(), "    ")


def _source(program: str) -> str:
    return IMPORTS + dedent(program).lstrip("\n")
