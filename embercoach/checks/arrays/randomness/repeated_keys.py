"""RANDOM-001: a key from outside of a function that is called again and again."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import (
    assigned_attributes,
    by_parameter,
    fixed_attribute,
    scope_of,
)
from embercoach.analysis.facts.stops import Stop
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Array
from embercoach.checks.arrays.randomness.random_keys import PREFIX, key_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, LocalCall, ProjectCall
    from embercoach.analysis.facts.reaching import Binding
    from embercoach.analysis.project.module import Module

#: Functions around a call that are looked at, and calls of each.
_MOST_FUNCTIONS, _MOST_CALLERS = 8, 32
#: A benchmark repeats the same numbers on purpose.
_TIMERS = ("perf_counter", "timeit")


class _Key(NamedTuple):
    """A key that all calls of a function share.

    owner: the parameter that holds it, ``self``, or None for a name around the function.
    default: the parameter whose default is the key.
    """

    owner: str | None = None
    default: str | None = None


@check("RANDOM-001", of=(PREFIX,))
def repeated_key(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal(shape, key=self.key)`` in a method that a loop calls."""
    function, node = fact.place.function, key_of(fact)
    if function is None or node is None or fact.place.loops or function.is_test:
        return
    if any(timer in module.source for timer in _TIMERS):
        return
    key = _shared(node, fact, function, module)
    if key is None:
        return
    call = _repeating_call(function, key, module, set())
    if call is None and not _is_forward(function, key):
        return
    text = "called again"
    yield Report.at(
        fact,
        "RANDOM-001",
        node=node,
        message=f"key `{module.parsed.code(node)}` is the same at every call",
        help="Split it at each call, and keep the new key: `key, subkey = mx.random.split(key)`",
        related=() if call is None else (Stop(call.node, call.place.statement, text),),
    )


