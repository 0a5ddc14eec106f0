"""INDEX-004: in-place updates of arrays that other names still hold."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.later_reads import comes_later, reads_of
from embercoach.analysis.facts.reaching import without_updates
from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.updates.kept_arrays import kept
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import BinaryFact, Fact, ItemStoreFact
    from embercoach.analysis.facts.reaching import Binding, Reaching
    from embercoach.analysis.project.module import Module

#: Characters of a name that a message quotes.
LONGEST = 20
#: Copies of a name that are looked at.
MOST_COPIES = 16
HELP = "Use `x = x + v`, or copy it first: `mx.array(x)`"


class _Update(NamedTuple):
    """An in-place update: the fact, the expression that is updated, and the scope's bindings."""

    fact: Fact
    node: cst.BaseExpression
    reaching: Reaching


@check("INDEX-004")
def operator_in_place(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x += v``."""
    if fact.in_place and fact.left.array is not None:
        yield from _shared(fact, fact.left.node, module)
        yield from kept(fact, fact.left.node, module)


@check("INDEX-004")
def write_in_place(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``x[i] = v``."""
    if as_array(fact.base) is not None:
        yield from _shared(fact, fact.node.value, module)
        yield from kept(fact, fact.node.value, module)


def _shared(fact: Fact, node: cst.BaseExpression, module: Module) -> Iterator[Report]:
    if isinstance(node, cst.Subscript):
        if node not in module.array_parts:  # a part is a copy (INDEX-002)
            yield from _repeated_item(fact, node, module)
        return
    reaching = scope_of(module, fact.place.function).reaching
    if not isinstance(node, cst.Name):
        return
    update = _Update(fact, node, reaching)
    for other, binding in _aliases(update, node.value, module):
        if _is_read_after(update, other, binding, module):
            shown = quoted(other, LONGEST)
            yield Report.at(
                fact,
                "INDEX-004",
                message=f"in-place update also changes `{shown}`: it is the same array",
                help=HELP,
                subject=node,
            )
            return


def _aliases(update: _Update, name: str, module: Module) -> Iterator[tuple[str, Binding]]:
    """The other names that hold the array that a name holds, with their bindings."""
    reaching, statement = update.reaching, update.fact.place.statement
    here = reaching.before(statement, name)
    if not here:
        return
    for binding in _copies(module, update.fact.place.function).get(name, ())[:MOST_COPIES]:
        if reaching.before(statement, binding.name) == (binding,) and (
            without_updates(reaching.before(binding.statement, name)) == without_updates(here)
        ):
            yield binding.name, binding
    (first, *more) = without_updates(here) or here
    if more or not isinstance(first.value, cst.Name) or first.kind != "assigned":
        return
    other = first.value.value
    held = reaching.before(statement, other)
    if held and len(held) == 1 and held == reaching.before(first.statement, other):
        yield other, held[0]


@lru_cache(maxsize=8)
def _copies(module: Module, function: FunctionInfo | None) -> dict[str, list[Binding]]:
    """The bindings ``y = x`` of a scope, by ``x``."""
    reaching = scope_of(module, function).reaching
    found: dict[str, list[Binding]] = {}
    for bindings in reaching.bindings.values():
        for binding in bindings:
            if binding.kind == "assigned" and isinstance(binding.value, cst.Name):
                found.setdefault(binding.value.value, []).append(binding)
    return found


def _is_read_after(update: _Update, name: str, binding: Binding, module: Module) -> bool:
    """Return whether a name is read after an update, while the binding may hold."""
    place = update.fact.place
    reads = reads_of(module, place.function)
    return comes_later(reads, place.statement, place.loop, name, binding, update.reaching)


def _repeated_item(fact: Fact, node: cst.Subscript, module: Module) -> Iterator[Report]:
    """``rows = [mx.zeros(3)] * 4; rows[0] += 1`` changes all four."""
    if not isinstance(node.value, cst.Name):
        return
    source = resolve_name(Expression(node.value, scope_of(module, fact.place.function))).node
    if not isinstance(source, cst.BinaryOperation) or not isinstance(source.operator, cst.Multiply):
        return
    shown = source.left if isinstance(source.left, cst.List) else source.right
    other = source.right if shown is source.left else source.left
    if not isinstance(shown, cst.List) or not shown.elements:
        return
    if isinstance(other, cst.Integer) and other.value in ("0", "1"):
        return
    yield Report.at(
        fact,
        "INDEX-004",
        message="in-place update changes all items: `[x] * n` repeats one array",
        help="Make an array for each item: `[mx.zeros(3) for _ in range(n)]`",
        subject=node.value,
    )
