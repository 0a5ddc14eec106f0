"""GRAPH-BREAK, HOST-PULL-001: functions of other files that read arrays in a forward pass."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.functions import must_execute
from embercoach.analysis.calls.numpy_api import CONVERSIONS
from embercoach.analysis.calls.parameters import annotated_value, canonical_values, closure_of
from embercoach.analysis.dataflow.contexts import is_forward
from embercoach.analysis.dataflow.scopes import by_parameter
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.must_execute import without_raising
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    Function,
    Instance,
    as_array,
    definite_array,
)
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.must_execute import Read
    from embercoach.analysis.facts.facts import Argument, ProjectCall
    from embercoach.analysis.project.module import Module

#: Calls inside of each other that are followed, and calls of one function.
_MOST_CALLS, _MOST_FOLLOWED = 2, 8
_METHODS = {"item": "GRAPH-BREAK-001", "tolist": "HOST-PULL-001"}
_RAISES, _WAITS = ": raises when traced", " in every forward pass"
_HELP = {
    "tests": "Select with mx.where, or move the test out of the model's forward pass",
    "pulls": "Keep the value an mx.array, or read it outside of the model's forward pass",
}


class _Read(NamedTuple):
    """A read that must execute in a function, or in one that it calls: where it is."""

    node: cst.CSTNode
    how: Read
    function: FunctionInfo


@check(*_METHODS.values(), "GRAPH-BREAK-002", "GRAPH-BREAK-003", "HOST-PULL-002")
def imported_read(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``guard(x)`` of another file, which raises if ``mx.any(mx.isnan(x))``, in a forward pass.

    In a compiled function, any read raises.
    """
    function = fact.place.function
    if function is None or fact.function.module is module or module.is_test:
        return
    is_traced = function.compiled or function.vmapped
    if not is_traced and not is_forward(function):
        return
    arrays = _arrays(fact.function, fact.arguments, is_bound=fact.is_bound)
    if is_traced:
        arrays |= _shown_arrays(fact)
    read = _read(fact.function, arrays)
    if read is None or read.node in module.detaching:
        return  # the gradient's rule reports what detaches it
    is_guard = not is_traced and _is_guard_of(read, fact.function)
    if not is_traced and not is_guard and not _is_unknown(read, arrays):
        return  # reported in its own file, where its use is known
    context = "compiled" if is_traced else "avoidable" if is_guard else "minor"
    name, file = fact.function.name, fact.function.module.path.name
    yield Report.at(
        fact,
        _code(read),
        message=in_file(name, file, f" {read.how} an array{_RAISES if is_traced else _WAITS}"),
        help=_HELP[read.how],
        context=context,
    )


def _arrays(
    info: FunctionInfo, arguments: tuple[Argument, ...], *, is_bound: bool
) -> frozenset[str]:
    """The parameters that certainly are arrays in a call, computed from traced ones."""
    values = bind(info, UNKNOWN if is_bound else None, arguments)
    arrays = ((name, definite_array(value)) for name, value in values.items())
    return frozenset(name for name, array in arrays if array is not None and array.traced)


def _shown_arrays(fact: ProjectCall) -> frozenset[str]:
    """The parameters that a compiled function passes its own for, and that are used as arrays."""
    function = fact.place.function
    own = {p.name for p in function.parameters} if function is not None else set()
    values = ((a.keyword, a.node) for a in fact.arguments if not a.star)
    passed = by_parameter(fact.function, values, is_bound=fact.is_bound)
    unknown = {id(a.node) for a in fact.arguments if a.value is UNKNOWN}
    names = frozenset(
        name
        for name, node in passed.items()
        if id(node) in unknown and isinstance(node, cst.Name) and node.value in own
    )
    if not names:
        return names
    used = must_execute(fact.function, frozenset(), ()).shown
    return frozenset(
        p.name
        for p in fact.function.parameters
        if p.name in names
        and (p.name in used or isinstance(annotated_value(fact.function, p), Array))
    )


@lru_cache(maxsize=64)
def _read(info: FunctionInfo, arrays: frozenset[str], depth: int = 0) -> _Read | None:
    """The first read of an array that must execute when a function is called."""
    if not arrays or info.is_async:
        return None
    must = must_execute(info, arrays, ())
    for node, how in must.reads.items():
        return _Read(node, how, info)
    frame = Frame(info.module, info, closure_of(info), record=False)
    if info.is_method and info.cls is not None and info.parameters:
        frame.names[info.parameters[0].name] = Instance(info.cls)
    for call, arguments in [*must.calls.items()][: _MOST_FOLLOWED if depth < _MOST_CALLS else 0]:
        callee = evaluate(frame, call.func) if dotted(call.func) is not None else UNKNOWN
        if isinstance(callee, Function):
            given = _arrays(callee.info, arguments, is_bound=callee.bound is not None)
            found = _read(callee.info, given, depth + 1) if given else None
            if found is not None:
                return found
    return None


def _is_guard_of(read: _Read, function: FunctionInfo) -> bool:
    """Return whether a function reads only to decide if it raises an exception.

    The methods of a layer may prepare a whole prompt, once for many tokens.
    """
    classes = (info.cls for info in (function, read.function))
    if any(cls is not None and is_layer(cls) for cls in classes):
        return False
    tests = (
        node.test
        for node in walk(read.function.node.body, (cst.Lambda,))
        if isinstance(node, cst.Assert)
        or (isinstance(node, cst.If) and without_raising(node) is not None)
    )
    return any(inner is read.node for test in tests for inner in walk(test))


def _is_unknown(read: _Read, arrays: frozenset[str]) -> bool:
    """Return whether a function pulls a parameter of which its own file knows nothing."""
    info, node = read.function, read.node
    if not isinstance(node, cst.Call) or read.how != "pulls":
        return False
    is_method = isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS
    pulled = cst.ensure_type(node.func, cst.Attribute).value if is_method else node.args[0].value
    used = arrays.intersection(n.value for n in walk(pulled) if isinstance(n, cst.Name))
    frame = Frame(info.module, info, closure_of(info), record=False)
    frame.names.set_all(zip((p.name for p in info.parameters), canonical_values(info), strict=True))
    return bool(used) and as_array(evaluate(frame, pulled)) is None


def _code(read: _Read) -> str:
    if read.how == "tests":
        return "GRAPH-BREAK-003"
    func = read.node.func if isinstance(read.node, cst.Call) else None
    name = func.attr.value if isinstance(func, cst.Attribute) else ""
    if name in CONVERSIONS:
        return "HOST-PULL-002"
    return _METHODS.get(name, "GRAPH-BREAK-002")
