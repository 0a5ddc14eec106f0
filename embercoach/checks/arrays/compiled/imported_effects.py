"""COMPILE-005, 006, 010, 011 and HOST-PULL-011: compiled code of other files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    around,
    dotted,
    names_below,
    small_statements,
    target_names,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Instance, Symbol, as_number
from embercoach.checks.arrays.compiled.compilations import imported_by, nodes_in
from embercoach.checks.arrays.compiled.shapeless import UNSUPPORTED, is_shapeless
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module

_EVALUATE = frozenset(("mlx.core.eval", "mlx.core.async_eval"))
#: Statements under which a call may not run in a trace.
_GUARDS = (cst.If, cst.Try, cst.While)


@check("HOST-PULL-011")
def imported_evaluation(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(forward)``, which calls ``standardize(x)`` of another file."""
    for info in imported_by(fact, module):
        if not isinstance(info.node, cst.Lambda) and _evaluates(info, info.node.body):
            yield Report.at(
                fact,
                "HOST-PULL-011",
                message=in_file(
                    info.name, info.module.path.name, " calls mx.eval(): raises when traced"
                ),
                help="Evaluate the result after the compiled call",
                context="compiled",
            )
            return


def _evaluates(info: FunctionInfo, body: cst.CSTNode) -> bool:
    """Return whether a function always evaluates what it computes from its arguments."""
    computed = {p.name for p in info.parameters[info.is_method :]}
    for statement in small_statements(body):
        if isinstance(statement, cst.Assign):
            if not computed.isdisjoint(names_below(statement.value)):
                computed.update(n for t in statement.targets for n in target_names(t.target))
            continue
        call = statement.value if isinstance(statement, cst.Expr) else None
        if not isinstance(call, cst.Call) or dotted(call.func) is None:
            continue
        given = {a.value.value for a in call.args if isinstance(a.value, cst.Name)}
        if computed.isdisjoint(given) or not _is_evaluation(info, call):
            continue
        if not any(isinstance(node, _GUARDS) for node in around(body, statement)):
            return True
    return False


def _is_evaluation(info: FunctionInfo, call: cst.Call) -> bool:
    frame = Frame(info.module, info, closure_of(info), record=False)
    callee = evaluate(frame, call.func)
    return isinstance(callee, Symbol) and callee.name in _EVALUATE


_ADDS = frozenset(("append", "extend", "add", "appendleft"))


@check("COMPILE-005", "COMPILE-006", "COMPILE-010", "COMPILE-011")
def imported_effect(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(step)`` of a function of another file, or one that calls such functions."""
    if fact.has_star:
        return
    has_outputs = fact.option(2, "outputs") is not None
    shapeless = is_shapeless(fact)
    reported: set[str] = set()
    for info in imported_by(fact, module):
        if isinstance(info.node, cst.Lambda):
            continue
        for node in nodes_in(info.node.body, module, DEFINITIONS):
            for report in _effects(fact, info, node, has_outputs=has_outputs, shapeless=shapeless):
                if report.code not in reported:
                    reported.add(report.code)
                    yield report


def _effects(
    fact: CompileFact,
    info: FunctionInfo,
    node: cst.CSTNode,
    *,
    has_outputs: bool,
    shapeless: bool,
) -> Iterator[Report]:
    name = f"`{info.name[:20]}()`"
    if isinstance(node, cst.Call):
        owner = None if has_outputs else _updated(info, node)
        if owner is not None:
            yield Report.at(
                fact,
                "COMPILE-005",
                message=f"{name} updates `{owner[:12]}`, which `outputs=` of mx.compile lacks",
                help="Add `[model.state, optimizer.state]` to `inputs=` and `outputs=`",
            )
        if not has_outputs and _adds_argument(info, node):
            yield Report.at(
                fact,
                "COMPILE-006",
                message=f"{name} stores a traced array outside of the compiled function",
                help="Return the array, or add its container to `outputs=` of mx.compile",
            )
        if shapeless and _is_unsupported(info, node):
            yield Report.at(
                fact,
                "COMPILE-010",
                message=f"{name} raises: MLX can't infer its shape with `shapeless=True`",
                help="Drop `shapeless=True`",
            )
    elif isinstance(node, cst.AugAssign) and _counts(info, node):
        shown = (dotted(node.target) or "a number")[:20]
        yield Report.at(
            fact,
            "COMPILE-011",
            message=f"{name} updates `{shown}` only when mx.compile traces it",
            help="Update it outside of the compiled function, and pass it as an array",
        )


def _updated(info: FunctionInfo, node: cst.Call) -> str | None:
    """The optimizer of ``optimizer.update(model, gradients)``, from around the function."""
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "update" or len(node.args) != 2:
        return None
    path = dotted(func.value)
    if path is None or "opt" not in path.lower() or any(a.star for a in node.args):
        return None
    name = path.partition(".")[0]
    own = info.parameters[0].name if info.is_method and info.parameters else None
    return path if name == own or not scope_of(info.module, info).binds(name) else None


def _adds_argument(info: FunctionInfo, node: cst.Call) -> bool:
    """``SEEN.append(x)`` of a list of the file, and of what the function computes."""
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _ADDS:
        return False
    if not isinstance(func.value, cst.Name) or info.outer is not None or not node.args:
        return False
    scope = scope_of(info.module, info)
    if scope.binds(func.value.value) or not scope_of(info.module, None).binds(func.value.value):
        return False
    given = node.args[0].value
    parameters = {p.name for p in info.parameters[info.is_method :]}
    return isinstance(given, cst.Name) and given.value in parameters


def _is_unsupported(info: FunctionInfo, node: cst.Call) -> bool:
    if dotted(node.func) is None or not node.args:
        return False
    frame = Frame(info.module, info, closure_of(info), record=False)
    callee = evaluate(frame, node.func)
    if not isinstance(callee, Symbol) or callee.name not in UNSUPPORTED:
        return False
    parameters = {p.name for p in info.parameters[info.is_method :]}
    return not parameters.isdisjoint(names_below(node.args[0].value))


def _counts(info: FunctionInfo, node: cst.AugAssign) -> bool:
    """``self.calls += 1`` in a layer's method, of a Python number."""
    if info.cls is None or not info.is_method or not info.parameters or not is_layer(info.cls):
        return False
    owner, _, name = (dotted(node.target) or "").partition(".")
    if owner != info.parameters[0].name or not name or "." in name or "trace" in name:
        return False
    frame = Frame(info.module, info, closure_of(info), record=False)
    return as_number(member(frame, Instance(info.cls), name)) is not None
