"""Known findings, which editors do not show, as `check` hides them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.engine.problem import Problem
from embercoach.report import baseline_file
from embercoach.report.outcome import SourceTexts
from embercoach.server.projects import Stamp, stamp_of

if TYPE_CHECKING:
    from pathlib import Path

    from embercoach.engine.run import RunResult


class Baselines:
    """Baselines by file, read again when they change."""

    def __init__(self) -> None:
        """Make one that has read none."""
        self._known: dict[Path, tuple[Stamp, baseline_file.Baseline]] = {}

    def new_in(self, result: RunResult, path: Path, text: str, file: Path) -> RunResult:
        """The findings that a baseline does not know; all, if it cannot be used."""
        try:
            entries = self._read(file).entries
        except baseline_file.BaselineError as error:
            problem = Problem(str(path), 1, 1, str(error))
            return replace(result, problems=(problem, *result.problems))
        found = baseline_file.entries_of(result.findings, SourceTexts({str(path): text}), file)
        pairs = zip(result.findings, found, strict=True)
        return replace(result, findings=tuple(one for one, entry in pairs if entry not in entries))

    def _read(self, file: Path) -> baseline_file.Baseline:
        stamp = stamp_of(file)
        known = self._known.get(file)
        if known is None or known[0] != stamp:
            known = self._known[file] = (stamp, baseline_file.read(file))
        return known[1]
