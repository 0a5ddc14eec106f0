"""The entries of a launch's ``grid`` and ``threadgroup``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.values.lattice import Number, Value
from embercoach.checks.programs.kernels import count, items_of
from embercoach.checks.sizes import Size, called, constant, display, resolve, scope_at

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module


MAX_THREADS = 1024
"""Threads of a threadgroup that Metal allows at most."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of ``grid`` or ``threadgroup``.

    Attributes:
        size: the expression, None where the tuple is put together elsewhere.
        known: its value.
        limit: the most that it can be: ``known``, or the constant of ``min(256, n)``.
    """

    size: Size | None = None
    known: int | None = None
    limit: int | None = None


Entries = tuple[Entry, Entry, Entry]


def entries_of(fact: CallFact, name: str, module: Module) -> Entries | None:
    """The three entries of ``grid`` or ``threadgroup``, None where they are not to be seen."""
    argument = fact.keyword(name)
    if argument is None:
        return None
    whole = resolve(Size(argument.node, scope_at(fact, module)))
    nodes = display(whole.node)
    sizes = [None] * 3 if nodes is None else [Size(node, whole.scope) for node in nodes]
    values = items_of(argument.value) or (None,) * len(sizes)
    if len(sizes) != 3 or len(values) != 3 or (nodes is None and count(argument.value) is None):
        return None
    x, y, z = map(entry_of, sizes, values)
    return x, y, z


def entry_of(size: Size | None, value: Value | None) -> Entry:
    """An entry by its expression and by what inference knows of it."""
    known = None if size is None else constant(size)
    if known is None and type(value) is Number and type(value.const) is int:
        known = value.const
    limit = known if known is not None or size is None else _limit(size)
    return Entry(size, known, limit)


def _limit(size: Size) -> int | None:
    """The least constant that ``min(...)`` chooses from."""
    size = resolve(size)
    node = size.node
    if not isinstance(node, cst.Call) or called(node, size) != "min":
        return None
    choices = (constant(Size(a.value, size.scope)) for a in node.args if not a.star)
    return min((c for c in choices if c is not None), default=None)
