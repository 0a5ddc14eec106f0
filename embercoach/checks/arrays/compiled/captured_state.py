"""State that ``inputs=`` and ``outputs=`` of ``mx.compile`` capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.held_sources import changed_containers
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.inheritance import lineage
from embercoach.analysis.values.joins import options
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Dict,
    Instance,
    Sequence,
    Symbol,
    Value,
)
from embercoach.checks.arrays.compiled.model_calls import variable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from embercoach.analysis.calls.definitions import ClassInfo
    from embercoach.analysis.facts.facts import Argument, CompileFact, FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources

RANDOM_STATE = "mlx.core.random.state"
#: Elements of ``inputs=`` and ``outputs=`` that are looked at.
MOST_CAPTURED = 64
#: The attribute that holds the state of a module, of an optimizer, or of ``mx.random``.
STATE = "state"


def captures_random_state(fact: CompileFact, argument: Argument | None, module: Module) -> bool:
    """Return whether ``inputs=`` or ``outputs=`` has ``mx.random.state``, or may have it."""
    if argument is None:
        return False
    known = _holds(argument.value, RANDOM_STATE)
    if known is None:  # nothing is known of the value, but perhaps of its expression
        return captured_owners(fact, argument, module) is None
    return known


def _holds(value: Value, name: str) -> bool | None:
    """Return whether a symbol is in a value; None if nothing is known of the value."""
    if value is UNKNOWN:
        return None
    for option in options(value):
        if isinstance(option, Symbol):
            if option.name == name:
                return True
        elif isinstance(option, Sequence):
            items = option.items if option.items is not None else (option.common or UNKNOWN,)
            if any(_holds(item, name) for item in items):
                return True
            if option.items is None and option.common is UNKNOWN:
                return None
        elif isinstance(option, Dict):
            values = [option.item, *(held for _, held in option.known)]
            if any(_holds(held, name) for held in values):
                return True
    return None if UNKNOWN in options(value) else False


def captured_owners(fact: CompileFact, argument: Argument, module: Module) -> list[Source] | None:
    """The objects whose states are in ``inputs=`` or ``outputs=``, None if some are not known."""
    sources = sources_of(module)
    found: list[Source] = []
    pending = [sources.at_place(argument.node, _place_of(fact))]
    for _ in range(MOST_CAPTURED):
        if not pending:
            return found
        source = pending.pop()
        ends = sources.ends(source)
        if not ends or _may_grow(source, ends):
            return None
        if dotted(source.node) is not None:  # a list or a dictionary is captured itself
            found += [source for end in ends if isinstance(end.node, (cst.List, cst.Dict))]
        for end in ends:
            node = end.node
            if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
                pending += [end.at(element.value) for element in node.elements]
            elif isinstance(node, cst.BinaryOperation):
                pending += [end.at(node.left), end.at(node.right)]
            else:
                owner = _owner_of_state(end, sources)
                if owner is None:
                    return None
                found.append(owner)
    return None


def _place_of(fact: CompileFact) -> FactPlace:
    """The place of the arguments of ``mx.compile``: of a decorator, the definition's."""
    if fact.decorated is None:
        return fact.place
    return fact.place._replace(statement=fact.decorated.node)


def _may_grow(source: Source, ends: list[Source]) -> bool:
    """Return whether a list with a name may get further elements after it is made."""
    path = dotted(source.node)
    if path is None or not any(isinstance(e.node, (cst.List, cst.Dict)) for e in ends):
        return False
    modules = dict.fromkeys((source.module, *(end.module for end in ends)))
    return any(path.rpartition(".")[2] in changed_containers(module) for module in modules)


def _owner_of_state(source: Source, sources: Sources) -> Source | None:
    """The module or the optimizer whose ``state`` an expression is."""
    node = source.node
    if not isinstance(node, cst.Attribute) or node.attr.value != STATE:
        return None  # an attribute that may hold several states
    owner = source.at(node.value)
    value = sources.value(owner)
    if isinstance(value, Instance) and any(map(_defines_state, lineage(value.info))):
        return None
    return owner if dotted(owner.node) is not None else None


def _defines_state(cls: ClassInfo) -> bool:
    """Return whether a class has a ``state`` that is not MLX's."""
    return STATE in cls.setters or STATE in cls.methods or STATE in cls.variables


def is_captured(owner: Source, captured: list[Source] | None) -> bool:
    """Return whether an object's state is captured, or may be.

    Args:
        owner: the object, by a name or a path.
        captured: the objects whose states are captured.
    """
    if captured is None:
        return True
    path = dotted(owner.node) or ""
    name = path.rpartition(".")[2]
    for known in captured:
        held = dotted(known.node) or ""
        if name in held.split(".") or path.startswith(f"{held}."):
            return True
    keys = _keys(owner) if captured else set()
    return any(not keys.isdisjoint(_keys(known)) for known in captured)


def _keys(source: Source) -> set[Hashable]:
    """Keys that two expressions of one object have in common."""
    found: set[Hashable] = set()
    for end in (source, *sources_of(source.module).ends(source)):
        path = dotted(end.node)
        found.add(id(end.node) if path is None else variable(path, end.function, end.module))
    return found
