"""The origin of a report, needed to merge reports: checkouts, shard, program."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Checkout:
    """The counts of one checkout; ``path`` is its root, as the user named it."""

    path: str
    files_checked: int
    files_skipped: int
    suppressed: int

    @classmethod
    def saved(cls, data: dict[str, Any]) -> Checkout:
        """Read it from a JSON report; members that a later release adds are ignored."""
        return cls(**{name: data[name] for name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class Portion:
    """A shard: its number, from 1, of how many, its files, and those of all shards."""

    number: int
    count: int
    files: int
    all_files: int


@dataclass(frozen=True, slots=True)
class RunOrigin:
    """A run.

    Attributes:
        version: of EmberCoach.
        program: a digest of what decides on findings, the rules among it.
        checkouts: sorted by path.
        portion: the shard, where the run was one.
    """

    version: str
    program: str
    checkouts: tuple[Checkout, ...]
    portion: Portion | None = None

    def members(self) -> dict[str, Any]:
        """Its members in the JSON report."""
        return {
            "run": {
                "version": self.version,
                "program": self.program,
                "shard": None if self.portion is None else asdict(self.portion),
            },
            "checkouts": [asdict(checkout) for checkout in self.checkouts],
        }
