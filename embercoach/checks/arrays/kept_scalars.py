"""Scalar arrays that attributes and arguments hold, and the dtypes of models, for DTYPE-001."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.layer_dtypes import model_dtype as set_dtype
from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.held_sources import returned_by
from embercoach.analysis.syntax.trees import dotted, names_below, targets_of, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array, as_number

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources


_NAMED = (cst.Name, cst.Attribute)


def is_kept_constant(
    fact: Fact, node: cst.BaseExpression, module: Module, *, of_any_shape: bool
) -> bool:
    """Return whether a name or attribute holds ``mx.array`` of a float, wherever it was made.

    Or, ``of_any_shape``, ``mx.zeros(shape)``, to which the operation itself may add in a loop, or a
    function that returns it. Public attributes of modules are parameters: ``set_dtype`` and loaded
    weights change them.
    """
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Call) if of_any_shape else _NAMED):
        return False
    if may_be_parameter(fact, node):
        return False
    sources = sources_of(module)
    ends = [
        end
        for end in sources.ends(sources.of(fact, node), through_callers=True)
        if not (of_any_shape and end.node is fact.node)
    ]
    return bool(ends) and all(
        _is_float(end, sources) or (of_any_shape and _is_filled(end, sources)) for end in ends
    )


def _is_float(end: Source, sources: Sources) -> bool:
    """Test for ``mx.array(0.5)`` and ``mx.array(dims**-0.5)``."""
    call = sources.library_call(end)
    if call is None or call.name != "mlx.core.array" or call.array is None:
        return False
    made = calls_of(sources.module).get(end.node)
    value = sources.value(call.array) if made is None else made.arguments[0].value
    number = as_number(value)
    has_dtype = isinstance(end.node, cst.Call) and len(end.node.args) > 1
    return number is not None and number.kind == "float" and not has_dtype


def _is_filled(end: Source, sources: Sources) -> bool:
    """Test for ``mx.zeros(shape)``, ``mx.triu(mx.full(shape, -1e9))`` without a dtype."""
    if not isinstance(end.node, cst.Call):
        return False
    names = (node.attr.value for node in walk(end.node) if isinstance(node, cst.Attribute))
    if "float32" in names:
        return False
    value = as_array(sources.value(end))
    return value is not None and value.literal and value.dtype == "float32"


def is_cast_back(fact: Fact, module: Module) -> bool:
    """Return whether a result, or what its function makes of it, is cast: ``y.astype(x.dtype)``."""
    function = fact.place.function
    results = () if function is None else returned_by(function)
    found = [node for value, _ in results for node in _parts(value)]
    if found and all(map(_is_cast, found)):
        return True
    statement = fact.place.statement
    names = {name for target in targets_of(statement) for name in names_below(target)}
    body = statement if function is None else function.node.body
    for node in walk(body):
        if isinstance(node, cst.Call) and _is_cast(node):
            receiver = cst.ensure_type(node.func, cst.Attribute).value
            if isinstance(receiver, cst.Name) and receiver.value in names:
                return True
            if fact.node in walk(receiver):
                return True
    return False


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [e.value for e in node.elements] if isinstance(node, cst.Tuple) else [node]


def _is_cast(node: cst.CSTNode) -> bool:
    """Test for ``y.astype(dtype)``, but for float32."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or not node.args:
        return False
    given = dotted(node.args[0].value) or ""
    return node.func.attr.value == "astype" and not given.endswith("float32")


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
    return set_dtype(module)
