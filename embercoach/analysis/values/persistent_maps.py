"""Persistent maps: a version costs what it changes, and two versions compare by their differences.

Control flow keeps a state for every branch. Copies of a dictionary of n names at n branches would
take n * n of time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, pairwise
from operator import is_not
from typing import Any, Generic, TypeVar

K = TypeVar("K")

#: A version: how many levels it has, and a tree of tuples with the values of the keys, by their
#: numbers, at the leaves. It has as many levels as its largest number needs.
Version = tuple[int, tuple[Any, ...]]
_BITS = 5
_WIDTH = 1 << _BITS
_NOTHING: tuple[Any, ...] = (None,) * _WIDTH
EMPTY: Version = (1, _NOTHING)
_INDICES = range(_WIDTH)


class Keys(Generic[K]):
    """The keys of a family of versions: only versions of one family can be compared."""

    __slots__ = ("_keys", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[K, int] = {}
        self._keys: list[K] = []

    def get(self, version: Version, key: K) -> Any:
        """Return the value of a key, None if it has none."""
        number = self._numbers.get(key)
        if number is None:
            return None
        levels, node = version
        if number >> levels * _BITS:
            return None
        for shift in range((levels - 1) * _BITS, 0, -_BITS):
            node = node[(number >> shift) % _WIDTH]
            if node is None:
                return None
        return node[number % _WIDTH]

    def with_value(self, version: Version, key: K, value: Any) -> Version:
        """Return the version in which a key has a value, or none if that is None."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        levels, node = version
        while number >> levels * _BITS:
            if value is None:
                return version
            levels, node = levels + 1, _above(node)
        changed = _changed(node, number, (levels - 1) * _BITS, value)
        return version if changed is version[1] else (levels, changed)

    def differences(self, one: Version, other: Version) -> Iterator[tuple[K, Any, Any]]:
        """The keys whose values are not the same object, with both, in the order of the keys."""
        if one is other:
            return
        (levels, left), (others, right) = one, other
        while levels < others:
            levels, left = levels + 1, _above(left)
        while others < levels:
            others, right = others + 1, _above(right)
        pending = [(left, right, 0, levels - 1)]
        while pending:
            left, right, first, level = pending.pop()
            found = []
            for index in compress(_INDICES, map(is_not, left, right)):
                number = (first << _BITS) + index
                if level == 0:
                    yield self._keys[number], left[index], right[index]
                else:
                    inner = (left[index] or _NOTHING, right[index] or _NOTHING)
                    found.append((*inner, number, level - 1))
            pending.extend(reversed(found))

    def held(self, versions: Sequence[Version]) -> dict[K, list[tuple[Any, int]]]:
        """Return each key's values in versions, in their order, and for how many in a row.

        Only of keys whose values are not the same object in all of them.
        """
        found: dict[K, list[tuple[Any, int]]] = {}
        starts: dict[K, int] = {}
        for number, (one, other) in enumerate(pairwise(versions), 1):
            for key, before, after in self.differences(one, other):
                runs = found.setdefault(key, [(before, 0)])
                runs[-1] = (runs[-1][0], number - starts.get(key, 0))
                runs.append((after, 0))
                starts[key] = number
        for key, runs in found.items():
            runs[-1] = (runs[-1][0], len(versions) - starts[key])
        return found


def _above(node: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a node one level up, which holds another one and nothing else."""
    return (node, *_NOTHING[1:])


def _changed(node: tuple[Any, ...] | None, number: int, shift: int, value: Any) -> tuple[Any, ...]:
    node = node or _NOTHING
    index = (number >> shift) % _WIDTH
    inner = value if shift == 0 else _changed(node[index], number, shift - _BITS, value)
    if inner is node[index]:
        return node
    return (*node[:index], inner, *node[index + 1 :])
