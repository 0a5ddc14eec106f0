"""``and`` and ``or``: what each operand knows of those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.evaluate import exactness
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.narrowing import narrow, record_test, test
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.joins import join, join_all
from embercoach.analysis.values.lattice import NONE, Number, Union, Value

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame, Snapshot
    from embercoach.analysis.facts.facts import TruthForm


#: Operands that narrow in the time of an evaluation.
_NARROWED_A_STEP = 8


def evaluate_boolean(frame: Frame, node: cst.BooleanOperation) -> Value:
    """``a and b``, ``a or b``: the left operand's truth decides."""
    is_and = type(node.operator) is cst.And
    form: TruthForm = "and" if is_and else "or"
    links = _links(node)
    value = test(frame, links[0].left, form)
    before: cst.BooleanOperation | None = None
    # The states without and with what the operands so far have shown. That is kept from one to
    # the next, unless testing one of them has bound a name.
    outer = frame.fork()
    inner: Snapshot | None = None
    for number, link in enumerate(links):
        if before is not None and inner is None:
            record_test(frame, before, value, form)
        elif before is None or inner is None:
            pass
        elif inner is outer or not _is_of_none(before.right):
            if inner is not outer:
                frame.work.left -= number // _NARROWED_A_STEP
            frame.restore(outer)
            record_test(frame, before, value, form)
            if outer is frame.fork():
                frame.restore(inner)
            else:
                inner = None
        truth = exactness.truth(value) if frame.decides else None
        if truth is not None:
            if inner is not None:
                frame.restore(outer)
                inner = None
            value = evaluate(frame, link.right) if truth is is_and else value
        else:
            if before is not None and inner is not None:
                narrow(frame, before.right, is_and)
            else:
                outer = frame.fork()
                narrow(frame, link.left, is_and)
                frame.work.left -= number // _NARROWED_A_STEP
            inner = frame.fork()
            right = _unsure(frame, link.right)
            frame.restore(inner)
            if frame.must is not None and exactness.truth(right) is (not is_and):
                right = value = Number("bool", not is_and)  # whatever the left one is
            value = _either(value, right, is_and=is_and)
        before = link
    if inner is not None:
        frame.restore(outer)
    return value


def _unsure(frame: Frame, node: cst.BaseExpression) -> Value:
    """The value of an operand that may not be evaluated."""
    if frame.must is None:
        return evaluate(frame, node)
    with frame.must.unsure():
        return evaluate(frame, node)


def _is_of_none(node: cst.BaseExpression) -> bool:
    """Return whether an operand is like ``x is None``: a truth value, whatever the name holds."""
    return (
        type(node) is cst.Comparison
        and len(node.comparisons) == 1
        and type(node.comparisons[0].operator) in (cst.Is, cst.IsNot)
        and dotted(node.left) is not None
        and type(node.comparisons[0].comparator) is cst.Name
    )


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
