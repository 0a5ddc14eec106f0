"""Compiled functions, the code that they run, and the models that it updates; COMPILE-008."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.function_summaries import evaluated_calls, located_calls, nodes_in
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import assigned_attributes, passed_with_owner, scope_of
from embercoach.analysis.dataflow.value_sources import Source
from embercoach.analysis.syntax.trees import (
    dotted,
    small_statements,
)
from embercoach.analysis.values.inheritance import find_method, is_layer
from embercoach.analysis.values.lattice import Function, Instance, Transformed, Value
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import WorkExceededError
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from embercoach.analysis.dataflow.scopes import Scope
    from embercoach.analysis.facts.facts import CompileFact, FactPlace
    from embercoach.analysis.project.module import Module

#: What the first parameter of a method is called, by PEP 8.
_BOUND = frozenset({"self", "cls"})


@check("COMPILE-008")
def compiled_method(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``@mx.compile`` of a method, which is no longer bound to its instance."""
    info = fact.decorated
    if info is None or not info.is_method or not info.parameters:
        return
    first = info.parameters[0]
    if first.name in _BOUND and not first.star:
        is_module = info.cls is not None and is_layer(info.cls)
        bound = f"self.{info.name}" + (", inputs=[self.state]" if is_module else "")
        yield Report.at(
            fact,
            "COMPILE-008",
            message="mx.compile of a method: its result is never bound to the instance",
            help=f"Set `self._{info.name.strip('_')} = mx.compile({bound})` in `__init__`",
        )


#: Work for each function that a check looks at.
STEPS_A_FUNCTION = 4
#: Functions of other files that are looked at.
MOST_IMPORTED = 32


def root_of(value: Value) -> FunctionInfo | None:
    """The function of a linted file that a compiled value runs."""
    if isinstance(value, Function):
        return value.info
    if isinstance(value, Instance):
        return find_method(value.info, "__call__")
    return root_of(value.inner) if isinstance(value, Transformed) else None


@kept_for_file
def traced_by(fact: CompileFact, module: Module) -> frozenset[FunctionInfo]:
    """The functions of the file that run when the compiled one is traced.

    Raises:
        WorkExceededError: the file has taken all the work that it may.
    """
    root = root_of(fact.function)
    if root is None or root.module is not module:
        return frozenset()
    inner = _inner(module)
    seen, pending = {root}, [root]
    while pending:
        info = pending.pop()
        for callee in (*info.calls, *inner.get(info, ())):
            if callee not in seen and callee.module is module:
                seen.add(callee)
                pending.append(callee)
    module.work.left -= STEPS_A_FUNCTION * len(seen)
    if module.work.left < 0:
        raise WorkExceededError
    return frozenset(seen)


@kept_for_file
def imported_by(fact: CompileFact, module: Module) -> tuple[FunctionInfo, ...]:
    """The functions of other files that run when the compiled one is traced, up to a number."""
    root = root_of(fact.function)
    found = set() if root is None or root.module is module else {root}
    found.update(
        c for info in traced_by(fact, module) for c in info.calls if c.module is not module
    )
    in_order = sorted(found, key=lambda info: (str(info.module.path), info.qualified_name))
    reached = dict.fromkeys(in_order)
    while in_order and len(reached) < MOST_IMPORTED:
        callees = (root_of(call.callee) for call in evaluated_calls(in_order.pop(0)))
        more = dict.fromkeys(
            c for c in callees if c is not None and c.module is not module and c not in reached
        )
        reached.update(more)
        in_order += more
    return tuple(reached)[:MOST_IMPORTED]


@lru_cache(maxsize=1)
def _inner(module: Module) -> dict[FunctionInfo | None, list[FunctionInfo]]:
    found: dict[FunctionInfo | None, list[FunctionInfo]] = {}
    for info in module.functions:
        found.setdefault(info.outer, []).append(info)
    return found


def place_in(fact: CompileFact, info: FunctionInfo, statement: cst.CSTNode) -> FactPlace:
    """A place in a function that is traced, for reports of what no fact records."""
    return fact.place._replace(
        statement=statement, function=info, loops=0, loop=None, periodic=False
    )


_NAMES = re.compile(r"\b(update|apply_gradients)\b")
#: Updates of a file that are looked at.
MOST_UPDATES = 64


