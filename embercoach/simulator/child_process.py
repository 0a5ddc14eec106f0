"""The child process that kernels run in, as its parent starts, controls and hears it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import to_builtins

from embercoach.metal.contract import MAX_THREADGROUP_BYTES, MAX_THREADS
from embercoach.simulator.answers import (
    AskedBuffer,
    LineQuestion,
    MalformedError,
    RefusalAnswer,
    Request,
    ResultAnswer,
    read_answer,
)
from embercoach.simulator.build import objects
from embercoach.simulator.build.object_lines import Image, read_image, read_lines
from embercoach.simulator.build.toolchain import Toolchain, ending, environment, find_toolchain
from embercoach.simulator.model import (
    Buffer,
    BuiltKernel,
    LaunchResult,
    Limits,
    MemoryAccess,
    RawFinding,
    SimulatorError,
    Traffic,
)
from embercoach.simulator.profile.counts import profile_of
from embercoach.simulator.reporting.compiler_errors import memory_error
from embercoach.simulator.reporting.runtime_findings import Scene, raw_findings

if TYPE_CHECKING:
    from embercoach.simulator.session.launching import Capture

_CHILD = Path(__file__).with_name("child.py")
_PAGE = 1 << 14
_KEPT = 64 << 20
#: Seconds that it may take to start.
_START = 60.0
#: Seconds that it may take to end after it has closed its pipe, and to take a message.
_STOP = 5.0
_MOST_MESSAGE = 16 << 20
#: Bytes that the interpreter, the stacks of threads, scratch pages and answers take.
_BASE = 512 << 20
#: Address space that the runtime reserves and never fills: slots of buffers, and stacks.
_RESERVED = (33 << 36) + (2 << 30)
Lost = Literal["late", "gone", "malformed"]


class ChildLostError(Exception):
    """The child sent no valid answer in time, or ended; `code` is what it ended with."""

    def __init__(self, why: Lost, code: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.code = code


class Child:
    """One child process, its pipes, and the file that buffers travel in."""

    def __init__(self, runtime: Path, memory: int, slots: dict[int, int]) -> None:
        """Start it.

        Args:
            runtime: the library of the runtime.
            memory: bytes that it may take for buffers and records.
            slots: bytes of each that its first launch needs.
        """
        self._memory = memory
        self._slots = slots
        self._file = _shared_file()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        request_out, request_in = os.pipe()
        answer_out, answer_in = os.pipe()
        watched, self._lifeline = os.pipe()
        passed = (request_out, answer_in, self._file, watched)
        # Isolated and without site packages, it starts fast and sees no module of the user's.
        python = (sys.executable, "-I", "-S")
        command = (*python, str(_CHILD), *map(str, passed), _limits(memory), str(runtime))
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=passed,
                cwd="/",
                env=environment(),
                start_new_session=True,  # an interrupt is for the parent to handle
            )
        except OSError as error:
            for number in (self._lifeline, request_in, answer_out, *passed):
                os.close(number)
            self._said.close()
            raise SimulatorError(f"the simulator's process can't be started: {error}") from error
        for number in (watched, request_out, answer_in):
            os.close(number)
        self._writing, self._reading = request_in, answer_out
        os.set_blocking(self._writing, False)
        #: Bytes of the file.
        self.size = 0
        self._marks: dict[str, Any] = {"request": 0}

    def ready(self) -> None:
        """Wait until it can take requests."""
        try:
            first = self._receive(time.monotonic() + _START)
        except ChildLostError as lost:
            raise SimulatorError(
                f"the simulator's process does not start ({lost.why}): {self.complaint()}"
            ) from None
        if first.get("is") != "ready":
            raise SimulatorError(str(first.get("why", f"unexpected answer: {first}")))

    @property
    def is_idle(self) -> bool:
        """Return whether it lives and has said nothing since its last answer."""
        unread = select.select([self._reading], [], [], 0)[0]
        return self._process.poll() is None and not unread

    def takes(self, slots: dict[int, int]) -> bool:
        """Return whether its memory suffices for a launch, with what it keeps from earlier ones."""
        known = self._slots
        most = {n: max(known.get(n, 0), slots.get(n, 0)) for n in known.keys() | slots.keys()}
        if sum(most.values()) > self._memory:
            return False
        self._slots = most
        return True

    def grow(self, size: int) -> None:
        """Make the file hold at least `size` bytes."""
        if self.size < size:
            self.size = -(-max(size, _PAGE) // _PAGE) * _PAGE
            try:
                os.ftruncate(self._file, self.size)
            except OSError as error:
                raise SimulatorError(
                    f"out of memory for buffers of {size:,} bytes: {error}"
                ) from error

    def put(self, offset: int, data: np.ndarray) -> None:
        """Write bytes into the file.

        It is not mapped here: the child might cut it, and end this process with SIGBUS.
        """
        rest = np.ascontiguousarray(data).data
        while rest:
            count = os.pwrite(self._file, rest, offset)
            rest, offset = rest[count:], offset + count

    def get(self, offset: int, size: int) -> np.ndarray:
        """Read bytes of the file."""
        parts = []
        while size:
            part = os.pread(self._file, size, offset)
            if not part:
                raise ChildLostError("malformed")
            parts.append(part)
            size, offset = size - len(part), offset + len(part)
        return np.frombuffer(bytearray().join(parts), np.uint8)

    def shrink(self) -> None:
        """Give back the memory of a large file."""
        if self.size > _KEPT:
            os.ftruncate(self._file, _PAGE)
            self.size = _PAGE

    def ask(self, request: dict[str, Any]) -> None:
        """Send it a request under its own number."""
        number = self._marks["request"] + 1
        self._marks = {"request": number, "nonce": secrets.token_hex(8)}
        self.reply(request)

    def reply(self, message: dict[str, Any]) -> None:
        """Answer its question about the request."""
        data = json.dumps(message | self._marks).encode()
        data = len(data).to_bytes(4, "little") + data
        deadline = time.monotonic() + _STOP
        try:
            while data:
                left = max(0.0, deadline - time.monotonic())
                if not select.select([], [self._writing], [], left)[1]:
                    raise ChildLostError("late")
                data = data[os.write(self._writing, data) :]
        except OSError:
            raise ChildLostError("gone", self._end()) from None

    def answer(self, deadline: float) -> dict[str, Any]:
        """Get its next message about the request; late ones about earlier requests are dropped."""
        while True:
            message = self._receive(deadline)
            if all(message.get(mark) == value for mark, value in self._marks.items()):
                return message
            number = message.get("request")
            if not isinstance(number, int) or number >= self._marks["request"]:
                raise ChildLostError("malformed")

    def _receive(self, deadline: float) -> dict[str, Any]:
        length = int.from_bytes(self._exactly(4, deadline), "little")
        if length > _MOST_MESSAGE:
            raise ChildLostError("malformed")
        try:
            message = json.loads(self._exactly(length, deadline))
        except (ValueError, RecursionError):
            raise ChildLostError("malformed") from None
        if not isinstance(message, dict):
            raise ChildLostError("malformed")
        return message

    def _exactly(self, count: int, deadline: float) -> bytes:
        parts = []
        while count:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._reading], [], [], left)[0]:
                raise ChildLostError("late")
            part = os.read(self._reading, count)
            if not part:
                raise ChildLostError("gone", self._end())
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def complaint(self) -> str:
        """Return the last that it wrote to its standard error."""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-2000:] or "no output"

    def _end(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_STOP)
        return None

    def close(self) -> None:
        """End its process group, whatever that does, and keep nothing of it."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.forget()

    def forget(self) -> None:
        """Let go of what this process holds of it."""
        for number in (self._lifeline, self._writing, self._reading, self._file):
            with contextlib.suppress(OSError):
                os.close(number)
        self._said.close()


