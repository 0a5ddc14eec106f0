"""Limits of processor time and memory for one file, in addition to counted work.

Counted work (`analysis.work`, `metal.work_budget`, the steps of `metal.grammar`) is the same on
every machine, and decides on a file. The bound of time is the last guard, for checks that hang: it
is several times what counted work may take, and in seconds of the processor, so that a busy machine
changes nothing. What these bounds end is never cached.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct

from embercoach.analysis.work import characters_read
from embercoach.engine.languages import METAL, NOTEBOOK, OBJECTIVE_C, PYTHON, Language

T = TypeVar("T")
R = TypeVar("R")

#: Megabytes of source that a file may hold: what is checked within the bounds below.
_LARGEST: dict[Language, float] = {PYTHON: 4, NOTEBOOK: 2, METAL: 1, OBJECTIVE_C: 1}
MEGABYTE = 1_000_000

What = Literal["time", "memory"]
#: Seconds of the processor after which the check of a file hangs, and those that each character of
#: the modules that are read for it adds. Counted work ends several times earlier.
SECONDS = 100.0
SECONDS_A_CHARACTER = 200e-6
#: Bytes that checking a file may add to what its process takes.
MEMORY = 1 << 30
#: Bytes that a process may take, with the modules that it keeps.
PROCESS_MEMORY = 1_900_000_000
#: Seconds between two looks at what is used.
INTERVAL = 0.2
#: A file whose check does not end by itself, as native code runs, ends its process somewhat later.
GRACE = 5
#: Seconds of wall time for each of the processor, where only the former can end a process. A busy
#: machine gives a process a fraction of a core.
WALL = 12
#: With this code a process of ours ends for its memory.
MEMORY_EXIT = 86


def size_problem(size: int, language: Language, limit: float | None) -> str | None:
    """Return the message about a file that is too large, None for other files.

    Args:
        size: bytes of source; of a notebook, those of its code cells.
        language: what it is written in.
        limit: megabytes, None for the default.
    """
    most = _LARGEST[language] if limit is None else limit
    if size <= most * MEGABYTE:
        return None
    what = "code in the notebook" if language == NOTEBOOK else "file"
    return f"{what} exceeds max-file-size: {size / MEGABYTE:.3g} MB, at most {most:g}"


class Exceeded(Struct, frozen=True):
    """The check of a file exceeded a limit."""

    what: What

    def __str__(self) -> str:
        if self.what == "memory":
            return f"analysis exceeded its budget of {MEMORY >> 30} GB of memory"
        return f"check hung: ended after {SECONDS:.0f} s or more of processor time"


class BudgetEndedError(BaseException):
    """Raised in the midst of a task that exceeds its budget; no handler of errors takes it."""


class TaskWatch:
    """Watches the task that a thread is at, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._begun = 0.0
        self._read = 0
        self._memory = 0
        self._ended: What | None = None
        self._ended_at = 0.0

    def run(self, work: Callable[[T], R], task: T) -> R | Exceeded:
        """Do a task in this thread, until it is done or ended."""
        try:
            self._begin()
            result = work(task)
            self._finish()
        except BudgetEndedError:
            with self._lock:
                self._thread = None
            return Exceeded(self._ended or "time")
        return result

    def look(self) -> What | None:
        """End the task if it exceeds its budget; what of it."""
        with self._lock:
            if self._thread is None:
                return None
            now = time.process_time()
            what: What | None = None
            if now - self._begun > self.seconds():
                what = "time"
            elif (resident() or 0) - self._memory > MEMORY:
                what = "memory"
            # A handler may have swallowed it: so once more after a while.
            if what is not None and (self._ended is None or now - self._ended_at > GRACE):
                self._ended, self._ended_at = what, now
                thread = ctypes.c_ulong(self._thread)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    thread, ctypes.py_object(BudgetEndedError)
                )
            return what

    def seconds(self) -> float:
        """Return the limit of the task: higher for a file with many imports."""
        return SECONDS + SECONDS_A_CHARACTER * (characters_read() - self._read)

    def left(self) -> float:
        """Return the rest of that limit."""
        return max(0.0, self.seconds() - (time.process_time() - self._begun))

    def _begin(self) -> None:
        with self._lock:
            self._begun = time.process_time()
            self._read = characters_read()
            self._memory = resident() or 0
            self._ended = None
            self._thread = threading.get_ident()

    def _finish(self) -> None:
        with self._lock:
            self._thread = None
            is_ended = self._ended is not None
        if is_ended:  # what ends it is on its way, and must not come later
            time.sleep(INTERVAL)


def resident(process: int | None = None) -> int | None:
    """Bytes of memory that a process takes, this one by default; None where that is not known."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = Path(f"/proc/{process or 'self'}/statm").read_bytes().split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return None


def end_at(seconds: float) -> None:
    """Let the system end this process once it has taken so much more processor time.

    Windows has no such limit: there Python ends the process after `WALL` times as much wall time.
    """
    if sys.platform == "win32":
        faulthandler.dump_traceback_later((seconds + GRACE) * WALL, exit=True)
    else:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = int(time.process_time() + seconds + GRACE) + 1
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def end_no_more() -> None:
    """Let a process wait for its next task: the limit on Windows is one of wall time."""
    if sys.platform == "win32":
        faulthandler.cancel_dump_traceback_later()
