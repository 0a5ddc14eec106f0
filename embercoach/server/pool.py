"""The workers of a server: each a process, and each job with a deadline, so none delays another."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import subprocess
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, json

from embercoach.engine.budget import MEMORY_EXIT, PROCESS_MEMORY, WALL
from embercoach.engine.workers import Crash
from embercoach.plugins.loading import requested
from embercoach.server import wire
from embercoach.server.worker import EXPIRED, Failed, JobResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.server.worker import Job, Setup

#: Sets the module path before anything is imported: ``-c`` would begin it with the working
#: directory, whose files are the linted project's.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[3:]; del sys.argv[3:]; "
    "from embercoach.server.worker import main; main()"
)
#: Windows would open a console for a process of a server that has none.
_FLAGS: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)


class WorkerEndedError(Exception):
    """A worker ended before it replied."""

    def __init__(self, crash: Crash) -> None:
        super().__init__(str(crash))
        self.crash = crash


class WorkerProcess:
    """A worker process, which inherits nothing of the editor's channel."""

    def __init__(self, deadline: float) -> None:
        """Start one.

        Args:
            deadline: seconds of CPU time for each job.

        Raises:
            OSError: the process cannot be started.
        """
        plugins = json.encode(requested()).decode()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(deadline), plugins, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            creationflags=_FLAGS,
        )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process is running."""
        return self._process.poll() is None

    def ask(self, request: bytes) -> bytes:
        """Send a request and wait for the reply; one at a time.

        Raises:
            EndedError: the process ended first.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        reply = None
        with contextlib.suppress(OSError, ValueError):  # closed, at this end or that
            wire.write(stdin, request)
            reply = wire.read(stdout)
        if reply is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1.0)
            self._process.kill()
            raise WorkerEndedError(Crash(self._process.wait()))
        return reply

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()


MOST_WORKERS = 2
#: Seconds that a job waits for busy workers before a second one is started.
PATIENCE = 1.0
#: Seconds after which a job is ended whose result is no longer of use. An earlier end would cost
#: more than it saves: a new worker knows nothing of the project, and a busy machine is slow.
GRACE = 4.0
#: Seconds after which a second worker without a job is ended, as it takes memory.
SPARE = 30.0


class JobError(Exception):
    """A job has no result; says why."""


class ExpiredError(JobError):
    """A job exceeded the deadline, or the memory of a process."""


class _Task(Struct, eq=False):
    """A job that waits or runs. Two of one document never run at once."""

    document: str
    request: bytes
    result: asyncio.Future[Any]
    started: float = 0.0
    bound: asyncio.TimerHandle | None = None
    expired: bool = False
    tried: bool = False


class _Worker(Struct, eq=False):
    process: WorkerProcess
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    task: _Task | None = None
    last: str = ""
    idle_since: float = 0.0

    def end(self) -> None:
        self.process.end()
        self.thread.shutdown(wait=False)