class Update(NamedTuple):
    """``optimizer.update(model, gradients)``.

    owner: the path of the optimizer.
    model: the path of the module, None for ``apply_gradients``.
    """

    node: cst.Call
    statement: cst.CSTNode
    function: FunctionInfo | None
    owner: str
    model: str | None

    def is_in_loop(self, module: Module) -> bool:
        """Return whether it is in a loop of its function."""
        loops = layout_of(module, self.function).loops(self.statement)
        return next(loops, None) is not None


@lru_cache(maxsize=1)
def updates_of(module: Module) -> tuple[Update, ...]:
    """The calls of a file that update a module by an optimizer, up to a number."""
    if _NAMES.search(module.source) is None:
        return ()
    bodies = [(None, module.tree), *((info, info.node.body) for info in module.functions)]
    found = (
        update_in(node, statement, function)
        for function, body in bodies
        for node, statement in located_calls(body)
    )
    return tuple(islice((update for update in found if update is not None), MOST_UPDATES))


def sources_in(update: Update, module: Module) -> tuple[Source, ...]:
    """The optimizer of an update, and the module if it has one."""
    given = [] if update.model is None else [update.node.args[0].value]
    nodes = [cst.ensure_type(update.node.func, cst.Attribute).value, *given]
    return tuple(Source(n, update.statement, update.function, module) for n in nodes)


def update_in(
    node: cst.Call, statement: cst.CSTNode, function: FunctionInfo | None
) -> Update | None:
    """Return the update of a model that a call is, if it is one."""
    func = node.func
    if not isinstance(func, cst.Attribute) or len(node.args) != 2:
        return None
    owner, model = dotted(func.value), dotted(node.args[0].value)
    if owner is None or any(argument.star for argument in node.args):
        return None
    if func.attr.value == "apply_gradients":
        model = None
    elif func.attr.value != "update" or model is None or node.args[0].keyword is not None:
        return None
    return Update(node, statement, function, owner, model)


#: Names and calls that are followed.
_MOST_NAMES, _MOST_CALLS = 8, 3


def variable(path: str, function: FunctionInfo | None, module: Module) -> Hashable:
    """A key that is the same for all names of one variable, such as ``model`` and ``self.model``.

    Args:
        path: a name or a dotted path.
        function: the function that it is used in.
        module: the file.
    """
    scope = scope_of(module, function)
    for _ in range(_MOST_NAMES):
        name, _, rest = path.partition(".")
        found = scope.find(name)
        if found is None:
            return path
        scope, expression = found
        owner = scope.owner
        if isinstance(owner, FunctionInfo) and owner.is_method and rest:
            first = owner.parameters[0].name if owner.parameters else ""
            if name == first:
                return owner.cls, rest
        alias = None if rest else _attribute_of(name, scope, module)
        if alias is not None:
            return alias
        other = None if expression is None else dotted(expression.node)
        if expression is None or other is None:
            return owner, path
        path, scope = f"{other}.{rest}" if rest else other, expression.scope
    return path


def _attribute_of(name: str, scope: Scope, module: Module) -> Hashable | None:
    """The attribute that a method sets to a variable: ``self.model = model``."""
    owner = scope.owner
    if not isinstance(owner, FunctionInfo) or not owner.is_method or not owner.parameters:
        return None
    if len(scope.reaching.bindings.get(name, ())) != 1:
        return None
    first = owner.parameters[0].name
    for statement in small_statements(owner.node.body):
        if not isinstance(statement, cst.Assign) or dotted(statement.value) != name:
            continue
        for target in statement.targets:
            holder, _, attribute = (dotted(target.target) or "").partition(".")
            if holder == first and assigned_attributes(module)[attribute] == 1:
                return owner.cls, attribute
    return None


def calls_variable(
    function: FunctionInfo, is_same: Callable[[str], bool], module: Module, depth: int = 0
) -> bool:
    """Return whether a function calls a variable, or passes it to a function that does."""
    evaluation = evaluation_of(module)
    for node in nodes_in(function.node.body, module):
        if not isinstance(node, cst.Call):
            continue
        callee = dotted(node.func)
        if callee is not None and is_same(callee):
            return True
        local = evaluation.local_call(node) if depth < _MOST_CALLS else None
        if local is None or any(a.star for a in node.args):
            continue
        for name, argument in passed_with_owner(local).items():
            path = dotted(argument)
            is_passed = path is not None and is_same(path)
            if is_passed and calls_variable(local.function, name.__eq__, module, depth + 1):
                return True
    return False
