"""LAZY-001: objects that a call adds to, of which no result depends: caches for a probe."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.parameters import annotated_value
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.scopes import passed_with_owner
from embercoach.analysis.syntax.trees import dotted, names_below, small_statements, walk
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.lattice import UNKNOWN, Instance, Value
from embercoach.checks.arrays.lazy.growth import accumulation_by_text
from embercoach.checks.arrays.lazy.lazy_loops import (
    MESSAGE,
    help_of,
    is_short_loop,
    is_traced,
    may_ask,
)
from embercoach.checks.arrays.lazy.step_loops import (
    calls_below,
    is_long,
    is_older,
    is_step,
    synchronizes,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
    from embercoach.analysis.facts.facts import LocalCall, ProjectCall
    from embercoach.analysis.project.module import Module

_KINDS = frozenset(("concatenation", "sum"))
_VIEWS = frozenset(("astype", "reshape", "squeeze", "transpose", "flatten", "swapaxes"))
#: Functions whose results are numbers of the host.
_COUNTING = frozenset(
    ("len", "int", "float", "bool", "time.time", "time.perf_counter", "time.monotonic")
)
_EVALUATING = frozenset(("eval", "async_eval", "item", "tolist"))


@check("LAZY-001")
def growing_state(fact: LocalCall, module: Module) -> Iterator[Report]:
    """``logits = model(token, cache)``, where ``cache.push()`` concatenates what nothing reads."""
    if fact.place.loops:
        values = fact.function.analysed_with or ()
        names = (p.name for p in fact.function.parameters)
        yield from _reports(fact, dict(zip(names, values, strict=False)), module)


@check("LAZY-001")
def growing_state_elsewhere(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """The same, where the model and the cache are those of another file."""
    if fact.place.loops:
        bound = UNKNOWN if fact.is_bound else None
        yield from _reports(fact, bind(fact.function, bound, fact.arguments), module)


def _reports(
    fact: LocalCall | ProjectCall, values: dict[str, Value], module: Module
) -> Iterator[Report]:
    function, place = fact.function, fact.place
    if isinstance(function.node, cst.Lambda) or is_traced(place, module):
        return
    passed = passed_with_owner(fact)
    for parameter in function.parameters:
        path = dotted(passed[parameter.name]) if parameter.name in passed else None
        given = values.get(parameter.name, UNKNOWN)
        if given is UNKNOWN:
            given = _declared(function, parameter)
        if path is None or not isinstance(given, Instance):
            continue
        for grown in _grown(function, parameter.name, given):
            found = f"{path}.{grown.attribute}"
            if may_ask(place, module) and _grows_in_loop(found, fact, module):
                stop = Stop(grown.node, grown.statement, "each call adds to it here")
                is_here = grown.function.module is module
                yield Report.at(
                    fact,
                    "LAZY-001",
                    message=MESSAGE.format(found),
                    help=help_of(found, place, module),
                    related=(stop,) if is_here else (),
                )


def _declared(function: FunctionInfo, parameter: FunctionParameter) -> Value:
    """The value of a parameter by its annotation, or as the object of a method."""
    is_own = function.is_method and parameter is function.parameters[0]
    if is_own and function.cls is not None:
        return Instance(function.cls)
    return annotated_value(function, parameter)


def _grows_in_loop(path: str, fact: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a loop that evaluates other arrays never evaluates an older object's."""
    place, root = fact.place, path.partition(".")[0]
    loops = list(layout_of(module, place.function).loops(place.statement))
    if place.loops != len(loops):
        return False
    for loop in loops:
        if is_short_loop(loop, place, module):
            continue
        if not is_long(loop) or not is_older(path, loop, place, module):
            return False
        for call in calls_below(loop.body):
            if call is not fact.node and _mentions(call, root) and not _is_lookup(call, fact):
                return False
        return is_step(loop, module, by_evaluation=True) or synchronizes(loop, module)
    return False


def _mentions(call: cst.Call, name: str) -> bool:
    return name in names_below(call)


def _is_lookup(call: cst.Call, fact: LocalCall | ProjectCall) -> bool:
    """Return whether a call has the call in it that adds, and so no other mention of the object."""
    return any(node is fact.node for node in walk(call))


class _Grown(NamedTuple):
    """An attribute that a function adds to, at a node of a statement of a function."""

    attribute: str
    node: cst.CSTNode
    statement: cst.CSTNode
    function: FunctionInfo