@check("RANDOM-001")
def repeated_key_elsewhere(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """A loop calls a method of another file, which draws with a key of its object."""
    place, function = fact.place, fact.function
    if not place.loops or place.periodic or function.cls is None or module.is_test:
        return
    if (place.function is not None and place.function.is_test) or function.name == "__init__":
        return
    key = _fixed_key(function)
    if key is None or any(timer in module.source for timer in _TIMERS):
        return
    if _is_older(fact, _receiver(fact), module):
        yield Report.at(
            fact,
            "RANDOM-001",
            message=f"`{function.name}()` draws with the same key `{key}` at every call",
            help="Split the key at each call, and keep the new one",
        )


@lru_cache(maxsize=64)
def _fixed_key(method: FunctionInfo) -> str | None:
    """The attribute that a method of another file draws with, if only ``__init__`` makes it."""
    if isinstance(method.node, cst.Lambda) or method.cls is None:
        return None
    for node in walk(method.node.body):
        if not isinstance(node, cst.Call) or ".random." not in f".{dotted(node.func)}":
            continue
        for argument in node.args:
            is_key = argument.keyword is not None and argument.keyword.value == "key"
            made = fixed_attribute(argument.value, method, method.module) if is_key else None
            if isinstance(made, cst.Call) and (dotted(made.func) or "").endswith("random.key"):
                return dotted(argument.value)
    return None


def _is_forward(function: FunctionInfo, key: _Key) -> bool:
    """Test whether a layer draws with one key in all of its forward passes."""
    is_layers = function.cls is not None and is_layer(function.cls)
    return key.owner is not None and function.name == "__call__" and is_layers


def _shared(
    node: cst.BaseExpression, fact: CallFact, function: FunctionInfo, module: Module
) -> _Key | None:
    """Return how all calls of a function get the same key, if they do."""
    made = fixed_attribute(node, function, module)
    if made is not None or _is_field(node, function, module):
        if made is None or isinstance(made, cst.Name):  # what the object is made with
            is_key = any(type(a.value) is Array for a in fact.arguments if a.node is node)
        else:
            is_key = _is_key(made, module)
        return _Key(owner="self") if function.name != "__init__" and is_key else None
    if not isinstance(node, cst.Name):
        return None
    scope = scope_of(module, function)
    if not scope.binds(node.value):
        binding = _outer(function, node.value, module)
        if binding is not None and binding.kind == "parameter":  # of the function around
            is_array = any(type(a.value) is Array for a in fact.arguments if a.node is node)
            return _Key() if is_array else None
        value = None if binding is None else binding.value
        return _Key() if value is not None and _is_key(value, module) else None
    bindings = scope.reaching.bindings[node.value]
    parameter = next((p for p in function.parameters if p.name == node.value), None)
    if len(bindings) != 1 or parameter is None or parameter.default is None:
        return None
    return _Key(default=node.value) if _is_key(parameter.default, module) else None


def _is_field(node: cst.BaseExpression, function: FunctionInfo, module: Module) -> bool:
    """Test for the field ``self.key`` of a dataclass, which nothing assigns."""
    owner, _, name = (dotted(node) or "").partition(".")
    cls = function.cls
    if cls is None or not function.is_method or owner != function.parameters[0].name:
        return False
    return name in cls.annotations and not assigned_attributes(module)[name]


def _is_key(node: cst.BaseExpression, module: Module) -> bool:
    """Test whether an expression makes a key: a generator of another library has methods."""
    symbols = {
        fact.symbol
        for inner in walk(node)
        if isinstance(inner, cst.Call) and (fact := calls_of(module).get(inner)) is not None
    }
    return f"{PREFIX}key" in symbols or f"{PREFIX}split" in symbols


def _outer(function: FunctionInfo, name: str, module: Module) -> Binding | None:
    """The one binding of a name of a scope around, which nothing rebinds."""
    if "global " in module.source or "nonlocal " in module.source:
        return None
    found = scope_of(module, function).find(name)
    held = () if found is None else found[0].reaching.bindings.get(name, ())
    return held[0] if len(held) == 1 else None


def _repeating_call(
    function: FunctionInfo, key: _Key, module: Module, seen: set[FunctionInfo]
) -> LocalCall | ProjectCall | None:
    """A call of a function in a loop, or a second call, with the same key."""
    seen.add(function)
    earlier: list[LocalCall | ProjectCall] = []
    for call in sources_of(module).callers(function)[:_MOST_CALLERS]:
        caller = call.place.function
        if (caller is not None and caller.is_test) or not _shares(call, key):
            continue
        path = _receiver(call)
        if call.place.loops and not call.place.periodic and _is_older(call, path, module):
            return call
        if path is not None and any(_precedes(other, call, path, module) for other in earlier):
            return call
        earlier.append(call)
        if caller is None or caller in seen or len(seen) >= _MOST_FUNCTIONS:
            continue
        is_own = bool(caller.parameters) and caller.is_method and path == caller.parameters[0].name
        if (key.owner is not None and is_own) or (key.owner is None and caller.outer is None):
            further = _repeating_call(caller, _Key(key.owner), module, seen)
            if further is not None:
                return further
    return None


def _precedes(
    first: LocalCall | ProjectCall, second: LocalCall | ProjectCall, path: str, module: Module
) -> bool:
    """Return whether two calls of one object's method execute one after the other."""
    function, one, two = first.place.function, first.place.statement, second.place.statement
    if function is not second.place.function or _receiver(first) != path or one is two:
        return False
    return layout_of(module, function).in_sequence(one, two)


def _shares(call: LocalCall | ProjectCall, key: _Key) -> bool:
    """Return whether a call does not pass another key."""
    arguments = call.node.args
    if key.default is None:
        return True
    pairs = [(a.keyword.value if a.keyword else None, a.value) for a in arguments]
    passed = by_parameter(call.function, pairs, is_bound=call.is_bound)
    return key.default not in passed and not any(argument.star for argument in arguments)


def _receiver(call: LocalCall | ProjectCall) -> str | None:
    """The object whose method is called, or the name of the function."""
    func = call.node.func
    return dotted(func.value if call.is_bound and isinstance(func, cst.Attribute) else func)


def _is_older(call: LocalCall | ProjectCall, path: str | None, module: Module) -> bool:
    """Return whether what is called exists before the loop or comprehension around a call."""
    if path is None:
        return False
    name, place = path.partition(".")[0], call.place
    if name in place.loop_names:
        return False
    layout = layout_of(module, place.function)
    loop = next(layout.loops(place.statement), None)
    bindings = scope_of(module, place.function).reaching.before(place.statement, name) or ()
    if loop is not None and layout.leaves(place.statement, loop):
        return False
    return loop is None or not any(
        b.statement is loop or layout.is_inside(b.statement, loop) for b in bindings
    )
