"""Calls that switch a model's mode or update its weights, followed through functions and methods.

NN-006 asks it what an iteration of a training loop does with a model, NN-005 what functions of
other files do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall, ProjectCall
from embercoach.analysis.facts.scopes import by_parameter
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    children,
    dotted,
    is_one_of,
    target_names,
    walk,
)
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module

#: Calls that are followed one after the other, and effects of a function that are kept.
_DEEPEST, _MOST = 4, 32
#: Starts of the names of functions that may switch a model to training.
_TRAINING = ("train", "fit")

_CLOSED = frozenset((*DEFINITIONS, cst.Lambda))
_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)

Kind = Literal["eval", "train", "update", "load"]


class Effect(NamedTuple):
    """A call that has an effect on the object of a path: by itself, or by what it calls."""

    path: str
    kind: Kind
    node: cst.Call
    statement: cst.CSTNode


def is_imported(fact: Fact, module: Module) -> TypeGuard[ProjectCall]:
    """Return whether a function of another file is called."""
    return type(fact) is ProjectCall and fact.function.module is not module


class ModeEffects:
    """The effects of the functions of a file on models."""

    def __init__(self, module: Module) -> None:
        """Index the calls of the file."""
        self._module = module
        self._calls: dict[cst.CSTNode, LocalCall | ProjectCall] = {
            fact.node: fact
            for fact in module.facts()
            if type(fact) is LocalCall or is_imported(fact, module)
        }
        self._known: dict[FunctionInfo, tuple[Effect, ...]] = {}

    def of(self, body: cst.CSTNode, depth: int = 0) -> Iterator[Effect]:
        """Yield the effects of a body, those of what it calls among them."""
        pending: list[tuple[cst.CSTNode, cst.CSTNode]] = [(body, body)]
        while pending:
            node, statement = pending.pop()
            self._module.work.left -= 1
            if self._module.work.left < 0:
                raise WorkExceededError
            if type(node) in _CLOSED and node is not body:
                continue
            if is_one_of(type(node), _STATEMENTS):
                statement = node
            if type(node) is cst.Call:
                effects = _direct(node) or self._of_callee(node, depth)
                yield from (Effect(path, kind, node, statement) for path, kind in effects)
            pending += [(child, statement) for child in reversed(children(node))]

    def _of_callee(self, node: cst.Call, depth: int) -> list[tuple[str, Kind]]:
        call = self._calls.get(node)
        if call is None:
            return _unknown(node)
        if depth == _DEEPEST:
            return []
        return list(self._mapped(call, self._effects(call.function, depth + 1)))

    def _effects(self, function: FunctionInfo, depth: int) -> tuple[Effect, ...]:
        known = self._known.get(function)
        if known is None:
            self._known[function] = ()  # for functions that call each other
            found = dict.fromkeys(self.of(function.node.body, depth))
            known = self._known[function] = tuple(found)[:_MOST]
        return known

    def _mapped(
        self, call: LocalCall | ProjectCall, effects: tuple[Effect, ...]
    ) -> Iterator[tuple[str, Kind]]:
        """The effects as the caller sees them, on what it passes."""
        if not effects:
            return
        function, node = call.function, call.node
        pairs = ((a.keyword.value if a.keyword else None, a.value) for a in node.args if not a.star)
        passed = by_parameter(function, pairs, is_bound=call.is_bound)
        own = {p.name for p in function.parameters} | _bound_in(function)
        first = function.parameters[0].name if function.is_method and function.parameters else None
        for path, kind, _, _ in effects:
            name, dot, rest = path.partition(".")
            if name == first and call.is_bound:
                receiver = _receiver(node, function)
            elif name in passed:
                receiver = dotted(passed[name])
            else:
                is_free = name not in own and function.module is self._module
                receiver = name if is_free else None
            if receiver is not None:
                yield f"{receiver}{dot}{rest}", kind


def _receiver(node: cst.Call, function: FunctionInfo) -> str | None:
    if function.name == "__call__":
        return dotted(node.func)
    return dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None


@lru_cache(maxsize=64)
def _bound_in(function: FunctionInfo) -> frozenset[str]:
    return frozenset(
        name
        for node in walk(function.node.body, (cst.BaseExpression, *DEFINITIONS))
        if isinstance(node, (cst.AssignTarget, cst.For))
        for name in target_names(node.target)
    )


def _direct(node: cst.Call) -> list[tuple[str, Kind]]:
    """``model.eval()``, ``model.train()``, ``optimizer.update(model, gradients)``."""
    func = node.func
    path = dotted(func.value) if isinstance(func, cst.Attribute) else None
    if path is None or not isinstance(func, cst.Attribute) or any(a.star for a in node.args):
        return []
    name, given = func.attr.value, [a.value for a in node.args]
    if name == "eval" and not given:
        return [(path, "eval")]
    if name == "train" and len(given) < 2:
        is_off = bool(given) and isinstance(given[0], cst.Name) and given[0].value == "False"
        return [(path, "eval" if is_off else "train")]
    if name == "load_weights":
        return [(path, "load")]
    if name != "update":
        return []
    if len(given) == 2 and "opt" in path.rpartition(".")[2].lower():
        model = dotted(given[0])
        return [] if model is None else [(model, "update")]
    if len(given) == 1 and isinstance(given[0], cst.Call):  # model.update(opt.apply_gradients(...))
        applied = given[0].func
        if isinstance(applied, cst.Attribute) and applied.attr.value == "apply_gradients":
            return [(path, "update")]
    return []


def _unknown(node: cst.Call) -> list[tuple[str, Kind]]:
    """``train_epoch(model)`` of a function that is not known may call ``model.train()``."""
    name = (dotted(node.func) or "").rpartition(".")[2]
    if not name.lstrip("_").startswith(_TRAINING):
        return []
    paths = (dotted(argument.value) for argument in node.args)
    return [(path, "train") for path in paths if path is not None]
