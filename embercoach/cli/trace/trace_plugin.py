"""The pytest plugin: ``pytest --embercoach-trace``.

pytest loads this module in every project, so that it imports nothing else of EmberCoach, and no
MLX, until the flag is given.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FLAG = "--embercoach-trace"
REPORT = "--embercoach-trace-report"
FORMATS = ("json", "html", "perfetto")
SESSION = "embercoach-trace-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag, and the files to write."""
    group = parser.getgroup("embercoach", "EmberCoach")
    group.addoption(
        FLAG,
        action="store_true",
        help="List the lines at which the tests wait for MLX: evaluations, host copies, retraces.",
    )
    group.addoption(
        REPORT,
        action="append",
        default=[],
        metavar="TYPE:FILE",
        help=f"Write the trace to FILE; TYPE is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}. "
        "Repeat it for several files.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before any conftest or test module is imported: they may name functions of MLX."""
    chosen = early_config.known_args_namespace
    if not chosen.embercoach_trace:
        if chosen.embercoach_trace_report:
            raise pytest.UsageError(f"{REPORT} needs {FLAG}")
        return
    if chosen.embercoach_simulate:
        raise pytest.UsageError(f"{FLAG} and --embercoach-simulate exclude each other")
    _start(early_config, [_report(word) for word in chosen.embercoach_trace_report])


def _report(word: str) -> tuple[str, Path]:
    from pathlib import Path

    form, separator, name = word.partition(":")
    if form not in FORMATS or not separator or not name:
        raise pytest.UsageError(f"{REPORT} must be TYPE:FILE with {'|'.join(FORMATS)}, got {word}")
    file = Path(name).absolute()
    if not file.parent.is_dir():
        raise pytest.UsageError(f"{REPORT}: folder {file.parent} not found")
    return form, file


def _start(config: pytest.Config, reports: list[tuple[str, Path]]) -> None:
    from embercoach.cli.trace.pytest_trace import TracedTests

    try:
        session = TracedTests(reports, REPORT)
    except ImportError as error:
        raise pytest.UsageError(f"{FLAG} needs {error.name}: {error}") from error
    config.pluginmanager.register(session, SESSION)
