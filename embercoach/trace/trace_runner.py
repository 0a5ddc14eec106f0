"""Runs a user's program with MLX instrumented: the child of ``embercoach trace``.

It is started in a fresh interpreter, before anything of the user's is imported.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

from embercoach.terminal_text import log_line
from embercoach.trace.trace_record import write
from embercoach.trace.trace_session import TraceSession
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
    session = TraceSession(timeline=os.environ.pop(TIMELINE, "") == "1")
    try:
        session.start()
    except ImportError as error:
        print(log_line(f"embercoach: a trace needs {error.name}: {error}"), file=sys.stderr)  # noqa: T201
        return FAILED

    def finish() -> None:
        # Of a forked child nobody waits for a record.
        if os.getpid() == owner:
            write(session.stop(), Path(record_file))

    # It runs last, after the program's own such functions and its threads.
    atexit.register(finish)
    return run(form, target, arguments)
