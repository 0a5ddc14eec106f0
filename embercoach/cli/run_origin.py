"""The origin of a run, and problems with configurations of single checkouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.engine.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.config import ConfigError
    from embercoach.engine.checkouts import CheckoutsOutcome
    from embercoach.engine.discovery.shard import Shard
    from embercoach.report.origin import RunOrigin


def problems_of(mistakes: Iterable[ConfigError]) -> Iterator[Problem]:
    """Report configuration errors of checkouts, whose files are not checked."""
    here = Path.cwd()
    for mistake in mistakes:
        assert mistake.path is not None
        path = mistake.path
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        message = f"configuration: {mistake.message}; its files were not checked"
        yield Problem(str(shown), mistake.line or 1, 1, message)


def origin_of(outcome: CheckoutsOutcome, shard: Shard | None = None) -> RunOrigin:
    """The origin of a run's report."""
    from embercoach import __version__
    from embercoach.engine.fingerprint import program
    from embercoach.report.origin import Checkout, Portion, RunOrigin

    checkouts, files, all_files = [], 0, 0
    for number, results in outcome.checkouts:
        shown, in_shard, own = outcome.plan.files_of(number)
        files, all_files = files + in_shard, all_files + own
        checkouts.append(
            Checkout(
                shown,
                sum(one.files_checked for one in results),
                sum(one.files_skipped for one in results),
                sum(one.suppressed for one in results),
            )
        )
    portion = None if shard is None else Portion(shard.number, shard.count, files, all_files)
    checkouts.sort(key=lambda one: one.path)
    return RunOrigin(__version__, program(), tuple(checkouts), portion)
