"""A pytest session whose waits for MLX are traced, in one process or in those of pytest-xdist."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest

from embercoach.cli.output import deliver
from embercoach.cli.trace.static_check import checked_trace, configurations_here
from embercoach.cli.trace.traced import Traced, render
from embercoach.config import ConfigError, Configurations
from embercoach.terminal_text import log_line
from embercoach.trace.trace_record import TraceRecord, from_text, merged, to_text
from embercoach.trace.trace_session import TraceSession

TITLE = "EmberCoach trace"
#: Rows of each table.
LINES = 20
#: The name of a worker's record in what pytest-xdist passes on.
_OUTPUT = "embercoach_trace"


class TracedTests:
    """The hooks of a session with ``--embercoach-trace``.

    Args:
        reports: files to write, each with its format.
        option: that asks for such a file.
    """

    def __init__(self, reports: Sequence[tuple[str, Path]], option: str) -> None:
        self._reports = reports
        self._option = option
        self._configurations: Configurations | None = None
        timeline = any(form == "perfetto" for form, _ in reports)
        self._trace: TraceSession | None = TraceSession(timeline=timeline)
        self._trace.start()
        self._of_workers: list[TraceRecord] = []
        self._text = ""

    def pytest_configure(self, config: pytest.Config) -> None:
        """Read the linter's configuration; a worker of pytest-xdist does not report.

        Raises:
            pytest.UsageError: a mistake in it.
        """
        if hasattr(config, "workerinput"):
            return
        try:
            self._configurations = configurations_here()
        except (click.ClickException, ConfigError) as error:
            raise pytest.UsageError(str(error)) from error

    def pytest_unconfigure(self) -> None:
        """Give MLX back as it was, also if the session has not begun."""
        self.close()

    def close(self) -> TraceRecord | None:
        """Give MLX back as it was; the record, the first time."""
        trace, self._trace = self._trace, None
        return None if trace is None else trace.stop()

    def pytest_report_header(self) -> str:
        """Return the line of the session's header."""
        return "embercoach: waits for MLX are traced"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keep the record of a worker of pytest-xdist; one that crashed has none."""
        text = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if text is not None:
            self._of_workers.append(from_text(text))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Pass the record on to the process that reports, or report it."""
        own = self.close()
        if own is None:
            return
        if self._configurations is None:
            session.config.workeroutput[_OUTPUT] = to_text(own)  # type: ignore[attr-defined]
            return
        record = merged(self._of_workers) if self._of_workers else own
        checked = checked_trace(record, self._configurations)
        traced = Traced(record, "pytest", LINES, int(exitstatus), checked, option=self._option)
        shown = StringIO()
        render(traced, "text", shown)
        try:
            for form, file in self._reports:
                deliver(partial(render, traced, form), file)
                shown.write(f"Wrote {log_line(str(file))}.\n")
        except click.ClickException as error:
            shown.write(f"{log_line(error.message)}\n")
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        self._text = shown.getvalue().strip("\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the tables of waits and findings."""
        if self._text:
            terminalreporter.section(TITLE)
            for line in self._text.split("\n"):
                terminalreporter.write_line(line)
