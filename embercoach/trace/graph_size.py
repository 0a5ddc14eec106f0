"""The number of operations that an evaluation will run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: MLX walks a graph by recursion: 200 bytes of stack for each operation of the longest chain.
_STACK = 1 << 28
_stacks = threading.Lock()


class _Counter:
    """A file for ``mx.export_to_dot``, which keeps nothing."""

    def __init__(self) -> None:
        self.operations = 0

    def write(self, text: str) -> None:
        """Count the operations in a piece of a graph's description."""
        self.operations += text.count("shape=rectangle")


def operations_of(values: tuple[Any, ...], mx: Any) -> int:
    """The number of operations whose results arrays wait for.

    Args:
        values: arrays, or lists, tuples and dicts of them; other values do not count.
        mx: ``mlx.core``.

    Returns:
        0 for arrays that are evaluated, and where no thread can be started.
    """
    arrays = list(arrays_in(values, mx.array))
    if not arrays:
        return 0
    counter = _Counter()
    # On this thread's stack a long chain would end the program.
    with _stacks:
        usual = threading.stack_size(_STACK)
        thread = threading.Thread(target=mx.export_to_dot, args=(counter, *arrays), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return 0
        finally:
            threading.stack_size(usual)
    thread.join()
    return counter.operations


def arrays_in(value: Any, array: type) -> Iterator[Any]:
    """The arrays in a value: itself, or those of lists, tuples and dicts."""
    if isinstance(value, array):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from arrays_in(inner, array)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from arrays_in(inner, array)
