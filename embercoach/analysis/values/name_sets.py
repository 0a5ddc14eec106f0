"""Sets of names at one point of the program: each costs what it changes of the one before.

The facts of n statements hold n of them. Copies of sets of n names would take n * n of memory.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from embercoach.analysis.values.persistent_maps import EMPTY, Keys, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class NameSet(AbstractSet[str]):
    """A set of names that never changes. Only sets of the same ``Keys`` may be put together."""

    __slots__ = ("_keys", "_version", "size")

    def __init__(self, keys: Keys[str], version: Version = EMPTY, size: int = 0) -> None:
        """Make an empty set, from which others come."""
        self._keys = keys
        self._version = version
        self.size = size

    def __contains__(self, name: object) -> bool:
        return self.size > 0 and self._keys.get(self._version, name) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _, _ in self._keys.differences(EMPTY, self._version))

    def __len__(self) -> int:
        return self.size

    @classmethod
    def _from_iterable(cls, names: Iterable[str]) -> AbstractSet[str]:  # type: ignore[override]
        return frozenset(names)

    def adding(self, names: Iterable[str]) -> NameSet:
        """This set with some names added."""
        return self._changed(names, True)

    def without(self, names: Iterable[str]) -> NameSet:
        """This set with some names removed."""
        return self._changed(names, None) if self.size else self

    def union(self, other: NameSet) -> NameSet:
        """Return the names in either set."""
        found = self._keys.differences(self._version, other._version)
        return self.adding([name for name, here, _ in found if here is None])

    def intersection(self, other: NameSet) -> NameSet:
        """Return the names in both sets."""
        found = self._keys.differences(self._version, other._version)
        return self.without([name for name, _, there in found if there is None])

    def _changed(self, names: Iterable[str], value: bool | None) -> NameSet:
        version, size = self._version, self.size
        for name in names:
            before, version = version, self._keys.with_value(version, name, value)
            size += (1 if value else -1) if version is not before else 0
        return self if version is self._version else NameSet(self._keys, version, size)
