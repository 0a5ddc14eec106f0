"""The use of values that the host has read: as data of later operations, or on the host only."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.facts import BinaryFact, CallFact, CompareFact, LocalCall
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import (
    dotted,
    small_statements,
    statements_below,
    target_names,
    walk,
)
from embercoach.analysis.values.inheritance import is_layer, is_torch_module
from embercoach.analysis.values.joins import as_array, pulls_of
from embercoach.analysis.values.lattice import NO_PULLS, CollectedPull, Kernel, LibraryObject

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Pulls, Value


def ends_on_host(function: FunctionInfo, pull: cst.CSTNode) -> bool:
    """Test whether a pull in a function is a sink: no loop runs it, and no array needs its value.

    The value is saved, logged, returned, tested, or used as a size: it never goes back to the
    device as data, and the function runs once per request.
    """
    if function.compiled or function.vmapped or function.differentiated:
        return False  # it runs in every step
    module = function.module
    return function not in hot_functions(module) and pull not in _returning(module)


def is_fed_back(pull: cst.CSTNode, module: Module) -> bool:
    """Test whether a pull's value becomes an operand of an array, other than through a list.

    The host grows such a list by what each iteration has read: the array at hand is a part of it.
    """
    return pull in _returning(module, through_lists=False)


def seeds_list(place: FactPlace, module: Module) -> bool:
    """Test whether a function binds what it reads to a name, and grows the list named so.

    A function that generates tokens reads the prompt once, and appends to it.
    """
    statement, function = place.statement, place.function
    if function is None or not isinstance(statement, (cst.Assign, cst.AnnAssign)):
        return False
    if isinstance(statement, cst.AnnAssign):
        names = set(target_names(statement.target))
    else:
        names = {name for t in statement.targets for name in target_names(t.target)}
    return not names.isdisjoint(_grown_lists(function))


@lru_cache(maxsize=8)
def _grown_lists(function: FunctionInfo) -> frozenset[str]:
    """The names and paths of what a function appends to."""
    calls = (node.func for node in walk(function.node.body) if isinstance(node, cst.Call))
    paths = (
        dotted(func.value)
        for func in calls
        if isinstance(func, cst.Attribute) and func.attr.value in ("append", "extend")
    )
    return frozenset(path for path in paths if path is not None)


#: Functions that a loop calls which are looked at.
_MOST_CALLED = 8
#: What a logger is called, besides ``print``.
_LOGGERS = ("logging.", "logger.", "log.", "tqdm.write", "self.logger.")


def is_log_line(place: FactPlace, module: Module) -> bool:
    """Test whether a pull in a loop only shows a number, and costs no more than the loop's work.

    Such a loop evaluates by a function of the file in each iteration, as a loop of epochs does, or
    it does nothing but print what a script has computed.
    """
    if not _shows(place.statement) or place.loop is None:
        return False
    loops = list(layout_of(module, place.function).loops(place.statement))
    if place.loops != len(loops):
        return False  # in a comprehension
    is_script = place.function is None or place.function.name == "main"
    called, only_shows = _work_of(loops[0], module)
    if called:
        return any(_has_loop_that_evaluates(function, module) for function in called)
    return is_script and only_shows


@lru_cache(maxsize=8)
def _work_of(loop: cst.For | cst.While, module: Module) -> tuple[list[FunctionInfo], bool]:
    """The first functions of the file that a loop calls, and whether all that it does is print."""
    evaluation = evaluation_of(module)
    calls = (evaluation.local_call(node) for node in walk(loop.body))
    called = dict.fromkeys(call.function for call in calls if call is not None)
    return [*called][:_MOST_CALLED], all(map(_shows, small_statements(loop.body)))


def _shows(statement: cst.CSTNode) -> bool:
    """Test whether a statement prints or logs, and does nothing else."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    name = dotted(call.func) if isinstance(call, cst.Call) else None
    return name is not None and (name == "print" or name.startswith(_LOGGERS))


@lru_cache(maxsize=_MOST_CALLED)
def _has_loop_that_evaluates(function: FunctionInfo, module: Module) -> bool:
    loops = (n for n in walk(function.node.body) if isinstance(n, (cst.For, cst.While)))
    return any(evaluation_of(module).evaluates(loop.body) for loop in loops)


