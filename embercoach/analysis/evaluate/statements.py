"""Statements: what they do to a frame. Each returns whether control falls through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.annotations import evaluate_annotation
from embercoach.analysis.calls.transforms import decorate
from embercoach.analysis.evaluate import control, imports, mutation, operators
from embercoach.analysis.evaluate.assignment import assign
from embercoach.analysis.evaluate.dispatch import EXECUTORS, evaluate, execute
from embercoach.analysis.evaluate.frame import Frame, Snapshot
from embercoach.analysis.evaluate.narrowing import narrow, test
from embercoach.analysis.syntax.trees import children, dotted, target_names
from embercoach.analysis.values.facts import ItemStoreFact
from embercoach.analysis.values.inheritance import set_bases
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    BoundTransform,
    Class,
    Dict,
    FilePath,
    Function,
    Instance,
    Number,
    Sequence,
    Symbol,
    Value,
    any_item,
    join,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo


def _assign(frame: Frame, node: cst.Assign) -> bool:
    value = evaluate(frame, node.value)
    if type(value) is Number and _is_bare(node.value):
        value = replace(value, origin=node)
    if type(value) is Dict and value.exact and isinstance(node.value, cst.Name):
        # What is done to it under one name happens under the other.
        value = mutation.open_ended(value)
        frame.assign_path(node.value.value, value)
    for target in node.targets:
        assign(frame, target.target, value)
    return True


def _is_bare(node: cst.BaseExpression) -> bool:
    if type(node) is cst.UnaryOperation:
        node = node.expression
    return type(node) in (cst.Integer, cst.Float, cst.Imaginary)


def _annotated(frame: Frame, node: cst.AnnAssign) -> bool:
    declared = evaluate_annotation(frame, node.annotation.annotation)
    if node.value is None:
        if declared is not UNKNOWN and isinstance(node.target, cst.Name):
            frame.bind(node.target.value, declared)
        return True
    value = evaluate(frame, node.value)
    if value is UNKNOWN or (value is NONE and declared is not UNKNOWN):
        # An attribute is what the file assigns to it later.
        value = declared if value is UNKNOWN else join(declared, NONE)
    elif type(value) is Number and _is_bare(node.value):
        value = replace(value, origin=node)
    elif isinstance(value, (Sequence, Dict)) and _is_empty(value) and type(declared) is type(value):
        value = declared
    assign(frame, node.target, value)
    return True


def _is_empty(value: Sequence | Dict) -> bool:
    """Return whether a value is still empty, so that its declaration says more."""
    if isinstance(value, Sequence):
        return value.items == ()
    return value.item is UNKNOWN and not value.known


def _augmented(frame: Frame, node: cst.AugAssign) -> bool:
    left = evaluate(frame, node.target)
    right = evaluate(frame, node.value)
    symbol = operators.SYMBOLS[type(node.operator)]
    target: Any = node.target
    value = operators.binary(frame, node, symbol, left, right, target, node.value, True)
    if isinstance(node.target, cst.Subscript):
        if frame.record and node.target in frame.module.array_parts:
            base = evaluate(frame, node.target.value)
            frame.add(ItemStoreFact(node.target, frame.place(), base, value, in_place=True))
        return True
    assign(frame, node.target, value)
    return True


def _expression(frame: Frame, node: cst.Expr) -> bool:
    evaluate(frame, node.value)
    return True


def _return(frame: Frame, node: cst.Return) -> bool:
    value: Value = NONE if node.value is None else _evaluate_last(frame, node.value)
    frame.returned = value if frame.returned is None else join(frame.returned, value)
    if frame.must is not None:
        frame.must.returns += 1
    return False


def _raise(frame: Frame, node: cst.Raise) -> bool:
    if node.exc is not None:
        _evaluate_last(frame, node.exc)
    return False


def _evaluate_last(frame: Frame, node: cst.BaseExpression) -> Value:
    """Evaluate what a statement does on its way out of the function: once, in a loop or not."""
    loops = frame.loops
    frame.loops = 0
    value = evaluate(frame, node)
    frame.loops = loops
    return value


def _assert(frame: Frame, node: cst.Assert) -> bool:
    test(frame, node.test, "assert")
    narrow(frame, node.test, True)
    if node.msg is not None:
        evaluate(frame, node.msg)
    return True


def _delete(frame: Frame, node: cst.Del) -> bool:
    if isinstance(node.target, cst.Subscript):
        owner = evaluate(frame, node.target.value)
        path = dotted(node.target.value)
        if path is not None and isinstance(owner, Sequence):
            frame.assign_path(path, replace(owner, common=any_item(owner), items=None))
        elif path is not None and isinstance(owner, Dict):
            frame.assign_path(path, mutation.open_ended(owner))
        return True
    for name in target_names(node.target):
        frame.names.remove(name)
        frame.names.forget_below(name)
    return True


def _global(frame: Frame, node: cst.Global) -> bool:
    names = {item.name.value for item in node.names}
    frame.global_names |= names
    if frame.info is not None:
        frame.info.global_names |= names
    return True


def _nonlocal(frame: Frame, node: cst.Nonlocal) -> bool:
    if frame.info is not None:
        frame.info.nonlocal_names |= {item.name.value for item in node.names}
    return True


def _function(frame: Frame, node: cst.FunctionDef) -> bool:
    frame.bind(node.name.value, define_function(frame, node, None))
    return True


def define_function(frame: Frame, node: cst.FunctionDef, cls: ClassInfo | None) -> Value:
    """Return the value of a ``def``, with its decorators applied."""
    info = frame.module.function_info(node, frame, cls)
    value: Value = Function(info)
    names: list[str] = []
    for decorator in reversed(node.decorators):
        applied = evaluate(frame, decorator.decorator)
        value = decorate(frame, decorator, applied, value)
        if isinstance(applied, (Symbol, BoundTransform)):
            names.append(applied.name)
        elif isinstance(decorator.decorator, cst.Call):
            path = evaluate(frame, decorator.decorator.func)
            if isinstance(path, Symbol):
                names.append(path.name)
        elif isinstance(decorator.decorator, cst.Attribute):
            names.append("." + decorator.decorator.attr.value)
    for parameter in info.parameters:
        if parameter.default is not None and frame.record:
            evaluate(frame, parameter.default)
    info.decorators = tuple(names)
    if any(n.endswith("pytest.fixture") for n in names):
        frame.module.fixtures[info.name] = info
    if any(n in OPAQUE_DECORATORS for n in names):
        return UNKNOWN
    return value


OPAQUE_DECORATORS = {"contextlib.contextmanager", "contextlib.asynccontextmanager"}


def _class(frame: Frame, node: cst.ClassDef) -> bool:
    info = frame.module.class_info(node)
    set_bases(info, tuple(evaluate(frame, base.value) for base in node.bases))
    body = Frame(frame.module, frame.info, frame, record=frame.record)
    body.statement = node
    info.frame = body
    setters: list[FunctionInfo] = []
    for statement in node.body.body:
        if isinstance(statement, cst.FunctionDef):
            value = define_function(body, statement, info)
            name = statement.name.value
            method = frame.module.function_info(statement, body, info)
            if ".setter" in method.decorators:
                setters.append(method)
            else:
                info.methods[name] = method
            info.variables[name] = value
        else:
            _class_statement(body, info, statement)
    for method in dict.fromkeys((*info.methods.values(), *setters)):
        frame.module.note_setters(info, method)
    frame.bind(node.name.value, Class(info))
    return True


def _class_statement(body: Frame, info: ClassInfo, statement: cst.CSTNode) -> None:
    lines = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    for line in lines:
        if isinstance(line, cst.AnnAssign) and isinstance(line.target, cst.Name):
            info.annotations[line.target.value] = line.annotation.annotation
    before = body.names.version()
    execute(body, (statement,))
    info.variables |= {n: value for n, _, value in body.names.since(before) if value is not None}
    for line in lines:
        if isinstance(line, cst.Assign) and isinstance(line.value, cst.Name):
            name = line.value.value
            method = info.methods.get(name)
            if method is not None and type(info.variables[name]) is Function:
                others = target_names(line.targets[0].target)
                info.methods |= dict.fromkeys(others, method)  # ``__call__ = forward``


def _with(frame: Frame, node: cst.With) -> bool:
    for item in node.items:
        value = evaluate(frame, item.item)
        if item.asname is not None:
            known = isinstance(value, (FilePath, Instance))
            assign(frame, item.asname.name, value if known else UNKNOWN)
    return execute(frame, node.body.body)


def _execute_match(frame: Frame, node: cst.Match) -> bool:
    """``match``: patterns bind names to unknown values."""
    evaluate(frame, node.subject)
    before = frame.fork()
    branches: list[Snapshot] = [before]
    with frame.unsure():
        for case in node.cases:
            frame.restore(before)
            for name in _pattern_names(case.pattern):
                frame.bind(name, UNKNOWN)
            if case.guard is not None:
                test(frame, case.guard, "guard")
            if execute(frame, case.body.body):
                branches.append(frame.fork())
    frame.restore(before)
    frame.merge(branches)
    return True


def _pattern_names(pattern: cst.CSTNode) -> list[str]:
    names = []
    if isinstance(pattern, (cst.MatchAs, cst.MatchStar)) and pattern.name is not None:
        names.append(pattern.name.value)
    if isinstance(pattern, cst.MatchMapping) and pattern.rest is not None:
        names.append(pattern.rest.value)
    if not isinstance(pattern, cst.MatchValue):
        for child in children(pattern):
            names.extend(_pattern_names(child))
    return names


EXECUTORS |= {
    cst.Expr: _expression,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Assert: _assert,
    cst.Del: _delete,
    cst.Global: _global,
    cst.Nonlocal: _nonlocal,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.With: _with,
    cst.If: control.execute_if,
    cst.For: control.execute_for,
    cst.While: control.execute_while,
    cst.Try: control.execute_try,
    cst.TryStar: control.execute_try,
    cst.Match: _execute_match,
    cst.Break: control.execute_exit,
    cst.Continue: control.execute_exit,
    cst.Import: imports.execute_import,
    cst.ImportFrom: imports.execute_import_from,
}
