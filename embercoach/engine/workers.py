"""Distribute tasks over processes that may die: a crash costs one task, never the run."""

from __future__ import annotations

import _thread
import contextlib
import gc
import os
import signal
import sys
import threading
from collections import deque
from queue import Empty, SimpleQueue
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

from embercoach.analysis.values.memo import forget
from embercoach.engine.budget import (
    INTERVAL,
    MEMORY_EXIT,
    PROCESS_MEMORY,
    Exceeded,
    TaskWatch,
    end_at,
    end_no_more,
    resident,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess


@contextlib.contextmanager
def blocked() -> Iterator[None]:
    """Start processes with interrupts blocked until they call `unblock`.

    Windows has no signal masks: an interrupt may reach a process before its own handler is set.
    """
    if sys.platform == "win32":
        yield
    else:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def unblock() -> None:
    """Let interrupts reach this process."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def raise_dropped() -> None:
    """Raise an interrupt again that arrives in a callback, where Python prints and drops it.

    Imports and garbage collection run callbacks: there an interrupt would show a traceback, and the
    process would go on.
    """

    def again(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            # Not here, in the callback, but from a thread, after it.
            later = threading.Timer(0.01, _interrupt_main_thread)
            later.daemon = True
            later.start()
        else:
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = again


def _interrupt_main_thread() -> None:
    main = threading.main_thread().ident
    if sys.platform == "win32" or main is None:
        _thread.interrupt_main()
    else:
        signal.pthread_kill(main, signal.SIGINT)  # also ends what it waits for


if TYPE_CHECKING:
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection as Connection
    else:
        from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")

#: Below this many tasks and characters, starting processes costs more than it saves.
FEW_TASKS = 20
FEW_BYTES = 150_000
#: libcst's parser takes up to 8 KB of stack for a level of nesting, and a level takes a byte of
#: source at least. With a stack of this size a file of fewer bytes than LARGE can't overflow it;
#: larger ones never run in the main process. Only what is used of a stack takes memory.
LEVEL = 8_500
#: Python on Windows lets a thread have less than 256 MB.
LARGE, STACK = (30_000, 255 << 20) if sys.platform == "win32" else (240_000, 2 << 30)
SMALLEST_STACK = 64 << 20
LEAST_STACK = 1 << 20  # with less than this, a thread has no more than the main one
#: Containers that survive a task without the collector until it runs. Modules and their functions
#: refer to each other, so modules that the project's store has dropped wait for it.
UNCOLLECTED = 2_000_000
#: Values that the stack of a thread's first frame holds: CPython's chunk has twice as many.
FRAME_SLOTS = 33_000

#: A process gets up to this many small tasks at a time.
CHUNK_TASKS = 8
CHUNK_BYTES = 24_000


class Crash(Struct, frozen=True):
    """A task's process died."""

    exit_code: int | None

    def __str__(self) -> str:
        if self.exit_code is not None and self.exit_code < 0:
            try:
                return f"the process was ended by {signal.Signals(-self.exit_code).name}"
            except ValueError:
                pass
        return f"the process ended with code {self.exit_code}"


def available_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(
    make: Callable[[], Callable[[T], R]],
    tasks: Sequence[T],
    sizes: Sequence[int],
    groups: Sequence[Hashable],
    jobs: int | None,
) -> Iterator[tuple[int, R | Crash | Exceeded]]:
    """Do tasks, big ones first, and yield each one's number and result as it is done.

    Args:
        make: makes a process's worker; a module-level callable. The worker must not raise.
        tasks: what the worker is called with, and its results, cross processes: plain data.
        sizes: of each task, in bytes of source.
        groups: of each task: those of a group go to one process while there is other work.
        jobs: processes at most; None for one a core.
    """
    order = sorted(range(len(tasks)), key=lambda number: -sizes[number])
    few = len(tasks) < FEW_TASKS and sum(sizes) < FEW_BYTES
    alone = jobs == 1 or (jobs is None and (few or available_cores() == 1))
    large = [number for number in order if sizes[number] >= LARGE] if alone else order
    if large:
        chunks = Chunks(large, sizes, groups)
        yield from _in_processes(make, tasks, chunks, jobs or available_cores())
    if alone and len(large) < len(order):
        yield from _here(make, tasks, sizes, order[len(large) :])


def _here(
    make: Callable[[], Callable[[T], R]],
    tasks: Sequence[T],
    sizes: Sequence[int],
    order: Sequence[int],
) -> Iterator[tuple[int, R | Exceeded]]:
    """Do the tasks in this process, one after the other, on a stack that is deep enough."""
    work = make()
    collecting = gc.isenabled()
    gc.disable()
    done: SimpleQueue[tuple[int, R | Exceeded] | None] = SimpleQueue()
    watch = TaskWatch()

    def run() -> None:
        nonlocal work
        try:
            for number in order:
                result = watch.run(work, tasks[number])
                done.put((number, result))
                if isinstance(result, Exceeded):
                    work = make()  # it may have been left in the midst of something
                    _drop_remains()
                _bound_garbage()
        finally:
            done.put(None)

    try:
        run_deep(run, max(sizes[number] for number in order))
        while (result := _next_done(done, watch)) is not None:
            yield result
    finally:
        if collecting:
            gc.enable()


def _next_done(done: SimpleQueue[T], watch: TaskWatch) -> T:
    while True:
        with contextlib.suppress(Empty):
            return done.get(timeout=INTERVAL)
        watch.look()


def _drop_remains() -> None:
    """Free the memory of a discarded worker, which would count for the next task."""
    forget()
    gc.collect()


def _bound_garbage() -> None:
    # The collector would only walk a million live nodes again and again.
    if gc.get_count()[0] > UNCOLLECTED:
        gc.collect()


def _watched(work: Callable[[T], R], task: T) -> R | Exceeded:
    """Do a task on a deep stack, in a process that ends if the task does not."""
    watch = TaskWatch()
    results: list[R | Exceeded] = []
    end_at(watch.seconds())
    thread = run_deep(lambda: results.append(watch.run(work, task)), LARGE)
    while thread is not None and thread.is_alive():
        thread.join(INTERVAL)
        if watch.look() == "memory":
            os._exit(MEMORY_EXIT)  # what it took would be on the next one's account
        end_at(watch.left())
    end_no_more()
    return results[0]


def run_deep(target: Callable[[], None], size: int) -> threading.Thread | None:
    """Start a thread with a stack that sources of up to ``size`` bytes can't overflow.

    None where memory is too limited for any: then the target has been run here.
    """
    stack = min(STACK, max(SMALLEST_STACK, size * LEVEL))
    roomy = _in_large_frame(target)
    while True:
        before = threading.stack_size(stack)
        thread = threading.Thread(target=roomy, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            stack //= 4
            if stack < LEAST_STACK:
                break
        else:
            return thread
        finally:
            threading.stack_size(before)
    target()
    return None


def _in_large_frame(target: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls the target from a frame with a large stack.

    CPython keeps frames in chunks of 16 KB, and a call that crosses the end of one maps and frees
    memory each time. A large frame makes a chunk that all frames above it fit into.
    """

    def call() -> None:
        target()

    code = call.__code__.replace(co_stacksize=FRAME_SLOTS)
    return FunctionType(code, call.__globals__, closure=call.__closure__)


class _Child(Struct, Generic[T]):
    process: BaseProcess
    pipe: Connection[Any, Any]
    group: Hashable = None
    exceeds_memory: bool = False
    assigned: deque[int] = field(default_factory=deque)

    def bound_memory(self) -> None:
        """End the process if it takes too much: native code may keep it from doing so itself."""
        if (resident(self.process.pid) or 0) > PROCESS_MEMORY:
            self.exceeds_memory = True
            self.process.kill()

    def give(self, chunks: Chunks, tasks: Sequence[T]) -> None:
        self.group, chunk = chunks.take(self.group)
        self.assigned.extend(chunk)
        # If it has died already, waiting for it reports that.
        with contextlib.suppress(OSError):
            self.pipe.send([(number, tasks[number]) for number in chunk])


def _in_processes(
    make: Callable[[], Callable[[T], R]],
    tasks: Sequence[T],
    chunks: Chunks,
    jobs: int,
) -> Iterator[tuple[int, R | Crash | Exceeded]]:
    import multiprocessing
    from multiprocessing.connection import wait

    # Forking is quick and safe here (one thread); macOS's libraries don't survive it.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    children: list[_Child[T]] = []
    try:
        while chunks or children:
            while chunks and len(children) < jobs:
                children.append(_start(context, make))
                children[-1].give(chunks, tasks)
            ready = wait([child.pipe for child in children], timeout=INTERVAL)
            for child in children:
                child.bound_memory()
            for child in [child for child in children if child.pipe in ready]:
                try:
                    number, result = child.pipe.recv()
                except (EOFError, OSError):
                    children.remove(child)
                    yield child.assigned.popleft(), _crash(child)
                    chunks.put_back(child.group, child.assigned)
                    continue
                child.assigned.popleft()
                if not child.assigned:
                    _next(child, children, chunks, tasks)
                yield number, result
    finally:
        for child in children:
            child.process.terminate()
        for child in children:
            child.process.join()
            child.pipe.close()


def _next(child: _Child[T], children: list[_Child[T]], chunks: Chunks, tasks: Sequence[T]) -> None:
    if chunks:
        child.give(chunks, tasks)
        return
    children.remove(child)
    with contextlib.suppress(OSError):
        child.pipe.send(None)
    child.process.join()
    child.pipe.close()


def _start(context: BaseContext, make: Callable[[], Callable[[T], R]]) -> _Child[T]:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, make), daemon=True)  # type: ignore[attr-defined]
    # A child is born with interrupts blocked, until it has learnt to leave them to the parent.
    with blocked(), safe_path():
        process.start()
    theirs.close()
    return _Child(process, ours)


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Keep the current folder off ``sys.path`` of the interpreters that are started meanwhile.

    It is linted, and not trusted. ``multiprocessing`` starts interpreters with ``-c``, which puts
    that folder first, so that a ``multiprocessing.py`` there would run. Python 3.10 has no such
    switch.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def _crash(child: _Child[T]) -> Crash | Exceeded:
    child.pipe.close()
    child.process.join()
    code = child.process.exitcode
    if child.exceeds_memory or code == MEMORY_EXIT:
        return Exceeded("memory")
    if code is not None and code == -getattr(signal, "SIGXCPU", 0):
        return Exceeded("time")
    return Crash(code)


def _serve(pipe: Connection[Any, Any], make: Callable[[], Callable[[Any], Any]]) -> None:
    """A child's life: take chunks until there are no more, or the parent is gone."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    unblock()
    gc.disable()
    gc.freeze()
    parent = parent_process()
    assert parent is not None
    work = make()
    while True:
        if pipe not in wait([pipe, parent.sentinel]):
            return
        chunk = pipe.recv()
        if chunk is None:
            return
        for number, task in chunk:
            result = _watched(work, task)
            pipe.send((number, result))
            if isinstance(result, Exceeded):
                work = make()
                _drop_remains()
            _bound_garbage()


class Chunks:
    """Tasks in chunks, by group: tasks of one group share work, a folder's imports above all.

    A process that stays with its group parses what the group imports once; two that share it
    parse all of that twice.
    """

    def __init__(
        self, numbers: Iterable[int], sizes: Sequence[int], groups: Sequence[Hashable]
    ) -> None:
        """Queue the tasks of these numbers, in the order of their sizes within each group."""
        self._sizes = sizes
        self._queues: dict[Hashable, deque[list[int]]] = {}
        self._left: dict[Hashable, int] = {}
        self._owned: set[Hashable] = set()
        room: dict[Hashable, int] = {}
        for number in sorted(numbers, key=lambda number: -sizes[number]):
            group = groups[number]
            queue = self._queues.setdefault(group, deque())
            if not queue or sizes[number] > room[group] or len(queue[-1]) == CHUNK_TASKS:
                queue.append([])
                room[group] = CHUNK_BYTES
            queue[-1].append(number)
            room[group] -= sizes[number]
            self._left[group] = self._left.get(group, 0) + sizes[number]

    def __bool__(self) -> bool:
        """Return whether any tasks are left."""
        return bool(self._queues)

    def take(self, last: Hashable = None) -> tuple[Hashable, list[int]]:
        """Return the next chunk and its group, for a process that has worked on a group last.

        It stays there while there is work; else it takes up the largest group that no process
        has, and after those helps where most is left.
        """
        group = last
        if group not in self._queues:
            free = self._queues.keys() - self._owned
            group = max(free or self._queues, key=lambda group: (self._left[group], str(group)))
            self._owned.add(group)
        queue = self._queues[group]
        chunk = queue.popleft()
        self._left[group] -= sum(self._sizes[number] for number in chunk)
        if not queue:
            del self._queues[group]
        return group, chunk

    def put_back(self, group: Hashable, numbers: Iterable[int]) -> None:
        """Queue tasks again, each by itself: their process died before it came to them."""
        for number in numbers:
            self._queues.setdefault(group, deque()).append([number])
            self._left[group] += self._sizes[number]
