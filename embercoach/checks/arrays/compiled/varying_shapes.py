"""Arrays whose shapes differ from one round of a call's loop to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CallFact

if TYPE_CHECKING:
    from embercoach.analysis.facts.reaching import Binding
    from embercoach.checks.arrays.compiled.varying import Varying


def changes_shape(varying: Varying, node: cst.BaseExpression, statement: cst.CSTNode) -> bool:
    """Return whether an array has another shape in each round of the loop."""
    if isinstance(node, cst.Subscript):
        return any(_cut(varying, e.slice, statement) for e in node.slice)
    if isinstance(node, cst.Name):
        return any(_is_extended(varying, b) for b in varying.bindings(node.value, statement))
    if not isinstance(node, cst.Call):
        return False
    fact = varying.calls.get(node)
    if fact is None or fact.symbol is None or not node.args:
        return False
    first = node.args[0].value
    if fact.symbol == "mlx.core.array":
        return isinstance(first, cst.Name) and varying.grows(first.value)
    if fact.symbol in ("mlx.core.zeros", "mlx.core.ones", "mlx.core.arange"):
        sizes = [e.value for e in getattr(first, "elements", ())] or [first]
        return any(varying.number(size, statement) for size in sizes)
    return False


def _cut(varying: Varying, part: cst.BaseSlice, statement: cst.CSTNode) -> bool:
    """``:i`` or ``i:``; ``i : i + 8`` always has 8 elements."""
    if not isinstance(part, cst.Slice) or (part.lower is None) == (part.upper is None):
        return False
    bound = part.lower or part.upper
    return bound is not None and varying.number(bound, statement)


def _is_extended(varying: Varying, binding: Binding) -> bool:
    """``x = mx.concatenate([x, y])`` in the loop."""
    if binding.kind != "assigned" or not varying.is_inside(binding.statement):
        return False
    value = binding.value
    fact = varying.calls.get(value) if value is not None else None
    if not isinstance(fact, CallFact):
        return False
    if fact.symbol != "mlx.core.concatenate":
        return isinstance(value, cst.Call) and changes_shape(varying, value, binding.statement)
    parts = getattr(fact.node.args[0].value, "elements", ()) if fact.node.args else ()
    return len(parts) > 1 and any(
        isinstance(p.value, cst.Name) and p.value.value == binding.name for p in parts
    )