def _limits(memory: int) -> str:
    """Return the resource limits of the child, as it takes them."""
    limits = {"CORE": 0, "FSIZE": 1 << 20, "NOFILE": 256, "NPROC": 0}
    if sys.platform == "linux":  # macOS bounds neither
        data = _BASE + memory
        limits |= {"DATA": data, "AS": _RESERVED + 2 * data}
    return ",".join(f"{name}={value}" for name, value in limits.items())


def _shared_file() -> int:
    """Return a file without a name, in memory where the system can."""
    in_memory = getattr(os, "memfd_create", None)  # Linux alone has it
    if in_memory is not None:
        return int(in_memory("embercoach"))
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_ROLES = {"input": 0, "output": 1, "info": 2}
_SLOTS = 32
#: Times the limit of bytes that records may take.
_MOST_RECORDS = 2
#: Runs of a launch: in both orders, again in lockstep, and again with another pattern.
_MOST_RUNS = 4
#: Bytes that a child may always take for buffers and records.
_LEAST_MEMORY = 512 << 20
#: Seconds that the child has beyond a run's, before it is taken to hang.
_GRACE = 10.0


class Process:
    """Compiles each text once, and runs it in a child process that lives until something happens.

    Safe to use from several threads, which take turns, and in processes that fork: each has its own
    child. The child ends with the process.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._built: dict[tuple[str, str, str, bool, bool], BuiltKernel] = {}
        self._child: Child | None = None
        self._owner = os.getpid()
        #: Whether the child can take another launch after the last one.
        self._unharmed = False
        _ALL.add(self)

    def build(
        self, captured: Capture, *, checks: bool, limits: Limits, profile: bool = False
    ) -> BuiltKernel:
        """Compile what MLX generated, or find what was made of the same text before."""
        definition = captured.definition
        key = (definition.name, captured.source, captured.math_mode, checks, profile)
        with self._building:
            if key not in self._built:
                built = objects.build(
                    captured.source,
                    definition.name,
                    definition.body,
                    definition.header,
                    checks=checks,
                    profile=profile,
                    toolchain=self._toolchain,
                    math_mode=captured.math_mode,
                    seconds=limits.seconds,
                )
                _refuse_arrays(built)
                self._built[key] = built
            return self._built[key]

    def run(
        self,
        kernel: BuiltKernel,
        buffers: Sequence[Buffer],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        *,
        limits: Limits,
    ) -> LaunchResult:
        """Run every thread of a launch: once, or, of a checked kernel, in both orders.

        Args:
            kernel: to run.
            buffers: the memory of each ``[[buffer(n)]]``.
            grid: threads in each dimension.
            threadgroup: threads of a threadgroup; at the grid's edge it may be cut.
            limits: of the launch.

        Returns:
            The outputs of the run in ascending order, and the findings of all.

        Raises:
            SimulatorError: more memory or threads than allowed, or the simulator itself fails.
        """
        _refuse(kernel, buffers, grid, threadgroup, limits)
        image = read_image(kernel.object)
        scene = Scene(
            kernel,
            image,
            partial(read_lines, kernel.object),
            {buffer.index: buffer for buffer in buffers},
        )
        request, size = _request(kernel, image, buffers, limits, (grid, threadgroup))
        with self._lock:
            self._unharmed = False
            child = self._ready_child(_memory_of_slots(buffers, checked=kernel.checked))
            try:
                return self._launch(child, request, size, scene, limits)
            except ChildLostError as lost:
                return _result_of_loss(lost, buffers, limits)
            finally:
                if self._unharmed:
                    child.shrink()
                else:
                    self._drop()

    def close(self) -> None:
        """End the child; the next launch starts another."""
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            self.end()

    def end(self) -> None:
        """End the child without waiting for who uses it: the whole process ends."""
        if self._owner == os.getpid():
            self._drop()

    def _launch(
        self, child: Child, request: Request, size: int, scene: Scene, limits: Limits
    ) -> LaunchResult:
        child.grow(size)
        for asked in request.buffers:
            if asked.data is not None:
                child.put(asked.data, scene.buffers[asked.slot].data)
        child.ask({**to_builtins(request), "arena": child.size})
        # Filling and comparing buffers takes its time as well.
        patience = limits.seconds + _GRACE + size / 50e6
        answer = self._answer(child, request, scene, patience)
        if isinstance(answer, RefusalAnswer):
            self._unharmed = True
            raise SimulatorError(f"kernel {scene.kernel.name!r} was not run: {answer.why}")
        outputs = tuple(
            child.get(asked.result, asked.size)
            for asked in request.buffers
            if asked.result is not None
        )
        self._unharmed = all(run.ended for run in answer.runs)
        first = answer.runs[0]
        return LaunchResult(
            outputs,
            raw_findings(answer, scene),
            first.seconds,
            first.accesses,
            _traffic(scene.kernel, request.buffers, first.traffic),
            profile_of(first.profile, first.seconds, scene, request)
            if first.profile is not None and request.profiled
            else None,
        )

    def _answer(
        self, child: Child, request: Request, scene: Scene, patience: float
    ) -> ResultAnswer | RefusalAnswer:
        """Return the child's final answer; each of its runs has its time limit."""
        runs, deadline = 0, time.monotonic() + patience
        while True:
            try:
                answer = read_answer(child.answer(deadline), request)
            except MalformedError:
                raise ChildLostError("malformed") from None
            if isinstance(answer, (ResultAnswer, RefusalAnswer)):
                return answer
            if isinstance(answer, LineQuestion):
                child.reply({"line": scene.line(answer.pc) or 0})
            elif (runs := runs + 1) <= _MOST_RUNS:
                deadline = time.monotonic() + patience

    def _ready_child(self, slots: dict[int, int]) -> Child:
        if self._owner != os.getpid():
            self.disown()
        child = self._child
        if child is not None and not (child.is_idle and child.takes(slots)):
            self._drop()
        if self._child is None:
            memory = max(_LEAST_MEMORY, sum(slots.values()))
            child = Child(
                objects.build_runtime(self._toolchain), 1 << (memory - 1).bit_length(), slots
            )
            try:
                child.ready()
            except BaseException:
                child.close()
                raise
            self._child = child
        return self._child

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if self._owner == os.getpid():
            child.close()
        else:
            child.forget()

    def disown(self) -> None:
        """Leave the child to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._drop()
        self._owner = os.getpid()


_ALL: weakref.WeakSet[Process] = weakref.WeakSet()


def _after_fork() -> None:
    for process in list(_ALL):
        process.disown()


@atexit.register
def _close_all() -> None:
    for process in list(_ALL):
        process.end()


os.register_at_fork(after_in_child=_after_fork)


def _refuse(
    kernel: BuiltKernel,
    buffers: Sequence[Buffer],
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
    limits: Limits,
) -> None:
    """Refuse launches that can't be."""
    total = sum(buffer.data.nbytes for buffer in buffers)
    if total > limits.bytes:
        raise SimulatorError(
            f"kernel {kernel.name!r}: its buffers take {total:,} bytes; the limit is "
            f"{limits.bytes:,}. Use smaller arrays, or raise the limit: "
            "activate(limits=Limits(bytes=...))"
        )
    records = sum(map(_record_bytes, buffers)) if kernel.checked else 0
    if records > _MOST_RECORDS * limits.bytes:
        raise SimulatorError(
            f"kernel {kernel.name!r}: race records of its outputs take {records:,} bytes. "
            "Use smaller arrays, run it without checks, or raise the limit: "
            "activate(limits=Limits(bytes=...))"
        )
    if any(buffer.index >= _SLOTS for buffer in buffers):
        raise SimulatorError(
            f"kernel {kernel.name!r}: {len(buffers)} buffers, the limit is {_SLOTS - 1}"
        )
    size = [min(extent, whole) for extent, whole in zip(threadgroup, grid, strict=True)]
    if min(*grid, *threadgroup) < 1 or size[0] * size[1] * size[2] > MAX_THREADS:
        raise SimulatorError(
            f"kernel {kernel.name!r}: grid {grid} with threadgroup {threadgroup} can't be "
            f"launched: extents must be positive, and a threadgroup at most {MAX_THREADS} threads"
        )


