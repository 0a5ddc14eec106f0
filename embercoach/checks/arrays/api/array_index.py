"""API-005: indices that MLX refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.lattice import Array, Number, Numpy, Value, as_array, join_all
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import ArrayIndexFact
    from embercoach.analysis.project.module import Module

FLOATING = frozenset(("float16", "bfloat16", "float32", "float64", "complex64"))


@check("API-005")
def refused_index(fact: ArrayIndexFact, module: Module) -> Iterator[Report]:
    """``x[x > 0]``, ``x[np.array([0, 1])]``, ``x[1.0]``."""
    stored = _is_stored(fact)
    for index in fact.indices:
        if index is None:
            continue
        node, value = index
        value = as_array(value) or value
        if isinstance(value, Array) and value.dtype is None:
            value = _declared(node, fact, module) or value
        problem = _problem(value, stored=stored)
        if problem is None or is_expected(module, fact.place.statement, REFUSED, broadly=True):
            continue
        what, remedy = problem
        yield Report.at(
            fact,
            "API-005",
            node=node,
            message=f"MLX arrays cannot be {'assigned' if stored else 'read'} by {what}",
            help=remedy,
            subject=node if isinstance(value, Array) else None,
        )
        return


def _declared(node: cst.CSTNode, fact: ArrayIndexFact, module: Module) -> Array | None:
    """The array that the file makes, where an annotation as an array leaves its dtype open.

    A function or a property returns it, or the file passes it for the field of a dataclass.
    """
    function = fact.place.function
    made = resolve_name(Expression(node, scope_of(module, function))).node
    called: FunctionInfo | None = None
    if isinstance(made, cst.Call):
        local = evaluation_of(module).local_call(made)
        called = None if local is None else local.function
    elif isinstance(made, cst.Attribute):
        name = made.attr.value
        passed = [value for (_, field), value in module.fields.items() if field == name]
        if len(passed) == 1:
            return as_array(passed[0])
        is_own = function is not None and (dotted(made) or "").count(".") == 1
        called = function.cls.methods.get(name) if function and is_own and function.cls else None
        called = called if called is not None and called.is_property else None
    if called is None or not called.summaries:
        return None
    return as_array(join_all(called.summaries.values()))


def _problem(value: Value, *, stored: bool) -> tuple[str, str] | None:
    """Name the index and the remedy; None if MLX takes it, or may."""
    if isinstance(value, Array):
        if value.dtype == "bool" and not stored:
            return "a boolean mask", "Use `mx.where(mask, x, other)`: shapes depend on no data"
        if value.dtype in FLOATING:
            return f"a {value.dtype} array", "Convert the indices: `.astype(mx.int32)`"
    if isinstance(value, Numpy) and value.flat and not value.scalar:
        if value.kind == "int":
            return "a NumPy array", "Convert the indices: `mx.array(indices)`"
        if value.kind == "bool" and not stored:
            return "a NumPy mask", "Use `mx.where(mx.array(mask), x, other)`"
    if isinstance(value, Number) and value.kind == "float" and value.const is not None:
        return "a float", "Use an integer: `//` or `int()`"
    return None


def _is_stored(fact: ArrayIndexFact) -> bool:
    """Test whether the subscript is assigned; ``x[i] += 1`` reads it too."""
    statement = fact.place.statement
    if isinstance(statement, cst.Assign):
        return any(_holds(target.target, fact.node) for target in statement.targets)
    return isinstance(statement, cst.AnnAssign) and statement.target is fact.node


def _holds(target: cst.BaseExpression, node: cst.Subscript) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return any(_holds(element.value, node) for element in target.elements)
    return target is node
