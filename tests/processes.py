"""Run Python programs in processes that start in milliseconds: forks of one that has imported MLX.

An interpreter with MLX and EmberCoach takes 0.4 s of CPU to start, and the suite needs hundreds.
The first call of `run_python` starts a server, which forks for each program. On Windows, which
can't fork, and on macOS, where a fork can't use Metal, each program has a new interpreter.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

ROOT = Path(__file__).parents[1]
#: What a program finds imported. None of these reads the environment or the folder.
IMPORTED = (
    "numpy",
    "mlx.core",
    "mlx.nn",
    "mlx.optimizers",
    "embercoach.checks",
    "embercoach.cli.entry",
    "embercoach.simulator",
)
#: Variables that the interpreter reads at its start, so that no fork can obey them.
AT_START = ("PYTHONWARNINGS", "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONUNBUFFERED")


def run_python(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    text: str = "",
    fresh: bool = False,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run ``python *arguments`` to its end, as `subprocess.run` with captured text would.

    Args:
        arguments: ``-c CODE``, ``-m MODULE`` or the path of a script, and the program's own.
        env: the whole environment; default: this process's.
        text: standard input.
        fresh: a new interpreter, for a test of its start, options or imports.
        timeout: seconds until the process and its children are killed.

    Raises:
        ValueError: for options of the interpreter, or a variable that it reads at its start.
        subprocess.TimeoutExpired: with no output.
    """
    environment = dict(os.environ if env is None else env)
    if fresh or sys.platform != "linux":
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    if arguments[0].startswith("-") and arguments[0] not in {"-c", "-m"}:
        raise ValueError(f"a fork has no options of the interpreter: {arguments[0]}")
    for name in AT_START:
        if environment.get(name) != os.environ.get(name):
            raise ValueError(f"a fork can't obey {name}: use subprocess")
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        streams[0].write_text(text, encoding="utf-8")
        job = {
            "arguments": arguments,
            "cwd": str(cwd),
            "env": environment,
            "streams": [*map(str, streams)],
            "timeout": timeout,
        }
        server = server_process()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        code = json.loads(server.stdout.readline())
        if code is None:
            raise subprocess.TimeoutExpired(arguments, timeout)
        out, err = (path.read_text(encoding="utf-8", errors="replace") for path in streams[1:])
    return subprocess.CompletedProcess([*arguments], code, out, err)


@cache
def server_process() -> subprocess.Popen[str]:
    """Start the process that forks; it ends with this one, at the end of its standard input."""
    code = f"import sys; sys.path[:1] = [{str(ROOT)!r}]; from tests.processes import serve; serve()"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    server = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    atexit.register(server.communicate)
    return server


def serve() -> None:
    """Fork for each job that standard input has, and answer with its exit code."""
    import importlib
    from importlib.util import find_spec

    for name in IMPORTED:
        if find_spec(name.partition(".")[0]):  # without one, a program says so itself
            importlib.import_module(name)
    sys.path.remove(str(ROOT))
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            run_program(job)
        sys.stdout.write(f"{json.dumps(exit_code(child, job['timeout']))}\n")
        sys.stdout.flush()


def exit_code(child: int, timeout: float) -> int | None:
    """Wait for a process; return its code as `subprocess` does, None after the timeout."""
    import signal
    import time

    end = time.monotonic() + timeout
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def run_program(job: dict[str, object]) -> NoReturn:
    """Become the program of a job."""
    import runpy
    import threading
    import traceback

    enter(job)
    first, *rest = map(str, job["arguments"])  # type: ignore[call-overload]
    here = os.getcwd()  # noqa: PTH109
    code = 0
    try:
        sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        if first == "-c":
            source, *rest = rest
            sys.argv = ["-c", *rest]
            sys.path.insert(0, "")
            exec(compile(source, "<string>", "exec"), sys.modules["__main__"].__dict__)
        elif first == "-m":
            module, *rest = rest
            sys.argv = [module, *rest]
            sys.path.insert(0, here)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            sys.argv = [first, *rest]
            sys.path.insert(0, str(Path(first).resolve().parent))
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        code = exit_status(end)
    except BaseException as error:  # noqa: BLE001 - what the interpreter prints at its end
        frame = error.__traceback__
        while frame and frame.tb_frame.f_code.co_filename in {__file__, "<frozen runpy>"}:
            frame = frame.tb_next
        traceback.print_exception(type(error), error, frame)
        code = 1
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def enter(job: dict[str, object]) -> None:
    """Take the streams, the environment and the folder of a job."""
    os.setsid()
    streams, environment = job["streams"], job["env"]
    assert isinstance(streams, list)
    assert isinstance(environment, dict)
    for number, path in enumerate(streams):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, mode, 0o600), number)
    encoding, _, errors = environment.get("PYTHONIOENCODING", "").partition(":")
    sys.stdin = sys.__stdin__ = open(0, encoding=encoding or None)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(  # noqa: SIM115
        1, "w", encoding=encoding or None, errors=errors or "strict"
    )
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", encoding=encoding or None, errors="backslashreplace"
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(job["cwd"]))


def exit_status(end: SystemExit) -> int:
    """Return the exit code of an exception, and print its message as the interpreter does."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    sys.stderr.write(f"{end.code}\n")
    return 1
