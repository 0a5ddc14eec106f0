"""What checking any text may come to: a sound report, or a problem of syntax. Nothing else."""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from embercoach.checks import FileReport, Project, SyntaxProblem, check_source
from embercoach.finding import Finding
from embercoach.fixes.application import apply
from embercoach.fixes.source_file import DecodingError, LineIndex, decode
from embercoach.rulebook import CONTEXTS, codes

Outcome = Literal["checked", "refused"]
SECONDS = 60  # for one text, on a machine busy with other things


class TooSlowError(Exception):
    """Checking a text took longer than it may."""


@contextmanager
def time_limit(seconds: float = SECONDS) -> Iterator[None]:
    """Raise ``TooSlowError`` in the block once the time is over (not inside native code)."""

    def ring(number: int, frame: object) -> None:
        raise TooSlowError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome_of(source: str, path: Path, project: Project | None = None) -> Outcome:
    """Check a text, and that what comes out is sound."""
    with time_limit():
        result = _checked(source, path, project or Project())
    if isinstance(result, SyntaxProblem):
        assert result.line >= 1
        assert result.column >= 1
        assert result.message
        return "refused"
    assert_sound(result, source)
    return "checked"


def _checked(source: str, path: Path, project: Project) -> FileReport | SyntaxProblem:
    try:
        return check_source(source, path, project)
    except SyntaxProblem as problem:
        return problem


def outcome_of_file(path: Path, project: Project, alias: Path | None = None) -> Outcome:
    """Check a file, with or without MLX in it, as if it stood at ``alias``."""
    try:
        source = decode(path.read_bytes()).text
    except DecodingError:
        return "refused"
    return outcome_of(source, alias or path, project)


def assert_sound(report: FileReport, source: str) -> None:
    """Every finding has a known code and context, a place in the text and fixes that go in."""
    index = LineIndex(source)
    for finding in report.findings:
        assert finding.code in codes()
        assert finding.context in CONTEXTS
        assert finding.message
        assert finding.help
        start, end = _extent(finding, index)
        assert 0 <= start < end <= len(source), finding
        assert index.place(start) == (finding.line, finding.column), finding
    assert all(Path(path).is_absolute() for path in report.dependencies)
    fixes = [finding.fix for finding in report.findings if finding.fix is not None]
    apply(source, fixes)  # raises where edits overlap within a fix or lie outside


def _extent(finding: Finding, index: LineIndex) -> tuple[int, int]:
    start = index.offset(finding.line, finding.column)
    return start, index.offset(finding.end_line, finding.end_column)


def main() -> None:
    """Check the texts of standard input, a JSON line each: its name and itself.

    A crash of native code would take the tests along: ``python -m tests.robustness.outcome`` is a
    process of its own.
    """
    for line in sys.stdin:
        name, source = json.loads(line)
        try:
            outcome: str = outcome_of(source, Path("/nowhere/program.py"))
        except Exception:  # noqa: BLE001  (the parent judges)
            outcome = traceback.format_exc()
        sys.stdout.write(json.dumps([name, outcome]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
