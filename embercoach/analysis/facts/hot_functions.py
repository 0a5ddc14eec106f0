"""Functions that run again and again: layers' forward passes, and functions that a loop calls."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import statements_below
from embercoach.analysis.values.inheritance import is_layer

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module


def is_forward(function: FunctionInfo | None) -> bool:
    """Test whether a function is a layer's ``__call__``."""
    if function is None or function.cls is None:
        return False
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
        if call.place.loops and not _is_listed(call.place.loop) and not _is_chosen(call, module):
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


def _is_chosen(call: LocalCall, module: Module) -> bool:
    """Test whether an ``if`` in the loop decides on a call: it may be made for few items."""
    for level in layout_of(module, call.place.function).outward(call.place.statement):
        if level.owner is call.place.loop:
            return False
        if isinstance(level.owner, cst.If):
            return True
    return False


#: Methods that hand a value over to a file, a socket or another thread.
_HANDS_OVER = frozenset({"put", "put_nowait", "send", "sendall", "write", "writeframes"})


def _is_sent(call: LocalCall) -> bool:
    """Test whether a statement only hands a result over: ``queue.put(step(x))``, or a yield."""
    statement = call.place.statement
    value = statement.value if isinstance(statement, cst.Expr) else None
    if isinstance(value, cst.Yield):
        return value.value is call.node
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return False
    return value.func.attr.value in _HANDS_OVER and any(a.value is call.node for a in value.args)
