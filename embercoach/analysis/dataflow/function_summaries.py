"""Summaries of functions of any file: what they call, and whether they evaluate what they get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.parameters import closure_of, parameter_value
from embercoach.analysis.dataflow.contents import bound_by, contents_of
from embercoach.analysis.dataflow.scopes import (
    Expression,
    display,
    is_rebound,
    passed_with_owner,
    resolve_name,
    scope_of,
)
from embercoach.analysis.evaluate.dispatch import element_of, evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.syntax.trees import SCOPES, Kinds, dotted
from embercoach.analysis.values.facts import (
    Argument,
    CallFact,
    FactPlace,
    LocalCall,
    ProjectCall,
    calls_by_function,
)
from embercoach.analysis.values.lattice import (
    TRACED,
    UNKNOWN,
    BoundMember,
    Instance,
    LibraryObject,
    Symbol,
    Value,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, take_walk

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: What a parameter of a function of another file holds, of which nothing else is known.
_LIBRARY = frozenset((BoundMember, LibraryObject, Symbol))


def calls_in(info: FunctionInfo, module: Module) -> tuple[CallFact, ...]:
    """Return the calls of a function: the facts of the checked file, or a summary of another's."""
    if info.module is module:
        return tuple(fact for fact in module.facts_of(info) if type(fact) is CallFact)
    return evaluated_calls(info)


@kept_for_file
def evaluated_calls(info: FunctionInfo) -> tuple[CallFact, ...]:
    """Return the calls in a function's text and in its inner functions, without their results.

    Globals, attributes and parameters are known there, and the layers that a loop goes over; other
    local variables are not. Parameters hold what their annotation says, else an array.
    """
    frame = frame_of(info)
    for loop in contents_of(info.node.body).of(cst.For):
        for target, iterable in _walked(loop.target, loop.iter):
            item = element_of(frame, evaluate(frame, iterable))
            if type(item) in (Instance, LibraryObject):
                frame.names[target] = item
    found: list[CallFact] = []
    for node, statement in located_calls(info.node.body, info.statement, closed=(cst.ClassDef,)):
        callee: Value = evaluate(frame, node.func) if dotted(node.func) is not None else UNKNOWN
        is_library = type(callee) in _LIBRARY  # whose calls are judged by what they are given
        arguments = tuple(
            Argument(
                evaluate(frame, a.value) if is_library else UNKNOWN,
                a.value,
                None if a.keyword is None else a.keyword.value,
                a.star,
            )
            for a in node.args
        )
        place = FactPlace(statement, info, 0, None, frozenset(), frozenset(), False)
        found.append(CallFact(node, place, callee, arguments, UNKNOWN))
    return tuple(found)


