"""The API of own rules: what a package of rules declares, and the facts that its checks get.

These names are stable, and documented in ``docs/own-rules.md``. Nothing heavy is imported here, so
that loading a plugin takes no time where all results come from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    Fact = Literal["call", "operation"]

__all__ = [
    "Call",
    "Check",
    "Expression",
    "Operation",
    "Place",
    "Replacement",
    "Report",
    "RuleSet",
    "on_call",
    "on_operation",
]


class Expression(Protocol):
    """An expression, and what is known of its value."""

    @property
    def source(self) -> str:
        """The text in the file."""

    @property
    def is_array(self) -> bool:
        """Return whether the value is an ``mx.array``."""

    @property
    def dtype(self) -> str | None:
        """The dtype of the array, such as ``"bfloat16"``; None if unknown or no array."""

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The sizes of the array's axes, None for an unknown one; None if their number is."""

    @property
    def constant(self) -> bool | int | float | complex | str | None:
        """The value of a constant number or string; None for anything else."""

    @property
    def call(self) -> Call | None:
        """The one call that computes the value, also through names; None if there is none."""

    @property
    def operation(self) -> Operation | None:
        """The one arithmetic operation that computes the value, also through names."""


class Place(Protocol):
    """The place of a call or an operation in the program."""

    @property
    def function(self) -> str | None:
        """The function around it, such as ``"Trainer.step"``; None at module level."""

    @property
    def in_loop(self) -> bool:
        """Return whether a loop of that function, or of the module's top level, is around it."""

    @property
    def is_compiled(self) -> bool:
        """Return whether that function runs under ``mx.compile`` or ``mx.vmap``."""

    @property
    def is_differentiated(self) -> bool:
        """Return whether that function runs under ``mx.grad`` or ``mx.value_and_grad``."""

    @property
    def is_test(self) -> bool:
        """Return whether the file is a test."""


class Call(Protocol):
    """A call of a function of a library, or of a method of an array."""

    @property
    def name(self) -> str:
        """The function's qualified name (``"mlx.core.eval"``), or the method's (``".item"``)."""

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """The arguments by position, up to a ``*args``."""

    @property
    def keywords(self) -> dict[str, Expression]:
        """The arguments by keyword, without ``**kwargs``."""

    @property
    def receiver(self) -> Expression | None:
        """The array whose method is called."""

    @property
    def result(self) -> Expression:
        """The call as an expression."""

    @property
    def place(self) -> Place:
        """The call's place."""


class Operation(Protocol):
    """An arithmetic operation of which an operand is an array, such as ``x * y``."""

    @property
    def operator(self) -> str:
        """The operator, such as ``"*"``; the same for ``x *= y``."""

    @property
    def left(self) -> Expression:
        """The left operand."""

    @property
    def right(self) -> Expression:
        """The right operand."""

    @property
    def in_place(self) -> bool:
        """Return whether it is an augmented assignment, ``x *= y``."""

    @property
    def place(self) -> Place:
        """The operation's place."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A fix: a text for the expression that is reported.

    Attributes:
        title: one line, in the imperative.
        text: Python; the names in it must be known in the file.
        safe: the program computes the same, dtypes included.
    """

    title: str
    text: str
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A finding of a check.

    Attributes:
        at: what is reported, of the call or operation that the check got.
        message: the problem, in one line of at most 80 characters.
        help: the remedy, in one sentence without a period.
        fix: for ``embercoach check --fix``.
    """

    at: Call | Operation | Expression
    message: str
    help: str
    fix: Replacement | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check: made by the decorators :func:`on_call` and :func:`on_operation`.

    Attributes:
        code: of the rule that it reports.
        fact: the type of fact that it gets.
        function: a generator of reports about one fact.
        names: of a check of calls: the names and prefixes of the functions.
    """

    code: str
    fact: Fact
    function: Callable[[Any], Iterable[Report]]
    names: frozenset[str] = frozenset()

    def __call__(self, fact: Any) -> Iterable[Report]:
        """Call the function, as if it had no decorator."""
        return self.function(fact)


def on_call(code: str, of: Iterable[str]) -> Callable[[Callable[[Call], Iterable[Report]]], Check]:
    """Make a function a check of calls.

    Args:
        code: of the rule that it reports.
        of: qualified names of functions (``"mlx.core.eval"``), prefixes of such names that end
            with a period (``"mlx.nn."``), and methods of arrays (``".item"``, or ``"."`` for all).

    Raises:
        TypeError: ``of`` is a single string.
    """
    if isinstance(of, str):
        raise TypeError(f"of must be a collection of names, got the string {of!r}")
    names = frozenset(of)

    def decorate(function: Callable[[Call], Iterable[Report]]) -> Check:
        return Check(code, "call", function, names)

    return decorate


def on_operation(code: str) -> Callable[[Callable[[Operation], Iterable[Report]]], Check]:
    """Make a function a check of arithmetic operations on arrays.

    Args:
        code: of the rule that it reports.
    """

    def decorate(function: Callable[[Operation], Iterable[Report]]) -> Check:
        return Check(code, "operation", function)

    return decorate


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A package's rules; what an entry point of the group ``embercoach.rules`` names.

    Attributes:
        prefix: the first word of all codes, such as ``"ACME"`` of ``ACME-EVAL-001``.
        pages: the folder of the rules' pages: ``Path(__file__).parent / "pages"``.
        checks: the checks; each page has one at least.
    """

    prefix: str
    pages: Path
    checks: tuple[Check, ...] = field(default=())
