"""Fixes of pulls of one number per iteration: read or reduce the array before the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.checks.hoisted_reads import element_fix, invariant_fix, row_fix
from embercoach.checks.row_reductions import reduction_fix

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Array
    from embercoach.checks.registry import ProposedFix


def loop_fix(
    module: Module,
    place: FactPlace,
    subject: cst.BaseExpression,
    array: Array,
    *,
    pulled: cst.Call | None = None,
    cast: cst.Call | None = None,
) -> ProposedFix | None:
    """Fix the pull of a number in a loop.

    Args:
        module: the module of the pull.
        place: its place.
        subject: the expression of the array.
        array: its value.
        pulled: ``subject.item()``, which the number replaces.
        cast: ``int(subject)``, in which the number replaces ``subject``.
    """
    if not place.loops:
        return None
    call, replaced = pulled or cast, pulled or subject
    fix = None if call is None else invariant_fix(module, place, call, subject)
    if fix is None and isinstance(subject, cst.Subscript):
        fix = element_fix(module, place, subject, array, replaced=replaced)
    elif fix is None and isinstance(subject, cst.Name):
        fix = row_fix(module, place, subject, replaced)
    elif fix is None and isinstance(subject, cst.Call):
        fix = reduction_fix(module, place, subject, replaced)
    return fix
