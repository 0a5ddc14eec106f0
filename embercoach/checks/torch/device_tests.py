"""Code that a program runs for some devices only, as around what MPS does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import walk

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module

_WORDS = ("mps", "cuda", "cpu", "gpu", "xpu", "npu", "dml", "device")


def is_for_a_device(fact: Fact, module: Module) -> bool:
    """Return whether a test around a place, or of its statement, asks for the device."""
    place = fact.place
    around = layout_of(module, place.function).outward(place.statement)
    owners = (place.statement, *(level.owner for level in around))
    tests = (getattr(owner, "test", None) for owner in owners)
    if any(test is not None and _names_device(test) for test in tests):
        return True
    return any(
        any(inner is fact.node for inner in walk(choice))
        for choice in walk(place.statement, (cst.IndentedBlock,))
        if isinstance(choice, cst.IfExp) and _names_device(choice.test)
    )


def may_be_caught(place: FactPlace, module: Module) -> bool:
    """Return whether a place is in a ``try`` that handles exceptions."""
    around = layout_of(module, place.function).outward(place.statement)
    return any(
        isinstance(level.owner, cst.Try) and level.arm == "body" and bool(level.owner.handlers)
        for level in around
    )


def _names_device(test: cst.CSTNode) -> bool:
    for node in walk(test):
        if isinstance(node, (cst.Name, cst.SimpleString)):
            text = node.value.lower()
            if any(word in text for word in _WORDS):
                return True
    return False
