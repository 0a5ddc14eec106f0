"""Command lines that ``simulate``, ``trace`` and ``run`` take, each started and run as a child."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click
from msgspec import Struct

import embercoach
from embercoach.cli.entry import INCOMPLETE, INTERRUPTED, UserError
from embercoach.installation import install_command
from embercoach.report.styled import print_text

R = TypeVar("R")

#: What shells add to the number of the signal that ended a program.
SIGNALLED = 128


def run_command(
    command: Sequence[str], variables: Mapping[str, str], *, quiet: bool = False
) -> int:
    """Run a command; what it prints goes where ours goes, or, if quiet, to standard error.

    Returns:
        Its exit code, as a shell would give it.

    Raises:
        UserError: it cannot be started.
    """
    sys.stdout.flush()
    environment = {**os.environ, **variables}
    try:
        process = subprocess.Popen(command, env=environment, stdout=sys.stderr if quiet else None)
    except OSError as error:
        raise UserError(f"cannot start {command[0]}: {error.strerror or error}") from error
    # Who ends us, as CI does after some time, wants what was recorded until then.
    ends = threading.current_thread() is threading.main_thread() and os.name == "posix"
    before = (
        signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT))
        if ends
        else None
    )
    try:
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                continue  # the terminal interrupts the program as well; it may finish
            return code if code >= 0 else SIGNALLED - code
    finally:
        if ends:
            signal.signal(signal.SIGTERM, before)


def run_recorded(
    program: ProgramCommand,
    variables: Callable[[Path], dict[str, str]],
    read: Callable[[Path], R | None],
    *,
    quiet: bool,
    reported: tuple[int, ...] = (),
) -> tuple[int, R | None]:
    """Run a program that writes a record. Without one, print why, unless the program has done so.

    Args:
        program: the command line.
        variables: of the environment, for the file of the record.
        read: returns the record in a file; None where there is none.
        quiet: what it prints goes to standard error.
        reported: more exit codes with which the program has said why there is no record.

    Returns:
        The exit code, which is not 0 without a record; and the record.
    """
    with tempfile.TemporaryDirectory(prefix="embercoach-") as folder:
        file = Path(folder) / "record.json"
        code = run_command(program.command, variables(file), quiet=quiet)
        record = read(file)
    if record is not None:
        return code, record
    if code not in (INCOMPLETE, INTERRUPTED, *reported):
        how = f"signal {code - SIGNALLED}" if code > SIGNALLED else f"exit code {code}"
        message = f"{program.shown} ended without a report ({how}; os._exit skips it)"
        print_text(f"embercoach: {message}", sys.stderr)
    return code or INCOMPLETE, None


#: Options of the interpreter that are passed on, without and with a value.
FLAGS = frozenset(["-b", "-bb", "-B", "-d", "-E", "-I", "-O", "-OO", "-P", "-q", "-s", "-u", "-v"])
WITH_VALUE = frozenset(["-X", "-W"])
#: Our root follows what is on the path already: it is found also in a checkout. The current folder,
#: which `-c` puts first, is taken off where `python` would not have it.
_BOOT = """\
import sys
root, here, *rest = sys.argv[1:]
if sys.path[:1] == [""] and not here:
    del sys.path[0]
if root and root not in sys.path:
    sys.path.append(root)
