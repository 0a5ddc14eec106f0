"""HOST-PULL-011: functions of other files that evaluate arrays while a function is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.syntax.trees import (
    around,
    dotted,
    names_below,
    small_statements,
    target_names,
)
from embercoach.analysis.values.lattice import Symbol
from embercoach.checks.arrays.compiled.compilations import imported_by
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
