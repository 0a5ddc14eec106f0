"""The work that one file's kernels may take, counted in steps: the same on every machine.

A step is one operation for one thread of a followed kernel; what else takes time is counted in
steps of the same length. Several million of them take a second.
"""

from __future__ import annotations

from msgspec import Struct

#: Steps after which one run of a kernel ends: MLX's own kernels show what they do in 300,000.
RUN = 500_000
#: Steps of a file's kernels together, those that each character of its text adds, and the most.
#: MLX's `quantized.h` (91 KB) takes 8 million, the kernels of mlx_lm 25 a character.
_FILE = 8_000_000
_CHARACTER = 200
_MOST = 150_000_000
#: Steps that a token takes that a macro yields.
STEPS_A_TOKEN = 16
#: What a run may take when many others took theirs.
_LEAST = 100_000
EXCEEDED = "analysis exceeded its budget: not all kernels were followed"
TOO_DEEP = "analysis exceeded its budget: kernels nest too deeply"
TOO_INTRICATE = "analysis exceeded its budget: Metal code takes too long to parse"


class WorkBudgetExceeded(Exception):  # noqa: N818  (the checks know it by this name)
    """A file's kernels take more work than they may: the others are not followed."""

    def __init__(self) -> None:
        super().__init__(EXCEEDED)


class WorkBudget(Struct):
    """The steps that following several kernels may take together: those of one file, say.

    A run gets a share of what is left, so that early ones leave enough to the others.

    Attributes:
        left: the steps that are left.
        problem: what to report of the file, None where all of its kernels were followed.
    """

    left: int = _FILE
    problem: str | None = None

    @classmethod
    def of(cls, text: str) -> WorkBudget:
        """Return the budget of a file."""
        return cls(min(_FILE + _CHARACTER * len(text), _MOST))

    @property
    def share(self) -> int:
        """The steps of the next run.

        Raises:
            WorkBudgetExceeded: none are left.
        """
        if self.is_spent():
            raise WorkBudgetExceeded
        return max(_LEAST, min(RUN, self.left // 2))

    def is_spent(self) -> bool:
        """Return whether no steps are left, which is then reported of the file."""
        if self.left <= 0:
            self.problem = EXCEEDED
        return self.left <= 0

    def spend_run(self, steps: int, share: int) -> None:
        """Take off what a run took that had a share."""
        self.spend(steps)
        if share < min(RUN, steps):
            self.problem = EXCEEDED

    def note(self, problem: str | None) -> None:
        """Report why a text was not followed; the first such problem of a file stays."""
        self.problem = self.problem or problem

    def spend(self, steps: int) -> None:
        """Take off what a run took."""
        self.left -= steps