"""
_PROGRAM = f"""\
{_BOOT}
runner, form, target, *rest = rest
from importlib import import_module
sys.exit(import_module(runner).main(form, target, rest))
"""
#: Modules that run a program simulated, or traced.
SIMULATOR, TRACE = "embercoach.simulator.session.options", "embercoach.trace.trace_session"
CUDA = "embercoach.cuda.cuda_program"
#: Our plugin with which pytest does the same, and its option.
_PLUGINS = {
    SIMULATOR: ("embercoach.simulator.pytest_plugin", "--embercoach-simulate"),
    CUDA: ("embercoach.cuda.cuda_plugin", "--embercoach-cuda"),
}
#: Nothing of ours is imported before pytest: it would warn that it can't rewrite our assertions.
_PYTEST = f"""\
{_BOOT}
plugin, flag, *rest = rest
from importlib.metadata import entry_points
known = [e.name for e in entry_points(group="pytest11") if e.value == plugin]
sys.argv = ["pytest", "-p", (known or [plugin])[0], flag, *rest]
from pytest import main
sys.exit(main())
"""


class ProgramCommand(Struct, frozen=True):
    """A command line to run.

    Attributes:
        command: the interpreter, its options, our boot code, and its arguments.
        shown: how messages name the program.
        is_pytest: whether pytest reports the findings itself.
    """

    command: tuple[str, ...]
    shown: str
    is_pytest: bool


def program_of(words: tuple[str, ...], runner: str = SIMULATOR) -> ProgramCommand:
    """Return the program of a command line, run by one of our modules.

    Raises:
        click.UsageError: it is neither Python nor pytest, or has no script.
    """
    first, *rest = words
    name = Path(first).name
    if name in ("pytest", "py.test"):
        return _pytest(_interpreter_beside(first, runner), rest, runner, here=False)
    if re.fullmatch(r"python(\d+(\.\d+)?)?", name):
        return _python(_interpreter(first, runner), rest, runner)
    if first.startswith("-") or first.endswith(".py"):
        return _python(_Interpreter(sys.executable), list(words), runner)
    raise click.UsageError(
        f"program must be `script.py`, `python`, `pytest` or `-- -m module`, got '{first}'"
    )


class _Interpreter(Struct, frozen=True):
    """An interpreter, and its options."""

    path: str
    options: tuple[str, ...] = ()

    def boot(self, code: str, here: bool, arguments: list[str]) -> tuple[str, ...]:
        """Return the command line that runs our code with arguments."""
        own = Path(self.path).absolute() == Path(sys.executable).absolute()
        root = str(Path(embercoach.__file__).resolve().parents[1]) if own else ""
        place = "here" if here else ""
        return (self.path, *self.options, "-c", code, root, place, *arguments)


def _interpreter(word: str, runner: str) -> _Interpreter:
    """``python`` is the one that runs us; one with a folder is just that one."""
    if os.sep not in word:
        version = word.removeprefix("python")
        ours = ("", f"{sys.version_info[0]}", "{}.{}".format(*sys.version_info))
        if version in ours:
            return _Interpreter(sys.executable)
        raise click.UsageError(
            f"Python must be {ours[-1]}, got {version}; write `python` or the path of another one"
        )
    if shutil.which(word) is None:
        raise click.UsageError(f"interpreter '{word}' not found")
    _require(runner, word)
    return _Interpreter(word)


def _interpreter_beside(word: str, runner: str) -> _Interpreter:
    if os.sep not in word:
        return _Interpreter(sys.executable)
    beside = Path(word).parent / "python"
    if not beside.exists():
        raise click.UsageError(f"interpreter '{beside}' of '{word}' not found")
    return _interpreter(str(beside), runner)


def _require(runner: str, interpreter: str) -> None:
    if Path(interpreter).absolute() == Path(sys.executable).absolute():
        return
    asked = [interpreter, "-c", f"import {runner}"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        raise click.UsageError(
            f"'{interpreter}' has no embercoach; install it with: "
            f"{install_command('simulator', interpreter)}"
        )


def _python(interpreter: _Interpreter, words: list[str], runner: str) -> ProgramCommand:
    options: list[str] = []
    while words and (words[0] in FLAGS or words[0][:2] in WITH_VALUE):
        option = words.pop(0)
        options.append(option)
        if option in WITH_VALUE and words:
            options.append(words.pop(0))
    interpreter = _Interpreter(interpreter.path, tuple(options))
    if not words:
        raise click.UsageError("`python` requires a script, `-m module` or `-c code`")
    first, *rest = words
    form = {"-m": "module", "-c": "code"}.get(first, "script")
    if form == "script" and first.startswith("-"):
        raise click.UsageError(f"cannot run `python {first}`: name a script or `-m module`")
    if form == "script" and not Path(first).exists():
        raise click.UsageError(f"script '{first}' not found")
    if form == "script":
        return _program(interpreter, (runner, form, first), rest, shown=first)
    if not rest:
        raise click.UsageError(f"`python {first}` requires an argument")
    target, *rest = rest
    if (form, target) == ("module", "pytest"):
        return _pytest(interpreter, rest, runner, here=True)
    shown = f"{first} {target.splitlines()[0]}"
    return _program(interpreter, (runner, form, target), rest, shown=shown)


def _program(
    interpreter: _Interpreter, what: tuple[str, str, str], rest: list[str], *, shown: str
) -> ProgramCommand:
    command = interpreter.boot(_PROGRAM, here=False, arguments=[*what, *rest])
    return ProgramCommand(command, shown, is_pytest=False)


def _pytest(
    interpreter: _Interpreter, rest: list[str], runner: str, *, here: bool
) -> ProgramCommand:
    if runner == TRACE:
        return _program(interpreter, (runner, "module", "pytest"), rest, shown="pytest")
    command = interpreter.boot(_PYTEST, here=here, arguments=[*_PLUGINS[runner], *rest])
    return ProgramCommand(command, "pytest", is_pytest=True)
