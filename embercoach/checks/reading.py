"""Reading of a Python file for the checks: a deep stack, and one error for broken files."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.parse import TooDeepError, TooManyFieldsError
from embercoach.analysis.work import WorkExceededError
from embercoach.finding import PlacedError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Deeply nested expressions recurse; a file beyond this is an error, not a crash.
RECURSION_LIMIT = 6_000


class SyntaxProblem(PlacedError):  # noqa: N818 (it describes the linted file, not a failure of EmberCoach)
    """A file that does not parse, with the line and column, both from 1, and the reason."""


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit; checks run on a stack that is large enough."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Parse and analyse a source inside.

    Raises:
        SyntaxProblem: the source does not parse, or nests too deeply to be analysed.
        WorkExceededError: it exceeds the work budget.
    """
    try:
        with deep_recursion():
            yield
    except UnicodeEncodeError as error:  # decoders such as UTF-7's let lone surrogates through
        before = source[: error.start].split("\n")
        message = f"{source[error.start]!a} is half a character"
        raise SyntaxProblem(len(before), len(before[-1]) + 1, message) from error
    except cst.ParserSyntaxError as error:
        raise SyntaxProblem(error.editor_line, error.editor_column, error.message) from error
    except TooManyFieldsError as error:
        raise WorkExceededError(str(error)) from error
    except (RecursionError, TooDeepError) as error:
        raise SyntaxProblem(1, 1, "expressions are nested too deeply to be analysed") from error
