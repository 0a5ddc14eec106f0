"""PYTHON-SCALAR and ASSIGN-SCALAR: Python numbers in array arithmetic, the house doctrine.

MLX takes Python numbers as weakly typed, so this code is idiomatic and harmless; the ``ember``
profile asks for arrays throughout, and the fixes keep the dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.contexts import context_of
from embercoach.analysis.facts import BinaryFact, CallFact, CompareFact, Fact
from embercoach.analysis.lattice import as_array, as_number
from embercoach.analysis.promotion import FLOATING, INTEGERS
from embercoach.analysis.results import match
from embercoach.analysis.values import Array, BoundMember, Number, Symbol, Value
from embercoach.checks.registry import Change, Report, check, file_check
from embercoach.checks.source import code_of, mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.module import Module

FUNCTIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "remainder",
    "**": "power",
}
COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
DOCTRINE = (
    "the ember profile keeps array arithmetic in arrays: mx.{function} with "
    "mx.array(value, dtype={array}.dtype) keeps the dtype"
)


@check("PYTHON-SCALAR-001", "PYTHON-SCALAR-002", on=BinaryFact)
def scalar_operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x * 0.5``, ``1 - x``, ``x += 1``."""
    pair = _array_and_number(fact.left, fact.right)
    if pair is None or fact.operator not in FUNCTIONS:
        return
    array, _ = pair
    code = "PYTHON-SCALAR-001" if fact.in_place else "PYTHON-SCALAR-002"
    place = "augmented assignment to an mx.array" if fact.in_place else "mx.array arithmetic"
    array_node = fact.left_node if as_array(fact.left) is not None else fact.right_node
    yield Report(
        code,
        fact.node,
        fact.place,
        f"Python number in {place} (`{fact.operator}`)",
        DOCTRINE.format(function=FUNCTIONS[fact.operator], array=_shown(module, array_node)),
        context_of(fact.place, module.is_test),
        _operator_change(fact, module, array),
    )


@check("PYTHON-SCALAR-004", on=CompareFact)
def scalar_comparison(fact: CompareFact, module: Module) -> Iterator[Report]:
    """``x > 0``."""
    pair = _array_and_number(fact.left, fact.right)
    if pair is None or fact.operator not in COMPARISONS:
        return
    array_node = fact.left_node if as_array(fact.left) is not None else fact.right_node
    change = None
    if len(fact.node.comparisons) == 1:
        change = _rewrite(
            module,
            fact.node,
            COMPARISONS[fact.operator],
            (fact.left_node, fact.left),
            (fact.right_node, fact.right),
            pair,
        )
    yield Report(
        "PYTHON-SCALAR-004",
        fact.node,
        fact.place,
        f"mx.array compared with a Python number (`{fact.operator}`)",
        DOCTRINE.format(function=COMPARISONS[fact.operator], array=_shown(module, array_node)),
        context_of(fact.place, module.is_test),
        change,
    )


@check("PYTHON-SCALAR-003", on=CallFact)
def scalar_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.maximum(x, 1e-7)``, ``mx.where(c, x, 0.0)``."""
    entry = None
    if isinstance(fact.callee, Symbol) and fact.callee.name.startswith("mlx."):
        entry = mlx_api.lookup(fact.callee.name)
    elif isinstance(fact.callee, BoundMember) and as_array(fact.callee.owner) is not None:
        entry = mlx_api.array_member(fact.callee.name)
    if entry is None or not entry.elementwise:
        return
    arrays = [a for a in fact.arguments if as_array(a.value) is not None]
    if fact.receiver_node is not None and isinstance(fact.callee, BoundMember):
        reference: cst.BaseExpression | None = fact.receiver_node
        known: Value | None = fact.callee.owner
    elif arrays:
        reference, known = arrays[-1].node, arrays[-1].value
    else:
        return
    numbers = [
        a
        for p, a in match(entry, fact.arguments)
        if p.takes_scalar_or_array and as_number(a.value) is not None
    ]
    if not numbers or reference is None or known is None:
        return
    array = as_array(known)
    assert array is not None
    name = entry.name.rpartition(".")[2]
    mx = mlx_alias(module)
    edits = []
    if mx is not None and _is_simple(reference):
        edits = [
            (
                a.node,
                f"{mx}.array({code_of(module, a.node)}, dtype={code_of(module, reference)}.dtype)",
            )
            for a in numbers
        ]
    safe = all(_keeps_value(array, as_number(a.value)) for a in numbers)
    yield Report(
        "PYTHON-SCALAR-003",
        fact.node,
        fact.place,
        f"Python number as operand of mx.{name}",
        DOCTRINE.format(function=name, array=_shown(module, reference)),
        context_of(fact.place, module.is_test),
        Change("Make the number an array of the same dtype", safe, tuple(edits)) if edits else None,
    )


@file_check("ASSIGN-SCALAR-001")
def bare_assignment(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``scale = 0.5`` that later feeds ``x * scale``."""
    seen: set[cst.CSTNode] = set()
    for fact in facts:
        for number in _scalars_of(fact):
            origin = number.origin
            if origin is None or origin in seen or origin not in module.numbers:
                continue
            if not isinstance(origin, (cst.Assign, cst.AnnAssign)):
                continue
            seen.add(origin)
            yield Report(
                "ASSIGN-SCALAR-001",
                origin,
                fact.place._replace(statement=origin),
                "a bare Python number is assigned here and feeds array arithmetic later",
                "the ember profile asks for an array with the dtype of the arithmetic: "
                "mx.array(value, dtype=x.dtype) where it is used",
                context_of(fact.place, module.is_test),
            )


