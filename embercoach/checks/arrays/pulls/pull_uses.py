"""Verdicts on pulls that run many times: the host needs the value now, or the pull can be avoided.

A pull whose value leaves the program in the same iteration is a sink: a token that is printed, or
compared with the end of a text. Elsewhere there is something to do, which the help says.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.facts import calls_by_function
from embercoach.analysis.facts.host_uses import (
    hot_functions,
    is_fed_back,
    is_forward,
    is_hot,
    seeds_list,
)
from embercoach.analysis.facts.layout import LEAVING, layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.facts.value_uses import Use, region_of, uses_of
from embercoach.analysis.syntax.trees import statements_below, walk
from embercoach.analysis.values.joins import holds_arrays
from embercoach.analysis.values.lattice import Numpy
from embercoach.checks.arrays.lazy.step_loops import updates
from embercoach.checks.arrays.pulls.host_detours import takes_host_detour
from embercoach.checks.arrays.pulls.invariance import is_invariant
from embercoach.checks.arrays.pulls.needed_reads import is_used_up
from embercoach.checks.arrays.pulls.whole_passes import ends_whole_pass, is_of_step, trains

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace, LocalCall
    from embercoach.analysis.facts.layout import Layout
    from embercoach.analysis.project.module import Module

#: ``leaves``: the host needs the value in this iteration. Else why the pull can be avoided.
Verdict = Literal[
    "leaves", "again", "at hand", "collected", "fed back", "invariant", "metadata", "step", ""
]

#: What to do instead, by verdict.
HELP: dict[Verdict, str] = {
    "again": "Keep the result of the first read: this one copies the same array again",
    "at hand": "Compute it from the list that the array is made of: that needs no evaluation",
    "collected": "Collect the arrays, and read them together after the loop",
    "fed back": "Keep the mx.array and pass it on: its value returns to the device",
    "invariant": "Read the array once, before the loop",
    "metadata": "Read the size, shape or dtype of the mx.array itself: they need no evaluation",
    "step": "Read the loss every k steps, or after the mx.eval() of the step",
}

#: Calls from loops, functions, and calls of the same method in a body that are looked at.
_MOST_CALLS, _MOST_FUNCTIONS, _MOST_ALIKE = 8, 3, 32


def verdict_of(
    place: FactPlace, pull: cst.CSTNode, subject: cst.CSTNode | None, module: Module
) -> Verdict:
    """Judge a pull in a loop, or in a function that a loop calls."""
    function = place.function
    if function is not None and (is_forward(function) or _is_transformed(function)):
        return ""
    if place.loops:
        return _in_loop(place, pull, subject, module)
    if function is None or isinstance(function.node, cst.Lambda):
        return ""
    body = function.node.body
    if function not in hot_functions(module):
        return verdict_of_call(place, pull, module)
    if _is_read_again(pull, body, place, module):
        return "again"
    uses = uses_of(pull, body, module, function)
    if is_fed_back(pull, module):
        is_kept = not is_hot(function)
        is_needed = _is_needed(pull, uses, module, is_kept=is_kept)
        is_needed = is_needed or (is_kept and takes_host_detour(pull, module))
        return "leaves" if is_needed else _fed_back(pull)
    if uses == {Use.METADATA}:
        return "metadata"
    if uses == {Use.STORED} or _only_checks(place.statement, uses):
        return "leaves"
    evaluated = is_evaluated_before(place, body, module)
    if updates(function, module) and not evaluated and is_of_step(place, pull, body, module):
        return "step"
    if evaluated or uses & _NEEDED:
        return "leaves"
    return _in_callers(function, module) if Use.RETURNED in uses else ""


def verdict_of_call(place: FactPlace, pull: cst.CSTNode, module: Module) -> Verdict:
    """Judge a pull that a call of a function runs once: there has to be a remedy.

    Its value returns to the device, without a detour that only the host can take.
    """
    function = place.function
    assert function is not None
    if _is_read_again(pull, function.node.body, place, module):
        return "again"
    uses = uses_of(pull, function.node.body, module, function)
    if uses == {Use.METADATA}:
        return "metadata"
    is_listed = _is_number(pull) and not is_fed_back(pull, module)
    if is_listed or seeds_list(place, module) or uses <= _KEPT:
        return "leaves"
    is_needed = _is_needed(pull, uses, module) or takes_host_detour(pull, module)
    return "leaves" if is_needed else _fed_back(pull)


#: Uses of a value that is kept: other functions may read it as a Python number.
_KEPT = frozenset((Use.STORED, Use.METADATA, Use.CHECKED))
_DECIDING = frozenset((Use.DECIDES, Use.CONVERGED))
#: Uses of the number itself, besides those on the device.
_KEPT_NUMBER = frozenset((Use.RETURNED, Use.STORED, Use.COLLECTED))
#: Uses of a copy for which the host needs its numbers.
_OF_COPY = frozenset((Use.CHECKED, Use.CONVERGED))


def _is_needed(
    pull: cst.CSTNode, uses: frozenset[Use], module: Module, *, is_kept: bool = True
) -> bool:
    """Test whether the host needs a value that returns to the device too.

    ``is_kept`` says that a number is needed where it is returned, stored or collected.
    """
    if isinstance(evaluation_of(module).result_of(pull), Numpy):
        return bool(uses & _OF_COPY)
    kept = _KEPT_NUMBER if is_kept and _is_number(pull) else frozenset()
    return bool(uses & (_DECIDING | kept))


def _is_transformed(function: FunctionInfo) -> bool:
    return function.compiled or function.vmapped or function.differentiated


def _in_loop(
    place: FactPlace, pull: cst.CSTNode, subject: cst.CSTNode | None, module: Module
) -> Verdict:
    """Judge a pull in a loop, or the call of a function that returns what it pulls."""
    loop, function = place.loop, place.function
    layout = layout_of(module, function)
    loops = list(layout.loops(place.statement))
    if place.loops == 1 and len(loops) == 1 and _ends_loop(place.statement, layout):
        return "leaves"
    if subject is not None and is_invariant(subject, place, module):
        return "invariant"
    if is_fed_back(pull, module):
        detour = takes_host_detour(pull, module, only_by_numpy=True)
        return "leaves" if detour or _decides(pull, place, module) else _fed_back(pull)
    if loop is None or not loops or place.loops != len(loops):
        # In a comprehension: those of a script run once.
        is_once = function is None and not loops
        return "leaves" if is_once or _is_entry(pull, place, module) else ""
    if _is_read_again(pull, loop.body, place, module):
        return "again"
    uses = uses_of(pull, loop.body, module, function)
    if uses == {Use.METADATA}:
        return "metadata"
    if is_evaluated_before(place, loop.body, module) or _only_checks(place.statement, uses):
        return "leaves"
    if trains(loop, module) and is_of_step(place, pull, loop.body, module):
        return "step"
    if subject is None and ends_whole_pass(place, pull, module):
        return "leaves"
    return _by_uses(place, pull, uses, module)


def _by_uses(place: FactPlace, pull: cst.CSTNode, uses: frozenset[Use], module: Module) -> Verdict:
    """Judge a pull in a loop by the uses of its value there."""
    loop, function = place.loop, place.function
    assert loop is not None
    if _is_whole(pull) and not (_is_list(pull) and uses & _GATHERED):
        return "leaves"  # collected, the arrays would all be in memory
    if uses & _NEEDED or (Use.STORED in uses and uses <= _REPORTED):
        return "leaves"
    if Use.RETURNED in uses and function is not None:
        return "leaves" if function not in hot_functions(module) else ""
    if uses.isdisjoint(_GATHERED):
        return ""
    return "leaves" if is_used_up(pull, loop, place, module) else "collected"


_GATHERED = frozenset((Use.COLLECTED, Use.SUMMED))
#: Uses for which the host needs the value in this iteration; uses of a report.
_NEEDED = frozenset((Use.NOW, Use.DECIDES, Use.CHOOSES))
_REPORTED = frozenset((Use.STORED, Use.RETURNED, Use.CHECKED))


def _ends_loop(statement: cst.CSTNode, layout: Layout) -> bool:
    """Test whether what follows a statement ends the loop around it: ``if a: x.item(); break``."""
    for level in layout.outward(statement):
        rest = level.statements[level.position + 1 :]
        if not isinstance(level.owner, cst.If):
            return False
        if rest and isinstance(rest[-1], LEAVING):
            return not any(isinstance(n, cst.Continue) for one in rest for n in walk(one))
    return False


def _only_checks(statement: cst.CSTNode, uses: frozenset[Use]) -> bool:
    """Test whether a value decides only if an exception is raised."""
    return uses <= {Use.CHECKED} and isinstance(statement, (cst.Assert, cst.If))


def _decides(pull: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Test whether a number decides what the iteration does: a token that ends the text."""
    if place.loop is None or not _is_number(pull):
        return False
    return bool(uses_of(pull, place.loop.body, module, place.function) & _DECIDING)


