"""Compiled functions, the code that they run, and the models that it updates; COMPILE-008."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.scopes import assigned_attributes, by_parameter, scope_of
from embercoach.analysis.dataflow.value_sources import Source
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    SCOPES,
    Kinds,
    children,
    dotted,
    small_statements,
    walk,
)
from embercoach.analysis.values.inheritance import find_method, is_layer
from embercoach.analysis.values.lattice import Function, Instance, Transformed, Value
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


def traced_by(fact: CompileFact, module: Module) -> frozenset[FunctionInfo]:
    """The functions of the file that run when the compiled one is traced.

    Raises:
        WorkExceededError: the file has taken all the work that it may.
    """
    root = root_of(fact.function)
    if root is None:
        return frozenset()
    functions = _reached(module, root)
    module.work.left -= STEPS_A_FUNCTION * len(functions)
    if module.work.left < 0:
        raise WorkExceededError
    return functions


@lru_cache(maxsize=16)
def _reached(module: Module, root: FunctionInfo) -> frozenset[FunctionInfo]:
    if root.module is not module:
        return frozenset()
    inner = _inner(module)
    seen, pending = {root}, [root]
    while pending:
        info = pending.pop()
        for callee in (*info.calls, *inner.get(info, ())):
            if callee not in seen and callee.module is module:
                seen.add(callee)
                pending.append(callee)
    return frozenset(seen)


def imported_by(fact: CompileFact, module: Module) -> tuple[FunctionInfo, ...]:
    """The functions of other files that run when the compiled one is traced, up to a number."""
    root = root_of(fact.function)
    found = dict.fromkeys(
        [root] if root is not None and root.module is not module else [],
    )
    for info in traced_by(fact, module):
        found.update(dict.fromkeys(c for c in info.calls if c.module is not module))
    in_order = sorted(found, key=lambda info: (str(info.module.path), info.qualified_name))
    reached = dict.fromkeys(in_order)
    while in_order and len(reached) < MOST_IMPORTED:
        info = in_order.pop(0)
        more = dict.fromkeys(c for c in _called_in(info, module) if c not in reached)
        reached.update(more)
        in_order += more
    return tuple(reached)[:MOST_IMPORTED]


def _called_in(info: FunctionInfo, module: Module) -> Iterator[FunctionInfo]:
    """The functions that one of another file calls, of which no facts are recorded."""
    frame = Frame(info.module, info, closure_of(info), record=False)
    if info.is_method and info.parameters and info.cls is not None:
        frame.names[info.parameters[0].name] = Instance(info.cls)
    for node in nodes_in(info.node.body, module, DEFINITIONS):
        if isinstance(node, cst.Call) and dotted(node.func) is not None:
            callee = root_of(evaluate(frame, node.func))
            if callee is not None and callee.module is not module:
                yield callee


@lru_cache(maxsize=1)
def _inner(module: Module) -> dict[FunctionInfo | None, list[FunctionInfo]]:
    found: dict[FunctionInfo | None, list[FunctionInfo]] = {}
    for info in module.functions:
        found.setdefault(info.outer, []).append(info)
    return found


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
    in_loop: whether it is in a loop of its function.
    """

    node: cst.Call
    statement: cst.CSTNode
    function: FunctionInfo | None
    owner: str
    model: str | None
    in_loop: bool


@lru_cache(maxsize=1)
def updates_of(module: Module) -> tuple[Update, ...]:
    """The calls of a file that update a module by an optimizer, in any order."""
    found: list[Update] = []
    if _NAMES.search(module.source) is None:
        return ()
    for function in (None, *module.functions):
        body = module.tree if function is None else function.node.body
        pending: list[tuple[cst.CSTNode, cst.CSTNode, bool]] = [(body, body, False)]
        while pending:
            node, statement, in_loop = pending.pop()
            kind = type(node)
            if kind in SCOPES:
                continue
            if type(node) is cst.Call:
                update = _update(node, statement, function, in_loop=in_loop)
                if update is not None and len(found) < MOST_UPDATES:
                    found.append(update)
            inside = in_loop or kind is cst.For or kind is cst.While
            is_line = kind is cst.SimpleStatementLine or kind is cst.SimpleStatementSuite
            pending += [(c, c if is_line else statement, inside) for c in children(node)]
    return tuple(found)


def sources_in(update: Update, module: Module) -> tuple[Source, ...]:
    """The optimizer of an update, and the module if it has one."""
    given = [] if update.model is None else [update.node.args[0].value]
    nodes = [cst.ensure_type(update.node.func, cst.Attribute).value, *given]
    return tuple(Source(n, update.statement, update.function, module) for n in nodes)


def _update(
    node: cst.Call, statement: cst.CSTNode, function: FunctionInfo | None, *, in_loop: bool
) -> Update | None:
    func = node.func
    if not isinstance(func, cst.Attribute) or len(node.args) != 2:
        return None
    if any(argument.star for argument in node.args):
        return None
    owner = dotted(func.value)
    if owner is None:
        return None
    if func.attr.value == "apply_gradients":
        return Update(node, statement, function, owner, None, in_loop)
    model = dotted(node.args[0].value)
    if func.attr.value != "update" or model is None or node.args[0].keyword is not None:
        return None
    return Update(node, statement, function, owner, model, in_loop)


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
        given = ((None if a.keyword is None else a.keyword.value, a.value) for a in node.args)
        passed = by_parameter(local.function, given, is_bound=local.is_bound)
        for name, argument in passed.items():
            path = dotted(argument)
            is_passed = path is not None and is_same(path)
            if is_passed and calls_variable(local.function, name.__eq__, module, depth + 1):
                return True
    return False
