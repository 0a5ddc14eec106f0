"""INDEX-007: arrays as keys of dictionaries and elements of sets, which are never found again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.values.lattice import BoundMember, Dict, Sequence, definite_array, options
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact, CompareFact, Fact, FactPlace, IndexFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

_COLLECTIONS = ("builtins.set", "builtins.frozenset", "collections.Counter")
_METHODS = tuple(f".{name}" for name in ("get", "setdefault", "pop", "add", "discard", "remove"))


@check("INDEX-007")
def array_key(fact: IndexFact, module: Module) -> Iterator[Report]:
    """``names[token]``, ``counts[token] = 1``."""
    if fact.form == "index" and _is_hashed(fact.base, "dict"):
        is_read = not _is_target(fact.place.statement, fact.node)
        yield from _report(fact, fact.node, fact.index, is_read=is_read)


@check("INDEX-007")
def array_member(fact: CompareFact, module: Module) -> Iterator[Report]:
    """``token in seen``."""
    if fact.operator in ("in", "not in") and _is_hashed(fact.right.value, "dict", "set"):
        yield from _report(fact, fact.left.node, fact.left.value, is_read=True)


@check("INDEX-007", of=_METHODS)
def array_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``names.get(token)``, ``seen.add(token)``."""
    owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
    key = fact.positional(0)
    if owner is None or key is None or not isinstance(fact.callee, BoundMember):
        return
    is_added = fact.callee.name == "add"
    if _is_hashed(owner, "set" if is_added else "dict", "set"):
        yield from _report(fact, key.node, key.value, is_read=not is_added)


@check("INDEX-007", of=_COLLECTIONS)
def counted_array(fact: CallFact, module: Module) -> Iterator[Report]:
    """``set(tokens)``, ``Counter(tokens)``."""
    first = fact.positional(0)
    if first is not None and definite_array(first.value) is not None:
        yield from _report(fact, first.node, first.value, is_read=True)


def _is_hashed(value: Value, *kinds: str) -> bool:
    """Return whether a value is certainly a dictionary or a set."""
    for option in options(value):
        if isinstance(option, Dict):
            found = "dict"
        elif isinstance(option, Sequence):
            found = option.kind
        else:
            return False
        if found not in kinds:
            return False
    return True


def _report(
    fact: Fact, node: cst.BaseExpression, value: Value, *, is_read: bool
) -> Iterator[Report]:
    """Report an array; one that is stored under its name may be looked up by this very object."""
    if definite_array(value) is None or not (is_read or _is_fresh(node, fact.place)):
        return
    yield Report.at(
        fact,
        "INDEX-007",
        node=node,
        message="mx.array as a key: hashed by identity, an equal one is never found",
        help="Use Python numbers as keys: `x.tolist()` once, or `x.item()`",
        subject=node,
    )


def _is_fresh(node: cst.BaseExpression, place: FactPlace) -> bool:
    """Return whether an expression is a new object each time that it is evaluated."""
    return not isinstance(node, (cst.Name, cst.Attribute)) or (
        isinstance(node, cst.Name) and node.value in place.array_names
    )


def _is_target(statement: cst.CSTNode, node: cst.BaseExpression) -> bool:
    """Return whether an item under a key is assigned."""
    targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []
    indices = (e.slice for t in targets if isinstance(t, cst.Subscript) for e in t.slice)
    return any(isinstance(index, cst.Index) and index.value is node for index in indices)
