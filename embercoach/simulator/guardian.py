"""Starts a program with limits, and ends it together with everything that it started.

Run by `connection.Child` as a process between the caller and the program that kernels run in; it
knows the standard library alone. The program ends when the pipe from the caller closes, which also
happens where the caller is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Seconds between looks at whether the caller still lives: a fork of it may hold its pipe open.
_LOOK = 0.5
#: Seconds in which processes that are killed have to be gone.
_PATIENCE = 2.0
_FILES = 1024


class _System:
    """The calls of Linux that Python lacks; on macOS they do nothing."""

    def __init__(self) -> None:
        is_linux = sys.platform == "linux"
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl if is_linux else None

    def adopt_orphans(self) -> None:
        """Become the parent of processes whose own parent ends, also of those in new sessions."""
        if self._prctl is not None:
            self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def end_with_parent(self, parent: int) -> None:
        """Get SIGKILL when the process that started this one ends."""
        if self._prctl is not None:
            self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)


def main(lifeline: int, limits: str, command: list[str]) -> None:
    """Run a command until it ends or the caller does, and end as it ended.

    Args:
        lifeline: reading end of a pipe that the caller holds open.
        limits: names and values of resource limits, as ``DATA=1000,CORE=0``.
        command: an absolute path, and its arguments.
    """
    caller, system = os.getppid(), _System()
    os.set_inheritable(lifeline, False)
    system.adopt_orphans()
    guardian = os.getpid()
    worker = os.fork()
    if worker == 0:
        try:
            system.end_with_parent(guardian)
            _become(command, limits)
        except OSError as error:
            os.write(2, f"{command[0]} can't be started: {error}\n".encode())
        finally:
            os._exit(127)
    with contextlib.suppress(OSError):  # the worker does it as well: whoever is first
        os.setpgid(worker, worker)
    # Pipes of the worker stay open only in the worker, so that its end is seen.
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, _FILES)
    status = _wait(worker, lifeline, caller)
    _end_all(worker)
    _leave_as(status)


def _become(command: list[str], limits: str) -> None:
    os.setpgid(0, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        # Where memory is short, the system ends this process first.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    for limit in filter(None, limits.split(",")):
        name, _, value = limit.partition("=")
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        bound = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(kind, (bound, bound))
    os.execv(command[0], command)


def _wait(worker: int, lifeline: int, caller: int) -> int | None:
    """The status that the worker ended with, None where the caller is gone."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while os.getppid() == caller:
        ended, status = _reap(worker)
        if ended:
            return status
        ready = select.select([lifeline, reading], [], [], _LOOK)[0]
        if reading in ready:
            os.read(reading, 64)
        if lifeline in ready:
            return None
    return None


def _reap(worker: int) -> tuple[bool, int]:
    """Collect ended processes; whether the worker is among them, and its status."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == worker:
                return True, status
            if pid == 0:
                break
    return False, 0


def _end_all(worker: int) -> None:
    """Kill the worker's group and, on Linux, each process that descends from the worker."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
        for pid in _children():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.001)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Processes of this one, orphans that it adopted included; none where it can't be told."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in listed.split()]


def _leave_as(status: int | None) -> None:
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(1 if status is None else os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
