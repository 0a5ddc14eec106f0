"""Programs in which a comment marks each line that a rule reports."""

from __future__ import annotations

from pathlib import Path

from embercoach.checks import Project, check_source

MARK = "# reported"


def check_marked(program: str, code: str, path: Path = Path("program.py")) -> None:
    """Assert that a rule reports the marked lines of a program, and no others."""
    source = program.lstrip("\n")
    expected = {n for n, line in enumerate(source.split("\n"), 1) if line.endswith(MARK)}
    found = check_source(source, path, Project()).findings
    assert {finding.line for finding in found if finding.code == code} == expected
