"""KERNEL-STRIDE-001: an input that may be strided, read as if it were contiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import FunctionVisit
from embercoach.analysis.facts.scopes import (
    Expression,
    is_rebound,
    items,
    passed_by,
    resolve_name,
    scope_of,
)
from embercoach.checks.contract.kernel_inputs import is_shape_generic, uses_of_inputs
from embercoach.checks.programs.contracted import contracted
from embercoach.checks.registry import Report, check
from embercoach.metal.contract import shape_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.contracted import Contracted
    from embercoach.checks.programs.launches import Launch
    from embercoach.metal.inspections.parameter_uses import ParameterUse

#: Methods and functions that give a view of other strides, at least at times.
VIEWS = frozenset(
    ("transpose", "swapaxes", "moveaxis", "broadcast_to", "split", "expand_dims", "as_strided")
)
MAX_CALLERS = 4


@check("KERNEL-STRIDE-001")
def strided_inputs(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """The inputs of kernels that are built with ``ensure_row_contiguous=False``."""
    for kernel in contracted(module, facts):
        launches = kernel.launches
        if not launches or any(la.ensure_row_contiguous is not False for la in launches):
            continue
        if any("stride" in name for name in kernel.inputs or ()):
            continue
        for name, uses in uses_of_inputs(kernel).items():
            if shape_names(name)[1] not in kernel.source.text.text:
                yield from _linear(kernel, name, uses)


def _linear(kernel: Contracted, name: str, uses: list[ParameterUse]) -> Iterator[Report]:
    linear = next(filter(_counts_elements, uses), None)
    if linear is None:
        return
    strides = shape_names(name)[1]
    for launch in kernel.launches:
        why = _strided(kernel, name, launch)
        if why is not None:
            yield from kernel.at(
                "KERNEL-STRIDE-001",
                linear.spot.place,
                f"`{name}` is read as row-contiguous, but {why}",
                f"Use `{strides}` with `elem_to_loc`, or leave `ensure_row_contiguous` at True",
            )
            return


def _counts_elements(use: ParameterUse) -> bool:
    """Return whether elements are read at an index, in the body or by a function that it calls."""
    from embercoach.metal.inspections.parameter_uses import indices_below

    if use.manner in ("element", "address") and use.index:
        return True
    return next(indices_below(use), None) is not None


def _strided(kernel: Contracted, name: str, launch: Launch) -> str | None:
    """Return why a launch may pass a strided array, None if it does not seem to."""
    function = launch.fact.place.function
    node = _argument(kernel, name, launch.fact)
    if node is None:
        return None
    return _reason(node, function, kernel.module, _has_rows(name, launch), MAX_CALLERS)


def _reason(
    node: cst.BaseExpression,
    function: FunctionInfo | None,
    module: Module,
    has_rows: bool,
    depth: int,
) -> str | None:
    """Return why an expression in a function may be a strided array."""
    size = resolve_name(Expression(node, scope_of(module, function)))
    if _is_view(size.node):
        return f"`{module.parsed.code(node)}` is a view"
    if function is None or not isinstance(size.node, cst.Name):
        return None
    name = size.node.value
    if name not in {p.name for p in function.parameters} or is_rebound(module, function, name):
        return None
    if function.outer is None and not function.name.startswith("_"):
        may = f"callers of `{function.name}` may pass a view"
        return may if has_rows else None
    if depth == 0:
        return None
    reasons = (
        _reason(given, call.place.function, module, has_rows, depth - 1)
        for call in _calls(module, function)
        if isinstance(given := passed_by(call).get(name), cst.BaseExpression)
    )
    return next((reason for reason in reasons if reason is not None), None)


def _calls(module: Module, function: FunctionInfo) -> Iterator[FunctionVisit]:
    """The calls of a function that the file makes."""
    for fact in module.facts():
        if isinstance(fact, FunctionVisit) and fact.function is function:
            yield fact


def _argument(kernel: Contracted, name: str, fact: CallFact) -> cst.BaseExpression | None:
    """The expression that a launch passes for an input."""
    inputs = fact.keyword("inputs")
    if inputs is None or kernel.inputs is None:
        return None
    scope = scope_of(kernel.module, fact.place.function)
    given = items(Expression(inputs.node, scope))
    if given is None or len(given) != len(kernel.inputs):
        return None
    node = given[kernel.inputs.index(name)].node
    assert isinstance(node, cst.BaseExpression)
    return node


def _is_view(node: cst.CSTNode) -> bool:
    """Return whether an expression is visibly a transposed, sliced or broadcast array."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "T"
    if isinstance(node, cst.Subscript):
        return _is_view(node.value) or any(isinstance(e.slice, cst.Slice) for e in node.slice[1:])
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in VIEWS
    return False


def _has_rows(name: str, launch: Launch) -> bool:
    """Return whether the input has more than one dimension, or any shape."""
    for given in launch.inputs or ():
        if given.name == name and given.ndim is not None:
            return given.ndim > 1
    return is_shape_generic(name, launch)
