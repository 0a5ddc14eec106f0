"""The pipes to one child process, and the file that buffers travel in."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

from embercoach.simulator.build.tools import environment
from embercoach.simulator.model import SimulatorError

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
        self._size = 0
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
        if self._size < size:
            self._size = -(-max(size, _PAGE) // _PAGE) * _PAGE
            try:
                os.ftruncate(self._file, self._size)
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
        if self._size > _KEPT:
            os.ftruncate(self._file, _PAGE)
            self._size = _PAGE

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

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
        """Its next message about the request; late ones about earlier requests are dropped."""
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
        """The last that it wrote to its standard error."""
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
    """The resource limits of the child, for `confinement`."""
    limits = {"CORE": 0, "FSIZE": 1 << 20, "NOFILE": 256, "NPROC": 0}
    if sys.platform == "linux":  # macOS bounds neither
        data = _BASE + memory
        limits |= {"DATA": data, "AS": _RESERVED + 2 * data}
    return ",".join(f"{name}={value}" for name, value in limits.items())


def _shared_file() -> int:
    """A file without a name, in memory where the system can."""
    in_memory = getattr(os, "memfd_create", None)  # Linux alone has it
    if in_memory is not None:
        return int(in_memory("embercoach"))
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
