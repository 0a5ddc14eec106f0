"""Compiled functions, and the code that they run; COMPILE-008: decorated methods."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.syntax.trees import DEFINITIONS, Kinds, dotted, walk
from embercoach.analysis.values.inheritance import find_method, is_layer
from embercoach.analysis.values.lattice import Function, Instance, Transformed, Value
from embercoach.analysis.work import WorkExceededError
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
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
