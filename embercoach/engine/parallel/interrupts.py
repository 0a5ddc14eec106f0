"""Interrupts of processes that are being started; `workers` and the watcher call it."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
