"""GRAD-005: distances of an array's rows from each other, whose gradient is NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.checks.arrays.numerics.compositions import SUM, called, squared
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module

_SUMS = SUM | {"mlx.core.mean"}


@check("GRAD-005", of=("mlx.core.linalg.norm", "mlx.core.sqrt", ".sqrt"))
def distance_from_itself(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.linalg.norm(x[:, None] - x[None], axis=-1)`` in a differentiated function."""
    info = fact.place.function
    if info is None or not info.differentiated:
        return
    taken = called(Expression(fact.node, scope_of(module, info)), module)
    if taken is None:
        return
    of_squares = taken.array
    if taken.name != "mlx.core.linalg.norm":
        yield from _root_of(fact, of_squares, module)
    elif _is_from_itself(of_squares, module):
        yield _report(fact)


@check("GRAD-005")
def root_by_power(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.sum(mx.square(x[:, None] - x[None]), -1) ** 0.5``."""
    info, number = fact.place.function, fact.right.number
    if fact.operator != "**" or number is None or number.const != 0.5:
        return
    if info is not None and info.differentiated:
        yield from _root_of(fact, Expression(fact.left.node, scope_of(module, info)), module)


def _root_of(fact: Fact, expression: Expression, module: Module) -> Iterator[Report]:
    summed = called(expression, module)
    difference = None
    if summed is not None and summed.name in _SUMS:
        difference = squared(summed.array, module)
    if difference is not None and _is_from_itself(difference, module):
        yield _report(fact)


def _report(fact: Fact) -> Report:
    return Report.at(
        fact,
        "GRAD-005",
        message="gradient is NaN: the distance of each row from itself is 0",
        help="Add an epsilon to the sum of squares, before the root",
    )


def _is_from_itself(expression: Expression, module: Module) -> bool:
    """Test whether an expression is ``x[:, None] - x[None]``."""
    found = resolve_name(expression)
    node = found.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
        return False
    if node.left.deep_equals(node.right):
        return False
    sides = [_expanded(found.at(side), module) for side in (node.left, node.right)]
    one, other = sides
    if one is None or other is None:
        return False
    return one.scope is other.scope and one.node.deep_equals(other.node)


def _expanded(expression: Expression, module: Module) -> Expression | None:
    """``x`` of ``x[:, None]`` and ``mx.expand_dims(x, 1)``."""
    found = resolve_name(expression)
    node = found.node
    if isinstance(node, cst.Subscript):
        indices = [element.slice for element in node.slice]
        is_expansion = all(_keeps_all(index) for index in indices)
        return resolve_name(found.at(node.value)) if is_expansion else None
    call = called(found, module)
    is_expansion = call is not None and call.name == "mlx.core.expand_dims"
    return resolve_name(call.array) if call is not None and is_expansion else None


def _keeps_all(index: cst.BaseSlice) -> bool:
    """Test whether an index is ``None``, ``:`` or ``...``."""
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    value = index.value if isinstance(index, cst.Index) else None
    return isinstance(value, cst.Ellipsis) or getattr(value, "value", None) == "None"
