"""Reports on pulls: their cost in a context, the change that saves it, and HOST-PULL-013."""

from __future__ import annotations

import builtins
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.contexts import (
    EFFECTS,
    error_of,
    is_evaluated_before,
    recurrence_of,
)
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import PULLS, evaluation_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import resolved, scope_of
from embercoach.analysis.dataflow.value_uses import Use, uses_of
from embercoach.analysis.evaluate.classes import assigned_by
from embercoach.analysis.syntax.trees import SCOPES, dotted
from embercoach.analysis.values.facts import CallFact, LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    LibraryObject,
    as_array,
    holds_arrays,
    pulls_of,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.arrays.growth import is_long, is_short
from embercoach.checks.hoisted_reads import is_array
from embercoach.checks.registry import Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact, FactPlace
    from embercoach.analysis.values.lattice import Value

#: Expressions that decide whether what they are parts of is the same in every iteration.
_PARTS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


def is_from_before_loop(node: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Test whether an expression is of arrays from before the loop, or of their elements."""
    pending = [(node, False)]
    while pending:
        at, is_index = pending.pop()
        if isinstance(at, cst.Name):
            own = place.loop_names if is_index else place.array_names
            if at.value not in own and not _is_from_before(at.value, place, module):
                return False
        elif isinstance(at, cst.Call):
            if not _is_operation(at, module):
                return False
            pending += ((argument.value, is_index) for argument in at.args)
            if isinstance(at.func, cst.Attribute):
                pending.append((at.func.value, is_index))
        elif isinstance(at, cst.Subscript):
            if not is_array(module, place, at.value):
                return False  # each item of a list is another array
            pending.append((at.value, is_index))
            # A slice by the loop's variable is an element, but no operation takes all of them.
            parts = [element.slice for element in at.slice]
            pending += ((p, isinstance(p, cst.Index) or at is node) for p in parts)
        elif isinstance(at, cst.Attribute):
            if dotted(at.value) != (mlx_alias(module) or "mlx.core"):
                return False
        else:
            pending += ((part, is_index) for part in contents_of(at, _PARTS).of(*_PARTS))
    return True


def _is_operation(call: cst.Call, module: Module) -> bool:
    """Test whether MLX computes a call's result of arrays, without random numbers."""
    fact = evaluation_of(module).calls.get(call)
    if fact is None or fact.array is not None:
        return fact is not None
    name = fact.symbol or ""
    is_random = name.startswith("mlx.core.random.")
    takes_arrays = any(as_array(argument.value) is not None for argument in fact.arguments)
    return name.startswith("mlx.core.") and not is_random and takes_arrays


def _is_from_before(name: str, place: FactPlace, module: Module) -> bool:
    """Test whether a name is bound before the innermost loop, which does not change its items."""
    if name in place.loop_names:
        return False
    layout = layout_of(module, place.function)
    loop = next(layout.loops(place.statement), None)
    if loop is None:
        return True  # in a comprehension alone
    if name in contents_of(loop.body).changed:
        return False
    reaching = scope_of(module, place.function).reaching
    found = reaching.before(place.statement, name)
    if found is None:
        return name not in reaching.bindings
    return not any(layout.is_bound_in(binding, loop) for binding in found)


if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import PropertyReadFact

    #: What runs a function in a loop.
    Read = LocalCall | ProjectCall | PropertyReadFact

#: Simple statements of a function that computes one value.
_MOST_STATEMENTS = 6
_CASTS = ("builtins.float", "builtins.int")


@check("HOST-PULL-013")
def invariant_pull(
    call: LocalCall | ProjectCall | PropertyReadFact, module: Module
) -> Iterator[Report]:
    """``gain = 1 / wave.peak()``, or a property ``wave.gain``, where a loop keeps ``wave``."""
    loop, function = call.place.loop, call.function
    if not isinstance(loop, cst.For) or module.is_test or call.place.periodic:
        return
    if function.module is module:
        pulls, computes = _pulls_in(function, module)
    else:
        pulls, computes = _pulls_of_imported(function)
    if not pulls or not is_long(loop) or _is_conditional(call, loop, module):
        return
    if not _is_pure(function) or _varies(call, loop, module):
        return
    what = "computes and reads" if computes else "reads"
    yield Report.at(
        call,
        message=f"{what} the same value in every iteration",
        help="Call it once, before the loop",
        context="avoidable" if computes else "minor",
        covers=pulls if computes else (),
    )


def _is_conditional(call: Read, loop: cst.For, module: Module) -> bool:
    """Return whether a test in the loop decides if the call is made: it may be made once."""
    levels = layout_of(module, call.place.function).outward(call.place.statement)
    inside = takewhile(lambda level: level.owner is not loop, levels)
    return any(isinstance(level.owner, (cst.If, cst.Try, cst.Match)) for level in inside)


@kept_for_file
def _pulls_in(function: FunctionInfo, module: Module) -> tuple[tuple[cst.CSTNode, ...], bool]:
    """Return the reads of a function that returns what the host reads of an array.

    With those that compute the array, if there are any, and whether there are.
    """
    if not any(pulls_of(v) and as_array(v) is None for v in function.summaries.values()):
        return (), False
    facts = [fact for fact in module.facts_of(function) if isinstance(fact, CallFact)]
    pulls = [fact for fact in facts if _pulls(fact)]
    computed = tuple(f.node for f in pulls if _is_computed(f, function, module))
    return computed or tuple(f.node for f in pulls), bool(computed)


@kept_for_file
def _pulls_of_imported(function: FunctionInfo) -> tuple[tuple[cst.CSTNode, ...], bool]:
    """``mx.abs(self.w).max().item()``, in a function of another file."""
    computed = tuple(
        node
        for node in contents_of(function.node.body).calls
        if isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "item"
        and isinstance(node.func.value, cst.Call)
    )
    return computed, bool(computed)


def _pulls(fact: CallFact) -> bool:
    if isinstance(fact.callee, BoundMember):
        return fact.callee.name in PULLS and fact.array is not None
    return fact.symbol in _CASTS and any(as_array(a.value) is not None for a in fact.arguments)


def _is_computed(fact: CallFact, function: FunctionInfo, module: Module) -> bool:
    """Return whether more than an attribute is read: each call runs the operations again."""
    read = fact.receiver_node if isinstance(fact.callee, BoundMember) else fact.arguments[0].node
    if read is None:
        return False
    made = resolved(read, function, module)
    return bool(contents_of(made).of(cst.Call, cst.BinaryOperation))


@kept_for_file
def _is_pure(function: FunctionInfo) -> bool:
    """Return whether a short function assigns local names alone, and draws or reads nothing."""
    contents = contents_of(function.node.body)
    if contents.changed or contents.of(*_LEAVING, *SCOPES):
        return False
    if any(_IMPURE & set((dotted(call.func) or "").split(".")) for call in contents.calls):
        return False
    return len(contents.of(cst.BaseSmallStatement)) <= _MOST_STATEMENTS  # type: ignore[type-abstract]


#: Nodes of a function that does more than to compute a value.
_LEAVING = (cst.Global, cst.Nonlocal, cst.Yield, cst.Await)


#: Methods of lists and strings.
_LISTED = frozenset({"append", "index", "join", "format", "split", "items", "write"})
#: Parts of the names of calls whose results differ.
_IMPURE = frozenset({"random", "time", "perf_counter", "next", "read", "pop", "get", "append"})


def _varies(call: Read, loop: cst.For, module: Module) -> bool:
    """Return whether the loop may change what the call depends on."""
    func = call.node.func if isinstance(call.node, cst.Call) else call.node
    used = contents_of(call.node).names | contents_of(call.function.node.body).names
    if any(inner is not call.node for inner in contents_of(call.node).calls):
        return True
    reaching = scope_of(module, call.place.function).reaching
    layout = layout_of(module, call.place.function)
    bound = [binding for name in used for binding in reaching.bindings.get(name, ())]
    if reaching.gave_up or any(layout.is_bound_in(binding, loop) for binding in bound):
        return True
    roots = {n for n in used if n in reaching.bindings} | {root_name(func)}
    state, contents = _attributes_read(call.function), contents_of(loop.body)
    return not roots.isdisjoint(contents.changed) or any(
        _changes(node, call, roots, state, module) for node in contents.calls
    )


def _attributes_read(function: FunctionInfo) -> frozenset[str]:
    """Return the attributes of its instance that a method reads."""
    own = function.parameters[0].name if function.is_method and function.parameters else ""
    return frozenset(
        node.attr.value
        for node in contents_of(function.node.body).of(cst.Attribute)
        if dotted(node.value) == own
    )


def _changes(
    node: cst.Call, call: Read, roots: set[str], state: frozenset[str], module: Module
) -> bool:
    """Return whether a call in the loop changes an object that another depends on, or may."""
    if node is call.node:
        return False
    if any(dotted(argument.value) in roots for argument in node.args):
        return True  # it gets the object as a whole
    if isinstance(node.func, cst.Attribute) and dotted(node.func.value) in roots:
        cls = call.function.cls
        method = None if cls is None else cls.methods.get(node.func.attr.value)
        if cls is None or method is None:
            return True
        return not state.isdisjoint(assigned_by(cls, method))
    return not _is_harmless(node, module)


def _is_harmless(node: cst.Call, module: Module) -> bool:
    """Return whether a call changes no object but, at most, a list that it adds to."""
    local = evaluation_of(module).local_call(node)
    if local is not None:
        return _is_pure(local.function)
    fact = evaluation_of(module).calls.get(node)
    if fact is not None and (fact.symbol is not None or fact.array is not None):
        return True
    if isinstance(node.func, cst.Name):
        return hasattr(builtins, node.func.value)
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in _LISTED


class PullRemedy(Enum):
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


def pull_remedy(
    place: FactPlace,
    pull: cst.CSTNode,
    subject: cst.CSTNode | None,
    module: Module,
    *,
    evaluated: bool,
) -> PullRemedy | None:
    """Return the remedy of a read that recurs, None where no plain change saves it.

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
        return PullRemedy.METADATA
    is_loose = in_loop and _is_loose_element(place, subject, module)
    if uses == {Use.DEVICE} and not evaluated:
        number = None if is_loose else PullRemedy.PASS_ON
        return number if _is_number(pull) else PullRemedy.COMPUTE
    if in_loop:
        return _of_loop(place, pull, subject, module, evaluated=evaluated)
    if uses == {Use.CHECKED} and is_forward(function) and not evaluated:
        return PullRemedy.MOVE_CHECK
    return PullRemedy.FIRST_COPY if _is_read_again(pull, body, place, module) else None


def _of_loop(
    place: FactPlace,
    pull: cst.CSTNode,
    subject: cst.CSTNode | None,
    module: Module,
    *,
    evaluated: bool,
) -> PullRemedy | None:
    loop, function = place.loop, place.function
    loops = [*layout_of(module, function).loops(place.statement)]
    in_comprehension = place.loops != len(loops)
    if not in_comprehension and not _may_be_long(place, module):
        return None
    if subject is not None and is_from_before_loop(subject, place, module):
        if not place.loop_names.isdisjoint(contents_of(subject).names):
            return None if _is_loose_element(place, subject, module) else PullRemedy.ELEMENTS
        return None if evaluated else PullRemedy.HOIST
    if in_comprehension or loop is None:
        return None
    return PullRemedy.FIRST_COPY if _is_read_again(pull, loop.body, place, module) else None


def _is_loose_element(place: FactPlace, subject: cst.CSTNode | None, module: Module) -> bool:
    """Test whether a loop that computes arrays reads an element of one from before it."""
    if (
        place.loops > 1
        or place.loop is None
        or subject is None
        or not _computes(place.loop, module)
    ):
        return False
    is_element = not place.loop_names.isdisjoint(contents_of(subject).names)
    return is_element and is_from_before_loop(subject, place, module)


def _may_be_long(place: FactPlace, module: Module) -> bool:
    loop = place.loop
    if loop is None or not is_long(loop):
        return False
    return not (isinstance(loop, cst.For) and is_short(loop.iter, place.function, module))


def _computes(loop: cst.For | cst.While, module: Module) -> bool:
    """Test whether an iteration computes arrays: the wait for an element is a part of its time."""
    evaluation = evaluation_of(module)
    for node in contents_of(loop.body).calls:
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
    contents = contents_of(body)
    alike = [call for call in contents.calls if call is not pull and last_name(call) == name]
    text, layout = module.parsed.code(pull), layout_of(module, place.function)
    names = contents_of(pull).names & set(reaching.bindings)
    for call in alike[:MOST_STEPS]:
        statement = contents.statement_of(call)
        if statement is place.statement:
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
    pulled_by: cst.CSTNode | None = None,
    array_node: cst.CSTNode | None = None,
    subject: cst.CSTNode | None = None,
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
        pulled_by: the call in this one that synchronizes, and needs no separate report.
        array_node: the expression of the array, which may have been evaluated just before.
        subject: the expression whose origin becomes the flow, if it is neither of these.
        replaced: ``help`` names the function of MLX that saves the read of an operand.
    """
    pull_node = pulled_by or fact.node
    recurrence = recurrence_of(fact.place, module)
    context = error_of(fact.place, value, pull_node)
    evaluated = _is_evaluated(fact, array_node, module)
    remedy: PullRemedy | None = None
    if context is None and module.purpose is not None:
        context = module.purpose
    elif context is None and recurrence is not None:
        is_shown = code == "GRAPH-BREAK-008"  # what a text shows has to leave
        if not is_shown:
            remedy = pull_remedy(fact.place, pull_node, array_node, module, evaluated=evaluated)
        is_saved = remedy is not None or (is_shown and recurrence == "forward pass")
        context = "avoidable" if is_saved else None
    if context in EFFECTS:
        effect = EFFECTS[context]
    elif remedy is PullRemedy.FIRST_COPY:
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
        message=f"{operation} {effect}",
        help=help if remedy is None or replaced else remedy.value,
        context=context or "minor",
        covers=() if pulled_by is None else (pulled_by,),
        subject=pulled_by or subject or array_node,
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
        and fact.place.loop_names.isdisjoint(contents_of(array_node).names)
        and is_from_before_loop(array_node, fact.place, module)
    )