def _is_entry(pull: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Test whether a pull makes an entry of a dictionary, or only selects in a comprehension.

    ``{name: x.item() for ...}``, or ``[name for name, x in weights if x.item()]`` in a function
    that runs once.
    """
    parents = region_of(place.statement).parents
    node: cst.CSTNode | None = pull
    while node is not None and not isinstance(node, (cst.BaseComp, cst.CompIf)):
        node = parents.get(node)
    if isinstance(node, cst.CompIf):
        return place.function not in hot_functions(module)
    return isinstance(node, cst.DictComp)


def _in_callers(function: FunctionInfo, module: Module, depth: int = 0) -> Verdict:
    """Judge the loops that call a function, here or through others, whose result it has read."""
    known = calls_by_function(module).get(function, ())
    known = tuple(call for call in known if not call.place.periodic)
    calls = [call for call in known if call.place.loops] or [
        call for call in known if call.place.function in hot_functions(module)
    ]
    if not calls or len(calls) > _MOST_CALLS:
        return ""
    verdicts = {_in_caller(call, module, depth) for call in calls}
    return verdicts.pop() if len(verdicts) == 1 else ""


def _in_caller(call: LocalCall, module: Module, depth: int) -> Verdict:
    caller = call.place.function
    if call.place.loops or caller is None:
        return _in_loop(call.place, call.node, None, module)
    if is_forward(caller) or _is_transformed(caller) or holds_arrays(call.function.returned):
        return ""  # it returns arrays that it has computed with what it has read
    uses = uses_of(call.node, caller.node.body, module, caller)
    if uses & _NEEDED:
        return "leaves"
    is_returned = Use.RETURNED in uses and depth < _MOST_FUNCTIONS
    return _in_callers(caller, module, depth + 1) if is_returned else ""


def only_exits(node: cst.CSTNode) -> bool:
    """Test whether a statement is an ``if`` that only leaves a loop or a function."""
    if not isinstance(node, cst.If) or node.orelse is not None:
        return False
    body = node.body.body
    if len(body) != 1:
        return False
    last = body[0].body[-1] if isinstance(body[0], cst.SimpleStatementLine) else body[0]
    return isinstance(last, cst.Break) or (
        isinstance(last, cst.Return) and not isinstance(last.value, cst.Call)
    )


def is_evaluated_before(place: FactPlace, body: cst.CSTNode, module: Module) -> bool:
    """Test whether ``mx.eval`` runs before a statement in the same pass of a body."""
    for level in layout_of(module, place.function).outward(place.statement):
        first = _first_evaluation(module).get(id(level.statements[0]))
        if first is None:
            evaluating = (i for i, s in enumerate(level.statements) if _evaluates(s, module))
            first = next(evaluating, len(level.statements))
            _first_evaluation(module)[id(level.statements[0])] = first
        if first < level.position:
            return True
        if getattr(level.owner, "body", None) is body:
            break
    return False


@lru_cache(maxsize=2)
def _first_evaluation(module: Module) -> dict[int, int]:
    """The first statement that calls ``mx.eval`` in suites, which their own first one names."""
    return {}


def _evaluates(statement: cst.CSTNode, module: Module, depth: int = 0) -> bool:
    """Test whether a statement certainly calls ``mx.eval``, itself or in a function."""
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef, cst.If, cst.Match)):
        return False
    evaluation = evaluation_of(module)
    if not isinstance(statement, cst.BaseSmallStatement):
        inner = statements_below(getattr(statement, "body", statement))
        small = (s for s in inner if isinstance(s, cst.BaseSmallStatement))
        return any(_evaluates(s, module, depth) for s in small)
    for node in walk(statement, (cst.Lambda,)):
        if not isinstance(node, cst.Call):
            continue
        fact, local = evaluation.calls.get(node), evaluation.local_call(node)
        if fact is not None and fact.symbol == "mlx.core.eval":
            return not fact.place.periodic
        if local is not None and depth < _MOST_FUNCTIONS and _ends_evaluated(local, module, depth):
            return True
    return False


def _ends_evaluated(call: LocalCall, module: Module, depth: int) -> bool:
    definition = call.function.node
    if isinstance(definition, cst.Lambda):
        return False
    return _body_evaluates(definition.body, module, depth + 1)


@lru_cache(maxsize=32)
def _body_evaluates(body: cst.BaseSuite, module: Module, depth: int) -> bool:
    statements = (
        small
        for line in body.body
        for small in (line.body if isinstance(line, cst.SimpleStatementLine) else (line,))
    )
    return any(_evaluates(statement, module, depth) for statement in statements)


def _fed_back(pull: cst.CSTNode) -> Verdict:
    """The verdict on a pull whose value becomes an operand: a copy, the host may compute with."""
    return "fed back" if _is_number(pull) else ""


def _is_number(pull: cst.CSTNode) -> bool:
    """Test whether a pull reads a single number: the second time, that costs next to nothing."""
    func = pull.func if isinstance(pull, cst.Call) else None
    return isinstance(func, cst.Name) or (
        isinstance(func, cst.Attribute) and func.attr.value == "item"
    )


def _is_whole(pull: cst.CSTNode) -> bool:
    """Test whether a pull copies an array: ``np.array(x)``, ``x.tolist()``."""
    return isinstance(pull, cst.Call) and not _is_number(pull)


def _is_list(pull: cst.CSTNode) -> bool:
    func = pull.func if isinstance(pull, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value == "tolist"


def is_read_again(place: FactPlace, pull: cst.CSTNode, module: Module) -> bool:
    """Test whether the same pass of a loop, or of a function, has copied the same array before."""
    owner = place.loop if place.loops else None if place.function is None else place.function.node
    return owner is not None and _is_read_again(pull, owner.body, place, module)


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
