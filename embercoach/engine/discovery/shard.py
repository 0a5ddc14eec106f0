"""A part of a run's files, so that several machines can check them together."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``count`` parts; ``number`` counts from 1.

    A part is known by a name alone: what has it stays there when others come and go, so that a
    shard's cache stays good, and what is no more has a part too.
    """

    number: int
    count: int

    def most(self, files: int) -> float:
        """The files that a folder may have, of so many in all, for its going to one part whole."""
        return files / self.count / 2

    def holds(self, name: str) -> bool:
        """Whether something is in this part; ``name`` is the same on every machine."""
        digest = blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.number - 1
