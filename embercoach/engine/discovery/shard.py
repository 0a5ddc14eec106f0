"""A part of a run's files, so that several machines can check them together."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``count`` parts; ``number`` counts from 1.

    A part depends on names alone: a file stays in its part when others come and go, so that a
    shard's cache stays valid, and deleted files have a part too.
    """

    number: int
    count: int

    def most(self, files: int) -> float:
        """The files that a folder may have, of so many in all, for its going to one part whole."""
        return files / self.count / 2

    def holds(self, name: str) -> bool:
        """Return whether a name, the same on every machine, is in this part."""
        digest = blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.number - 1
