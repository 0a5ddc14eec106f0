"""Which tasks a process is given next: neighbours together, big ones first."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

#: A process gets up to this many small tasks at a time.
CHUNK_TASKS = 8
CHUNK_BYTES = 24_000


class Chunks:
    """Tasks in chunks, by group: tasks of one group share work, a folder's imports above all.

    A process that stays with its group parses what the group imports once; two that share it
    parse all of that twice.
    """

    def __init__(
        self, numbers: Iterable[int], sizes: Sequence[int], groups: Sequence[Hashable]
    ) -> None:
        """Queue the tasks of these numbers, in the order of their sizes within each group."""
        self._sizes = sizes
        self._queues: dict[Hashable, deque[list[int]]] = {}
        self._left: dict[Hashable, int] = {}
        self._owned: set[Hashable] = set()
        room: dict[Hashable, int] = {}
        for number in sorted(numbers, key=lambda number: -sizes[number]):
            group = groups[number]
            queue = self._queues.setdefault(group, deque())
            if not queue or sizes[number] > room[group] or len(queue[-1]) == CHUNK_TASKS:
                queue.append([])
                room[group] = CHUNK_BYTES
            queue[-1].append(number)
            room[group] -= sizes[number]
            self._left[group] = self._left.get(group, 0) + sizes[number]

    def __bool__(self) -> bool:
        """Return whether any tasks are left."""
        return bool(self._queues)

    def take(self, last: Hashable = None) -> tuple[Hashable, list[int]]:
        """The next chunk and its group, for a process that has worked on a group last.

        It stays there while there is work; else it takes up the largest group that no process
        has, and after those helps where most is left.
        """
        group = last
        if group not in self._queues:
            free = self._queues.keys() - self._owned
            group = max(free or self._queues, key=lambda group: (self._left[group], str(group)))
            self._owned.add(group)
        queue = self._queues[group]
        chunk = queue.popleft()
        self._left[group] -= sum(self._sizes[number] for number in chunk)
        if not queue:
            del self._queues[group]
        return group, chunk

    def put_back(self, group: Hashable, numbers: Iterable[int]) -> None:
        """Queue tasks again, each by itself: their process died before it came to them."""
        for number in numbers:
            self._queues.setdefault(group, deque()).append([number])
            self._left[group] += self._sizes[number]
