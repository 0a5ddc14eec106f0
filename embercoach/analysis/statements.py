"""Statements: what they do to a frame. Each returns whether control falls through."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis import control, extents, fourier, imports, mutation, operators
from embercoach.analysis.annotations import evaluate_annotation
from embercoach.analysis.dispatch import evaluate
from embercoach.analysis.frame import Frame
from embercoach.analysis.iteration import element_of
from embercoach.analysis.lattice import join, join_all, options, pulls_of
from embercoach.analysis.narrowing import narrow, test
from embercoach.analysis.paths import dotted
from embercoach.analysis.values import (
    NONE,
    UNKNOWN,
    Array,
    Class,
    Dict,
    FilePath,
    Function,
    Instance,
    Number,
    Sequence,
    Str,
    Symbol,
    Union,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable as Fn
    from collections.abc import Iterable, Iterator
    from collections.abc import Sequence as Items

    from embercoach.analysis.definitions import ClassInfo


def execute_body(frame: Frame, body: cst.BaseSuite) -> bool:
    """Run a suite; False once a statement leaves it."""
    return execute_all(frame, body.body)


def execute_all(frame: Frame, statements: Iterable[cst.CSTNode]) -> bool:
    """Run statements in order; what follows one that leaves is not reached."""
    for statement in statements:
        kind = type(statement)
        if kind is cst.SimpleStatementLine:
            for small in statement.body:  # type: ignore[attr-defined]
                handler = EXECUTORS.get(type(small))
                if handler is not None:
                    frame.statement = small
                    if not handler(frame, small):
                        return False
            continue
        handler = EXECUTORS.get(kind)
        if handler is not None:
            frame.statement = statement
            if not handler(frame, statement):
                return False
    return True


def assign(frame: Frame, target: cst.CSTNode, value: Value) -> None:
    """Bind an assignment target: a name, attribute, item or a pattern of them."""
    kind = type(target)
    if kind is cst.Name:
        frame.bind(target.value, value)  # type: ignore[attr-defined]
    elif kind is cst.Attribute:
        assert isinstance(target, cst.Attribute)
        _assign_attribute(frame, target, value)
    elif kind is cst.Tuple or kind is cst.List:
        _unpack(frame, target.elements, value)  # type: ignore[attr-defined]
    elif kind is cst.Subscript:
        _assign_item(frame, target, value)  # type: ignore[arg-type]


def _assign_attribute(frame: Frame, target: cst.Attribute, value: Value) -> None:
    path = dotted(target)
    owner = evaluate(frame, target.value)
    mutation.record(frame, owner, target.attr.value, value)
    if path is not None:
        frame.assign_path(path, value)


def _unpack(frame: Frame, elements: Items[cst.BaseElement], value: Value) -> None:
    star = next((i for i, e in enumerate(elements) if isinstance(e, cst.StarredElement)), None)
    if type(value) is Union:
        value = _unpacked_union(frame, value, len(elements))
    if isinstance(value, Sequence) and value.array is not None and value.items is None:
        value = extents.unpacked_shape(value.array, len(elements), star)
    items = value.items if isinstance(value, Sequence) else None
    if items is not None and star is None and len(items) == len(elements):
        for element, item in zip(elements, items, strict=True):
            assign(frame, element.value, item)
        return
    element_value = _element_of_any(frame, value)
    for index, element in enumerate(elements):
        if index == star:
            assign(frame, element.value, Sequence("list", element_value))
        elif items is not None and star is not None and len(items) >= len(elements) - 1:
            at = index if index < star else index - len(elements)
            assign(frame, element.value, items[at])
        else:
            assign(frame, element.value, element_value)


def _unpacked_union(frame: Frame, value: Union, count: int) -> Value:
    """What each of ``count`` targets gets, whichever alternative is unpacked."""
    columns: list[list[Value]] = [[] for _ in range(count)]
    for option in value.options:
        if option is NONE:
            continue
        items = option.items if isinstance(option, Sequence) else None
        if items is not None and len(items) != count:
            continue  # unpacking it would raise
        for at in range(count):
            columns[at].append(element_of(frame, option) if items is None else items[at])
    joined = tuple(join_all(column) for column in columns)
    return Sequence("tuple", None, joined)


def _element_of_any(frame: Frame, value: Value) -> Value:
    return join_all(element_of(frame, o) for o in options(value) if o is not NONE)


def _assign_item(frame: Frame, target: cst.Subscript, value: Value) -> None:
    base = evaluate(frame, target.value)
    evaluate(frame, target)  # for the facts of its indices
    if type(base) is Array and base.role is not None:
        fourier.touch(frame, target, value)
    path = dotted(target.value)
    if path is None:
        return
    if path in frame.evaluated:
        frame.evaluated = frame.evaluated.without((path,))
    if isinstance(base, Dict):
        index = target.slice[0].slice
        key = evaluate(frame, index.value) if isinstance(index, cst.Index) else UNKNOWN
        text = key.text if isinstance(key, Str) else None
        if text is not None and len(base.known) < 64:
            known = {**dict(base.known), text: value}
            frame.assign_path(path, Dict(base.item, tuple(known.items()), base.exact))
        else:
            item = value if base.item is UNKNOWN and not base.known else join(base.item, value)
            frame.assign_path(path, Dict(item, base.known))
    elif isinstance(base, Sequence) and base.kind == "list":
        frame.assign_path(path, Sequence("list", join(base.item, value)))


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """The names that an assignment target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)


