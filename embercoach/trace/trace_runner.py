"""Runs a user's program with MLX instrumented: the child of ``embercoach trace``.

It is started in a fresh interpreter, before anything of the user's is imported.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

from embercoach.terminal_text import log_line
from embercoach.trace.instruments import Instruments
from embercoach.trace.trace_record import TraceRecord, write
from embercoach.trace.trace_recorder import Recorder, clock
from embercoach.user_program import run

#: The variable that names the file of the record.
VARIABLE = "EMBERCOACH_TRACE"
#: The variable that asks for single events.
TIMELINE = "EMBERCOACH_TRACE_TIMELINE"
#: The exit code of a program that could not be started, as of `embercoach.cli.codes.INCOMPLETE`.
FAILED = 2


def main(form: str, target: str, arguments: list[str]) -> int:
    """Run a program; return its exit code.

    Args:
        form: one of ``user_program.FORMS``.
        target: the script's path, the module's name, or the code.
        arguments: of the program.
    """
    record_file, owner = os.environ.pop(VARIABLE), os.getpid()
    recorder = Recorder(_memory, timeline=os.environ.pop(TIMELINE, "") == "1")
    instruments = Instruments(recorder)
    try:
        instruments.install()
    except ImportError as error:
        print(log_line(f"embercoach: a trace needs {error.name}: {error}"), file=sys.stderr)  # noqa: T201
        return FAILED
    begin = clock()
    try:
        return run(form, target, arguments)
    finally:
        seconds = clock() - begin
        instruments.remove()
        # Of a forked child nobody waits for a record.
        if os.getpid() == owner:
            write(_record(recorder, seconds), Path(record_file))


def _record(recorder: Recorder, seconds: float) -> TraceRecord:
    import mlx.core as mx

    events, left_out = recorder.timeline()
    return TraceRecord(
        sites=recorder.sites(),
        seconds=seconds,
        device=str(mx.default_device()),
        mlx=metadata.version("mlx"),
        peak_bytes=mx.get_peak_memory(),
        cache_bytes=mx.get_cache_memory(),
        events=events,
        events_left_out=left_out,
    )


def _memory() -> tuple[int, int]:
    import mlx.core as mx

    return mx.get_active_memory(), mx.get_cache_memory()
