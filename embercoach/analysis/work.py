"""The work that inference may spend on a file, counted in steps: the same on every machine."""

from __future__ import annotations

from msgspec import Struct

#: Evaluations of expressions for a file, and those that each character of its text adds: in mlx-lm
#: a file takes at most 0.15 for a character.
_FILE = 100_000
_CHARACTER = 2


class WorkExceededError(Exception):
    """A file takes more work than its size allows, most of all evaluations of expressions."""

    def __init__(self, reason: str = "too many combinations of calls, loops and branches") -> None:
        super().__init__(reason)


class Work(Struct):
    """Evaluations that are left to a file.

    What it asks of other files is not counted: that is done once for all that ask, so that the
    count would depend on the order of files.
    """

    left: int

    @classmethod
    def of(cls, source: str, *, is_shared: bool) -> Work:
        """The work that a module may take."""
        return cls(1 << 62 if is_shared else _FILE + _CHARACTER * len(source))


class _ReadCount:
    """Characters of modules that this process has read: what a file's time is measured by."""

    characters = 0


def note_reading(source: str) -> None:
    """Count a module's characters."""
    _ReadCount.characters += len(source)


def characters_read() -> int:
    """Characters of all modules so far."""
    return _ReadCount.characters


#: Nodes of a tree that are walked in the time of one evaluation.
_WALKED = 16


class _Checked:
    """The file whose checks run."""

    work = Work(1 << 62)


def begin_checks(work: Work) -> None:
    """Count the walks from now on as work of a file."""
    _Checked.work = work


def take_walk(nodes: int) -> None:
    """Count a walk of so many nodes.

    Raises:
        WorkExceededError: the file that is checked has taken all the work that it may.
    """
    _Checked.work.left -= nodes // _WALKED
    if _Checked.work.left < 0:
        raise WorkExceededError


#: What one question of a check may follow, apart from the work of the file: nested calls,
#: calls of one function, and expressions, names or functions one after the other.
MOST_CALLS, MOST_CALLERS, MOST_STEPS = 4, 32, 64
