"""A progress bar for long runs, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds after which a run counts as long, and between two updates of the bar.
PATIENCE = 1.0
INTERVAL = 0.1


@contextmanager
def progress_of(*, quiet: bool) -> Iterator[ProgressBar | None]:
    """The progress bar of a run; None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    bar = ProgressBar()
    try:
        yield bar
    finally:
        bar.close()


class ProgressBar:
    """Called with the files done and the total; draws after ``PATIENCE``.

    It draws when it is called and starts no thread: a run may fork processes meanwhile.
    """

    def __init__(self) -> None:
        self._next = time.monotonic() + PATIENCE
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Note that some files are done."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL
        if self._bar is None:
            self._bar = self._start()
            self._task = self._bar.add_task("Checking", total=total)
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=total)
        self._bar.refresh()

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        bar.start()
        return bar
