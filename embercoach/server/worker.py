"""The process that analyses: does one job at a time, and can be ended at any moment.

The server starts it (`embercoach.server.pool`) and writes jobs to its standard input. The
process ends itself when that closes, and when a job takes more CPU time than the deadline, or more
memory than a process of ours may.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct, json

from embercoach.engine.budget import INTERVAL, MEMORY_EXIT, PROCESS_MEMORY, WALL, resident
from embercoach.engine.workers import LARGE, run_deep
from embercoach.server import wire

if TYPE_CHECKING:
    from embercoach.server.analysis import Analysis

    #: What the server asks for: called in a worker, so that it and its result are pickled.
    Job = Callable[[Analysis], Any]

#: The exit code of a worker whose job exceeded the deadline.
EXPIRED = 75
#: Seconds without a job that count as a pause.
PAUSE = 2.0


class Setup(Struct, frozen=True):
    """The settings of the editor."""

    encoding: str
    folders: tuple[Path, ...]


class JobResult(Struct, frozen=True):
    """A job's result."""

    value: Any


class Failed(Struct, frozen=True):
    """Why a job has no result."""

    message: str


class ProcessWatch:
    """Ends this process when a job exceeds the deadline, or the process its memory."""

    def __init__(self, deadline: float) -> None:
        """Take the deadline in seconds of CPU time."""
        self._deadline = deadline
        self._limit = 0.0
        self._busy = threading.Event()
        self._lock = threading.Lock()
        self._null = os.open(os.devnull, os.O_WRONLY)
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> None:
        # Also ends a job that holds Python's lock in a worker whose server is gone.
        wall = self._deadline * WALL + 1
        faulthandler.dump_traceback_later(wall, exit=True, file=self._null)
        with self._lock:
            self._limit = time.process_time() + self._deadline
            self._busy.set()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._busy.clear()
        faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        while self._busy.wait():
            with self._lock:
                left = self._limit - time.process_time()
                if left <= 0 and self._busy.is_set():
                    os._exit(EXPIRED)
            if (resident() or 0) > PROCESS_MEMORY:
                os._exit(MEMORY_EXIT)
            time.sleep(min(max(left, 0.01), INTERVAL))


def main() -> None:
    """Do the jobs of standard input until it closes.

    The arguments are the deadline, and the request of plugins in JSON.
    """
    gc.disable()  # `Analysis` says when it runs
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides
    # Whatever else is printed must not come between replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    watch = ProcessWatch(float(sys.argv[1]))
    thread = run_deep(lambda: _serve(jobs, replies, watch), LARGE)
    if thread is not None:
        thread.join()


def _receive(jobs: queue.SimpleQueue[bytes]) -> None:
    while (job := wire.read(sys.stdin.buffer)) is not None:
        jobs.put(job)
    os._exit(0)  # the server is gone, or has no more use for this process


def _serve(jobs: queue.SimpleQueue[bytes], replies: BinaryIO, watch: ProcessWatch) -> None:
    # Loaded while the server talks to the editor, and not on the first job's account.
    from embercoach.plugins.loading import PluginRequest, load
    from embercoach.server import jobs as _  # noqa: F401
    from embercoach.server.analysis import Analysis

    load(json.decode(sys.argv[2], type=PluginRequest))

    analysis: Analysis | None = None
    setup: Setup | None = None
    is_tidy = True
    while True:
        try:
            body = jobs.get(timeout=None if is_tidy else PAUSE)
        except queue.Empty:
            with watch:
                assert analysis is not None
                analysis.tidy()
            is_tidy = True
            continue
        is_tidy = False
        with watch:
            given, job = pickle.loads(body)
            if analysis is None or given != setup:
                analysis, setup = Analysis(given.encoding, given.folders), given
            reply = pickle.dumps(_reply(job, analysis))
            try:
                wire.write(replies, reply)
            except OSError:
                os._exit(0)


def _reply(job: Job, analysis: Analysis) -> JobResult | Failed:
    try:
        return JobResult(job(analysis))
    except ValueError as error:
        return Failed(str(error))
    except Exception as error:  # noqa: BLE001  (a bug must not end the worker)
        return Failed(f"internal error: {type(error).__name__}: {error}")
