"""Lints the files of the user's project that a trace names, for ``embercoach trace``."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.cli.baseline_filter import guards, judge
from embercoach.cli.config_warnings import problems_of, warn
from embercoach.cli.flow import UserError
from embercoach.cli.trace.finding_join import join
from embercoach.config import ConfigError, Configurations
from embercoach.engine.checkouts import Plan
from embercoach.engine.languages import is_python_source
from embercoach.engine.suppression.suppression_coverage import CoveredLines
from embercoach.engine.suppression.suppressions import read_directives, read_lines
from embercoach.plugins.loading import PluginRequest
from embercoach.project_files import boundary
from embercoach.relative_paths import relative_path
from embercoach.report.outcome import SourceTexts
from embercoach.safe_read import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.cli.trace.finding_join import Join
    from embercoach.engine.problem import Problem
    from embercoach.finding import Finding
    from embercoach.trace.trace_record import Site, TraceRecord


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that was linted.

    Attributes:
        findings: to report, notes included, sorted by place.
        baselined: those that a baseline hides.
        statements: the first and last line of each logical line, sorted.
        suppressions: the lines that comments suppress findings on; None without such comments.
    """

    findings: tuple[Finding, ...]
    baselined: tuple[Finding, ...]
    statements: tuple[tuple[int, int], ...]
    suppressions: CoveredLines | None


@dataclass(frozen=True, slots=True)
class StaticCheck:
    """The result of linting files of a project.

    Attributes:
        files: those without a problem, by real path.
        problems: the files that could not be checked, sorted.
    """

    files: dict[str, CheckedFile]
    problems: tuple[Problem, ...] = ()


def configurations_here() -> Configurations:
    """The user's configurations, with installed plugins; read before the program runs.

    Raises:
        UserError: a mistake in the configuration of the current folder.
        click.ClickException: an installed plugin cannot be used.
    """
    from embercoach.cli.shared_options import load_plugins

    load_plugins(PluginRequest(installed=True, folders=()))
    configurations = Configurations()
    try:
        configurations.of(".")
    except ConfigError as error:
        raise UserError(str(error)) from error
    warn(configurations.warnings)
    return configurations


def check_files(paths: Iterable[str], configurations: Configurations) -> StaticCheck:
    """Lint files as ``embercoach check`` would.

    Only Python files inside the project of the current folder are read, by their real paths, and
    none that the configuration excludes: the traced program decides which paths are named.

    Args:
        paths: as Python names the files.
        configurations: of all folders.
    """
    own = sorted({relative_path(os.path.realpath(path)) for path in _of_project(paths)})
    if not own:
        return StaticCheck({})
    try:
        plan = Plan(own, configurations, force_exclude=True)
    except ConfigError as error:
        return StaticCheck({}, tuple(problems_of([error])))
    problems = list(problems_of(plan.mistakes))
    watching = guards(plan.scopes, configurations, plan.division, problems=problems)
    result = plan.run().result(problems)
    sources = SourceTexts()
    shown = set(judge(watching, result, sources).numbers)
    failed = {problem.path for problem in result.problems}
    files: dict[str, CheckedFile] = {}
    by_path: defaultdict[str, list[tuple[bool, Finding]]] = defaultdict(list)
    for number, finding in enumerate(result.findings):
        by_path[finding.path].append((number in shown, finding))
    for path in sorted({file.shown for file in plan.files()} - failed):
        source = sources.index(path).text
        found, directives = by_path[path], read_directives(source)
        files[os.path.realpath(path)] = CheckedFile(
            findings=tuple(one for is_shown, one in found if is_shown),
            baselined=tuple(one for is_shown, one in found if not is_shown),
            statements=tuple(sorted(read_lines(source).logical)),
            suppressions=CoveredLines(directives) if directives else None,
        )
    return StaticCheck(files, result.problems)


def _of_project(paths: Iterable[str]) -> Iterator[str]:
    """The paths that lead to Python files of the project of the current folder."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:  # the program has removed the folder
        return
    project = boundary(here) or here
    for path in paths:
        try:
            real = os.path.realpath(path)
            is_file = Path(real).is_file()
        except (OSError, ValueError):  # too long, or with a null byte
            continue
        if is_file and is_inside(real, project) and is_python_source(real):
            yield path


@dataclass(frozen=True, slots=True)
class CheckedTrace:
    """A trace joined with the static findings of its files.

    Attributes:
        join: the findings with their events.
        problems: the files that could not be checked, sorted.
        files: the files that were checked, by real path.
    """

    join: Join
    problems: tuple[Problem, ...]
    files: frozenset[str]


def checked_trace(record: TraceRecord, configurations: Configurations) -> CheckedTrace:
    """Lint the files of a trace, and join both."""
    by_file: defaultdict[str, list[Site]] = defaultdict(list)
    for site in record.sites:
        by_file[site.path].append(site)
    sites: defaultdict[str, list[Site]] = defaultdict(list)
    reached: defaultdict[str, set[int]] = defaultdict(set)
    for path in _of_project({*by_file, *record.files}):
        real = os.path.realpath(path)
        sites[real] += by_file.get(path, ())
        reached[real].update((record.reached or {}).get(path, ()))
    checked = check_files(sites, configurations)
    lines = None if record.reached is None else reached
    joined = join(sites, checked.files, lines)
    return CheckedTrace(joined, checked.problems, frozenset(checked.files))