def _refuse_arrays(kernel: BuiltKernel) -> None:
    """Refuse more threadgroup memory than a GPU has, as Metal does when it loads the kernel."""
    sizes = {array.name: array.size for array in read_image(kernel.object).arrays}
    if sum(sizes.values()) > MAX_THREADGROUP_BYTES:
        raise memory_error(kernel, sizes)


def _memory_of_slots(buffers: Iterable[Buffer], *, checked: bool) -> dict[int, int]:
    """Bytes that the runtime maps for each buffer; of outputs, records of readers and writers."""
    return {
        buffer.index: buffer.data.nbytes * (17 if checked and buffer.role == "output" else 1)
        for buffer in buffers
    }


def _record_bytes(buffer: Buffer) -> int:
    """Of the runtime's records of an output: one for every element, or part of 4 bytes."""
    granule = math.gcd(buffer.itemsize, 4)
    return buffer.data.nbytes // granule * 8 if buffer.role == "output" else 0


def _request(
    kernel: BuiltKernel,
    image: Image,
    buffers: Sequence[Buffer],
    limits: Limits,
    geometry: tuple[tuple[int, int, int], tuple[int, int, int]],
) -> tuple[Request, int]:
    """Return the request to the child, and the size of its data."""
    size = 0

    def room(count: int) -> int:
        nonlocal size
        start, size = size, size + -(-count // 64) * 64
        return start

    asked = []
    for buffer in buffers:
        has_content = buffer.initialized or buffer.role != "output"
        count = buffer.data.nbytes
        one = AskedBuffer(
            slot=buffer.index,
            role=_ROLES[buffer.role],
            initialized=has_content,
            itemsize=buffer.itemsize,
            size=count,
            offset=buffer.offset,
            data=room(count) if has_content else None,
            result=room(count) if buffer.role == "output" else None,
        )
        asked.append(one)
    lines = kernel.lines
    request = Request(
        object=str(kernel.object),
        entry=image.entry,
        image=image.whole,
        text=image.text,
        writable=image.writable,
        arrays=tuple((array.start, array.size) for array in image.arrays),
        checked=kernel.checked,
        profiled=kernel.blocks is not None,
        seconds=limits.seconds,
        body=(lines.body_start, lines.body_start + lines.body_lines),
        buffers=tuple(asked),
        grid=geometry[0],
        threadgroup=geometry[1],
    )
    return request, size


def _traffic(
    kernel: BuiltKernel, asked: Sequence[AskedBuffer], counts: Sequence[tuple[int, int]]
) -> dict[str, Traffic]:
    """Return the bytes that a run counted for each buffer; an unchecked one counts none."""
    if not kernel.checked:
        return {}
    counted = {one.slot: count for one, count in zip(asked, counts, strict=True)}
    return {
        parameter.name: Traffic(parameter.space, *counted[parameter.index])
        for parameter in kernel.parameters
        if parameter.index is not None
    }


def _result_of_loss(
    lost: ChildLostError, buffers: Iterable[Buffer], limits: Limits
) -> LaunchResult:
    """Return the result of a launch whose process has ended."""
    if lost.why == "late":
        kind, detail = "timeout", f"after {limits.seconds:g} s"
    elif lost.why == "malformed":
        kind, detail = "crash", "its process sent a malformed answer"
    else:
        kind, detail = "crash", f"its process ended {ending(lost.code)}"
    outputs = tuple(
        np.zeros(buffer.data.nbytes, np.uint8) for buffer in buffers if buffer.role == "output"
    )
    nowhere = MemoryAccess(None, None, None)
    return LaunchResult(outputs, (RawFinding(kind, nowhere, None, "", None, detail, 1),))


@functools.cache
def host(toolchain: Toolchain | None) -> Process:
    """Return the machine of a compiler, one for the whole process."""
    return Process(toolchain or find_toolchain())
