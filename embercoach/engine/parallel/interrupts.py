"""Interrupts of processes that are being started; `workers` and the watcher call it."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
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
