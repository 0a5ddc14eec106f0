"""Reports on pulls: what reading an array costs in its context, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.contexts import EFFECTS, context_of
from embercoach.analysis.facts.facts import CallFact, TruthFact
from embercoach.analysis.facts.host_uses import is_fed_back, is_log_line
from embercoach.analysis.facts.value_uses import uses_of
from embercoach.analysis.values.lattice import NONE
from embercoach.checks.arrays.pulls.host_data import is_from_list, is_host_data, takes_lists
from embercoach.checks.arrays.pulls.host_detours import takes_host_detour
from embercoach.checks.arrays.pulls.needed_reads import is_needed
from embercoach.checks.arrays.pulls.pull_uses import (
    HELP,
    Verdict,
    is_evaluated_before,
    is_read_again,
    verdict_of,
)
from embercoach.checks.arrays.pulls.whole_passes import ends_whole_pass
from embercoach.checks.registry import Report

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Contexts in which a pull is judged by what becomes of its value.
JUDGED = frozenset(("loop", "function"))
#: Contexts in which the host may wait for the array.
MAY_WAIT = frozenset(("loop", "forward", "function"))
COPIED_AGAIN = "copies an array that has been read before"


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
    may_end: bool = True,
    may_leave: bool = False,
) -> Report:
    """Report that the host reads an array, and the effect that this has in its context.

    Args:
        fact: the fact to report.
        code: the rule's code.
        module: the module of the fact.
        operation: the start of the message, which ``contexts.EFFECTS`` continues.
        value: the array that is read.
        help: as in ``Report.at``.
        node: as in ``Report.at``.
        pulled_by: the node that synchronizes, if it isn't ``node``.
        array_node: the expression of the array, which may have been evaluated just before.
        subject: the expression whose origin becomes the flow; ``array_node`` by default.
        covers: as in ``Report``.
        replaces: as in ``Report``.
        may_end: as in ``context_of``.
        may_leave: the host may need the value in each iteration of a loop.
    """
    context = context_of(
        fact.place,
        module.is_test,
        value=value,
        pull=pulled_by or node or fact.node,
        subject=array_node,
        may_end=may_end,
    )
    pull_node = pulled_by or node or fact.node
    if (
        context in MAY_WAIT
        and isinstance(array_node, cst.BaseExpression)
        and is_host_data(fact, array_node, module)
    ):
        context = "evaluated"
    effect = EFFECTS[context]
    if context == "loop" and may_end and is_log_line(fact.place, module):
        context, effect = "sink", EFFECTS["sink"]
    elif context == "loop" and array_node and _is_worth_it(fact, pull_node, array_node, module):
        context = "sink"
    elif may_leave:
        context, verdict = _judged(fact, context, pull_node, array_node, module)
        help = HELP.get(verdict, help)  # noqa: A001 (as in ``Report.at``)
        effect = COPIED_AGAIN if verdict == "again" else effect
    return Report.at(
        fact,
        code,
        node=node,
        message=f"{operation} {effect}",
        help=help,
        context=context,
        covers=covers,
        replaces=replaces,
        subject=subject or array_node,
    )


def _is_worth_it(
    fact: Fact, pull_node: cst.CSTNode, array_node: cst.CSTNode, module: Module
) -> bool:
    """Test whether no plain change makes the reads of a loop fewer, or none that is worth it."""
    place = fact.place
    if is_needed(place, pull_node, array_node, module):
        return True
    if isinstance(fact, TruthFact) and place.loop is not None:
        return is_evaluated_before(place, place.loop.body, module) or ends_whole_pass(
            place, array_node, module
        )
    return not is_fed_back(pull_node, module) and ends_whole_pass(place, array_node, module)


def _judged(
    fact: Fact, context: str, pull_node: cst.CSTNode, array_node: cst.CSTNode | None, module: Module
) -> tuple[str, Verdict]:
    """The context of a pull by what becomes of its value, and the verdict on it."""
    place = fact.place
    if context == "evaluated":
        if not is_read_again(place, pull_node, module):
            return context, ""
        is_whole = isinstance(fact, CallFact) and fact.symbol is not None  # such as ``np.array(x)``
        again = context_of(place, module.is_test, value=NONE) if is_whole else context
        return again, "again"
    if context in ("sink", "function") and is_from_list(fact, array_node, module):
        body = None if place.function is None else place.function.node.body
        is_used = body is None or uses_of(pull_node, body, module, place.function)
        return ("function", "at hand") if is_used else ("sink", "")
    if context == "forward" and is_fed_back(pull_node, module):
        is_detour = takes_host_detour(pull_node, module, only_by_numpy=True)
        return "sink" if is_detour else context, ""
    if context not in JUDGED:
        return context, ""
    verdict = verdict_of(place, pull_node, array_node, module)
    if verdict != "again" and array_node is not None and takes_lists(place, array_node, module):
        verdict = "leaves"
    return ("sink" if verdict == "leaves" else context), verdict
