"""What reports say of a run over checkouts: its origin, and what was wrong with single ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.engine.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from embercoach.config import ConfigError
    from embercoach.engine.checkouts import Checked
    from embercoach.engine.discovery.shard import Shard
    from embercoach.report.origin import Origin


def problems_of(mistakes: Iterable[ConfigError]) -> Iterator[Problem]:
    """What keeps checkouts from being checked: the mistakes in their configuration files."""
    here = Path.cwd()
    for mistake in mistakes:
        assert mistake.path is not None
        path = mistake.path
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        message = f"configuration: {mistake.message}; nothing that it holds for was checked"
        yield Problem(str(shown), mistake.line or 1, 1, message)


def origin_of(checked: Sequence[Checked], shard: Shard | None) -> Origin:
    """The origin of a run's report."""
    from embercoach import __version__
    from embercoach.engine.fingerprint import program
    from embercoach.report.origin import Checkout, Origin, Portion

    portion = None
    if shard is not None:
        files = sum(one.files for one in checked)
        all_files = sum(one.all_files for one in checked)
        portion = Portion(shard.number, shard.count, files, all_files)
    checkouts = [
        Checkout(
            one.shown, one.result.files_checked, one.result.files_skipped, one.result.suppressed
        )
        for one in checked
    ]
    return Origin(
        __version__, program(), tuple(sorted(checkouts, key=lambda one: one.path)), portion
    )
