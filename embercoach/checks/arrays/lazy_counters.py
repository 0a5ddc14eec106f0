"""LAZY-007: arrays of a cache that each step updates, and that nothing evaluates.

Loops that generate text evaluate tokens and what these depend on, and a prefill evaluates the
``state`` of each cache. Lengths and paddings that a step counts down may be in neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.scopes import CONSTRUCTORS, assignments_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Fact, calls_of
from embercoach.analysis.values.inheritance import is_layer, lineage
from embercoach.analysis.values.lattice import Symbol
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

#: Words in the names of methods that are called for each token or batch.
_STEPS = frozenset(("advance", "update", "step", "fetch", "append", "push", "increment", "call"))
#: Functions that evaluate an array, or make another one depend on it.
_EVALUATING = frozenset(("eval", "async_eval", "item", "tolist", "depends"))
_COUNTING = (cst.AddAssign, cst.SubtractAssign)


@check("LAZY-007")
def unevaluated_counter(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``self.lengths -= n`` in ``advance(n)``, where ``state`` returns ``self.cache`` alone."""
    source = module.source
    if "def state" not in source or ("+= " not in source and "-= " not in source):
        return
    for function in module.functions:
        cls = function.cls
        words = function.name.strip("_").split("_")
        if cls is None or _STEPS.isdisjoint(words) or is_layer(cls):
            continue
        for statement in contents_of(function.node.body).of(cst.AugAssign):
            owner, _, name = (dotted(statement.target) or "").partition(".")
            if owner != "self" or "." in name or not isinstance(statement.operator, _COUNTING):
                continue
            if (
                _is_number(statement.value, function)
                and _is_array(name, cls, module)
                and _is_left_out(name, function, cls, module)
                and not _is_used(name, function)
            ):
                yield Report.in_file(
                    module,
                    statement.target,
                    function=function,
                    message=f"`{quoted(f'self.{name}', 24)}` is never evaluated: its graph grows"
                    " in each call",
                    help="Count in a Python number, and apply that where the array is read",
                    context=module.purpose or "default",
                )


def _is_number(node: cst.BaseExpression, function: FunctionInfo) -> bool:
    """Test for a number, a size, or a parameter without a default that nothing assigns."""
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    if not isinstance(node, cst.Name):
        return isinstance(node, cst.Integer)
    contents = contents_of(function.node.body)
    parameter = next((one for one in function.parameters if one.name == node.value), None)
    if parameter is not None:
        return parameter.default is None and node.value not in contents.assigned
    sizes = contents.values_of({node.value})
    return bool(sizes) and all(
        isinstance(n, cst.Attribute) and n.attr.value == "shape" for n in sizes
    )


def _is_array(name: str, cls: ClassInfo, module: Module) -> bool:
    """Return whether a method of a class assigns an array that MLX makes to an attribute."""
    calls = calls_of(module)
    values = [one.value for base in lineage(cls) for one in assignments_of(base, name)]
    made = [calls.get(value) for value in values if isinstance(value, cst.Call)]
    symbols = [fact.callee for fact in made if fact is not None]
    return any(isinstance(one, Symbol) and one.name.startswith("mlx.core.") for one in symbols)


def _is_left_out(name: str, function: FunctionInfo, cls: ClassInfo, module: Module) -> bool:
    """Return whether no method evaluates an attribute, and ``state`` is without it.

    What is in ``state`` is left out too if all that a method does is to count: no token that a
    loop evaluates depends on it then.
    """
    bases = lineage(cls)
    methods = [one for one in module.functions if one.cls in bases and one.name not in CONSTRUCTORS]
    states = [one for one in methods if one.name == "state" and one.is_property]
    nearest = next((one for base in bases for one in states if one.cls is base), None)
    nodes = [] if nearest is None else contents_of(nearest.node.body).of(cst.Attribute)
    kept = {node.attr.value for node in nodes}
    if not kept or "state" in kept or (name in kept and not _only_counts(function)):
        return False
    return not any(
        name in contents_of(call).names and not _EVALUATING.isdisjoint(contents_of(call.func).names)
        for method in methods
        for call in contents_of(method.node.body).calls
    )


def _only_counts(function: FunctionInfo) -> bool:
    return all(
        isinstance(one, (cst.AugAssign, cst.Expr, cst.Pass))
        for one in contents_of(function.node.body).statements
    )


def _is_used(name: str, function: FunctionInfo) -> bool:
    """Return whether the method itself reads an attribute other than to test for None."""
    contents = contents_of(function.node.body)
    counted = {one.target for one in contents.of(cst.AugAssign)}
    return any(
        node.attr.value == name
        and node not in counted
        and not isinstance(contents.parent_of(node), cst.Comparison)
        for node in contents.of(cst.Attribute)
    )
