"""Reports on pulls: what reading an array costs in its context, and the change that saves it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contexts import (
    EFFECTS,
    error_of,
    is_evaluated_before,
    is_forward,
    recurrence_of,
)
from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_uses import Use, region_of, uses_of
from embercoach.analysis.syntax.trees import names_below, walk
from embercoach.analysis.values.joins import as_array, holds_arrays
from embercoach.analysis.values.lattice import UNKNOWN, LibraryObject
from embercoach.checks.arrays.lazy.growth import is_long, is_short
from embercoach.checks.arrays.pulls.invariant_pulls import is_invariant
from embercoach.checks.registry import Report

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value


class Remedy(Enum):
    """A change that saves a read, as the help of a finding says it."""

    PASS_ON = "Pass the mx.array on: only operations of arrays take its value"
    COMPUTE = "Compute with mx functions: the result returns to the device"
    HOIST = "Read it once, before the loop"
    ELEMENTS = "Read the elements at once, before the loop: x.tolist() or x[indices].tolist()"
    FIRST_COPY = "Keep the first copy: this reads the same array again"
    METADATA = "Ask the mx.array for its size, shape or dtype: that needs no evaluation"
    MOVE_CHECK = "Check it outside of the model's forward pass, or drop the check"


#: Functions that compute no arrays of MLX.
_HOSTS = ("builtins", "math.", "numpy.")
#: Calls of the same method in a body that are looked at.
_MOST_ALIKE = 32


def remedy_of(
    place: FactPlace,
    pull: cst.CSTNode,
    subject: cst.CSTNode | None,
    module: Module,
    *,
    evaluated: bool,
) -> Remedy | None:
    """The remedy of a read that recurs, None where no plain change saves it.

    Args:
        place: of the read.
        pull: the node that reads.
        subject: the expression of the array.
        module: the module of the read.
        evaluated: the array has been evaluated, so that reading it only costs a copy.
    """
    function, loop = place.function, place.loop
    in_loop = place.loops > 0
    if in_loop and loop is not None:
        body: cst.CSTNode = loop.body
    elif function is not None and not isinstance(function.node, cst.Lambda):
        body = function.node.body
    else:
        return None
    uses = uses_of(pull, body, module, function)
    if uses == {Use.SHOWN}:
        return None
    if uses == {Use.METADATA}:
        return Remedy.METADATA
    is_loose = in_loop and _is_loose_element(place, subject, module)
    if uses == {Use.DEVICE} and not evaluated:
        number = None if is_loose else Remedy.PASS_ON
        return number if _is_number(pull) else Remedy.COMPUTE
    if in_loop:
        return _of_loop(place, pull, subject, module, evaluated=evaluated)
    if uses == {Use.CHECKED} and is_forward(function) and not evaluated:
        return Remedy.MOVE_CHECK
    return Remedy.FIRST_COPY if _is_read_again(pull, body, place, module) else None


def _of_loop(
    place: FactPlace,
    pull: cst.CSTNode,
    subject: cst.CSTNode | None,
    module: Module,
    *,
    evaluated: bool,
) -> Remedy | None:
    loop, function = place.loop, place.function
    loops = [*layout_of(module, function).loops(place.statement)]
    in_comprehension = place.loops != len(loops)
    if not in_comprehension and not _may_be_long(place, module):
        return None
    if subject is not None and is_invariant(subject, place, module):
        if not place.loop_names.isdisjoint(names_below(subject)):
            return None if _is_loose_element(place, subject, module) else Remedy.ELEMENTS
        return None if evaluated else Remedy.HOIST
    if in_comprehension or loop is None:
        return None
    return Remedy.FIRST_COPY if _is_read_again(pull, loop.body, place, module) else None


def _is_loose_element(place: FactPlace, subject: cst.CSTNode | None, module: Module) -> bool:
    """Test whether a loop that computes arrays reads an element of one from before it."""
    if (
        place.loops > 1
        or place.loop is None
        or subject is None
        or not _computes(place.loop, module)
    ):
        return False
    is_element = not place.loop_names.isdisjoint(names_below(subject))
    return is_element and is_invariant(subject, place, module)


def _may_be_long(place: FactPlace, module: Module) -> bool:
    loop = place.loop
    if loop is None or not is_long(loop):
        return False
    return not (isinstance(loop, cst.For) and is_short(loop.iter, place.function, module))


def _computes(loop: cst.For | cst.While, module: Module) -> bool:
    """Test whether an iteration computes arrays: the wait for an element is a part of its time."""
    evaluation = evaluation_of(module)
    for node in walk(loop.body):
        fact = evaluation.calls.get(node)
        other = evaluation.elsewhere.get(node)
        if other is not None and any(as_array(argument.value) for argument in other.arguments):
            return True
        if fact is None:
            continue
        if (fact.symbol or "").startswith("mlx.") or isinstance(fact.callee, LibraryObject):
            return True
        is_foreign = fact.callee is UNKNOWN or not (fact.symbol or "builtins").startswith(_HOSTS)
        if is_foreign and any(as_array(argument.value) for argument in fact.arguments):
            return True
        if fact.array is not None and fact.entry is not None and holds_arrays(fact.result):
            return True
    return False


def _is_number(pull: cst.CSTNode) -> bool:
    """Test whether a pull reads a single number: ``x.item()``, ``int(x)``."""
    func = pull.func if isinstance(pull, cst.Call) else None
    return isinstance(func, cst.Name) or (
        isinstance(func, cst.Attribute) and func.attr.value == "item"
    )


def _is_read_again(pull: cst.CSTNode, body: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Test whether an earlier statement of a body copies the same array by the same call."""
    if not isinstance(pull, cst.Call) or _is_number(pull):
        return False
    name = pull.func.attr.value if isinstance(pull.func, cst.Attribute) else ""
    reaching = scope_of(module, place.function).reaching
    alike = region_of(body).calls.get(name, [])[:_MOST_ALIKE]
    if len(alike) < 2:
        return False
    text, layout = module.parsed.code(pull), layout_of(module, place.function)
    names = {n.value for n in walk(pull) if isinstance(n, cst.Name)} & set(reaching.bindings)
    for call, statement in alike:
        if call is pull or statement is place.statement:
            continue
        if layout.in_sequence(statement, place.statement) and module.parsed.code(call) == text:
            bindings = [
                (reaching.before(statement, n), reaching.before(place.statement, n)) for n in names
            ]
            if bindings and all(one is not None and one == two for one, two in bindings):
                return True
    return False


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
