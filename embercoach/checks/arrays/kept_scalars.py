"""Scalar arrays that attributes and arguments hold, and the dtypes of models, for DTYPE-001."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.promotion import HALF

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module


def is_kept_scalar(fact: Fact, node: cst.BaseExpression, module: Module) -> bool:
    """Return whether a name or attribute holds ``mx.array`` of a float, wherever it was made.

    Public attributes of modules are parameters: ``set_dtype`` and loaded weights change them.
    """
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    if may_be_parameter(fact, node):
        return False
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, node), through_callers=True)
    for end in ends:
        call = sources.library_call(end)
        if call is None or call.name != "mlx.core.array" or call.array is None:
            return False
        value: cst.BaseExpression = call.array.node
        if isinstance(value, cst.UnaryOperation):
            value = value.expression
        if not isinstance(value, cst.Float):
            return False
    return bool(ends)


def may_be_parameter(fact: Fact, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a public attribute, perhaps of a module."""
    if not isinstance(node, cst.Attribute) or node.attr.value.startswith("_"):
        return False
    function = fact.place.function
    return function is None or function.cls is None or is_layer(function.cls)


def model_dtype(fact: Fact, module: Module) -> str | None:
    """The half-precision dtype that a file sets for its models, for an array in a module."""
    function = fact.place.function
    if function is None or function.cls is None or not is_layer(function.cls):
        return None
    return _set_dtype(module)


@lru_cache(maxsize=2)
def _set_dtype(module: Module) -> str | None:
    """The one dtype that ``model.set_dtype(...)`` of a file sets, if it is half precision."""
    if ".set_dtype" not in module.source:
        return None
    found: set[str] = set()
    for node in walk(module.tree):
        func = node.func if isinstance(node, cst.Call) and node.args else None
        if isinstance(func, cst.Attribute) and func.attr.value == "set_dtype":
            given = cst.ensure_type(node, cst.Call).args[0].value
            found.add((dotted(given) or "").rpartition(".")[2])
    return found.pop() if len(found) == 1 and found <= set(HALF) else None
