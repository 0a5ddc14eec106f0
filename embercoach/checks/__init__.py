"""The checks: from the facts of a file to its findings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.analysis.project.project import Project
from embercoach.analysis.syntax.parse import SyntaxProblem, deep_recursion, reading
from embercoach.checks.file_reports import place_reports, reports_of
from embercoach.checks.plugin_checks import plugin_reports
from embercoach.checks.registry import CODES, load, load_kernel_checks, load_torch_checks
from embercoach.metal.work_budget import WorkBudget

if TYPE_CHECKING:
    from embercoach.finding import Finding

__all__ = [
    "FileReport",
    "Project",
    "SyntaxProblem",
    "check_metal",
    "check_objective_c",
    "check_source",
    "registered_codes",
]

load("embercoach.checks.arrays")


class FileReport(Struct, frozen=True):
    """The findings of one file.

    Attributes:
        findings: in no order.
        dependencies: other files, present or absent, that decided them.
        problem: why findings may be missing, None where all of the file was analyzed.
        has_plugin_error: the problem is that a check of a plugin raised.
    """

    findings: tuple[Finding, ...]
    dependencies: tuple[str, ...]
    problem: str | None = None
    has_plugin_error: bool = False


def registered_codes() -> frozenset[str]:
    """Return all codes that the checks may report."""
    load_kernel_checks()
    load_torch_checks()
    return frozenset(CODES)


def check_source(source: str, path: Path, project: Project) -> FileReport:
    """Run every check over a file. Selection and severity are the engine's.

    Raises:
        SyntaxProblem: the source does not parse, or nests too deeply to be analysed.
    """
    with reading(source):
        module = project.open(path, source)
        reports, problem = reports_of(module)
        own = plugin_reports(module)
        findings = place_reports(module, [*reports, *own.reports])
    dependencies = tuple(sorted(module.all_dependencies()))
    project.release()
    return FileReport(findings, dependencies, problem or own.problem, own.problem is not None)


def check_metal(source: str) -> FileReport:
    """Run the checks of Metal text over a ``.metal`` file. What does not parse has no findings."""
    from embercoach.checks.programs.metal_findings import check_unit

    budget = WorkBudget.of(source)
    with deep_recursion():
        findings = check_unit(source, budget)
    return FileReport(findings, (), budget.problem)


def check_objective_c(source: str) -> FileReport:
    """Check an Objective-C++ file: its host code, and the Metal text in its string literals."""
    from embercoach.checks.programs.metal_findings import check_objective_c_file

    budget = WorkBudget.of(source)
    with deep_recursion():
        findings = check_objective_c_file(source, budget)
    return FileReport(findings, (), budget.problem)
