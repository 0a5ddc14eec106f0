"""DTYPE-016 and DTYPE-017: fractions that are lost, as they are written or cast to integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.values.lattice import ArrayAt, BoundMember, DType, as_array, as_number
from embercoach.analysis.values.promotion import FLOATING, INTEGERS
from embercoach.checks.arrays.numerics.compositions import computed
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.value_sources import Source, Sources
    from embercoach.analysis.facts.facts import CallFact, Fact, ItemStoreFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Functions whose results are floats, whatever their arguments are.
_FLOATS = frozenset(
    f"mlx.core.{name}"
    for name in (
        *("mean", "var", "std", "softmax", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt"),
        *("sin", "cos", "divide", "logsumexp", "erf", "linspace", "reciprocal"),
        *("random.normal", "random.uniform"),
    )
)
#: Functions whose results are between 0 and 1.
_FRACTIONS = frozenset(
    (
        *("mlx.core.softmax", "mlx.core.sigmoid", "mlx.nn.softmax", "mlx.nn.sigmoid"),
        *("mlx.nn.Softmax", "mlx.nn.Sigmoid"),
    )
)
_UNIFORM = "mlx.core.random.uniform"


@check("DTYPE-016")
def fraction_in_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``counts[i] = 0.5`` for an int32 ``counts``."""
    array = as_array(fact.base)
    if array is None or array.dtype not in INTEGERS:
        return
    statement = fact.place.statement
    if not isinstance(statement, (cst.Assign, cst.AugAssign)):
        return
    divides = isinstance(statement, cst.AugAssign) and isinstance(
        statement.operator, cst.DivideAssign
    )
    sources = sources_of(module)
    source = sources.of(fact, statement.value)
    value = fact.value if isinstance(statement, cst.Assign) else None
    if divides or _has_fraction(value, source, sources):
        yield _report(fact, array.dtype, fact.node.value)


@check("DTYPE-016", of=[f".{name}" for name in ("add", "subtract", "multiply", "divide")])
def fraction_in_update(fact: CallFact, module: Module) -> Iterator[Report]:
    """``counts.at[i].add(0.5)`` for an int32 ``counts``."""
    owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
    array = as_array(owner.array) if isinstance(owner, ArrayAt) else None
    given = fact.positional(0)
    if array is None or given is None or array.dtype not in INTEGERS:
        return
    sources = sources_of(module)
    if _has_fraction(given.value, sources.of(fact, given.node), sources):
        yield _report(fact, array.dtype, given.node)


def _report(fact: Fact, dtype: str | None, node: cst.BaseExpression) -> Report:
    return Report.at(
        fact,
        "DTYPE-016",
        message=f"a float written to an {dtype} array loses its fraction",
        help="Make the array of floats: `mx.zeros(shape)`, `mx.array([0.0, ...])`",
        subject=node,
    )


def _has_fraction(value: Value | None, source: Source, sources: Sources) -> bool:
    """Return whether a value is a float that is not whole for all that is known."""
    number = None if value is None else as_number(value)
    if number is not None:
        if number.kind != "float":
            return False
        const = number.const
        return isinstance(const, float) and not const.is_integer()
    array = None if value is None else as_array(value)
    if array is not None and array.dtype is not None and array.dtype not in FLOATING:
        return False
    ends = computed(source, sources, bounded=True)
    return bool(ends) and all(_is_fractional(end, sources) for end in ends)


def _is_fractional(end: Source, sources: Sources) -> bool:
    """Return whether an expression divides, or is computed by a function of floats."""
    node = end.node
    if isinstance(node, cst.Float):
        return not float(node.value.replace("_", "")).is_integer()
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide):
            return True
        if isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply)):
            sides = (end.at(node.left), end.at(node.right))
            return any(_is_fractional(side, sources) for side in sides)
        return False
    call = sources.library_call(end)
    return call is not None and call.name in _FLOATS


@check("DTYPE-017", of=(".astype",))
def cast_fraction(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.sigmoid(x).astype(mx.int32)``."""
    dtype = fact.arguments[0].value if fact.arguments else None
    if not isinstance(dtype, DType) or dtype.name not in INTEGERS or fact.receiver_node is None:
        return
    sources = sources_of(module)
    ends = computed(sources.of(fact, fact.receiver_node), sources)
    if ends and all(_is_below_one(end, sources) for end in ends):
        yield Report.at(
            fact,
            "DTYPE-017",
            message=f"values below 1 become 0 in {dtype.name}",
            help="Compare them (`p > 0.5`), or scale or round them first",
            subject=fact.receiver_node,
        )


def _is_below_one(end: Source, sources: Sources) -> bool:
    call = sources.library_call(end)
    if call is None:
        return False
    if call.name != _UNIFORM:
        return call.name in _FRACTIONS
    given = end.node.args if isinstance(end.node, cst.Call) else ()
    names = {a.keyword.value if a.keyword else "" for a in given}
    return names.isdisjoint(("", "low", "high"))
