"""Limits of the process that kernels run in, and its end together with the caller's.

`child` loads it by its path, before it loads a kernel; it knows the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import sys

#: Seconds between looks at whether the process still lives.
_LOOK = 0.5
_FILES = 1024
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EAGAIN
#: The architecture's number, where the calls of another begin, and fork, vfork, clone and clone3.
_CALLS = {
    "x86_64": (0xC000003E, 0x40000000, (57, 58, 56, 435)),
    "aarch64": (0xC00000B7, 0xFFFFFFFF, (220, 435)),
}


class _Instruction(ctypes.Structure):
    """The kernel's ``sock_filter``."""

    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    """The kernel's ``sock_fprog``."""

    _fields_ = [("length", ctypes.c_uint16), ("start", ctypes.POINTER(_Instruction))]


def confine(lifeline: int, limits: str) -> None:
    """End this process with its caller, limit its resources, and refuse child processes.

    Args:
        lifeline: reading end of a pipe that the caller holds open.
        limits: names and values of resource limits, as ``DATA=1000,CORE=0``.
    """
    _start_watcher(lifeline)
    os.close(lifeline)
    for limit in limits.split(","):
        name, _, value = limit.partition("=")
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        bound = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(kind, (bound, bound))
    if sys.platform == "linux":
        # Where memory is short, the system ends this process first.
        with contextlib.suppress(OSError):
            # Without pathlib, which takes longer to import than all else here.
            file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(file, b"1000")
            os.close(file)
        _refuse_processes()


def _start_watcher(lifeline: int) -> None:
    """Start a process that kills the group that this one leads when the caller or this one ends."""
    watched = os.getpid()
    if os.fork():
        return
    try:
        os.closerange(3, lifeline)
        os.closerange(lifeline + 1, _FILES)
        while os.getppid() == watched and not select.select([lifeline], [], [], _LOOK)[0]:
            pass
    finally:
        with contextlib.suppress(OSError):
            os.killpg(watched, signal.SIGKILL)
        os._exit(0)


def _refuse_processes() -> None:
    """Let Linux refuse every new process, also to root, whom its limit does not hold for.

    Where the system does not filter calls, the limit has to do.
    """
    architecture, foreign, calls = _CALLS[os.uname().machine]
    last = len(calls)
    # Jumps count instructions to skip; the last one refuses.
    code = [
        _Instruction(_LOAD, 0, 0, _ARCHITECTURE_AT),
        _Instruction(_EQUAL, 0, last + 3, architecture),
        _Instruction(_LOAD, 0, 0, _NUMBER_AT),
        _Instruction(_AT_LEAST, last + 1, 0, foreign),
        *(_Instruction(_EQUAL, last - i, 0, call) for i, call in enumerate(calls)),
        _Instruction(_RETURN, 0, 0, _ALLOW),
        _Instruction(_RETURN, 0, 0, _REFUSE),
    ]
    program = _Program(len(code), (_Instruction * len(code))(*code))
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)
