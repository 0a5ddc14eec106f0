"""Fixes of pulls that reduce one row per iteration: reduce all rows at once, before the loop.

All of them are unsafe: they read all rows, and sums of floats may differ in their last digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import target_names
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import BoundMember
from embercoach.analysis.values.promotion import FLOATING
from embercoach.checks.hoisted_reads import are_host_ints, before_loops, row_index
from embercoach.checks.read_syntax import fresh, read_before, stored
from embercoach.checks.registry import ProposedFix
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import CallFact, FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Array

REDUCTIONS = frozenset(("sum", "max", "min", "any", "all", "argmax", "argmin", "mean", "prod"))
#: Reductions whose result depends on the order of the elements.
ROUNDED = frozenset(("sum", "mean", "prod"))


def reduction_fix(
    module: Module, place: FactPlace, reduced: cst.BaseExpression, replaced: cst.CSTNode
) -> ProposedFix | None:
    """Replace ``mx.sum(x[i]).item()`` by ``x_sum[i]``, with one pull of all sums before the loop.

    Args:
        module: the module of the pull.
        place: its place.
        reduced: the expression of the pulled array, ``mx.sum(x[i])`` or ``x[i].sum()``.
        replaced: the expression that becomes ``x_sum[i]``.
    """
    mx = mlx_alias(module)
    fact = calls_of(module).get(reduced)
    if mx is None or fact is None:
        return None
    name, row, value = _reduction(fact)
    if name is None or row is None or value is None:
        return None
    row, cast = _cast(module, row)
    if name in ROUNDED and value.dtype in FLOATING:
        return None
    sizes = None if value.shape is None else value.shape.sizes
    if sizes == ():
        return None
    found = _row(module, place, row)
    if found is None:
        return None
    array, index = found
    before = before_loops(module, place, reduced, array)
    rows = array + cast + ("" if sizes is not None and len(sizes) == 1 else ".flatten(1)")
    text = f"{mx}.{name}({rows}, axis=1).tolist()"
    line = None if before is None else read_before(place.function, before, array, text)
    result = fresh(module, f"{array}_{name}")
    if before is None or line is None or result is None:
        return None
    return ProposedFix(
        "Reduce all rows at once, before the loop",
        False,
        ((replaced, f"{result}[{index}]"),),
        ((before, f"{result} = {line}"),),
    )


def _reduction(fact: CallFact) -> tuple[str | None, cst.BaseExpression | None, Array | None]:
    """The reduction's name, and the expression and the value of what it reduces as a whole."""
    if isinstance(fact.callee, BoundMember):
        is_plain = fact.callee.name in REDUCTIONS and not fact.arguments
        name, row, value = fact.callee.name, fact.receiver_node, fact.array
        return (name, row, value) if is_plain else (None, None, None)
    name = (fact.symbol or "").removeprefix("mlx.core.")
    argument = fact.positional(0)
    if name not in REDUCTIONS or argument is None or len(fact.arguments) != 1:
        return None, None, None
    return name, argument.node, as_array(argument.value)


def _cast(module: Module, row: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
    """The row of ``x[i].astype(dtype)``, and the text of the cast."""
    if not isinstance(row, cst.Call) or not isinstance(row.func, cst.Attribute):
        return row, ""
    is_cast = row.func.attr.value == "astype" and len(row.args) == 1
    text = module.parsed.code(row.args[0].value) if is_cast else ""
    return (
        (row.func.value, f".astype({text})")
        if text.startswith(f"{mlx_alias(module)}.")
        else (row, "")
    )


def _row(module: Module, place: FactPlace, row: cst.BaseExpression) -> tuple[str, str] | None:
    """The array and the index of one of its rows."""
    if isinstance(row, cst.Name):
        found = row_index(module, place, row)
        if found is not None:
            return found
        assigned = _assigned(place, row.value)
        if assigned is None:
            return None
        row = assigned
    if not isinstance(row, cst.Subscript) or not isinstance(row.value, cst.Name):
        return None
    element = row.slice[0].slice
    if len(row.slice) != 1 or not isinstance(element, cst.Index) or element.star is not None:
        return None
    if isinstance(element.value, cst.Tuple):
        return None
    if not are_host_ints(module, place, row, [element.value]):
        return None
    return row.value.value, module.parsed.code(element.value)


def _assigned(place: FactPlace, name: str) -> cst.BaseExpression | None:
    """The value that the innermost loop gives a name at the start of each iteration."""
    if place.loop is None or not isinstance(place.loop.body, cst.IndentedBlock):
        return None
    found: cst.BaseExpression | None = None
    for line in place.loop.body.body:
        if found is None and isinstance(line, cst.SimpleStatementLine):
            small = line.body[0]
            if isinstance(small, cst.Assign) and name in _targets(small):
                found = small.value if len(small.targets) == 1 else None
                if found is None or not isinstance(small.targets[0].target, cst.Name):
                    return None
                continue
        if name in stored(line):
            return None
    return found


def _targets(assign: cst.Assign) -> set[str]:
    return {name for one in assign.targets for name in target_names(one.target)}
