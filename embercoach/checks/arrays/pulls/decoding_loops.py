"""Loops that generate: each iteration runs a model on what the last one has computed.

There each wait of the host delays the next call of the model.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.hot_functions import is_forward
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import SCOPES, all_statements, children, dotted, walk
from embercoach.analysis.values.inheritance import MODULE_CLASS
from embercoach.analysis.values.joins import options
from embercoach.analysis.values.lattice import UNKNOWN, LibraryObject, Transformed

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

_GRADIENTS = frozenset(("grad", "value_and_grad", "module_value_and_grad"))
#: Names that a value is followed through, and functions.
_MOST_NAMES, _MOST_FUNCTIONS = 16, 3


def is_of_decoding(place: FactPlace, read: cst.CSTNode, module: Module) -> bool:
    """Test whether a loop reads what a model computes from results of the last iteration."""
    loops = [*layout_of(module, place.function).loops(place.statement)]
    if not loops or place.loops != len(loops):  # in a comprehension
        return False
    search = _Search(loops[0].body, place, module)
    search.follow(read, place.statement)
    return search.runs_model and search.is_chain and not search.takes_gradient


def is_plain(place: FactPlace, read: cst.CSTNode, body: cst.BaseSuite, module: Module) -> bool:
    """Test whether a pass of a body computes what it reads by MLX's own operations alone."""
    search = _Search(body, place, module)
    search.follow(read, place.statement)
    return not search.calls_others


class _Search:
    """The search for the calls in one pass of a body that a value comes from."""

    def __init__(self, body: cst.BaseSuite, place: FactPlace, module: Module) -> None:
        self._order = _order(body)
        self._function = place.function
        self._module = module
        self._reaching = scope_of(module, place.function).reaching
        self._names = _MOST_NAMES
        self._seen: set[int] = set()
        self.runs_model = False
        self.takes_gradient = False
        self.is_chain = False
        self.calls_others = False

    def follow(self, node: cst.CSTNode, statement: cst.CSTNode) -> None:
        pending = [node]
        while pending:
            part = pending.pop()
            if isinstance(part, cst.Name):
                self._name(part.value, statement)
            elif isinstance(part, (cst.Attribute, cst.Arg)):
                pending.append(part.value)
            elif not isinstance(part, cst.Lambda):
                pending += children(part)
            if isinstance(part, cst.Call):
                self.calls_others |= not _is_operation(part, self._module)
                self.takes_gradient |= _takes_gradient(part, self._module)
                self.runs_model |= _runs_model(part, self._function, self._module)

    def _name(self, name: str, statement: cst.CSTNode) -> None:
        order = self._order
        at = order.get(id(statement), 0)
        known = self._reaching.before(statement, name)
        # Where it isn't known which of the bindings hold, any may.
        for binding in self._reaching.bindings.get(name, ()) if known is None else known:
            if id(binding.statement) not in order or binding.value is None:
                continue  # from outside of the body
            if order[id(binding.statement)] >= at:
                self.is_chain = True
            elif id(binding) not in self._seen and self._names:
                self._names -= 1
                self._seen.add(id(binding))
                self.follow(binding.value, binding.statement)


@lru_cache(maxsize=8)
def _order(body: cst.BaseSuite) -> dict[int, int]:
    """The order of the statements of a body, by their ``id``."""
    return {id(statement): n for n, statement in enumerate(all_statements(body))}


def _is_operation(call: cst.Call, module: Module) -> bool:
    fact = evaluation_of(module).calls.get(call)
    if fact is None:
        return False
    return fact.array is not None or (fact.symbol or "").startswith(("mlx.core.", "builtins."))


def _takes_gradient(call: cst.Call, module: Module) -> bool:
    fact = evaluation_of(module).calls.get(call)
    callees = () if fact is None else options(fact.callee)
    return any(isinstance(c, Transformed) and _is_gradient(c) for c in callees)


def _is_gradient(callee: Transformed) -> bool:
    inner = callee.inner
    return callee.transform in _GRADIENTS or (
        isinstance(inner, Transformed) and inner.transform in _GRADIENTS
    )


def _runs_model(call: cst.Call, function: FunctionInfo | None, module: Module) -> bool:
    """Test whether a call runs a layer of the file, or a model that is passed in."""
    evaluation = evaluation_of(module)
    fact, local = evaluation.calls.get(call), evaluation.local_call(call)
    if local is not None:
        return not _takes_gradient(call, module) and _function_runs_model(local.function, module)
    other = evaluation.elsewhere.get(call)
    if other is not None:
        return is_forward(other.function)
    if fact is not None and fact.callee is not UNKNOWN:
        kind = type(fact.callee)
        is_model = kind is Transformed or fact.callee == LibraryObject(MODULE_CLASS)
        return is_model and not _takes_gradient(call, module)
    return _calls_variable(call.func, function, module)


def _calls_variable(node: cst.CSTNode, function: FunctionInfo | None, module: Module) -> bool:
    """Test whether an unknown callee is a variable, or an attribute of ``self``: ``model(x)``."""
    if isinstance(node, cst.Attribute):
        first = function.parameters[:1] if function is not None and function.is_method else ()
        return any(dotted(node.value) == parameter.name for parameter in first)
    name = node.value if isinstance(node, cst.Name) else ""
    found = scope_of(module, function).find(name)
    bindings = [] if found is None else found[0].reaching.bindings.get(name, [])
    return bool(bindings) and all(binding.kind != "opaque" for binding in bindings)


@lru_cache(maxsize=64)
def _function_runs_model(function: FunctionInfo, module: Module, depth: int = 0) -> bool:
    if is_forward(function):
        return True
    evaluation = evaluation_of(module)
    for node in walk(function.node.body, SCOPES):
        if not isinstance(node, cst.Call):
            continue
        local = evaluation.local_call(node)
        if local is None:
            if _runs_model(node, function, module):
                return True
        elif depth < _MOST_FUNCTIONS and _function_runs_model(local.function, module, depth + 1):
            return True
    return False
