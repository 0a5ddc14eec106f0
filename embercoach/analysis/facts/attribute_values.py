"""Values that the methods of a class assign to its attributes."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.syntax.trees import all_statements, dotted, small_statements, targets_of

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module


class AssignedValue(NamedTuple):
    """The value of an attribute, the statement that assigns it, and its method."""

    value: cst.BaseExpression
    statement: cst.CSTNode
    setter: FunctionInfo


def assigned_values(
    cls: ClassInfo, owner: str, name: str, module: Module
) -> tuple[AssignedValue, ...]:
    """The values that a class's methods assign to ``self.<name>``, but for None.

    None of them if other code, or a derived class, may assign to it, or a statement updates it.
    """
    found = _of_class(cls, owner, name)
    if found:  # asked first: the whole file is walked for the others
        others = _others(module)
        if others.assigned[name] or cls.name in others.bases:
            return ()
    return found


def is_set_once(cls: ClassInfo, owner: str, name: str, module: Module) -> bool:
    """Return whether one statement of ``__init__`` alone assigns to ``self.<name>``."""
    setters = [setter.name for setter in cls.setters.get(name, ())]
    if setters != ["__init__"] or _assigned_paths(cls)[f"{owner}.{name}"] != 1:
        return False
    others = _others(module)
    return not others.assigned[name] and cls.name not in others.bases


@lru_cache(maxsize=64)
def _of_class(cls: ClassInfo, owner: str, name: str) -> tuple[AssignedValue, ...]:
    path = f"{owner}.{name}"
    found: list[AssignedValue] = []
    for setter in cls.setters.get(name, ()):
        if isinstance(setter.node, cst.Lambda):
            return ()
        for statement in small_statements(setter.node.body):
            if path in map(dotted, targets_of(statement)):
                value = _value_of(statement)
                if value is None:
                    return ()
                found.append(AssignedValue(value, statement, setter))
    if len(found) != _assigned_paths(cls)[path]:
        return ()
    return tuple(one for one in found if getattr(one.value, "value", None) != "None")


def _value_of(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """The value that a statement assigns to one target."""
    if isinstance(statement, cst.AnnAssign):
        return statement.value
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return None
    is_tuple = isinstance(statement.targets[0].target, (cst.Tuple, cst.List))
    return None if is_tuple else statement.value


@lru_cache(maxsize=16)
def _assigned_paths(cls: ClassInfo) -> Counter[str | None]:
    """How often the text of a class assigns to each path."""
    targets = (target for node in all_statements(cls.node) for target in targets_of(node))
    return Counter(map(dotted, targets))


class _Others(NamedTuple):
    """Names of attributes that are assigned by other names than ``self``, and of base classes."""

    assigned: Counter[str]
    bases: frozenset[str]


@lru_cache(maxsize=4)
def _others(module: Module) -> _Others:
    assigned: Counter[str] = Counter()
    bases: set[str] = set()
    for node in all_statements(module.tree):
        if type(node) is cst.ClassDef:
            bases.update((dotted(base.value) or "").rpartition(".")[2] for base in node.bases)
        for target in targets_of(node):
            if type(target) is cst.Attribute and dotted(target.value) != "self":
                assigned[target.attr.value] += 1
    return _Others(assigned, frozenset(bases))
