"""Persistent maps: a version costs what it changes, and two versions compare by their differences.

Control flow keeps a state for every branch. Copies of a dictionary of n names at n branches would
take n * n of time and memory.
"""

from __future__ import annotations

from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

K = TypeVar("K")

#: A version: a tree of tuples with the values of the keys, by their numbers, at the leaves.
Version = tuple[Any, ...]
_BITS = 5
_WIDTH = 1 << _BITS
#: Levels of tuples: enough for a million keys.
_LEVELS = 4
EMPTY: Version = (None,) * _WIDTH
_INDICES = range(_WIDTH)


class Keys(Generic[K]):
    """The keys of a family of versions: only versions of one family can be compared."""

    __slots__ = ("_keys", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[K, int] = {}
        self._keys: list[K] = []

    def get(self, version: Version, key: K) -> Any:
        """The value of a key, None if it has none."""
        number = self._numbers.get(key)
        if number is None:
            return None
        node: Any = version
        for shift in range((_LEVELS - 1) * _BITS, 0, -_BITS):
            node = node[(number >> shift) % _WIDTH]
            if node is None:
                return None
        return node[number % _WIDTH]

    def with_value(self, version: Version, key: K, value: Any) -> Version:
        """The version in which a key has a value, or none if that is None."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        return _changed(version, number, (_LEVELS - 1) * _BITS, value)

    def differences(self, one: Version, other: Version) -> Iterator[tuple[K, Any, Any]]:
        """The keys whose values are not the same object, with both, in the order of the keys."""
        if one is other:
            return
        pending = [(one, other, 0, _LEVELS - 1)]
        while pending:
            left, right, first, level = pending.pop()
            found = []
            for index in compress(_INDICES, map(is_not, left, right)):
                number = (first << _BITS) + index
                if level == 0:
                    yield self._keys[number], left[index], right[index]
                else:
                    inner = (left[index] or EMPTY, right[index] or EMPTY)
                    found.append((*inner, number, level - 1))
            pending.extend(reversed(found))


def _changed(node: Version | None, number: int, shift: int, value: Any) -> Version:
    node = node or EMPTY
    index = (number >> shift) % _WIDTH
    inner = value if shift == 0 else _changed(node[index], number, shift - _BITS, value)
    if inner is node[index]:
        return node
    return (*node[:index], inner, *node[index + 1 :])
