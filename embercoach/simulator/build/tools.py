"""Runs compilers and linkers on untrusted texts: bounded in time, memory, files and output."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

from embercoach.simulator.model import SimulatorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Seconds of wall time beyond those of CPU time, for a machine that is busy.
_GRACE = 10.0
_LONGEST = 1e6
_MEMORY = 4 << 30
_FILE = 256 << 20
_BLOCK = 512
#: Bytes of diagnostics that are read.
_OUTPUT = 256 << 10
_TEXT = "text"
# The shell limits itself, and the tool with it. The process in the background waits for the end of
# the pipe on standard input, which the caller's end brings, and ends the group.
_SCRIPT = """
ulimit -c 0
ulimit -f "$1"
ulimit -d "$2" 2>/dev/null
ulimit -S -t "$3"
ulimit -H -t "$4"
shift 4
exec 3<&0
{ read -r _ <&3; kill -9 0; } >/dev/null 2>&1 &
"$@" <text 3<&-
code=$?
exec 2>/dev/null
kill -9 $!
wait
exit $code
"""
#: What tools need of the environment. The rest stays away: it may hold secrets, or change results.
_VARIABLES = (
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DEVELOPER_DIR",
    "SDKROOT",
    "XDG_CACHE_HOME",
    "ZIG_GLOBAL_CACHE_DIR",
    "ZIG_LOCAL_CACHE_DIR",
)


def environment() -> dict[str, str]:
    """The environment variables that processes of the simulator get."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The end of a tool.

    Attributes:
        failed: whether its exit code is not 0.
        output: its standard error, or how it ended where it was silent.
    """

    failed: bool
    output: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """The time of the tools that build one object.

    Attributes:
        seconds: of CPU time, for each tool.
        end: of the wall time of all, as ``time.monotonic`` counts.
    """

    seconds: float
    end: float

    @classmethod
    def of(cls, seconds: float) -> Allowance:
        """An allowance that begins now."""
        return cls(seconds, time.monotonic() + seconds + _GRACE)


def run(command: Sequence[str], text: str = "", *, allowance: Allowance) -> ToolResult:
    """Run a tool in an empty folder, with a text on its standard input.

    The tool's whole process group ends with it, and with this process.

    Args:
        command: the tool and its arguments; paths are absolute.
        text: standard input.
        allowance: of time.

    Raises:
        SimulatorError: it takes longer, or can't be started.
    """
    with TemporaryDirectory(prefix="embercoach-") as name:
        folder = Path(name)
        (folder / _TEXT).write_bytes(text.encode(errors="surrogatepass"))
        code, output = _run(command, folder, allowance)
    if code in (None, 128 + signal.SIGXCPU):  # as the shell reports it
        raise SimulatorError(
            f"compiling exceeds the timeout of {allowance.seconds:g} s: look for macros, templates "
            "or constants that expand without end"
        )
    return ToolResult(code != 0, output or f"{command[0]} ended {ending(code)}" * (code != 0))


def _run(command: Sequence[str], folder: Path, allowance: Allowance) -> tuple[int | None, str]:
    """The exit code, None after the wall time, and the first part of the standard error."""
    cpu = math.ceil(min(allowance.seconds, _LONGEST))
    limits = map(str, (_FILE // _BLOCK, _MEMORY >> 10, cpu, cpu + 1))
    reading, writing = os.pipe()
    ended, ends = os.pipe()
    with os.fdopen(reading), os.fdopen(writing), os.fdopen(ended), TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "sh", *limits, *command],
                stdin=reading,
                stdout=ends,
                stderr=said,
                cwd=folder,
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise SimulatorError(f"{command[0]} can't be run: {error}") from error
        finally:
            os.close(ends)
        try:
            in_time = _ends(ended, allowance.end)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        said.seek(0)
        return code if in_time else None, said.read(_OUTPUT).decode(errors="replace").strip()


def _ends(standard_output: int, deadline: float) -> bool:
    """Return whether a process closes its standard output in time; its output is dropped."""
    while select.select([standard_output], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not os.read(standard_output, 1 << 16):
            return True
    return False


def ending(code: int | None) -> str:
    """Describe how a process ended, from its exit code."""
    if code is None:
        return "for an unknown reason"
    if code >= 0:
        return f"with code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def write_overlay(file: Path, folders: Iterable[Path]) -> tuple[str, ...]:
    """Write a file that hides all but some folders from clang, and return the option for it.

    Whatever a text includes, embeds or asks for with ``__has_include`` is searched there alone.
    """
    roots = [
        {"type": "directory-remap", "name": name, "external-contents": name}
        for name in map(str, folders)
    ]
    content = {"version": 0, "redirecting-with": "redirect-only", "roots": roots}
    file.write_text(json.dumps(content), encoding="utf-8")
    return ("-ivfsoverlay", str(file))
