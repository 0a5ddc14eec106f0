"""The head of the report: project, date, version and command; and the totals of fixes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from embercoach import __version__


@dataclass(frozen=True, slots=True)
class FixTotals:
    """Fixes that ``--fix`` would apply, the files that it would change, those it cannot fix."""

    fixes: int
    files: int
    unfixable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """A run as the head of its report describes it.

    Attributes:
        project: names of the checkouts' folders.
        date: when the findings were made, in UTC.
        version: of EmberCoach that made the findings.
        command: the command line of the report.
        safe: totals of ``--fix``; None for saved findings, whose files may have changed.
        unsafe: totals of ``--fix --unsafe-fixes``.
    """

    project: str
    date: str
    version: str
    command: str
    safe: FixTotals | None = None
    unsafe: FixTotals | None = None


def run_details(
    document: dict[str, Any],
    *,
    seconds: float,
    command: str,
    fixes: tuple[FixTotals, FixTotals] | tuple[None, None] = (None, None),
) -> RunDetails:
    """Describe the run of a document.

    Args:
        document: the JSON report.
        seconds: when the findings were made, since the epoch.
        command: the command line of the report.
        fixes: totals of safe fixes and of all fixes, if known.
    """
    tops = [checkout["path"] for checkout in document.get("checkouts", ())] or ["."]
    safe, unsafe = fixes
    return RunDetails(
        project=", ".join(sorted({Path(top).resolve().name or top for top in tops})),
        date=datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        version=document.get("run", {}).get("version", __version__),
        command=command,
        safe=safe,
        unsafe=unsafe,
    )
