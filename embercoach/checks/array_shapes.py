"""Shapes of arrays as far as the expressions that make them tell."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis.facts import CallFact
from embercoach.analysis.lattice import as_number
from embercoach.analysis.values import Array, BoundMember, Number, Numpy, Sequence, Value
from embercoach.checks.sizes import Size, resolve_name

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.module import Module

#: Sizes of the axes, None for those that are unknown.
Shape = tuple["int | None", ...]
MAX_DEPTH = 4
#: Functions that make an array of a shape, their first argument.
MAKERS = frozenset({"mlx.core.zeros", "mlx.core.ones", "mlx.core.full"})
#: Functions and methods whose result has the shape of their array.
ALIKE = frozenset({"mlx.core.contiguous", "mlx.core.stop_gradient", ".astype"})


def shape_of_value(value: Value) -> Shape | None:
    """``()`` for what certainly is one number: a Python or NumPy number, an array of one."""
    if type(value) is Number or (isinstance(value, Numpy) and value.scalar):
        return ()
    return () if type(value) is Array and value.scalar else None


def shape_of(size: Size, module: Module, depth: int = MAX_DEPTH) -> Shape | None:
    """The shape of the array that an expression is, None where even its rank is unknown."""
    size = resolve_name(size)
    fact = calls_of(module).get(size.node)
    if fact is None or depth == 0:
        return None
    name = fact.symbol if not isinstance(fact.callee, BoundMember) else f".{fact.callee.name}"
    if name == "mlx.core.array":
        return _of_numbers(fact)
    if name in MAKERS:
        first = fact.argument(0, "shape")
        return None if first is None else _lengths(first.value)
    if name in (".flatten", "mlx.core.flatten"):
        return (None,) if len(fact.arguments) == (name == "mlx.core.flatten") else None
    if name in ALIKE:
        inner = fact.receiver_node if name == ".astype" else _first_node(fact)
        return None if inner is None else shape_of(Size(inner, size.scope), module, depth - 1)
    return None


def _first_node(fact: CallFact) -> cst.BaseExpression | None:
    first = fact.positional(0)
    return None if first is None else first.node


def _of_numbers(fact: CallFact) -> Shape | None:
    """The shape of ``mx.array([a, b])`` of numbers."""
    first = fact.argument(0, "val")
    if first is None or not isinstance(first.value, Sequence):
        return None
    items = first.value.items
    if first.value.kind not in ("list", "tuple") or items is None:
        return None
    return (len(items),) if all(as_number(item) is not None for item in items) else None


def _lengths(value: Value) -> Shape | None:
    """A shape given as a number or as a tuple of them."""
    if type(value) is Number:
        return (_length(value),)
    if not isinstance(value, Sequence) or value.items is None:
        return None
    return tuple(map(_length, value.items))


def _length(value: Value) -> int | None:
    return value.const if type(value) is Number and type(value.const) is int else None


@lru_cache(maxsize=2)
def calls_of(module: Module) -> dict[cst.CSTNode, CallFact]:
    """The calls of a file by their nodes; of few files, as it keeps them in memory."""
    return {f.node: f for f in module.facts() if isinstance(f, CallFact)}
