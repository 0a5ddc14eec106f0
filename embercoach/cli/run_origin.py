"""The origin of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embercoach.engine.checkouts import CheckoutsOutcome
    from embercoach.engine.discovery.shard import Shard
    from embercoach.report.origin import RunOrigin


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
