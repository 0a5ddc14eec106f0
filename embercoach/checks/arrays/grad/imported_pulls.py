"""Pulls in other files that detach the gradient of a function that this file differentiates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import ProjectCall
from embercoach.analysis.values.gradient_marks import detached_at
from embercoach.analysis.values.lattice import Symbol
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.gradients.gradient_roots import DifferentiatedResult
    from embercoach.analysis.project.module import Module
    from embercoach.checks.registry import Located

_CASTS = frozenset(("builtins.float", "builtins.int", "builtins.bool", "builtins.complex"))
_METHODS = {"item": "GRAPH-BREAK-001", "tolist": "HOST-PULL-001"}
_CONVERSIONS = frozenset(("array", "asarray", "asanyarray", "ascontiguousarray"))


@check("GRAPH-BREAK-001", "GRAPH-BREAK-002", "HOST-PULL-001", "HOST-PULL-002", "HOST-PULL-003")
def imported_pull(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``features(model(x))`` of another file, which computes with NumPy."""
    reported: set[cst.CSTNode] = set()
    for result in module.differentiated:
        lost = frozenset(n for n in detached_at(result.value) if n not in reported)
        for where, function, nodes in _calls(result, lost, facts, module):
            named = [(code, node) for node in nodes if (code := _code(node, function)) is not None]
            if not named or where.node in reported:
                continue
            reported.add(where.node)
            file = function.module.path.name
            code, _ = min(named, key=lambda one: one[0])
            yield Report.at(
                where,
                code,
                message=in_file(function.name, file, " detaches the gradient"),
                help="Compute it with mlx.core: MLX differentiates no values of the host",
                context="differentiated",
            )


def _calls(
    result: DifferentiatedResult, lost: frozenset[cst.CSTNode], facts: list[Fact], module: Module
) -> Iterator[tuple[Located, FunctionInfo, frozenset[cst.CSTNode]]]:
    """The calls of functions of other files whose pulls reach a result."""
    root = result.root
    if root.info.module is not module:
        if lost:
            yield root, root.info, lost
        return
    for call, nodes in result.imported.items():
        for fact in facts if nodes & lost else ():
            if (
                type(fact) is ProjectCall
                and fact.function is call.function
                and fact.place.statement is call.statement
            ):
                yield fact, call.function, nodes & lost
                break


def _code(node: cst.CSTNode, function: FunctionInfo) -> str | None:
    """The code of what reads an array, a call in a function or in what that calls."""
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _METHODS:
        return _METHODS[node.func.attr.value]
    frame = Frame(function.module, function, closure_of(function), record=False)
    callee = evaluate(frame, node.func)
    name = callee.name if isinstance(callee, Symbol) else ""
    if name in _CASTS:
        return "GRAPH-BREAK-002"
    if not name.startswith("numpy."):
        return None
    return "HOST-PULL-002" if name.removeprefix("numpy.") in _CONVERSIONS else "HOST-PULL-003"
