"""What the checks find in a small program."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

from embercoach.checks import Project, check_source

if TYPE_CHECKING:
    from embercoach.finding import RawFinding

IMPORTS = "import mlx.core as mx\nimport mlx.nn as nn\n"


def findings(program: str, family: str | tuple[str, ...]) -> list[RawFinding]:
    """The findings of families of codes in a program that MLX's imports go before."""
    source = IMPORTS + dedent(program).lstrip("\n")
    found = check_source(source, Path("program.py"), Project()).findings
    return [finding for finding in found if finding.code.startswith(family)]


def codes(program: str, family: str | tuple[str, ...]) -> list[str]:
    """Their codes, in the order of the source."""
    return [finding.code for finding in findings(program, family)]
