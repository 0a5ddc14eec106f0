"""Reads of properties in loops, each of which calls a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import Fact
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.lattice import Array, Instance

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.values.lattice import Value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PropertyReadFact(Fact):
    """``codec.gain`` in a loop, where ``gain`` is a property of a class of the project."""

    node: cst.Attribute
    function: FunctionInfo


def record_read(frame: Frame, node: cst.Attribute, owner: Value, value: Value) -> None:
    """Record the read of a property in a loop, if it returns no array."""
    if not frame.loops or type(owner) is not Instance or type(value) is Array:
        return
    method = find_method(owner.info, node.attr.value)
    if method is not None and method.is_property:
        frame.add(PropertyReadFact(node, frame.place(), method))