def is_forward(function: FunctionInfo | None) -> bool:
    """Test whether a function is a layer's ``__call__``, or a torch module's ``forward``."""
    if function is None or function.cls is None:
        return False
    if function.name == "forward":
        return is_torch_module(function.cls)
    return function.name == "__call__" and is_layer(function.cls)


@lru_cache(maxsize=2)
def hot_functions(module: Module) -> dict[FunctionInfo, LocalCall]:
    """The functions that a loop of the same file calls, here or through others, and the calls.

    Calls by a function that has loops, such as one epoch of a training, are not followed.
    """
    calls = [fact for fact in module.facts() if isinstance(fact, LocalCall)]
    calls = [call for call in calls if not call.place.periodic and not _is_sent(call)]
    found: dict[FunctionInfo, LocalCall] = {}
    by_caller: dict[FunctionInfo | None, list[LocalCall]] = {}
    for call in calls:
        by_caller.setdefault(call.place.function, []).append(call)
        if call.place.loops and not _is_listed(call.place.loop):
            found.setdefault(call.function, call)
    pending = [*found]
    while pending:
        caller = pending.pop()
        for call in () if has_loop(caller) else by_caller.get(caller, ()):
            if call.function not in found:
                found[call.function] = call
                pending.append(call.function)
    return found


def is_hot(function: FunctionInfo) -> bool:
    """Test whether a loop elsewhere in the file runs all of a function in each iteration."""
    return function in hot_functions(function.module) and not has_loop(function)


@lru_cache(maxsize=64)
def has_loop(function: FunctionInfo) -> bool:
    """Test whether a function has a loop."""
    return any(isinstance(n, (cst.For, cst.While)) for n in statements_below(function.node.body))


def _is_listed(loop: cst.For | cst.While | None) -> bool:
    """Test whether a loop is over the few items of a list or tuple as written."""
    return isinstance(loop, cst.For) and isinstance(loop.iter, (cst.List, cst.Tuple))


def _is_sent(call: LocalCall) -> bool:
    return is_handed_over(call.place, call.node, by_yield=True)


#: Methods that hand a value over to a file, a socket or another thread.
_HANDS_OVER = frozenset({"put", "put_nowait", "send", "sendall", "write", "writeframes"})


def is_handed_over(place: FactPlace, node: cst.CSTNode, *, by_yield: bool = False) -> bool:
    """Test whether a statement only hands a value over: ``queue.put(x.tolist())``.

    Args:
        place: the place of the value.
        node: its expression.
        by_yield: a ``yield`` hands it over too.
    """
    value = place.statement.value if isinstance(place.statement, cst.Expr) else None
    if isinstance(value, cst.Yield):
        return by_yield and value.value is node
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return False
    return value.func.attr.value in _HANDS_OVER and any(a.value is node for a in value.args)


@lru_cache(maxsize=4)
def _returning(module: Module, *, through_lists: bool = True) -> Pulls:
    """The pulls whose values become operands of arrays."""
    found: set[Pulls] = set()
    for fact in module.facts():
        if isinstance(fact, CallFact):
            found.add(_passed(fact))
        elif isinstance(fact, (BinaryFact, CompareFact)) and _takes_array(fact):
            found |= {_pulls(fact.left.value), _pulls(fact.right.value)}
    if not through_lists:
        found = {_at_hand(pulls) for pulls in found}
    return NO_PULLS.union(*found)


def _at_hand(pulls: Pulls) -> Pulls:
    """The pulls of a value that it doesn't depend on through a list."""
    listed = {pull.node for pull in pulls if isinstance(pull, CollectedPull)}
    return frozenset(pull for pull in pulls if pull not in listed)


def _takes_array(fact: BinaryFact | CompareFact) -> bool:
    return fact.left.array is not None or fact.right.array is not None


def _pulls(value: Value) -> Pulls:
    """The pulls of a host value; those of an array have been counted where it was computed."""
    return NO_PULLS if as_array(value) is not None else pulls_of(value)


def _passed(fact: CallFact) -> Pulls:
    """The pulls whose values a call takes as data, not as sizes or indices."""
    if isinstance(fact.callee, (LibraryObject, Kernel)):
        return NO_PULLS.union(*(_pulls(a.value) for a in fact.arguments))
    return NO_PULLS.union(
        *(
            _pulls(argument.value)
            for param, argument in fact.matched
            if param.takes_scalar_or_array or param.expects_array or param.accepts == "any"
        )
    )
