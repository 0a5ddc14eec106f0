"""Values of the names of a frame, with versions to go back to and to join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.joins import join_chosen
from embercoach.analysis.values.lattice import Value
from embercoach.analysis.values.persistent_maps import EMPTY, Keys, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Names(dict[str, Value]):
    """The values of names, and of attribute paths such as ``"self.keys"``.

    To be read as a dictionary. A version costs what has changed since the last one, and so does
    the way back to it.
    """

    __slots__ = ("_below", "_changed", "_keys", "_version")

    def __init__(self) -> None:
        super().__init__()
        self._keys: Keys[str] = Keys()
        self._version = EMPTY
        self._changed: dict[str, None] = {}  # since that version, in order
        self._below: dict[
            str, dict[str, None]
        ] = {}  # the paths that begin with a path, and one more

    def __setitem__(self, key: str, value: Value) -> None:
        self._changed[key] = None
        self._set(key, value)

    def __delitem__(self, key: str) -> None:
        self._changed[key] = None
        super().__delitem__(key)

    def remove(self, key: str) -> None:
        """Delete a name, if it is there."""
        if key in self:
            del self[key]

    def set_all(self, pairs: Iterable[tuple[str, Value]]) -> None:
        """Set names to values."""
        for key, value in pairs:
            self[key] = value

    def has_below(self, path: str) -> bool:
        """Return whether there may be attribute paths that begin with a path."""
        return path in self._below

    def forget_below(self, path: str) -> None:
        """Delete the attribute paths that begin with a path."""
        pending = [path]
        while pending:
            for inner in self._below.pop(pending.pop(), ()):
                self.remove(inner)
                pending.append(inner)

    def version(self) -> Version:
        """Return the current values of all names."""
        for key in self._changed:
            self._version = self._keys.with_value(self._version, key, self.get(key))
        self._changed.clear()
        return self._version

    def restore(self, version: Version) -> None:
        """Go back to a version, which may be used again."""
        for key, _, value in self._keys.differences(self.version(), version):
            if value is None:
                super().__delitem__(key)
            else:
                self._set(key, value)
        self._version = version

    def since(self, version: Version) -> Iterator[tuple[str, Value | None, Value | None]]:
        """The names that hold another value than in a version, with both values."""
        return self._keys.differences(version, self.version())

    def join(self, versions: Sequence[Version]) -> None:
        """Go on with what some versions hold, one or the other of them."""
        joined, choice = versions[0], object()
        for key, runs in self._keys.held(versions).items():
            value = runs[0][0]
            for other, times in runs:
                value = _joined(key, value, other, times, choice)
            joined = self._keys.with_value(joined, key, value)
        self.restore(joined)

    def _set(self, key: str, value: Value) -> None:
        if "." in key and key not in self:
            self._link(key)
        super().__setitem__(key, value)

    def _link(self, path: str) -> None:
        while "." in path:
            owner = path.rpartition(".")[0]
            known = self._below.setdefault(owner, {})
            if path in known:
                return
            known[path] = None
            path = owner


def _joined(
    key: str, value: Value | None, other: Value | None, times: int, choice: object
) -> Value | None:
    """The join of a value with another one, again and again as far as that makes a difference."""
    for _ in range(times):
        if value is other:
            break
        if value is None or other is None:
            # Bound on one branch only. A path is only narrowed there; forget it.
            return None if "." in key else value or other
        before, value = value, join_chosen(value, other, choice)
        if value == before:
            break
    return value
