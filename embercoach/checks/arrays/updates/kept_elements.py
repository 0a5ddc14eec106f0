"""Elements of lists that an object keeps, and functions that change them: asked for INDEX-005."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.later_reads import assigned_to
from embercoach.analysis.syntax.trees import names_below, small_statements
from embercoach.analysis.value_sources import Source, reaching_of
from embercoach.analysis.values.joins import any_item, as_array
from embercoach.analysis.values.lattice import Dict, Sequence

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.value_sources import Sources


def is_kept_element(given: Source, sources: Sources) -> bool:
    """Return whether an argument is an array in a list of an attribute: ``self.items[i]``.

    An element of an array is a copy.
    """
    node = given.node
    if isinstance(node, cst.Subscript):
        is_stored = any(target.deep_equals(node) for target in assigned_to(given.statement))
        return not is_stored and _holds_arrays(given.at(node.value), sources)
    if not isinstance(node, cst.Name):
        return False
    held = reaching_of(given).before(given.statement, node.value) or ()
    return bool(held) and all(
        binding.value is not None
        and binding.kind == "element"
        and binding.index is None
        and _holds_arrays(given.moved(binding.value, binding.statement), sources)
        for binding in held
    )


def _holds_arrays(source: Source, sources: Sources) -> bool:
    """Return whether an attribute is a list, a tuple or a dictionary of arrays."""
    if not isinstance(source.node, cst.Attribute):
        return False
    value = sources.value(source)
    if isinstance(value, Dict):
        return as_array(value.item) is not None
    return isinstance(value, Sequence) and as_array(any_item(value)) is not None


def stores_nothing_given(function: FunctionInfo, name: str) -> bool:
    """Return whether all updates of a parameter are ``x += v``, or store nothing that is given."""
    if isinstance(function.node, cst.Lambda):
        return False
    statements = small_statements(function.node.body)
    return all(_is_own_update(s, function) for s in statements if name in updated_names(s))


def _is_own_update(statement: cst.CSTNode, function: FunctionInfo) -> bool:
    """Return whether an update is ``x += v``, or stores nothing that the function is given."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Name):
        return True
    stored = getattr(statement, "value", None)
    given = {parameter.name for parameter in function.parameters}
    return stored is not None and given.isdisjoint(names_below(stored))


def updated_names(statement: cst.CSTNode) -> set[str]:
    """The ``x`` of ``x += v``, ``x[i] = v`` and ``x[i] += v``."""
    targets = assigned_to(statement)
    if type(statement) is cst.AugAssign:
        if type(statement.target) is cst.Name:
            return {statement.target.value}
        targets = [statement.target]
    nodes = (target.value for target in targets if type(target) is cst.Subscript)
    return {node.value for node in nodes if type(node) is cst.Name}


def updates(statement: cst.CSTNode, name: str) -> bool:
    """Return whether a statement is ``name += v``, ``name[i] = v`` or ``name[i] += v``."""
    return name in updated_names(statement)
