"""Summaries of functions of any file: what they call, and whether they evaluate what they get."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of, parameter_value
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import Argument, CallFact, FactPlace
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    SCOPES,
    Kinds,
    children,
    dotted,
    names_below,
    statements_below,
    target_names,
    walk,
)
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    BoundMember,
    Instance,
    LibraryObject,
    Symbol,
    Value,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: What a parameter of a function of another file holds, of which nothing else is known.
_TRACED = Array(traced=True)
_LIBRARY = frozenset((BoundMember, LibraryObject, Symbol))


def nodes_in(
    tree: cst.CSTNode, module: Module, closed: Kinds = (*DEFINITIONS, cst.Lambda)
) -> Iterator[cst.CSTNode]:
    """Walk a tree at the cost of the file's budget, but for the definitions in it.

    Raises:
        WorkExceededError: the file has taken all the work that it may.
    """
    work = module.work
    for node in walk(tree, closed):
        work.left -= 1
        if work.left < 0:
            raise WorkExceededError
        yield node


def calls_in(info: FunctionInfo, module: Module) -> tuple[CallFact, ...]:
    """Return the calls of a function: the facts of the checked file, or a summary of another's."""
    if info.module is module:
        return tuple(fact for fact in module.facts_of(info) if type(fact) is CallFact)
    return evaluated_calls(info)


@kept_for_file
def evaluated_calls(info: FunctionInfo) -> tuple[CallFact, ...]:
    """Return the calls in a function's text, those of lambdas among them, without their results.

    Globals, attributes and parameters are known there, local variables are not. Parameters hold
    what their annotation says, else an array.
    """
    frame = frame_of(info)
    found: list[CallFact] = []
    for node, statement in located_calls(info.node.body, info.statement, closed=DEFINITIONS):
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


def frame_of(info: FunctionInfo) -> Frame:
    """Return a frame for the expressions of a function, whichever file it is in."""
    frame = Frame(info.module, info, closure_of(info), record=False)
    frame.traceless = True
    for parameter in info.parameters[info.is_method :]:
        value = parameter_value(info, parameter, None)
        frame.names[parameter.name] = _TRACED if value is UNKNOWN else value
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
    pending: list[tuple[cst.CSTNode, cst.CSTNode]] = [(body, statement or body)]
    while pending:
        node, statement = pending.pop()
        if isinstance(node, closed):
            continue
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            statement = node
        if type(node) is cst.Call:
            yield node, statement
        pending += [(child, statement) for child in reversed(children(node))]


def derived_names(body: cst.CSTNode, names: set[str]) -> set[str]:
    """Return some names, and those that a body binds to what is made of them."""
    found = set(names)
    for statement in statements_below(body):
        value = statement.value if type(statement) is cst.Assign else None
        if type(statement) is cst.For:
            value = statement.iter
        if value is not None and not found.isdisjoint(names_below(value)):
            found.update(bound_by(statement))
    return found


def bound_by(statement: cst.CSTNode) -> Iterator[str]:
    """Yield the names that an assignment or a loop binds."""
    for target in statement.targets if isinstance(statement, cst.Assign) else ():
        yield from target_names(target.target)
    if isinstance(statement, cst.For):
        yield from target_names(statement.target)