def _assign(frame: Frame, node: cst.Assign) -> bool:
    value = evaluate(frame, node.value)
    if type(value) is Number and _is_bare(node.value):
        value = replace(value, origin=node)
        frame.module.numbers.add(node)
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
        value = declared if value is UNKNOWN else join(declared, NONE)
    elif type(value) is Number and _is_bare(node.value):
        value = replace(value, origin=node)
        frame.module.numbers.add(node)
    elif isinstance(value, (Sequence, Dict)) and _is_empty(value) and type(declared) is type(value):
        value = declared
    assign(frame, node.target, value)
    return True


def _is_empty(value: Sequence | Dict) -> bool:
    """Whether it is known to hold nothing yet, so that its declaration says more."""
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
        fourier.touch(frame, node.target, None)
        return True
    assign(frame, node.target, value)
    return True


def _expression(frame: Frame, node: cst.Expr) -> bool:
    evaluate(frame, node.value)
    return True


def _return(frame: Frame, node: cst.Return) -> bool:
    value: Value = NONE if node.value is None else _evaluate_last(frame, node.value)
    frame.returned = value if frame.returned is None else join(frame.returned, value)
    frame.pulls |= pulls_of(value)
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
            frame.assign_path(path, replace(owner, common=owner.item, items=None))
        elif path is not None and isinstance(owner, Dict):
            frame.assign_path(path, mutation.open_ended(owner))
        return True
    for name in target_names(node.target):
        frame.names.remove(name)
        frame.forget(name)
    return True


def _global(frame: Frame, node: cst.Global) -> bool:
    names = {item.name.value for item in node.names}
    frame.global_names |= names
    if frame.info is not None:
        frame.info.global_names |= names
    return True


def _function(frame: Frame, node: cst.FunctionDef) -> bool:
    frame.bind(node.name.value, define_function(frame, node, None))
    return True


def define_function(frame: Frame, node: cst.FunctionDef, cls: ClassInfo | None) -> Value:
    """The value of a ``def``, with its decorators applied."""
    from embercoach.analysis.transforms import ROLES, TRANSFORMS, mark, wrapped

    info = frame.module.function_info(node, frame, cls)
    value: Value = Function(info)
    names: list[str] = []
    for decorator in reversed(node.decorators):
        applied = evaluate(frame, decorator.decorator)
        if isinstance(applied, Symbol):
            names.append(applied.name)
            kind = TRANSFORMS.get(applied.name, ("", 0))[0]
            if kind in ROLES:
                mark(frame, (decorator.decorator, decorator), value, ROLES[kind])
                value = wrapped(kind, value)
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
    info.is_static = "builtins.staticmethod" in names
    info.is_property = any(n in PROPERTIES for n in names)
    if any(n.endswith("pytest.fixture") for n in names):
        frame.module.fixtures[info.name] = info
    if any(n in OPAQUE_DECORATORS for n in names):
        return UNKNOWN
    return value


PROPERTIES = {"builtins.property", "functools.cached_property"}
OPAQUE_DECORATORS = {"contextlib.contextmanager", "contextlib.asynccontextmanager"}


def _class(frame: Frame, node: cst.ClassDef) -> bool:
    info = frame.module.class_info(node)
    info.bases = tuple(evaluate(frame, base.value) for base in node.bases)
    body = Frame(frame.module, frame.info, frame, record=frame.record)
    body.statement = node
    info.frame = body
    setters: set[str] = set()
    for statement in node.body.body:
        if isinstance(statement, cst.FunctionDef):
            value = define_function(body, statement, info)
            name = statement.name.value
            method = frame.module.function_info(statement, body, info)
            if ".setter" in method.decorators:
                setters.add(name)
            else:
                info.methods[name] = method
            info.variables[name] = value
        else:
            _class_statement(body, info, statement)
    for method in info.methods.values():
        frame.module.note_setters(info, method)
    frame.bind(node.name.value, Class(info))
    return True


def _class_statement(body: Frame, info: ClassInfo, statement: cst.CSTNode) -> None:
    lines = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    for line in lines:
        if isinstance(line, cst.AnnAssign) and isinstance(line.target, cst.Name):
            info.annotations[line.target.value] = line.annotation.annotation
    before = body.names.version()
    execute_all(body, (statement,))
    info.variables |= {n: value for n, _, value in body.names.since(before) if value is not None}


def _with(frame: Frame, node: cst.With) -> bool:
    for item in node.items:
        value = evaluate(frame, item.item)
        if item.asname is not None:
            known = isinstance(value, (FilePath, Instance))
            assign(frame, item.asname.name, value if known else UNKNOWN)
    return execute_body(frame, node.body)


def _pass(frame: Frame, node: cst.CSTNode) -> bool:
    return True


EXECUTORS: dict[type, Fn[[Frame, Any], bool]] = {
    cst.Expr: _expression,
    cst.Assign: _assign,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Assert: _assert,
    cst.Del: _delete,
    cst.Global: _global,
    cst.Nonlocal: _pass,
    cst.Pass: _pass,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.With: _with,
    cst.If: control.execute_if,
    cst.For: control.execute_for,
    cst.While: control.execute_while,
    cst.Try: control.execute_try,
    cst.TryStar: control.execute_try,
    cst.Match: control.execute_match,
    cst.Break: control.execute_break,
    cst.Continue: control.execute_continue,
    cst.Import: imports.execute_import,
    cst.ImportFrom: imports.execute_import_from,
}
