"""The command line: one module a command."""

from __future__ import annotations

import contextlib
import gc
import os
import sys


def main() -> None:
    """Run the command that the process was started with, and exit with its code."""
    # A short life of plain data: the collector would only cost time. Where much memory comes and
    # goes (engine.workers) it is looked after.
    gc.disable()
    from embercoach.cli.standard_streams import prepare_streams

    prepare_streams()
    from embercoach.cli.entry import start

    code = start(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Taking a million nodes apart one by one would take longer than a small run itself.
    os._exit(code)
