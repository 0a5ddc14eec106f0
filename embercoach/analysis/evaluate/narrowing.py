"""Truth tests: what they take the truth of, and what a branch knows after one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.members import host_has
from embercoach.analysis.syntax.trees import dotted, evaluated, targets_of
from embercoach.analysis.values.facts import TruthFact, TruthForm
from embercoach.analysis.values.lattice import (
    ARRAY,
    NONE,
    UNKNOWN,
    Array,
    Dict,
    Instance,
    NoneValue,
    Number,
    Numpy,
    Sequence,
    Str,
    Symbol,
    Union,
    Unknown,
    Value,
    as_number,
    definite_array,
    join_all,
    options,
    without,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame


def test(frame: Frame, node: cst.BaseExpression, form: TruthForm) -> Value:
    """Evaluate an expression whose truth is taken, and record it if that is an array's.

    In a boolean operation the left operand is tested by the operator; what the surrounding
    test sees is only the right operand.
    """
    value = evaluate(frame, node)
    record_test(frame, node, value, form)
    return value


def record_test(frame: Frame, node: cst.BaseExpression, value: Value, form: TruthForm) -> None:
    """Record the test of an expression that has been evaluated, if its truth is an array's."""
    kind = type(value)
    if kind is Array or kind is Union:
        target = node
        while type(target) is cst.BooleanOperation:
            target = target.right
        if target is node:
            record_truth(frame, node, value, form)
        else:
            assert isinstance(node, cst.BooleanOperation)
            operator: TruthForm = "and" if type(node.operator) is cst.And else "or"
            guarded = frame.record and _is_guarded(frame, node)
            record_truth(frame, target, _quiet(frame, target), operator, guarded=guarded)


def _is_guarded(frame: Frame, node: cst.BooleanOperation) -> bool:
    """Return whether the operand before the last one is a host value, such as ``x is None``."""
    before = node.left
    while type(before) is cst.BooleanOperation:
        before = before.right
    return definite_array(_quiet(frame, before)) is None


def _quiet(frame: Frame, node: cst.BaseExpression) -> Value:
    with frame.quiet():
        return evaluate(frame, node)


def record_truth(
    frame: Frame,
    node: cst.BaseExpression,
    value: Value,
    form: TruthForm,
    *,
    guarded: bool = False,
) -> None:
    """Note that the truth of a value is taken, if it is an array."""
    if definite_array(value) is not None:
        if frame.must is not None:
            frame.must.note_read(node, value, "tests")
        if frame.record:
            frame.add(TruthFact(node, frame.place(), value, form, guarded))
    elif frame.record and type(node) in (cst.Name, cst.Call) and _is_mixed(value):
        frame.add(TruthFact(node, frame.place(), value, form))


def _is_mixed(value: Value) -> bool:
    """Return whether a value is an array or a number: ``done = False``, then ``mx.all(x)``."""
    return type(value) is Union and {type(o) for o in value.options} == {Array, Number}


def narrow(frame: Frame, node: cst.BaseExpression, truth: bool) -> None:
    """Apply what a branch knows: the test ``node`` came out as ``truth``."""
    kind = type(node)
    if isinstance(node, cst.UnaryOperation) and type(node.operator) is cst.Not:
        narrow(frame, node.expression, not truth)
    elif isinstance(node, cst.BooleanOperation):
        if (type(node.operator) is cst.And) == truth:
            narrow(frame, node.left, truth)
            narrow(frame, node.right, truth)
    elif isinstance(node, cst.Comparison):
        _narrow_comparison(frame, node, truth)
    elif isinstance(node, cst.Call):
        _narrow_call(frame, node, truth)
    elif isinstance(node, cst.NamedExpr):
        narrow(frame, node.target, truth)
    elif truth and (kind is cst.Name or kind is cst.Attribute):
        path, value = _subject(frame, node)
        if path is not None and type(value) is Union:
            frame.names[path] = without(value, NoneValue)


def _subject(frame: Frame, node: cst.BaseExpression) -> tuple[str | None, Value]:
    if type(node) is cst.NamedExpr:
        node = node.target
    path = dotted(node)
    if path is None:
        return None, UNKNOWN
    return path, _quiet(frame, node)


def _narrow_comparison(frame: Frame, node: cst.Comparison, truth: bool) -> None:
    if len(node.comparisons) != 1:
        return
    target = node.comparisons[0]
    operator = type(target.operator)
    if type(target.comparator) is not cst.Name or target.comparator.value != "None":
        return
    if operator in (cst.Is, cst.Equal):
        is_none = truth
    elif operator in (cst.IsNot, cst.NotEqual):
        is_none = not truth
    else:
        return
    path, value = _subject(frame, node.left)
    if path is None:
        return
    if is_none:
        if value is UNKNOWN or (type(value) is Union and NONE in value.options):
            frame.names[path] = NONE
    else:
        frame.names[path] = without(value, NoneValue)


