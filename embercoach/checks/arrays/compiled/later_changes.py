"""Functions that change, after the trace, what a compiled function has read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CompileFact, LocalCall
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import DEFINITIONS, keyed_path, names_below
from embercoach.checks.arrays.compiled.compilations import nodes_in

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module

#: Methods that prepare an object, before anything is traced.
_PREPARING = ("__init__", "__post_init__", "__new__", "setup", "build", "reset", "load")


def owner_of(name: str, info: FunctionInfo, module: Module) -> ClassInfo | None:
    """The class whose instance a name is: of a method, or of the method around a function."""
    current: FunctionInfo | None = info
    while current is not None:
        if current.is_method and current.parameters and current.parameters[0].name == name:
            return current.cls
        if scope_of(module, current).binds(name):
            return None
        current = current.outer
    return None


def changes_attribute(method: FunctionInfo, attribute: str, module: Module) -> bool:
    """Return whether a method changes an attribute of an object that is in use.

    ``self.scale *= 0.9``, ``self.scale = self.scale * 0.9``, or ``self.scale = value`` in a setter.
    """
    if not method.parameters or method.name.startswith(_PREPARING):
        return False
    own = f"{method.parameters[0].name}.{attribute}"
    return _changes(method, own, module) and not _compiles(method, module)


def changes_variable(name: str, owner: object, module: Module) -> frozenset[FunctionInfo]:
    """The functions that change a global name, or by ``nonlocal`` one of the function around."""
    return frozenset(
        info
        for info in module.functions
        if name in (info.global_names if owner is module else info.nonlocal_names)
        and (owner is module or _is_inside(info, owner))
        and _changes(info, name, module)
        and not _compiles(info, module)
    )


def _is_inside(info: FunctionInfo, owner: object) -> bool:
    outer = info.outer
    while outer is not None and outer is not owner:
        outer = outer.outer
    return outer is owner


def _compiles(info: FunctionInfo, module: Module) -> bool:
    return any(type(fact) is CompileFact for fact in module.facts_of(info))


def _changes(info: FunctionInfo, path: str, module: Module) -> bool:
    given = {p.name for p in info.parameters[info.is_method :]}
    for node in nodes_in(info.node.body, module, (*DEFINITIONS, cst.BaseExpression)):
        if isinstance(node, cst.AugAssign) and keyed_path(node.target) == path:
            return True
        if not isinstance(node, cst.Assign) or path not in map(_target, node.targets):
            continue
        if any(keyed_path(n) == path for n in nodes_in(node.value, module) if _is_path(n)):
            return True
        if not given.isdisjoint(names_below(node.value)) and _is_setter(info, module):
            return True
    return False


def _is_path(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))


def _target(target: cst.AssignTarget) -> str | None:
    return keyed_path(target.target)


def _is_setter(info: FunctionInfo, module: Module) -> bool:
    """Return whether a function is meant to be called at any time, or called in a loop."""
    if info.name.startswith(("set_", "update_")) or info.name == "set":
        return True
    if ".setter" in info.decorators:
        return True
    return info in _called_in_loops(module)


@lru_cache(maxsize=1)
def _called_in_loops(module: Module) -> frozenset[FunctionInfo]:
    return frozenset(f.function for f in module.facts() if type(f) is LocalCall and f.place.loops)