def _walked(
    target: cst.BaseExpression, iterable: cst.BaseExpression
) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield the names of a loop with what each goes over: ``zip(self.layers, cache)``."""
    name = dotted(iterable.func) if isinstance(iterable, cst.Call) else None
    if isinstance(target, cst.Name) and dotted(iterable) is not None:
        yield target.value, iterable
    elif isinstance(target, cst.Tuple) and isinstance(iterable, cst.Call):
        parts = target.elements[name == "enumerate" :] if name in ("zip", "enumerate") else ()
        for part, argument in zip(parts, iterable.args, strict=False):
            yield from _walked(part.value, argument.value)


@kept_for_file
def reached_by(info: FunctionInfo) -> tuple[FunctionInfo, ...]:
    """Return a function, and those of its file that it calls, by itself or through others."""
    reached, pending = {info: None}, [info]
    while pending:
        callees = [c for c in pending.pop().calls if c.module is info.module and c not in reached]
        reached.update(dict.fromkeys(callees))
        pending += callees
    take_walk(len(reached))
    return tuple(reached)


def frame_of(info: FunctionInfo) -> Frame:
    """Return a frame for the expressions of a function, whichever file it is in."""
    frame = Frame(info.module, info, closure_of(info), record=False)
    frame.traceless = True
    for parameter in info.parameters[info.is_method :]:
        value = parameter_value(info, parameter, None)
        frame.names[parameter.name] = TRACED if value is UNKNOWN else value
    if info.is_method and info.parameters and info.cls is not None:
        frame.names[info.parameters[0].name] = Instance(info.cls)
    return frame


def located_calls(
    body: cst.CSTNode, statement: cst.CSTNode | None = None, *, closed: Kinds = SCOPES
) -> Iterator[tuple[cst.Call, cst.CSTNode]]:
    """Yield the calls of a body with their statements, in the order of the text.

    Args:
        body: of a function, or of a module.
        statement: of a body that is an expression.
        closed: kinds of nodes that are not entered.
    """
    contents = contents_of(body, closed)
    for call in contents.calls:
        around = contents.statement_of(call)
        yield call, statement or around if around is body else around


def derived_names(body: cst.CSTNode, names: set[str]) -> set[str]:
    """Return some names, and those that a body binds to what is made of them."""
    found = set(names)
    for statement in contents_of(body, SCOPES).of(cst.Assign, cst.For):
        value = statement.iter if isinstance(statement, cst.For) else statement.value  # type: ignore[attr-defined]
        if not found.isdisjoint(contents_of(value).names):
            found.update(bound_by(statement))
    return found


def passed_values(call: LocalCall | ProjectCall) -> dict[str, Value]:
    """Return the values of a call by parameter: of a function of the file, those of all calls."""
    function = call.function
    if isinstance(call, ProjectCall):
        return bind(function, UNKNOWN if call.is_bound else None, call.arguments)
    names = (parameter.name for parameter in function.parameters)
    return dict(zip(names, function.analysed_with or (), strict=False))


def functions_at(
    node: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> list[FunctionInfo]:
    """Return the functions of the file that a name or an argument of a function may be."""
    direct = _function(Expression(node, scope_of(module, function)))
    if direct is not None or not isinstance(node, cst.Name):
        return [] if direct is None else [direct]
    body = module.tree if function is None else function.node.body
    loops: list[cst.For | cst.CompFor] = contents_of(body, SCOPES).of(cst.For, cst.CompFor)
    made = (
        _function(container.at(item))
        for loop in loops
        for container in _containers(loop, function, module)
        for item in _items(loop, container, node.value)
    )
    return [info for info in made if info is not None]


def _function(expression: Expression) -> FunctionInfo | None:
    """Return the function of the file that a name is, or a lambda."""
    node, scope = expression.node, expression.scope
    if isinstance(node, cst.Name):
        found = scope.find(node.value)
        node = node if found is None or found[1] is None else found[1].node
    return _by_node(scope.module).get(node)


@kept_for_file
def _by_node(module: Module) -> dict[cst.CSTNode, FunctionInfo]:
    return {info.node: info for info in module.functions}


def _passed(
    function: FunctionInfo, name: str
) -> Iterator[tuple[cst.BaseExpression, FunctionInfo | None] | None]:
    """Yield what the calls in the file pass for a parameter, and the callers; None if unknown."""
    calls = calls_by_function(function.module).get(function, ())
    for call in calls[:MOST_CALLERS]:
        given = passed_with_owner(call).get(name)
        if any(argument.star for argument in call.node.args):
            yield None
        elif given is not None:
            yield given, call.place.function
    if len(calls) > MOST_CALLERS:
        yield None


def functions_passed(function: FunctionInfo, name: str) -> Iterator[list[FunctionInfo]]:
    """Yield the functions that each call in the file passes for a parameter, none if unknown."""
    for passed in _passed(function, name):
        if passed is None:
            yield []
        elif dotted(passed[0]) != "None":
            yield functions_at(*passed, function.module)


def _containers(
    loop: cst.For | cst.CompFor, function: FunctionInfo | None, module: Module
) -> list[Expression]:
    """Return the container that a loop walks over; of a parameter, those that callers pass."""
    node, func = loop.iter, getattr(loop.iter, "func", None)
    if _view(loop) is not None and isinstance(func, cst.Attribute):
        node = func.value
    made = resolve_name(Expression(node, scope_of(module, function)))
    if function is None or not isinstance(made.node, cst.Name):
        return [made]
    return [
        resolve_name(Expression(passed[0], scope_of(module, passed[1])))
        for passed in _passed(function, made.node.value)
        if passed is not None
    ]


def _view(loop: cst.For | cst.CompFor) -> str | None:
    """Return the method of a loop over ``cases.items()`` or ``cases.values()``."""
    node = loop.iter
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    return func.attr.value if isinstance(func, cst.Attribute) else None


def _items(
    loop: cst.For | cst.CompFor, container: Expression, name: str
) -> Iterator[cst.BaseExpression]:
    """Yield what a loop over a list, a tuple or a dictionary binds a name to."""
    made, view = container.node, _view(loop)
    if isinstance(made, cst.Dict) and view in ("items", "values"):
        pairs = [e for e in made.elements if isinstance(e, cst.DictElement)]
        rows = [[e.key, e.value] if view == "items" else e.value for e in pairs]
    elif view is None:
        rows = [display(item) or item for item in display(made) or ()]
    else:
        return
    targets = display(loop.target)
    for row in rows[:MOST_CALLERS]:
        if isinstance(row, list) and targets is not None and len(row) == len(targets):
            for target, item in zip(targets, row, strict=True):
                if isinstance(target, cst.Name) and target.value == name:
                    yield item
            continue
        is_name = isinstance(loop.target, cst.Name) and loop.target.value == name
        if is_name and not isinstance(row, list):
            yield row


def called_back(call: CallFact | None) -> list[LocalCall] | None:
    """Return the calls that one of an optional parameter stands for, None for other calls.

    Each is one of a function of the file that a caller passes; without a caller that passes one,
    nothing is called.
    """
    func = None if call is None else call.node.func
    if call is None or not isinstance(func, cst.Name):
        return None
    owner = call.place.function
    while owner is not None and all(p.name != func.value for p in owner.parameters):
        owner = owner.outer
    if owner is None or is_rebound(owner.module, owner, func.value):
        return None
    default = next(p.default for p in owner.parameters if p.name == func.value)
    passed = [*functions_passed(owner, func.value)]
    if default is None or dotted(default) != "None" or not all(passed):
        return None
    functions = (info for found in passed for info in found)
    return [LocalCall(call.node, call.place, info, is_bound=False) for info in functions]
