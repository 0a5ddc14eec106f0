"""A stand-in for the checks: it finds the words below, wherever they stand in a module.

Tests of the engine and of the command line use it, so that they don't depend on what the real
checks think of an example. Severities are those of the rules' real pages.
"""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from embercoach import checks
from embercoach.checks import FileReport, SyntaxProblem
from embercoach.finding import Edit, Finding, Fix, Step

#: word: code, and what a fix writes instead of it, safely or not.
WORDS: dict[str, tuple[str, str | None, bool]] = {
    "bad_pull": ("GRAPH-BREAK-001", None, False),  # a warning
    "bad_shape": ("HOST-PULL-009", "good_shape", True),  # a warning
    "bad_bound": ("HOST-PULL-012", "good_bound", False),  # an error
    "bad_scalar": ("PYTHON-SCALAR-002", "good_scalar", True),  # a note
    "bad_twice": ("DTYPE-001", "bad_shape", True),  # its fix shows another finding
    "bad_break": ("DTYPE-002", "(", True),  # its fix breaks the source
}
WORD = re.compile(r"\bbad_\w+")


def check_planted(source: str, path: Path, project: object) -> FileReport:
    """What ``embercoach.checks.check_source`` promises, for planted words."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise SyntaxProblem(error.lineno or 1, error.offset or 1, error.msg) from error
    if "crash_value" in source:
        raise ValueError("planted")
    if "crash_deep" in source:
        raise RecursionError("maximum recursion depth exceeded")
    if "crash_memory" in source:
        raise MemoryError
    if "crash_process" in source:
        os.kill(os.getpid(), signal.SIGKILL)
    dependencies = []
    findings = [_finding(source, match) for match in WORD.finditer(source)]
    for name in re.findall(r"# needs (\S+)", source):
        other = path.parent / name
        dependencies.append(str(other))
        if other.exists():
            findings.append(
                Finding("COMPLEX-001", 1, 1, 1, 2, f"with {other.read_text()}", "", "default")
            )
    return FileReport(tuple(findings), tuple(dependencies))


def _finding(source: str, match: re.Match[str]) -> Finding:
    code, replacement, safe = WORDS[match[0]]
    before = source[: match.start()]
    line = len(re.findall(r"\r\n|\r|\n", before)) + 1
    column = match.start() - max(before.rfind("\n"), before.rfind("\r"))
    fix = None
    if replacement is not None:
        edit = Edit(match.start(), match.end(), replacement)
        fix = Fix(f"Write {replacement}", safe=safe, edits=(edit,))
    return Finding(
        code,
        line,
        column,
        line,
        column + len(match[0]),
        f"{match[0]} hurts",
        f"write something better than {match[0]}",
        "avoidable" if "loop_" in source else "default",
        fix,
        tuple(_steps(source, "origin_")),
        tuple(_steps(source, "beside_")),
    )


def _steps(source: str, word: str) -> Iterator[Step]:
    for number, line in enumerate(source.splitlines(), 1):
        if word in line:
            column = line.index(word) + 1
            yield Step(number, column, number, column + len(word), f"{word} is planted")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the checks by the stand-in; child processes inherit it where they are forked."""
    monkeypatch.setattr(checks, "check_source", check_planted)
