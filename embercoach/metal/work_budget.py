"""The work that one file's kernels may take, counted in steps: the same on every machine.

A step is one operation for one thread of a followed kernel; what else takes time is counted in
steps of the same length. Several million of them take a second.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Steps after which one run of a kernel ends.
RUN = 500_000
#: Steps of a file's kernels together, those that each character of its text adds, and the most.
_FILE = 16_000_000
_CHARACTER = 450
_MOST = 150_000_000
#: What a run may take when many others took theirs.
_LEAST = 100_000


class WorkBudgetExceeded(Exception):  # noqa: N818  (the engine knows it by this name)
    """A file's kernels take more work than they may: some were not looked at."""

    def __init__(self) -> None:
        super().__init__("kernels exceed the file's work budget: not all were analyzed")


@dataclass(slots=True)
class WorkBudget:
    """The steps that following several kernels may take together: those of one file, say.

    A run gets a share of what is left, so that early ones leave enough to the others.
    """

    left: int = _FILE

    @classmethod
    def of(cls, text: str) -> WorkBudget:
        """The budget of a file."""
        return cls(min(_FILE + _CHARACTER * len(text), _MOST))

    @property
    def share(self) -> int:
        """The steps of the next run.

        Raises:
            WorkBudgetExceeded: none are left.
        """
        if self.left <= 0:
            raise WorkBudgetExceeded
        return max(_LEAST, min(RUN, self.left // 2))

    def spend(self, steps: int) -> None:
        """Take off what a run took."""
        self.left -= steps