def _narrow_call(frame: Frame, node: cst.Call, truth: bool) -> None:
    if type(node.func) is not cst.Name or len(node.args) != 2:
        return
    function = frame.lookup(node.func.value)
    if function == Symbol("builtins.hasattr"):
        _narrow_attribute(frame, node, truth)
    if function != Symbol("builtins.isinstance"):
        return
    path, value = _subject(frame, node.args[0].value)
    if path is None:
        return
    expected = _instances(frame, node.args[1].value)
    if truth:
        kept = [o for o in options(value) if _fits(o, expected)]
        if not kept or UNKNOWN in kept:
            kept = [o for o in kept if o is not UNKNOWN] + [w for w in expected if w not in kept]
        frame.names[path] = join_all(kept)
    elif expected and UNKNOWN not in expected and type(value) is Union:
        left = [o for o in value.options if isinstance(o, Unknown) or not _fits(o, expected)]
        if left:
            frame.names[path] = join_all(left)
    elif ARRAY in expected and type(value) is Array:
        # The annotation said array, the code says that it may be something else.
        frame.names[path] = UNKNOWN


def _narrow_attribute(frame: Frame, node: cst.Call, truth: bool) -> None:
    """``hasattr(n, "item")``: of an int or an array, the array alone has it."""
    given = node.args[1].value
    path, value = _subject(frame, node.args[0].value)
    if path is None or type(given) is not cst.SimpleString:
        return
    name = str(evaluated(given))
    left = [o for o in options(value) if _has_attribute(o, name) is not (not truth)]
    if left and len(left) < len([*options(value)]):
        frame.names[path] = join_all(left)
    elif not left and _is_parameter(frame, path):
        # The annotation says what the code denies. For any other name, the branch is never taken.
        frame.names[path] = UNKNOWN


def _is_parameter(frame: Frame, path: str) -> bool:
    return frame.info is not None and any(p.name == path for p in frame.info.parameters)


def _has_attribute(option: Value, name: str) -> bool | None:
    """Return whether a value has an attribute, None if that is unknown."""
    if type(option) is Array:
        return mlx_api.array_member(name) is not None or hasattr(object, name)
    return host_has(option, name)


def _instances(frame: Frame, node: cst.BaseExpression) -> list[Value]:
    from embercoach.analysis.calls.annotations import instance_of

    if type(node) is cst.Tuple:
        return [v for e in node.elements for v in _instances(frame, e.value)]
    if type(node) is cst.BinaryOperation:
        return _instances(frame, node.left) + _instances(frame, node.right)
    return [instance_of(frame, evaluate(frame, node))]


def _fits(option: Value, expected: list[Value]) -> bool:
    """Return whether an alternative may pass ``isinstance`` for an expected value."""
    kind = type(option)
    if kind is Unknown:
        return True
    for w in expected:
        if type(w) is Unknown or w == option:
            return True
        if type(w) is not kind:
            continue
        if isinstance(option, Number) and isinstance(w, Number):
            if option.kind == w.kind or (option.kind == "bool" and w.kind == "int"):
                return True
        elif isinstance(option, Sequence) and isinstance(w, Sequence):
            if option.kind == w.kind or "shape" in (option.kind, w.kind):
                return True
        elif isinstance(option, Instance):
            continue
        elif isinstance(option, (Array, Str, Dict, Numpy)):
            return True
    return False


def is_periodic(node: cst.BaseExpression) -> bool:
    """Return whether a test looks like ``step % 10 == 0``, alone or among others."""
    if type(node) is cst.BooleanOperation:
        return is_periodic(node.left) or is_periodic(node.right)
    if type(node) is cst.UnaryOperation:
        return is_periodic(node.expression)
    if type(node) is cst.Comparison:
        return is_periodic(node.left)
    return type(node) is cst.BinaryOperation and type(node.operator) is cst.Modulo


def runs_once(frame: Frame, node: cst.If) -> bool:
    """Return whether a test holds in one iteration: ``i == 0``, or ``first is None``."""
    test = node.test.left if type(node.test) is cst.BooleanOperation else node.test
    if type(test) is not cst.Comparison or len(test.comparisons) != 1:
        return False
    (target,) = test.comparisons
    path = dotted(test.left)
    if path is None:
        return False
    if type(target.operator) is cst.Is:
        return dotted(target.comparator) == "None" and _assigns(node.body, path)
    counted = as_number(frame.names.get(path, UNKNOWN))
    if type(target.operator) is not cst.Equal or counted is None or counted.pulls:
        return False
    return counted.kind == "int" and isinstance(
        target.comparator, (cst.Integer, cst.BinaryOperation)
    )


def _assigns(suite: cst.BaseSuite, path: str) -> bool:
    """Return whether a statement at the top of a suite assigns a name."""
    lines = (line for line in suite.body if type(line) is cst.SimpleStatementLine)
    small = (statement for line in lines for statement in line.body)
    return any(dotted(target) == path for one in small for target in targets_of(one))
