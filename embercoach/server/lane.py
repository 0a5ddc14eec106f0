"""The one thread that analyses: the analysis keeps state that only one may use at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from embercoach.engine.workers import LEAST_STACK, STACK


def single_lane() -> ThreadPoolExecutor:
    """An executor of one thread, whose stack deeply nested sources can't overflow.

    Raises:
        RuntimeError: memory is too limited for a thread.
    """
    stack = STACK
    while True:
        lane = ThreadPoolExecutor(1, thread_name_prefix="analysis")
        before = threading.stack_size(stack)
        try:
            lane.submit(int).result()  # starts the thread
        except RuntimeError:
            stack //= 4
            if stack < LEAST_STACK:
                raise
        else:
            return lane
        finally:
            threading.stack_size(before)
