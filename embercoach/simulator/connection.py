"""The pipes to one child process, and the file that buffers travel in."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal, cast

from embercoach.simulator.model import SimulatorError

_CHILD = Path(__file__).with_name("child.py")
_PAGE = 1 << 14
_KEPT = 64 << 20
#: Seconds that it may take to start.
_START = 60.0
Lost = Literal["late", "gone"]


class ChildLostError(Exception):
    """The child did not answer in time, or ended; `code` is what it ended with."""

    def __init__(self, why: Lost, code: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.code = code


class Child:
    """One child process, its pipes, and the file that buffers travel in."""

    def __init__(self, runtime: Path) -> None:
        self._file = _shared_file()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        request_out, request_in = os.pipe()
        answer_out, answer_in = os.pipe()
        passed = (request_out, answer_in, self._file)
        # Isolated and without site packages, it starts fast and sees no module of the user's.
        command = [sys.executable, "-I", "-S", str(_CHILD), *map(str, passed), str(runtime)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=passed,
                start_new_session=True,  # an interrupt is for the parent to handle
            )
        except OSError as error:
            for number in (request_in, answer_out, self._file, request_out, answer_in):
                os.close(number)
            raise SimulatorError(f"the simulator's process can't be started: {error}") from error
        os.close(request_out)
        os.close(answer_in)
        self._writing, self._reading = request_in, answer_out
        self._size = 0
        self._view: mmap.mmap | None = None

    def ready(self) -> None:
        """Wait until it can take requests."""
        try:
            self._expect("ready", self.receive(_START))
        except ChildLostError as lost:
            raise SimulatorError(
                f"the simulator's process does not start ({lost.why}): {self.complaint()}"
            ) from None

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def grow(self, size: int) -> mmap.mmap:
        """A view of the file, of at least `size` bytes."""
        view = self._view
        if view is None or self._size < size:
            self._size = -(-max(size, _PAGE) // _PAGE) * _PAGE
            try:
                os.ftruncate(self._file, self._size)
                view = self._view = mmap.mmap(self._file, self._size)
            except OSError as error:
                raise SimulatorError(f"no memory for buffers of {size:,} bytes: {error}") from error
        return view

    def shrink(self) -> None:
        """Give back the memory of a large file; a view of it must not be used any more."""
        if self._size > _KEPT:
            os.ftruncate(self._file, _PAGE)
            self._size, self._view = _PAGE, None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def send(self, message: dict[str, Any]) -> None:
        """Hand it a request or an answer to its question."""
        data = json.dumps(message).encode()
        data = len(data).to_bytes(4, "little") + data
        try:
            while data:
                data = data[os.write(self._writing, data) :]
        except OSError:
            raise ChildLostError("gone", self._end()) from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """Its next message."""
        deadline = time.monotonic() + seconds
        length = int.from_bytes(self._exactly(4, deadline), "little")
        return cast("dict[str, Any]", json.loads(self._exactly(length, deadline)))

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

    def _expect(self, what: str, message: dict[str, Any]) -> None:
        if message["is"] != what:
            raise SimulatorError(message.get("why", f"unexpected answer: {message}"))

    def complaint(self) -> str:
        """The last that it wrote to its standard error."""
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip()[-2000:] or "it says nothing"

    def _end(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(5.0)
        return None

    def close(self) -> None:
        """End it, whatever it does, and keep nothing of it."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        self.forget()

    def forget(self) -> None:
        """Let go of what this process holds of it."""
        for number in (self._writing, self._reading, self._file):
            with contextlib.suppress(OSError):
                os.close(number)
        self._said.close()
        self._view = None


def _shared_file() -> int:
    """A file without a name, in memory where the system can."""
    in_memory = getattr(os, "memfd_create", None)  # Linux alone has it
    if in_memory is not None:
        return int(in_memory("embercoach"))
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