@lru_cache(maxsize=64)
def _grown(function: FunctionInfo, name: str, given: Instance) -> tuple[_Grown, ...]:
    """The attributes of an object that a function adds to, and reads nowhere else."""
    if _evaluates(function):
        return ()
    found: list[_Grown] = []
    adders = [(name, function, True), *_adders(function, name, given)]
    for owner, adder, computes in adders:
        if _evaluates(adder) or isinstance(adder.node, cst.Lambda):
            return ()
        for statement in small_statements(adder.node.body):
            added = accumulation_by_text(statement)
            root, _, attribute = (added.path if added is not None else "").partition(".")
            if added is None or root != owner or not attribute or added.kind not in _KINDS:
                continue
            is_new = any(_computes(node, adder) for node in added.added)
            if "." not in attribute and (is_new or (computes and adder is not function)):
                found.append(_Grown(attribute, added.node, statement, adder))
    if _is_passed_on(function, name):
        return ()
    readers = {adder: None for _, adder, _ in adders}
    return tuple(g for g in found if not any(_reads(r, g, found) for r in readers))


def _adders(
    function: FunctionInfo, name: str, given: Instance
) -> Iterator[tuple[str, FunctionInfo, bool]]:
    """Yield the methods of an object that a function calls, and whether it passes new arrays."""
    for node in walk(function.node.body):
        func = node.func if isinstance(node, cst.Call) else None
        if not isinstance(func, cst.Attribute) or dotted(func.value) != name:
            continue
        method = find_method(given.info, func.attr.value)
        if method is not None and method.parameters and isinstance(node, cst.Call):
            computes = any(_computes(argument.value, function) for argument in node.args)
            yield method.parameters[0].name, method, computes


def _computes(node: cst.BaseExpression, function: FunctionInfo) -> bool:
    """Return whether an expression is a new array, on which no other one depends."""
    while True:
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(func, cst.Attribute) and func.attr.value in _VIEWS:
            node = func.value
        else:
            break
    if not isinstance(node, cst.Name):
        return _may_make_array(node, function)
    name = node.value
    made = _assigned(name, function)
    if len(made) != 1 or not _may_make_array(made[0], function):
        return False
    is_used_once = sum(inner == name for inner in names_below(function.node.body)) == 2
    return is_used_once or not _returns(function)


def _assigned(name: str, function: FunctionInfo) -> list[cst.BaseExpression]:
    return [
        statement.value
        for statement in small_statements(function.node.body)
        if isinstance(statement, cst.Assign) and dotted(statement.targets[0].target) == name
    ]


def _may_make_array(node: cst.BaseExpression, function: FunctionInfo) -> bool:
    if isinstance(node, cst.BinaryOperation):  # ``stop - start`` of a clock makes none
        sides = (_assigned(dotted(n) or "", function) for n in (node.left, node.right))
        return not all(made and all(map(_is_count, made)) for made in sides)
    return isinstance(node, cst.Call) and not _is_count(node)


def _is_count(node: cst.BaseExpression) -> bool:
    """Test for a number of the host: ``len(x)``, ``sum(len(x) for x in xs)``."""
    if not isinstance(node, cst.Call):
        return False
    first = node.args[0].value if node.args else None
    if dotted(node.func) == "sum" and isinstance(first, (cst.GeneratorExp, cst.ListComp)):
        return _is_count(first.elt)
    return dotted(node.func) in _COUNTING


def _returns(function: FunctionInfo) -> bool:
    statements = small_statements(function.node.body)
    return any(isinstance(s, cst.Return) and s.value is not None for s in statements)


def _evaluates(function: FunctionInfo) -> bool:
    return not _EVALUATING.isdisjoint(names_below(function.node.body))


def _is_passed_on(function: FunctionInfo, name: str) -> bool:
    """Return whether a function passes an object on, or binds another name to it."""
    owners = {
        id(node.value) for node in walk(function.node.body) if isinstance(node, cst.Attribute)
    }
    return any(
        node.value == name and id(node) not in owners
        for node in walk(function.node.body)
        if type(node) is cst.Name
    )


def _reads(function: FunctionInfo, grown: _Grown, others: list[_Grown]) -> bool:
    """Return whether a function reads an attribute other than to add to it, or test for None."""
    adding = {id(n) for g in others if g.attribute == grown.attribute for n in walk(g.statement)}
    for node in walk(function.node.body):
        if isinstance(node, cst.Comparison):
            is_none = all(dotted(t.comparator) == "None" for t in node.comparisons)
            adding |= {id(n) for n in walk(node)} if is_none else set()
        elif isinstance(node, cst.AssignTarget):
            adding.add(id(node.target))
    return any(
        isinstance(node, cst.Attribute)
        and node.attr.value == grown.attribute
        and id(node) not in adding
        for node in walk(function.node.body)
    )
