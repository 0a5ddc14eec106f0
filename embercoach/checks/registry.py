"""Checks: functions from a fact to reports, registered by the codes that they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from embercoach.analysis.facts.facts import CallFact, Fact, Place
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.lattice import BoundMember, Symbol

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.facts.stops import Stop


@dataclass(frozen=True, slots=True)
class Change:
    """A fix before positions are known: each node is to be replaced by a text."""

    title: str
    safe: bool
    edits: tuple[tuple[cst.CSTNode, str], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What a check says about a node.

    text_span: start and end in characters of the node's own source text, where a part of it is
        meant (a line of a kernel's body inside a string literal).
    covers: nodes whose own reports would tell the same harm again and are dropped.
    replaces: codes that are dropped at the same node, as this report says it more closely.
    subject: the expression of the array that is meant, whose origin is told.
    beside: other places that belong to it.
    """

    code: str
    node: cst.CSTNode
    place: Place
    message: str
    help: str
    context: str
    change: Change | None = None
    text_span: tuple[int, int] | None = None
    covers: tuple[cst.CSTNode, ...] = ()
    replaces: tuple[str, ...] = ()
    subject: cst.CSTNode | None = None
    beside: tuple[Stop, ...] = ()

    def about(self, subject: cst.CSTNode) -> Report:
        """The report with the expression of the array that is meant."""
        return replace(self, subject=subject)


CheckFunction = Callable[[Fact, Module], Iterator[Report]]
FileCheckFunction = Callable[[Module, "list[Fact]"], Iterator[Report]]
BY_FACT: dict[type[Fact], list[CheckFunction]] = {}
#: Checks of calls, with the names of what they want to be called; None where that doesn't matter.
OF_CALLS: list[tuple[frozenset[str] | None, CheckFunction]] = []
BY_FILE: list[FileCheckFunction] = []
CODES: set[str] = set()

F = TypeVar("F", bound=Callable[..., Iterator[Report]])


def check(*codes: str, on: type[Fact], of: Iterable[str] | None = None) -> Callable[[F], F]:
    """Register a check of one kind of fact, by the codes that it may report.

    Args:
        codes: the codes.
        on: the kind of fact.
        of: for calls, whose: the qualified names of library functions (``"builtins.int"``),
            beginnings of such that end with a dot (``"numpy."``), and methods (``".item"``). None
            for any call.
    """
    wanted = None if of is None else frozenset(of)

    def register(function: F) -> F:
        CODES.update(codes)
        if on is CallFact:
            OF_CALLS.append((wanted, function))
            _of_call.cache_clear()
        else:
            BY_FACT.setdefault(on, []).append(function)
        return function

    return register


def checks_of(fact: Fact) -> Sequence[CheckFunction]:
    """The checks that may have something to say about a fact, as they were registered."""
    if type(fact) is not CallFact:
        return BY_FACT.get(type(fact), ())
    callee = fact.callee
    if type(callee) is Symbol:
        return _of_call(callee.name)
    return _of_call(f".{callee.name}" if type(callee) is BoundMember else None)


@lru_cache(maxsize=4096)
def _of_call(name: str | None) -> tuple[CheckFunction, ...]:
    """The checks of calls of a function, a ``.method``, or of anything else."""
    return tuple(
        function
        for wanted, function in OF_CALLS
        if wanted is None
        or (name is not None and (name in wanted or any(map(name.startswith, _beginnings(wanted)))))
    )


def _beginnings(names: frozenset[str]) -> list[str]:
    return [name for name in names if name.endswith(".")]


def file_check(*codes: str) -> Callable[[F], F]:
    """Register a check that needs all facts of a file at once."""

    def register(function: F) -> F:
        CODES.update(codes)
        BY_FILE.append(function)
        return function

    return register
