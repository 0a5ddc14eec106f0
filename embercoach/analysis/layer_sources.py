"""Layers and parameters as sources of values: the calls that make layers, and defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.values.lattice import LibraryObject, Symbol

if TYPE_CHECKING:
    from embercoach.analysis.value_sources import Source, Sources

#: Sequences inside of each other that are followed.
_MOST_NESTED = 4
_SEQUENTIAL = frozenset(("mlx.nn.Sequential", "mlx.nn.layers.containers.Sequential"))


def constructor(sources: Sources, callee: Source) -> Source | None:
    """The expression that made a layer, the last one of an ``nn.Sequential``."""
    for _ in range(_MOST_NESTED):
        ends = sources.ends(callee)
        if len(ends) != 1:
            return None
        made, value = ends[0].node, sources.value(ends[0])
        is_sequence = isinstance(value, LibraryObject) and value.cls in _SEQUENTIAL
        if not is_sequence or not isinstance(made, cst.Call):
            return ends[0]
        if not made.args or made.args[-1].star:
            return None
        callee = ends[0].at(made.args[-1].value)
    return None


def last_layer(sources: Sources, callee: Source, cls: str) -> str:
    """The class of the layer that computes the result: the last one of ``nn.Sequential``."""
    made = constructor(sources, callee) if cls in _SEQUENTIAL else None
    last = None if made is None else sources.value(made)
    if isinstance(last, Symbol):
        return last.name
    return last.cls if isinstance(last, LibraryObject) else cls


def default_of(source: Source) -> Source | None:
    """The default of a parameter, None for anything else."""
    function, node = source.function, source.node
    if function is None or not isinstance(node, cst.Name):
        return None
    parameters = (p for p in function.parameters if p.name == node.value)
    default = next((p.default for p in parameters), None)
    return None if default is None else source.at(default)
