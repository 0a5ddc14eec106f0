"""Worker processes: deadlines, cancellation, restarts. Jobs are made for the tests."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from embercoach.server import pool as pool_module
from embercoach.server import worker
from embercoach.server.pool import ExpiredError, JobError, Pool
from embercoach.server.worker import Setup
from tests.server.raw import runs

T = TypeVar("T")
DEADLINE = 1.5
SETUP = Setup("utf-16", ())
PATIENCE = 60.0


@dataclass(frozen=True)
class WhereAmI:
    """The number of the worker, after some seconds."""

    seconds: float = 0.0

    def __call__(self, analysis: object) -> int:
        time.sleep(self.seconds)
        return os.getpid()


@dataclass(frozen=True)
class Mark:
    """Writes that it has run."""

    file: Path

    def __call__(self, analysis: object) -> None:
        with self.file.open("a") as file:
            file.write("x")
        time.sleep(0.1)


@dataclass(frozen=True)
class Spin:
    """Never ends."""

    def __call__(self, analysis: object) -> None:
        while True:
            pass


@dataclass(frozen=True)
class Hoard:
    """Takes more memory than its process may, which is little from now on."""

    def __call__(self, analysis: object) -> None:
        worker.PROCESS_MEMORY = 1_000_000
        time.sleep(PATIENCE)


@dataclass(frozen=True)
class Die:
    """Ends the process, the first time or always."""

    marker: Path | None = None

    def __call__(self, analysis: object) -> str:
        if self.marker is None or not self.marker.exists():
            if self.marker is not None:
                self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(PATIENCE)
        return "survived"


@dataclass(frozen=True)
class Raise:
    """Fails."""

    error: Exception

    def __call__(self, analysis: object) -> None:
        raise self.error


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    pool = Pool(DEADLINE)
    yield pool
    pids = pool.pids
    pool.end()
    assert not any(map(is_alive, pids))


@pytest.fixture
def do(loop: asyncio.AbstractEventLoop) -> Callable[[Coroutine[Any, Any, T]], T]:
    return lambda work: loop.run_until_complete(asyncio.wait_for(work, PATIENCE))


Do = Callable[[Coroutine[Any, Any, Any]], Any]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_a_document_over_the_deadline_delays_no_other_and_a_second_worker_goes(
    pool: Pool, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 0.1)

    async def both() -> None:
        slow = asyncio.ensure_future(pool.run("slow", SETUP, Spin()))
        await asyncio.sleep(0)
        await pool.run("other", SETUP, WhereAmI())
        assert not slow.done()
        assert len(pool.pids) == 2
        with pytest.raises(ExpiredError, match=r"^analysis exceeded 1.5 s and was ended$"):
            await slow
        monkeypatch.setattr(pool_module, "PATIENCE", 0.0)
        monkeypatch.setattr(pool_module, "SPARE", 0.1)
        jobs = (pool.run(name, SETUP, WhereAmI(0.1)) for name in "ab")
        assert len(set(await asyncio.gather(*jobs))) == 2
        await until(lambda: len(pool.pids) == 1)

    do(both())


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded where /proc says it")
def test_a_document_that_takes_too_much_memory_is_ended(pool: Pool, do: Do) -> None:
    with pytest.raises(ExpiredError, match=r"^analysis exceeded 1.9 GB of memory and was ended$"):
        do(pool.run("large", SETUP, Hoard()))
    assert do(pool.run("large", SETUP, WhereAmI())) in pool.pids


def test_jobs_of_one_document_run_one_after_the_other(
    pool: Pool, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PATIENCE", 0.0)

    async def two() -> None:
        jobs = (pool.run("same", SETUP, WhereAmI(0.1)) for _ in range(3))
        assert len(set(await asyncio.gather(*jobs))) == 1

    do(two())


def test_a_job_that_is_given_up_is_ended_after_a_while(
    pool: Pool, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "GRACE", 0.2)

    async def give_up() -> None:
        before = await pool.run("closed", SETUP, WhereAmI())
        job = asyncio.ensure_future(pool.run("closed", SETUP, Spin()))
        await asyncio.sleep(0.05)
        job.cancel()
        await until(lambda: not is_alive(before))
        assert await pool.run("closed", SETUP, WhereAmI()) != before

    do(give_up())


def test_a_job_that_is_given_up_early_costs_no_worker(pool: Pool, do: Do, tmp_path: Path) -> None:
    async def give_up() -> None:
        before = await pool.run("typed", SETUP, WhereAmI())
        mark = Mark(tmp_path / "runs")
        jobs = [asyncio.ensure_future(pool.run("typed", SETUP, mark)) for _ in range(9)]
        await asyncio.sleep(0)
        for job in jobs:
            job.cancel()
        assert await pool.run("typed", SETUP, WhereAmI()) == before
        assert mark.file.read_text() == "x"  # those that waited never ran

    do(give_up())


def test_a_worker_that_was_killed_is_replaced(pool: Pool, do: Do, tmp_path: Path) -> None:
    before = do(pool.run("killed", SETUP, WhereAmI()))
    os.kill(before, signal.SIGKILL)
    assert do(pool.run("killed", SETUP, WhereAmI())) != before
    assert do(pool.run("killed", SETUP, Die(tmp_path / "killed"))) == "survived"


def test_a_job_that_always_ends_its_process_has_no_result(pool: Pool, do: Do) -> None:
    with pytest.raises(JobError, match=r"^analysis failed: the process was ended by SIGKILL$"):
        do(pool.run("crash", SETUP, Die()))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("fixing failed"), "fixing failed"),
        (RuntimeError("odd"), "internal error: RuntimeError: odd"),
        (RecursionError("deep"), "internal error: RecursionError: deep"),
    ],
)
def test_a_failure_costs_no_worker(pool: Pool, do: Do, error: Exception, message: str) -> None:
    before = do(pool.run("failed", SETUP, WhereAmI()))
    with pytest.raises(JobError) as caught:
        do(pool.run("failed", SETUP, Raise(error)))
    assert str(caught.value) == message
    assert do(pool.run("failed", SETUP, WhereAmI())) == before


def test_a_job_that_only_waits_is_ended_too(
    pool: Pool, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "WALL", 0.1)
    with pytest.raises(ExpiredError):
        do(pool.run("waits", SETUP, WhereAmI(PATIENCE)))


def test_a_worker_imports_nothing_of_the_working_directory(
    do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("embercoach", "struct", "pickle", "sitecustomize", "signal", "libcst"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    pool = Pool(DEADLINE)
    try:
        assert do(pool.run("here", SETUP, WhereAmI())) == pool.pids[0]
    finally:
        pool.end()
    assert not (tmp_path / "imported").exists()


def test_a_worker_ends_with_a_server_that_was_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from embercoach.server.pool import Pool\n"
        "from tests.server.test_pool import SETUP, Spin\n"
        "pool = Pool(600.0)\n"
        "print(pool.pids[0], flush=True)\n"
        "asyncio.run(pool.run('a', SETUP, Spin()))\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert server.stdout is not None
    worker = int(server.stdout.readline())
    time.sleep(0.2)
    assert is_alive(worker)
    server.kill()
    server.wait()
    server.stdout.close()
    limit = time.monotonic() + PATIENCE
    while runs(worker) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not runs(worker)
