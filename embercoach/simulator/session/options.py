"""Options of a simulated session, and the child of ``embercoach simulate`` that runs with them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Struct, json

from embercoach.config import Overrides, load
from embercoach.config.load import compiler_allowed
from embercoach.config.settings import SimulatorSettings  # noqa: TC001  (a field's type)
from embercoach.installation import install_command
from embercoach.simulator.model import PACKAGE, Limits, SimulatorError, require_unix
from embercoach.terminal_text import log_line
from embercoach.user_program import FAILED, run

if TYPE_CHECKING:
    from embercoach.simulator.session.record import Recorder

#: The variable in which `embercoach simulate` passes options to the interpreter.
VARIABLE = "EMBERCOACH_SIMULATION"
#: Seconds between looks at whether the parent process lives.
_LOOK = 0.5


class Options(Struct, frozen=True):
    """Settings of a simulated program or test session.

    Attributes:
        settings: compiler, limits, checks, and the allowed kinds of findings.
        compile_only: compile what would be launched, and its variants, and run nothing.
        record: a file to write at the end what was launched and found.
        profile: the GPU for which the launches' work is counted; None to check instead.
    """

    settings: SimulatorSettings
    compile_only: bool = False
    record: str | None = None
    profile: str | None = None

    def to_json(self) -> str:
        """As text, for another process."""
        return json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Return the inverse of :meth:`to_json`."""
        return json.decode(text, type=cls)


def options_for(folder: Path) -> Options:
    """Return those that a parent process hands down, else those of the project that a folder is in.

    What is handed down is for this process alone: it is taken from the environment.

    Raises:
        ConfigError: a mistake in the project's configuration file.
    """
    handed = os.environ.pop(VARIABLE, None)
    if handed is not None:
        _end_with_parent()
        return Options.from_json(handed)
    (scope,) = load([str(folder)], Overrides(allow_compiler=compiler_allowed()))
    for warning in scope.warnings:
        warnings.warn(f"EmberCoach: {warning}", stacklevel=2)
    return Options(scope.settings.simulator)


def _end_with_parent() -> None:
    """End this process when the one that handed it its options ends, even by SIGKILL."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="embercoach-parent", daemon=True).start()


def begin(options: Options) -> tuple[ExitStack, Recorder]:
    """Enter the simulation that the options ask for; the caller closes it.

    Raises:
        SimulatorError: what it needs is not installed, the compiler is none, or this is Windows.
    """
    require_unix()
    settings = options.settings
    try:
        from embercoach.simulator.build.toolchain import find_toolchain
        from embercoach.simulator.session.activation import activate

        compiler = settings.compiler
        toolchain = None if compiler is None else find_toolchain(compiler)
        limits = Limits(seconds=settings.timeout, bytes=settings.memory)
        simulation: AbstractContextManager[Recorder]
        if options.compile_only:
            from embercoach.simulator.session.compiling import compiling

            simulation = compiling(toolchain, limits)
        else:
            simulation = activate(
                checks=settings.checks,
                limits=limits,
                toolchain=toolchain,
                profile=options.profile or False,
            )
        entered = ExitStack()
        return entered, entered.enter_context(simulation)
    except ModuleNotFoundError as error:
        raise SimulatorError(
            f"the simulator needs {error.name}, which is not installed: "
            f"{install_command('simulator')}"
        ) from error


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception that ends the program: of the simulator's own without its frames.

    Of a kernel that does not compile only the first line is printed; findings are the rest.
    """
    if not isinstance(error, SimulatorError):
        sys.__excepthook__(kind, error, trace)
        return
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith(PACKAGE)]
    message = str(error) if kind is SimulatorError else str(error).split("\n")[0]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    print(f"{''.join(lines)}{kind.__name__}: {message}", file=sys.stderr)  # noqa: T201


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
    sys.excepthook = _show
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
