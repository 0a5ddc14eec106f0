"""The entries of a launch's ``grid``, ``threadgroup`` and output shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach.analysis.facts.scopes import Expression, items, scope_at
from embercoach.analysis.shapes.node_shapes import value_at
from embercoach.analysis.sizes.ceil_division import alternatives
from embercoach.analysis.sizes.symbolic import symbolic
from embercoach.analysis.values.lattice import UNKNOWN, Number
from embercoach.checks.programs.kernels import items_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.sizes.symbolic import SymInt
    from embercoach.analysis.values.lattice import Value

#: Threads of a threadgroup that Metal allows at most.
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of ``grid``, ``threadgroup`` or a shape.

    Attributes:
        size: None where the tuple is put together elsewhere.
        known: its value.
        limit: the most that it can be: ``known``, or the constant of ``min(256, n)``.
    """

    size: SymInt | None = None
    known: int | None = None
    limit: int | None = None


Entries = tuple[Entry, Entry, Entry]


def entries_of(fact: CallFact, name: str, module: Module) -> Entries | None:
    """The three entries of ``grid`` or ``threadgroup``, None where they are not to be seen."""
    argument = fact.keyword(name)
    if argument is None:
        return None
    entries = tuple_entries(
        Expression(argument.node, scope_at(fact, module)),
        items_of(argument.value),
        value_at(module, argument.node, None if fact.visit is None else fact.visit.node),
    )
    if len(entries) != 3:
        return None
    x, y, z = entries
    return x, y, z


def tuple_entries(
    expression: Expression | None, values: tuple[Value, ...] | None, sizes: Any
) -> tuple[Entry, ...]:
    """The entries of a tuple by what is written and by what inference knows; none if unknown.

    Args:
        expression: what is written.
        values: of the entries.
        sizes: the entries' sizes, as the inference of shapes knows them.
    """
    written: Sequence[Expression | None] | None = None
    if expression is not None:
        written = items(expression)
    known = sizes if type(sizes) is tuple else None
    many = next((len(one) for one in (written, values, known) if one is not None), 0)
    if written is None:
        written = [None] * many
    if values is None or len(values) != many:
        values = (UNKNOWN,) * many
    if known is None or len(known) != many:
        known = (None,) * many
    return tuple(
        _entry(None if size is None else symbolic(size), value, number)
        for size, value, number in zip(written, values, known, strict=True)
    )


def _entry(size: SymInt | None, value: Value, number: Any) -> Entry:
    known = None if size is None else size.known
    if known is None and type(value) is Number and type(value.const) is int:
        known = value.const
    if known is None and type(number) is int:
        known = number
    if known is not None or size is None:
        return Entry(size, known, known)
    choices = (choice.known for choice in alternatives(size))
    return Entry(size, None, min((n for n in choices if n is not None), default=None))
