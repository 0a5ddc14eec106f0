"""Reports on pulls: what reading an array costs in its context, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.contexts import EFFECTS, error_of, is_evaluated_before, recurrence_of
from embercoach.analysis.syntax.trees import names_below
from embercoach.checks.arrays.pulls.invariance import is_invariant
from embercoach.checks.arrays.pulls.remedies import Remedy, remedy_of
from embercoach.checks.registry import Report

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value


def pull(  # noqa: PLR0913 (one keyword for each part of a report)
    fact: Fact,
    code: str,
    module: Module,
    operation: str,
    *,
    value: Value,
    help: str,  # noqa: A002 (as in ``Report.at``)
    node: cst.CSTNode | None = None,
    pulled_by: cst.CSTNode | None = None,
    array_node: cst.CSTNode | None = None,
    subject: cst.CSTNode | None = None,
    covers: tuple[cst.CSTNode, ...] = (),
    replaces: tuple[str, ...] = (),
    always: frozenset[str] = frozenset(),
    replaced: bool = False,
) -> Report:
    """Report that the host reads an array, and the effect that this has in its context.

    Args:
        fact: the fact to report.
        code: the rule's code.
        module: the module of the fact.
        operation: the start of the message.
        value: the array that is read.
        help: as in ``Report.at``: the remedy in contexts of errors, and where there is no other.
        node: as in ``Report.at``.
        pulled_by: the node that synchronizes, if it isn't ``node``.
        array_node: the expression of the array, which may have been evaluated just before.
        subject: the expression whose origin becomes the flow; ``array_node`` by default.
        covers: as in ``Report``.
        replaces: as in ``Report``.
        always: the recurrences in which ``help`` saves the read, whatever its value is used for.
        replaced: ``help`` names the function of MLX that saves the read of an operand.
    """
    pull_node = pulled_by or node or fact.node
    recurrence = recurrence_of(fact.place, module)
    context = error_of(fact.place, value, pull_node)
    evaluated = _is_evaluated(fact, array_node, module)
    remedy: Remedy | None = None
    if context is None and module.purpose is not None:
        context = module.purpose
    elif context is None and recurrence is not None:
        if code != "GRAPH-BREAK-008":  # what a text shows has to leave
            remedy = remedy_of(fact.place, pull_node, array_node, module, evaluated=evaluated)
        context = "avoidable" if remedy is not None or recurrence in always else None
    if context in EFFECTS:
        effect = EFFECTS[context]
    elif remedy is Remedy.FIRST_COPY:
        effect = "copies an array that has been read before"
    elif remedy is None and evaluated:
        effect = "only costs a device-to-host copy"
    elif recurrence is None:
        effect = "forces evaluation and synchronizes"
    else:
        effect = f"synchronizes with the GPU in every {recurrence}"
    return Report.at(
        fact,
        code,
        node=node,
        message=f"{operation} {effect}",
        help=help if remedy is None or replaced else remedy.value,
        context=context or "minor",
        covers=covers,
        replaces=replaces,
        subject=subject or array_node,
    )


def _is_evaluated(fact: Fact, array_node: cst.CSTNode | None, module: Module) -> bool:
    if array_node is None:
        return False
    if is_evaluated_before(fact.place, array_node, module):
        return True
    # The first iteration has evaluated what a loop does not change.
    is_named = isinstance(array_node, (cst.Name, cst.Attribute)) and fact.place.loops > 0
    return (
        is_named
        and fact.place.loop_names.isdisjoint(names_below(array_node))
        and is_invariant(array_node, fact.place, module)
    )
