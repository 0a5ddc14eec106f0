"""Runs a program to its end as a child."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from embercoach.cli.flow import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.cli.programs import ProgramCommand

#: What shells add to the number of the signal that ended a program.
SIGNALLED = 128


def run_program(program: ProgramCommand, environment: Mapping[str, str], *, quiet: bool) -> int:
    """Run it; what it prints goes where ours goes, or, if quiet, to standard error.

    Returns:
        Its exit code, as a shell would give it.

    Raises:
        UserError: it cannot be started.
    """
    sys.stdout.flush()
    try:
        process = subprocess.Popen(
            program.command, env=environment, stdout=sys.stderr if quiet else None
        )
    except OSError as error:
        raise UserError(f"cannot start {program.command[0]}: {error.strerror or error}") from error
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue  # the terminal interrupts the program as well; it may finish
        return code if code >= 0 else SIGNALLED - code
