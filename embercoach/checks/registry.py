"""Checks: functions from a fact to reports, registered by the codes that they report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from embercoach.analysis.facts import Fact, Place
from embercoach.analysis.module import Module

if TYPE_CHECKING:
    import libcst as cst


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


CheckFunction = Callable[[Fact, Module], Iterator[Report]]
FileCheckFunction = Callable[[Module, "list[Fact]"], Iterator[Report]]
BY_FACT: dict[type[Fact], list[CheckFunction]] = {}
BY_FILE: list[FileCheckFunction] = []
CODES: set[str] = set()

F = TypeVar("F", bound=Callable[..., Iterator[Report]])


def check(*codes: str, on: type[Fact]) -> Callable[[F], F]:
    """Register a check of one kind of fact, by the codes that it may report."""

    def register(function: F) -> F:
        CODES.update(codes)
        BY_FACT.setdefault(on, []).append(function)
        return function

    return register


def file_check(*codes: str) -> Callable[[F], F]:
    """Register a check that needs all facts of a file at once."""

    def register(function: F) -> F:
        CODES.update(codes)
        BY_FILE.append(function)
        return function

    return register
