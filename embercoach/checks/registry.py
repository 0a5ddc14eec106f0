"""The registry of checks (functions from a fact to reports), and what they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from embercoach.analysis.facts.facts import CallFact, Fact, Place
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.lattice import BoundMember, Symbol

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.facts.stops import Stop


@dataclass(frozen=True, slots=True)
class Change:
    """A fix before positions are known: each node and the text that replaces it."""

    title: str
    safe: bool
    edits: tuple[tuple[cst.CSTNode, str], ...]


class Located(Protocol):
    """A node and the place it is in: a fact, or the target of a report about a kernel's text."""

    @property
    def node(self) -> cst.CSTNode:
        """The node."""

    @property
    def place(self) -> Place:
        """Its place."""


@dataclass(frozen=True, slots=True)
class Report:
    """A finding of a check, before its node has a position. Build it with :meth:`at`.

    Attributes:
        context: one of ``embercoach.rulebook.CONTEXTS``; None for that of the place.
        text_span: start and end in characters of the node's own source text, if only a part of it
            is meant (a line of a kernel's body inside a string literal).
        covers: nodes whose own reports would repeat this one and are dropped.
        replaces: codes that are dropped at the same node, as this report is more specific.
        subject: the expression of the array that is meant; its origin becomes the finding's flow.
        related: other places that belong to the finding.
    """

    code: str
    node: cst.CSTNode
    place: Place
    message: str
    help: str
    context: str | None = None
    change: Change | None = None
    text_span: tuple[int, int] | None = None
    covers: tuple[cst.CSTNode, ...] = ()
    replaces: tuple[str, ...] = ()
    subject: cst.CSTNode | None = None
    related: tuple[Stop, ...] = ()

    @classmethod
    def at(  # noqa: PLR0913 (one keyword for each field)
        cls,
        where: Located,
        code: str,
        *,
        message: str,
        help: str,  # noqa: A002 (the name of the field)
        node: cst.CSTNode | None = None,
        place: Place | None = None,
        context: str | None = None,
        change: Change | None = None,
        text_span: tuple[int, int] | None = None,
        covers: tuple[cst.CSTNode, ...] = (),
        replaces: tuple[str, ...] = (),
        subject: cst.CSTNode | None = None,
        related: tuple[Stop, ...] = (),
    ) -> Report:
        """Report a fact, or ``node``, an expression of it."""
        return cls(
            code,
            node or where.node,
            place or where.place,
            message,
            help,
            context,
            change,
            text_span,
            covers,
            replaces,
            subject,
            related,
        )

    def about(self, subject: cst.CSTNode) -> Report:
        """The report with the expression of the array that is meant."""
        return replace(self, subject=subject)


CheckFunction = Callable[[Fact, Module], Iterator[Report]]
FileCheckFunction = Callable[[Module, "list[Fact]"], Iterator[Report]]
BY_FACT: dict[type[Fact], list[CheckFunction]] = {}
#: Checks of calls, with the names of the callees that they check; None for any callee.
OF_CALLS: list[tuple[frozenset[str] | None, CheckFunction]] = []
BY_FILE: list[FileCheckFunction] = []
CODES: set[str] = set()

F = TypeVar("F", bound=Callable[..., Iterator[Report]])


def check(*codes: str, on: type[Fact], of: Iterable[str] | None = None) -> Callable[[F], F]:
    """Register a check of one kind of fact, by the codes that it may report.

    Args:
        codes: the codes.
        on: the kind of fact.
        of: for calls, the callees: qualified names of library functions (``"builtins.int"``),
            prefixes of such names (``"numpy."``), and methods (``".item"``). None for any call.
    """
    callees = None if of is None else frozenset(of)

    def register(function: F) -> F:
        CODES.update(codes)
        if on is CallFact:
            OF_CALLS.append((callees, function))
            _of_call.cache_clear()
        else:
            BY_FACT.setdefault(on, []).append(function)
        return function

    return register


def checks_of(fact: Fact) -> Sequence[CheckFunction]:
    """The checks that may report a fact, in the order of registration."""
    if type(fact) is not CallFact:
        return BY_FACT.get(type(fact), ())
    callee = fact.callee
    if type(callee) is Symbol:
        return _of_call(callee.name)
    return _of_call(f".{callee.name}" if type(callee) is BoundMember else None)


@lru_cache(maxsize=4096)
def _of_call(name: str | None) -> tuple[CheckFunction, ...]:
    """The checks of calls of a function or a ``.method``; None for any other callee."""
    return tuple(
        function
        for callees, function in OF_CALLS
        if callees is None
        or (name is not None and (name in callees or name.startswith(_prefixes(callees))))
    )


def _prefixes(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name.endswith("."))


def file_check(*codes: str) -> Callable[[F], F]:
    """Register a check that needs all facts of a file at once."""

    def register(function: F) -> F:
        CODES.update(codes)
        BY_FILE.append(function)
        return function

    return register
