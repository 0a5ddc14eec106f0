"""Mistakes in configurations and folders, certain and probable: found over a run, and printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.config.errors import ConfigWarning
from embercoach.config.patterns import PathPatterns
from embercoach.finding import Problem
from embercoach.report.styled import print_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.config import ConfigError
    from embercoach.engine.checkouts import Plan

#: Keys of tables from patterns of files.
PER_FILE = ("per-file-ignores", "per-file-profiles")


def warn(warnings: Iterable[ConfigWarning | str]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        print_text(f"embercoach: warning: {warning}", sys.stderr)


def problems_of(mistakes: Iterable[ConfigError]) -> Iterator[Problem]:
    """Report configuration errors of checkouts, whose files are not checked."""
    here = Path.cwd()
    for mistake in mistakes:
        assert mistake.path is not None
        path = mistake.path
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        message = f"configuration: {mistake.message}; its files were not checked"
        yield Problem(str(shown), mistake.line or 1, 1, message)


def warnings_of(plan: Plan) -> Iterator[ConfigWarning | str]:
    """Warn of patterns that match no file, and of links that lead nowhere."""
    yield from idle_patterns(plan)
    if plan.dangling:
        others = f" and {len(plan.dangling) - 1} more" if len(plan.dangling) > 1 else ""
        yield f"skipped a dangling symbolic link: {plan.dangling[0]}{others}"


def idle_patterns(plan: Plan) -> Iterator[ConfigWarning]:
    """Warn of patterns of files that match no file, where a run covers all that they are for."""
    for scope in plan.scopes:
        file, root = scope.file, scope.settings.root
        if file is None or not plan.division.is_whole or not _covers(plan.walked, root):
            continue
        if scope.top.exclude is not None or scope.top.extend_exclude:
            continue  # what the command line leaves out may be what they are for
        paths: list[str] | None = None
        for key in PER_FILE:
            for pattern in file.table.get(key, {}):
                if paths is None:
                    paths = [str(one.path) for one in plan.files(scope)]
                # `!pattern` is for all other files: what it names should be there as well.
                patterns = PathPatterns([pattern.removeprefix("!")], root)
                if not any(map(patterns.match_below, paths)):
                    line = file.line_of((key, pattern))
                    yield ConfigWarning(f'{key}."{pattern}" matches no file', file.path, line)


def _covers(walked: Iterable[str], root: Path) -> bool:
    return any(root.is_relative_to(folder) for folder in walked)