def _scalars_of(fact: Fact) -> Iterator[Number]:
    if isinstance(fact, (BinaryFact, CompareFact)):
        pair = _array_and_number(fact.left, fact.right)
        if pair is not None:
            yield pair[1]
    elif isinstance(fact, CallFact) and isinstance(fact.callee, Symbol):
        if not fact.callee.name.startswith("mlx.core."):
            return
        entry = mlx_api.lookup(fact.callee.name)
        if entry is None or not entry.elementwise:
            return
        if any(as_array(a.value) is not None for a in fact.arguments):
            numbers = (as_number(argument.value) for argument in fact.arguments)
            yield from (number for number in numbers if number is not None)


def _array_and_number(left: Value, right: Value) -> tuple[Array, Number] | None:
    array, number = as_array(left), as_number(right)
    if array is None:
        array, number = as_array(right), as_number(left)
    return None if array is None or number is None else (array, number)


def _operator_change(fact: BinaryFact, module: Module, array: Array) -> Change | None:
    pair = _array_and_number(fact.left, fact.right)
    assert pair is not None
    if fact.in_place:
        return _in_place_change(fact, module, array, pair[1])
    return _rewrite(
        module,
        fact.node,
        FUNCTIONS[fact.operator],
        (fact.left_node, fact.left),
        (fact.right_node, fact.right),
        pair,
        keeps=fact.operator != "/" or array.dtype in FLOATING,
    )


def _in_place_change(
    fact: BinaryFact, module: Module, array: Array, number: Number
) -> Change | None:
    """``x *= mx.array(0.5, dtype=x.dtype)``: still in place, so aliases see it."""
    mx = mlx_alias(module)
    if mx is None or as_array(fact.left) is None or not _is_simple(fact.left_node):
        return None
    dtype = f"{code_of(module, fact.left_node)}.dtype"
    text = f"{mx}.array({code_of(module, fact.right_node)}, dtype={dtype})"
    safe = _keeps_value(array, number) and (fact.operator != "/" or array.dtype in FLOATING)
    return Change("Make the number an array of the same dtype", safe, ((fact.right_node, text),))


def _rewrite(
    module: Module,
    node: cst.CSTNode,
    function: str,
    left: tuple[cst.BaseExpression, Value],
    right: tuple[cst.BaseExpression, Value],
    pair: tuple[Array, Number],
    keeps: bool = True,
) -> Change | None:
    """``mx.function(left, right)`` with the number made an array; None if it can't be written."""
    mx = mlx_alias(module)
    reference = left[0] if as_array(left[1]) is not None else right[0]
    if mx is None or not _is_simple(reference):
        return None
    dtype = f"{code_of(module, reference)}.dtype"
    operands = [
        code_of(module, n)
        if as_array(v) is not None
        else f"{mx}.array({code_of(module, n)}, dtype={dtype})"
        for n, v in (left, right)
    ]
    text = f"{mx}.{function}({', '.join(operands)})"
    safe = keeps and _keeps_value(*pair)
    return Change(f"Use {mx}.{function} with an array of the same dtype", safe, ((node, text),))


def _keeps_value(array: Array, number: Number | None) -> bool:
    """Whether ``mx.array(number, dtype=array.dtype)`` means what the weak number did."""
    if number is None or array.dtype is None:
        return False
    if array.dtype in FLOATING:
        return number.kind in ("int", "float", "bool")
    return array.dtype in INTEGERS and number.kind == "int" and _fits(array.dtype, number.const)


def _fits(dtype: str, const: object) -> bool:
    if not isinstance(const, int):
        return False
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    low, high = (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    return low <= const < high


def _is_simple(node: cst.CSTNode) -> bool:
    """Names and attributes: evaluating them twice costs and changes nothing."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _shown(module: Module, node: cst.BaseExpression) -> str:
    return code_of(module, node) if _is_simple(node) else "x"
