"""The command line: one module a command."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command that the process was started with, and exit with its code."""
    # A short life of plain data: the collector would only cost time. Where much memory comes and
    # goes (engine.workers) it is looked after.
    gc.disable()
    from embercoach.cli.entry import start

    sys.exit(start(sys.argv[1:]))
