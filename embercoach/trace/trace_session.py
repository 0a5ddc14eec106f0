"""A trace of this process, from its start to its record, and the child of ``embercoach trace``."""

from __future__ import annotations

import atexit
import os
import sys
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

from embercoach.terminal_text import log_line
from embercoach.trace.instruments import Instruments
from embercoach.trace.trace_record import TraceRecord, write
from embercoach.trace.trace_recorder import Recorder, clock, is_of_project
from embercoach.user_program import FAILED, run

#: Python's module of this name; None before 3.12.
_MONITORING: Any = getattr(sys, "monitoring", None)
#: Identifiers that Python leaves to tools other than debuggers, coverage and profilers.
_TOOLS = (3, 4)
_NAME = "embercoach"


class ReachedLines:
    """The lines that ran since the start; each costs time once, the first time it runs."""

    def __init__(self) -> None:
        self._lines: defaultdict[str, set[int]] = defaultdict(set)
        self._tool: int | None = None

    def start(self) -> None:
        """Begin, unless Python is older or other tools have taken the identifiers."""
        if _MONITORING is None:
            return
        self._tool = next((tool for tool in _TOOLS if _MONITORING.get_tool(tool) is None), None)
        if self._tool is None:
            return
        _MONITORING.use_tool_id(self._tool, _NAME)
        events = _MONITORING.events
        _MONITORING.register_callback(self._tool, events.PY_START, self._started)
        _MONITORING.register_callback(self._tool, events.LINE, self._reached)
        _MONITORING.set_events(self._tool, events.PY_START)

    def stop(self) -> dict[str, tuple[int, ...]] | None:
        """End.

        Returns:
            The lines by the file's name, sorted; None if they are unknown.
        """
        if not self._has_tool():
            return None
        _MONITORING.set_events(self._tool, 0)
        for event in (_MONITORING.events.PY_START, _MONITORING.events.LINE):
            _MONITORING.register_callback(self._tool, event, None)
        _MONITORING.free_tool_id(self._tool)
        self._tool = None
        return {file: tuple(sorted(lines)) for file, lines in [*self._lines.items()]}

    def _started(self, code: CodeType, _offset: int) -> Any:
        if self._has_tool() and is_of_project(code.co_filename):
            _MONITORING.set_local_events(self._tool, code, _MONITORING.events.LINE)
        return _MONITORING.DISABLE

    def _has_tool(self) -> bool:
        """Return whether the identifier is still this one's: the program may have freed it."""
        return self._tool is not None and _MONITORING.get_tool(self._tool) == _NAME

    def _reached(self, code: CodeType, line: int) -> Any:
        self._lines[code.co_filename].add(line)
        return _MONITORING.DISABLE


class TraceSession:
    """Instruments MLX and NumPy, and collects what the program does with them.

    Events are added up if it is started again after a stop.

    Args:
        timeline: whether to keep single events.
    """

    def __init__(self, *, timeline: bool = False) -> None:
        self._recorder = Recorder(_memory, timeline=timeline)
        self._instruments = Instruments(self._recorder)
        self._reached = ReachedLines()
        self._begin = 0.0

    def start(self) -> None:
        """Begin, before the program imports MLX.

        Raises:
            ImportError: MLX or NumPy is missing.
        """
        self._instruments.install()
        self._reached.start()
        self._begin = clock()

    def stop(self) -> TraceRecord:
        """Put everything back, and return the record."""
        import mlx.core as mx

        seconds = clock() - self._begin
        reached = self._reached.stop()
        self._instruments.remove()
        events, left_out = self._recorder.timeline()
        return TraceRecord(
            sites=self._recorder.sites(),
            seconds=seconds,
            device=str(mx.default_device()),
            mlx=metadata.version("mlx"),
            peak_bytes=mx.get_peak_memory(),
            cache_bytes=mx.get_cache_memory(),
            events=events,
            events_left_out=left_out,
            files=tuple(sorted({*_imported(), *(reached or ())})),
            reached=reached,
        )


def _imported() -> set[str]:
    """Return the files of the project's modules."""
    modules = [*sys.modules.values()]
    files = (getattr(module, "__file__", None) for module in modules)
    return {file for file in files if isinstance(file, str) and is_of_project(file)}


def _memory() -> tuple[int, int]:
    mx = sys.modules["mlx.core"]
    return mx.get_active_memory(), mx.get_cache_memory()


#: The variable that names the file of the record.
VARIABLE = "EMBERCOACH_TRACE"
#: The variable that asks for single events.
TIMELINE = "EMBERCOACH_TRACE_TIMELINE"


def main(form: str, target: str, arguments: list[str]) -> int:
    """Run a program; return its exit code.

    Args:
        form: one of ``user_program.FORMS``.
        target: the script's path, the module's name, or the code.
        arguments: of the program.
    """
    record_file, owner = os.environ.pop(VARIABLE), os.getpid()
    session = TraceSession(timeline=os.environ.pop(TIMELINE, "") == "1")
    try:
        session.start()
    except ImportError as error:
        remedy = f"install {error.name} and embercoach into one environment"
        message = f"embercoach: a trace needs {error.name}: {error}; {remedy}"
        print(log_line(message), file=sys.stderr)  # noqa: T201
        return FAILED

    def finish() -> None:
        # Of a forked child nobody waits for a record.
        if os.getpid() == owner:
            write(session.stop(), Path(record_file))

    # It runs last, after the program's own such functions and its threads.
    atexit.register(finish)
    return run(form, target, arguments)
