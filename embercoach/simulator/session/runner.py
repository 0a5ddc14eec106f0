"""Runs a user's program with the simulator active: the child of ``embercoach simulate``.

It is started in a fresh interpreter, before anything of the user's is imported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from embercoach.simulator.model import SimulatorError
from embercoach.simulator.session.options import begin, options_for
from embercoach.terminal_text import log_line
from embercoach.user_program import run

#: The exit code of a program that could not be started, as of `embercoach.cli.codes.INCOMPLETE`.
FAILED = 2


def main(form: str, target: str, arguments: list[str]) -> int:
    """Run a script, a module or a piece of code as ``python`` does.

    Args:
        form: one of ``user_program.FORMS``.
        target: the script's path, the module's name, or the code.
        arguments: of the program.

    Returns:
        The exit code, as the interpreter would give it.
    """
    options = options_for(Path.cwd())
    owner = os.getpid()
    try:
        simulation, recorder = begin(options)
    except SimulatorError as error:
        for line in f"embercoach: {error}".split("\n"):
            print(log_line(line), file=sys.stderr)  # noqa: T201
        return FAILED
    try:
        return run(form, target, arguments)
    finally:
        # Of a forked child nobody waits for a record.
        if os.getpid() == owner:
            simulation.close()
            if options.record is not None:
                from embercoach.simulator.session.record import write

                write(recorder, options)
