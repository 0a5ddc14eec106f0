"""Code that is meant to raise: tests of errors, which are not findings."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import libcst as cst

from embercoach.analysis.syntax.trees import children, walk

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: The functions of pytest and unittest that expect an error.
NAMES = frozenset({"raises", "assertRaises", "assertRaisesRegex"})
_known: WeakKeyDictionary[Module, frozenset[cst.CSTNode]] = WeakKeyDictionary()


def is_meant_to_raise(module: Module, node: cst.CSTNode) -> bool:
    """Test whether a node is in ``with pytest.raises(...):`` or in the arguments of such a call."""
    if not any(name in module.source for name in NAMES):
        return False
    found = _known.get(module)
    if found is None:
        found = _known[module] = frozenset(_tested(module.tree))
    return node in found


def _tested(tree: cst.CSTNode) -> set[cst.CSTNode]:
    """All nodes below tests of errors, and of local functions that these name."""
    found: set[cst.CSTNode] = set()
    local: list[cst.FunctionDef] = []
    pending: list[tuple[cst.CSTNode, bool, bool]] = [(tree, False, False)]
    while pending:
        node, inside, nested = pending.pop()
        if isinstance(node, cst.With):
            inside = inside or any(_tests_errors(item.item) for item in node.items)
        inside = inside or _tests_errors(node)
        if inside:
            found.add(node)
        if isinstance(node, cst.FunctionDef):
            if nested:
                local.append(node)
            nested = True
        pending.extend((child, inside, nested) for child in children(node))
    named = {node.value for node in found if isinstance(node, cst.Name)}
    for function in local:
        if function.name.value in named:
            found.update(walk(function))
    return found


def _tests_errors(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return isinstance(name, cst.Name) and name.value in NAMES
