"""The recursion of the evaluator: evaluate, execute, call, member, iterate."""

from __future__ import annotations

from collections.abc import Callable as Fn
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import libcst as cst

from embercoach.analysis.values.lattice import (
    NONE,
    STR,
    UNKNOWN,
    Array,
    Dict,
    LibraryObject,
    ModuleRef,
    Numpy,
    Sequence,
    Str,
    Torch,
    Union,
    Value,
    any_item,
    join_all,
    with_pulls,
)
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.values.facts import Argument

EVALUATORS: dict[type, Fn[[Frame, Any], Value]] = {}
EXECUTORS: dict[type, Fn[[Frame, Any], bool]] = {}
_LINKED: dict[str, Any] = {}


def evaluate(frame: Frame, node: cst.CSTNode) -> Value:
    """Return the value of an expression; facts are recorded on the way.

    Raises:
        WorkExceededError: the file has taken all the work that it may.
    """
    kind = type(node)
    if kind is cst.Name:  # half of all expressions
        value = frame.names.get(node.value)  # type: ignore[attr-defined]
        if value is not None:
            return value
    handler = EVALUATORS.get(kind)
    if handler is None:
        return UNKNOWN
    work = frame.work
    work.left -= 1
    if work.left < 0:
        raise WorkExceededError
    return handler(frame, node)


def execute(frame: Frame, statements: Iterable[cst.CSTNode]) -> bool:
    """Run statements in order; False once one of them leaves the suite."""
    for statement in statements:
        line = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
        for small in line:
            handler = EXECUTORS.get(type(small))
            if handler is not None:
                frame.statement = small
                if not handler(frame, small):
                    return False
    return True


_F = TypeVar("_F", bound="Fn[..., Any]")


def link(name: str) -> Fn[[_F], _F]:
    """Provide one of the functions below, by its name."""

    def register(function: _F) -> _F:
        _LINKED[name] = function
        return function

    return register


def call(frame: Frame, node: cst.Call, callee: Value, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of a call (``calls.calls``)."""
    return cast("Value", _LINKED["call"](frame, node, callee, arguments))


def call_value(frame: Frame, callee: Value, values: tuple[Value, ...]) -> Value:
    """Return the result of a call that no syntax spells, as by ``map`` (``calls.calls``)."""
    return cast("Value", _LINKED["call_value"](frame, callee, values))


def call_function(
    frame: Frame, info: FunctionInfo, owner: Value | None, arguments: tuple[Argument, ...]
) -> Value:
    """Return the result of calling a function of the project (``calls.functions``)."""
    return cast("Value", _LINKED["call_function"](frame, info, owner, arguments))


def left_in(info: FunctionInfo, name: str) -> Value:
    """Return the value of a variable at the end of a function (``calls.functions``)."""
    return cast("Value", _LINKED["left_in"](info, name))


def member(frame: Frame, owner: Value, name: str) -> Value:
    """Return an attribute of a value (``evaluate.members``)."""
    return cast("Value", _LINKED["member"](frame, owner, name))


def iterated(frame: Frame, value: Value) -> Value:
    """Return an element of an instance of the project's classes (``evaluate.classes``)."""
    return cast("Value", _LINKED["iterated"](frame, value))


def element_of(frame: Frame, value: Value) -> Value:
    """Return an element of an iterable."""
    kind = type(value)
    if kind is Sequence:
        return with_pulls(any_item(value), value.pulls)  # type: ignore[arg-type, attr-defined]
    if kind is Array:
        return Array(value.dtype, value.literal, False, value.traced, value.pulls)  # type: ignore[attr-defined]
    if kind is Union:
        found = [element_of(frame, o) for o in value.options if o is not NONE]  # type: ignore[attr-defined]
        return join_all(found)
    if kind is Dict or kind is Str:
        return STR
    if kind is Numpy:
        return Numpy(value.kind, value.flat, value.pulls, value.dtype)  # type: ignore[attr-defined]
    if kind is Torch:
        return value
    if kind is LibraryObject or kind is ModuleRef:
        return UNKNOWN
    return iterated(frame, value)
