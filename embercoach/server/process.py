"""The server's side of a worker process: start, ask, end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import asdict

from embercoach.engine.parallel.workers import Crash
from embercoach.plugins.loading import requested
from embercoach.server import frames

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
        plugins = json.dumps(asdict(requested()))
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
            frames.write(stdin, request)
            reply = frames.read(stdout)
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