class Pool:
    """Runs jobs in worker processes; for one event loop."""

    def __init__(self, deadline: float) -> None:
        """Start the first worker: it loads the analysis before there is a loop.

        Args:
            deadline: seconds of CPU time for each job.

        Raises:
            OSError: the process cannot be started.
        """
        self._deadline = deadline
        self._workers = [self._start()]
        self._waiting: deque[_Task] = deque()

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return [worker.process.pid for worker in self._workers]

    async def run(self, document: str, setup: Setup, job: Job) -> Any:
        """Run a job of a document; when cancelled, the job is ended or its result dropped.

        Raises:
            JobError: there is no result.
        """
        loop = asyncio.get_running_loop()
        task = _Task(document, pickle.dumps((setup, job)), loop.create_future())
        self._waiting.append(task)
        self._assign()
        try:
            return await task.result
        finally:
            self._drop(task)

    def end(self) -> None:
        """End all workers; nothing can be run after this."""
        self._waiting.clear()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _drop(self, task: _Task) -> None:
        """Give up a task, if it is not done: at once where it waits, else after some time."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(task)
        worker = self._worker_of(task)
        if worker is not None:
            self._at(task.started + GRACE, lambda: self._end_task(task))

    def _end_task(self, task: _Task) -> None:
        worker = self._worker_of(task)
        if worker is not None:
            worker.process.end()  # the thread that waits for the reply says so

    def _expire(self, task: _Task) -> None:
        task.expired = True
        self._end_task(task)

    def _worker_of(self, task: _Task) -> _Worker | None:
        return next((worker for worker in self._workers if worker.task is task), None)

    def _assign(self) -> None:
        """Give waiting tasks to workers, in their order."""
        running = {worker.task.document for worker in self._workers if worker.task}
        for task in [task for task in self._waiting if not task.result.done()]:
            if task.document in running:
                continue
            try:
                worker = self._free_worker(task.document)
            except OSError as error:
                self._waiting.remove(task)
                reason = error.strerror or error
                task.result.set_exception(JobError(f"cannot start a process: {reason}"))
                continue
            if worker is None:
                return
            self._waiting.remove(task)
            running.add(task.document)
            self._give(worker, task)

    def _free_worker(self, document: str) -> _Worker | None:
        """A worker without a job; if all have one for long, a new one while there may be more."""
        for worker in [worker for worker in self._workers if not worker.task]:
            if not worker.process.is_alive:
                self._remove(worker)
        if not self._workers:
            self._workers.append(self._start())
        idle = [worker for worker in self._workers if not worker.task]
        if idle:
            return max(idle, key=lambda worker: (worker.last == document, worker.idle_since))
        if len(self._workers) >= MOST_WORKERS:
            return None
        due = max(worker.task.started for worker in self._workers if worker.task) + PATIENCE
        if asyncio.get_running_loop().time() < due:
            self._at(due, self._assign)
            return None
        self._workers.append(self._start())
        return self._workers[-1]

    def _give(self, worker: _Worker, task: _Task) -> None:
        loop = asyncio.get_running_loop()
        worker.task = task
        task.started = loop.time()
        task.bound = loop.call_later(self._deadline * WALL, self._expire, task)
        reply = worker.thread.submit(worker.process.ask, task.request)

        def notify(reply: Future[bytes]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._take, worker, task, reply)

        reply.add_done_callback(notify)

    def _take(self, worker: _Worker, task: _Task, reply: Future[bytes]) -> None:
        """Take a worker's reply, or its end."""
        if worker not in self._workers:
            return
        assert task.bound is not None
        task.bound.cancel()
        worker.task, worker.last = None, task.document
        worker.idle_since = asyncio.get_running_loop().time()
        try:
            answer = pickle.loads(reply.result())
        except WorkerEndedError as error:
            self._remove(worker)
            if not task.result.done():
                self._take_end(task, error)
        else:
            _settle(task, answer)
        if not self._workers:
            with contextlib.suppress(OSError):  # the next task says so
                self._workers.append(self._start())
        self._assign()
        if len(self._workers) > 1:
            self._at(worker.idle_since + SPARE, self._end_spare)

    def _take_end(self, task: _Task, error: WorkerEndedError) -> None:
        if task.expired or error.crash.exit_code == EXPIRED:
            message = f"analysis exceeded {self._deadline:g} s and was ended"
            task.result.set_exception(ExpiredError(message))
        elif error.crash.exit_code == MEMORY_EXIT:
            message = f"analysis exceeded {PROCESS_MEMORY / 1e9:g} GB of memory and was ended"
            task.result.set_exception(ExpiredError(message))
        elif task.tried:
            task.result.set_exception(JobError(f"analysis failed: {error.crash}"))
        else:
            task.tried = True  # somebody else may have ended the process
            self._waiting.appendleft(task)

    def _end_spare(self) -> None:
        limit = asyncio.get_running_loop().time() - SPARE + 0.1  # timers may be early
        for worker in sorted(self._workers, key=lambda worker: worker.idle_since):
            if len(self._workers) > 1 and not worker.task and worker.idle_since <= limit:
                self._remove(worker)

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()

    def _start(self) -> _Worker:
        return _Worker(WorkerProcess(self._deadline))

    def _at(self, when: float, what: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_at(when, what)


def _settle(task: _Task, answer: JobResult | Failed) -> None:
    if task.result.done():
        return
    if isinstance(answer, JobResult):
        task.result.set_result(answer.value)
    else:
        task.result.set_exception(JobError(answer.message))
