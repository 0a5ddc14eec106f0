"""The checks: what a file's facts say about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.analysis.project import Project
from embercoach.checks import (  # noqa: F401  (importing a module registers its checks)
    complex_numbers,
    dtype,
    fft,
    graph_break,
    host_pull,
    host_pull_eval,
    host_pull_int,
    python_scalar,
)
from embercoach.checks.reading import SyntaxProblem, reading
from embercoach.checks.registry import CODES
from embercoach.checks.run import place_reports, reports_of

if TYPE_CHECKING:
    from pathlib import Path

    from embercoach.finding import RawFinding

__all__ = [
    "FileReport",
    "Project",
    "SyntaxProblem",
    "check_metal",
    "check_objective_c",
    "check_source",
    "registered_codes",
]


@dataclass(frozen=True, slots=True)
class FileReport:
    """Findings of one file, and the other files (present or absent) that decided them.

    ``exceeded`` says which budget the file exceeds, if they are not all of its findings.
    """

    findings: tuple[RawFinding, ...]
    dependencies: tuple[str, ...]
    exceeded: str | None = None


def registered_codes() -> frozenset[str]:
    """All codes that the checks may report."""
    from embercoach.checks import host_copies, of_kernels  # noqa: F401

    return frozenset(CODES)


def check_source(source: str, path: Path, project: Project) -> FileReport:
    """Run every check over a file. Selection and severity are the engine's.

    Raises:
        SyntaxProblem: the source does not parse, or nests too deeply to be analysed.
    """
    with reading(source):
        module = project.open(path, source)
        reports, exceeded = reports_of(module)
        findings = place_reports(module, reports)
    dependencies = tuple(sorted(map(str, module.all_dependencies())))
    project.release()
    return FileReport(findings, dependencies, exceeded)


def check_metal(source: str) -> FileReport:
    """Run the checks of Metal text over a ``.metal`` file. What does not parse has no findings."""
    from embercoach.checks.metal_units import check_unit

    return FileReport(check_unit(source), ())


def check_objective_c(source: str) -> FileReport:
    """Check an Objective-C++ file: its host code, and the Metal text in its string literals."""
    from embercoach.checks.metal_units import check_objective_c_file

    return FileReport(check_objective_c_file(source), ())
