"""Sizes that have to be equal: decide whether two of them are meant to differ."""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from embercoach.analysis.shapes.python_values import ArgumentScope, ObjectReference, Place
from embercoach.analysis.shapes.size_integers import (
    Comparison,
    Integer,
    SizeExpr,
    SizeOperation,
    SizeSymbol,
    substituted,
    with_wholes,
    without_common_factors,
)
from embercoach.analysis.shapes.suspicions import BATCHES, HEADS

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine, ShapeEvent


def unmeant(event: ShapeEvent, machine: Machine) -> str | None:
    """Return the condition under which a call doesn't raise, if it is one that nobody means.

    ``unless S equals T``; None where the sizes may well be equal.
    """
    condition = event.condition
    if condition is None:
        return None
    if condition.comparison is Comparison.DEGENERATE:
        names = sorted({s.name for n in (condition.left, condition.right) for s in _symbols(n)})
        if not names or _is_more_by_a_flag(condition.left, condition.right):
            return None
        return f"unless {' or '.join(names)} is {'1 or 0' if condition.allows_one else '0'}"
    left, right = reduced(with_wholes(condition.left), with_wholes(condition.right))
    if condition.is_unmeant and _differ_in_general(left, right):
        return f"unless {left} equals {right}"
    if type(left) is int or type(right) is int:
        return None
    if type(condition.left) is int or type(condition.right) is int:
        return None  # ``B * 8 * 16`` of ``B * E``, where 128 may well be E
    if not _are_apart(left, right, event, machine) or not _differ_in_general(left, right):
        return None
    return f"unless {left} equals {right}"


def _is_more_by_a_flag(left: Integer, right: Integer) -> bool:
    """Return whether sizes are as ``D`` and ``D * (both + 1)``, where ``both`` is often 0."""
    for flag in _symbols(left) ^ _symbols(right):
        terms = [t for n in (left, right) if isinstance(n, SizeExpr) for t in n.terms if flag in t]
        without = [substituted(n, {flag: 0}) for n in (left, right)]
        if all(len(term) > 1 for term in terms) and without[0] == without[1] != 0:
            return True
    return False


def _differ_in_general(left: Integer, right: Integer) -> bool:
    """Return whether two sizes differ for numbers that have nothing to do with each other."""
    names = sorted(_symbols(left) | _symbols(right), key=lambda one: one.serial)
    for primes in (_PRIMES, _PRIMES[::-1]):
        values = dict(zip(names, primes, strict=False))
        if substituted(left, values) == substituted(right, values):
            return False
    return len(names) <= len(_PRIMES)


_PRIMES: tuple[Integer, ...] = (101, 211, 307, 401, 503, 601)


def reduced(left: Integer, right: Integer) -> tuple[Integer, Integer]:
    """Get two sizes without the factors that they have in common: B * T and B * S are T and S."""
    if not isinstance(left, SizeExpr) or not isinstance(right, SizeExpr):
        return left, right
    for one, other in ((left, right), (right, left)):
        if len(one.terms) == 1:
            parts = without_common_factors(other, one)
            return (parts[1], parts[0]) if one is left else parts
    return left, right


def _symbols(number: Integer) -> frozenset[SizeSymbol]:
    return number.symbols if isinstance(number, SizeExpr) else frozenset()


def _are_apart(left: Integer, right: Integer, event: ShapeEvent, machine: Machine) -> bool:
    """Return whether sizes stand for different things, as the names of their symbols say.

    These are parameters of one function, or elements of one shape.
    """
    symbols = _symbols(left) | _symbols(right)
    if not symbols or any(
        not one.is_named or one.is_joined or one.place is None or one.quotient for one in symbols
    ):
        return False
    if _has_operation(left) or _has_operation(right):
        return False  # what divides, or is least, is the caller's business
    if _are_of_other_kinds(left, right):
        return True
    if frozenset((left, right)) not in machine.unlike:
        # Fields of a configuration are often equal, or products of each other, by convention.
        if any(isinstance(one.place, (Place, ObjectReference)) for one in symbols):
            return False
        if len({id(one.place) for one in symbols}) > 1:
            return False
    if _is_product_by_convention(left, right, symbols, machine) or _have_one_use_each(symbols):
        return False
    assert event.condition is not None
    return not any(
        _are_related(a, b, machine, adds_axes=event.condition.adds_axes)
        for a, b in combinations(symbols, 2)
    )


def _have_one_use_each(symbols: frozenset[SizeSymbol]) -> bool:
    """Return whether a function takes each size for one layer: its caller makes them fit."""
    return len(symbols) > 1 and all(
        isinstance(one.place, ArgumentScope) and _uses(one.place.function).get(one.name) == 1
        for one in symbols
    )


@lru_cache(maxsize=512)
def _uses(function: ast.AST) -> dict[str, int]:
    """Return the names that a function reads, with how often it does."""
    return Counter(node.id for node in ast.walk(function) if isinstance(node, ast.Name))


def _are_related(a: SizeSymbol, b: SizeSymbol, machine: Machine, *, adds_axes: bool) -> bool:
    """Return whether the program compares two sizes, or has one name or default for both."""
    compared = machine.heap.compared
    if a.name == b.name or frozenset((a, b)) in compared or frozenset((a.name, b.name)) in compared:
        return True
    default = machine.defaults.get(a)
    return not adds_axes and default is not None and default == machine.defaults.get(b)


def _are_of_other_kinds(left: Integer, right: Integer) -> bool:
    """Return whether one size is a number of heads, and the other that of an array's axis."""
    for one, other in ((left, right), (right, left)):
        setting = one.symbol if isinstance(one, SizeExpr) else None
        axis = other.symbol if isinstance(other, SizeExpr) else None
        if setting is None or axis is None or setting.is_local or not axis.is_local:
            continue
        if setting.name.endswith(HEADS) and axis.name.lower().strip("_") in _AXES:
            return True
    return False


#: Names of axes of batches and of positions.
_AXES = BATCHES | {"s", "l", "t", "seq", "seq_len", "length", "q_len", "kv_len"}


def _is_product_by_convention(
    left: Integer, right: Integer, symbols: frozenset[SizeSymbol], machine: Machine
) -> bool:
    """Return whether arguments are as ``dim`` and ``heads * head_dim``.

    Their defaults are, or one of them is the product of others.
    """
    values = {s: n for s in symbols if type(n := machine.defaults.get(s)) is int}
    if len(values) == len(symbols) and substituted(left, values) == substituted(right, values):
        return True
    degrees = sorted(
        len(factors)
        for number in (left, right)
        if isinstance(number, SizeExpr) and len(number.terms) == 1
        for factors in number.terms
    )
    are_arguments = not any(one.is_local for one in symbols)
    return are_arguments and len(degrees) == 2 and degrees[0] == 1 < degrees[1]


def _has_operation(number: Integer) -> bool:
    return isinstance(number, SizeExpr) and any(
        isinstance(atom, SizeOperation) for factors in number.terms for atom in factors
    )
