"""``and`` and ``or``: what each operand knows of those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import exactness
from embercoach.analysis.dispatch import evaluate
from embercoach.analysis.lattice import join, join_all
from embercoach.analysis.narrowing import narrow, record_test, test
from embercoach.analysis.values import NONE, Number, Union, Value

if TYPE_CHECKING:
    from embercoach.analysis.frame import Frame, Snapshot


#: Operands that narrow in the time of an evaluation.
_NARROWED_A_STEP = 8


def evaluate_boolean(frame: Frame, node: cst.BooleanOperation) -> Value:
    """``a and b``, ``a or b``: the left operand's truth decides."""
    is_and = type(node.operator) is cst.And
    links = _links(node)
    value = test(frame, links[0].left, "and" if is_and else "or")
    before: cst.BooleanOperation | None = None
    outer = inner = None  # the states without and with what the operands so far have shown
    for number, link in enumerate(links):
        if before is not None:
            record_test(frame, before, value, "and" if is_and else "or")
        if frame.exact and (truth := exactness.truth(value)) is not None:
            value = evaluate(frame, link.right) if truth is is_and else value
            inner = None
        else:
            state = frame.fork()
            if before is None or inner is None or not _is_same(outer, state):
                narrow(frame, link.left, is_and)
                frame.work.left -= number // _NARROWED_A_STEP
            else:
                frame.restore(inner)
                narrow(frame, before.right, is_and)
            outer, inner = state, frame.fork()
            right = evaluate(frame, link.right)
            frame.restore(outer)
            value = _either(value, right, is_and=is_and)
        before = link
    return value


def _is_same(one: Snapshot | None, other: Snapshot) -> bool:
    return one is not None and one[0] is other[0] and one[1] is other[1]


def _links(node: cst.BooleanOperation) -> list[cst.BooleanOperation]:
    """The operations of ``a and b and c``, which nests to the left, in the order of evaluation."""
    links = [node]
    while type(links[-1].left) is cst.BooleanOperation:
        left = links[-1].left
        if type(left.operator) is not type(node.operator):
            break
        links.append(left)
    links.reverse()
    return links


def _either(left: Value, right: Value, *, is_and: bool) -> Value:
    """The result of an operation of which either operand may be the result."""
    if isinstance(left, (Number, Union)) and is_and:
        # ``flag and x``: a falsy left operand is the result itself.
        return join(left, right)
    if not is_and and type(left) is Union and NONE in left.options:
        return join(join_all(o for o in left.options if o is not NONE), right)
    if not is_and and left is NONE:
        return right
    return join(left, right)
