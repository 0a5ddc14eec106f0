"""Python files: checked, fixed, suppressed and reported."""

from __future__ import annotations

from tests.fuzz import seeds
from tests.fuzz.mutation import grafting, text_mutation
from tests.fuzz.soundness import examine
from tests.fuzz.target import Target
from tests.robustness.tokens import TOKENS

WORDS = (
    *TOKENS,
    *("# embercoach: ignore", "# noqa", "# embercoach: ignore[DTYPE-001]", "# type: ignore"),
)


def execute(data: bytes) -> None:
    """Check a Python file."""
    """Check a Python file."""
    examine(data, "program.py")


MUTATION = text_mutation(seeds.python_programs, WORDS, [grafting(seeds.python_programs)])
# Mutations take from the other programs.
TARGET = Target("python", lambda: seeds.python_programs()[::4], MUTATION, execute)
