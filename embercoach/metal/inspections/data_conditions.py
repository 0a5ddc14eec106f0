"""Conditions of a kernel on the values of its inputs, not only on positions and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.nodes import Assign, Declare, If, Index, Name, Switch
from embercoach.metal.program.walk import base, below, mentioned

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Program, Variable
    from embercoach.metal.program.walk import Node


def decides_by_data(program: Program) -> bool:
    """Return whether an ``if`` or ``switch`` of the body depends on an input's element.

    A quick answer from the text, which says yes too often; nothing is followed.
    """
    if program.body is None:
        return False
    conditions = [
        node.condition if isinstance(node, If) else node.value
        for node in below(program.body)
        if isinstance(node, (If, Switch))
    ]
    if not conditions:
        return False
    held = _held(program.body)
    return any(_reads(condition) or mentioned(condition) & held for condition in conditions)


def _reads(node: Node) -> bool:
    """Return whether a node contains an element of an input."""
    return any(isinstance(inner, Index) and _is_input(base(inner.base)) for inner in below(node))


def _is_input(variable: Variable | None) -> bool:
    return variable is not None and variable.kind == "input"


def _held(body: Node) -> frozenset[Variable]:
    """The variables that elements of inputs, or pointers to them, flow into."""
    flows: list[tuple[Variable, Node]] = []
    inputs: set[Variable] = set()
    for node in below(body):
        if isinstance(node, Name) and _is_input(node.variable):
            inputs.add(node.variable)
        elif isinstance(node, Declare) and node.initial is not None:
            flows.append((node.variable, node.initial))
        elif isinstance(node, Assign):
            target = base(node.target)
            if target is not None:
                flows.append((target, node.value))
    held: set[Variable] = set()
    while True:
        before = len(held)
        for variable, value in flows:
            if variable not in held and mentioned(value) & (held | inputs):
                held.add(variable)
        if len(held) == before:
            return frozenset(held)
