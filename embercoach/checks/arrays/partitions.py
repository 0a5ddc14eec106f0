"""API-021: slices and items of partitions that are not the elements which they separate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.scopes import bodies_of
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import evaluated
from embercoach.analysis.values.facts import CallFact, Fact, calls_of
from embercoach.checks.registry import ProposedFix, Report, check

_PARTITIONS = frozenset(f"mlx.core.{name}" for name in ("argpartition", "partition", "topk"))
#: Sizes of the axis that each slice is judged for.
_SIZES = (1000, 1750)
_MOST_NAMES = 3
_NAMES = ("argpartition", "partition", "topk")
#: Functions that keep the order of a partition.
_KEEPING = frozenset(("mlx.core.stop_gradient",))


@check("API-021")
def partition_slice(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mx.argpartition(-x, kth=k)[..., :k]``, ``mx.topk(x, k)[..., -1]``."""
    if not any(f"{name}(" in module.source for name in _NAMES):
        return
    for function, contents in bodies_of(module):
        if contents.names.isdisjoint(_NAMES):
            continue
        for node in contents.of(cst.Subscript):
            source = Source(node, contents.statement_of(node), function, module)
            fact = _partition(source.at(node.value))
            part = None if fact is None else _part(node, fact)
            if fact is None or part is None:
                continue
            problem = _problem(fact, source, part)
            if problem is None:
                continue
            yield Report.at(
                source,
                message=problem.message,
                help=problem.help,
                change=_minus_one(fact, module) if problem.is_one_more else None,
            )


def _partition(source: Source) -> CallFact | None:
    """Return the call that partitions an array, also before ``mx.stop_gradient``."""
    sources = sources_of(source.module)
    for _ in range(_MOST_NAMES):
        ends = sources.ends(source)
        if len(ends) != 1:
            return None
        end = ends[0]
        called = sources.library_call(end)
        if called is None or end.module is not source.module:
            return None
        if called.name in _PARTITIONS:
            return calls_of(source.module).get(end.node)
        if called.name not in _KEEPING or called.array is None:
            return None
        source = called.array
    return None


def _part(node: cst.Subscript, fact: CallFact) -> cst.BaseSlice | None:
    """Return the index or slice of the partitioned axis, if it is the only one."""
    parts = [element.slice for element in node.slice]
    axis = next((a.node for p, a in fact.matched if p.name == "axis"), None)
    index = -1 if axis is None else _literal(axis)
    if index is None or not -len(parts) <= index < len(parts):
        return None
    if index > 0 and any(_is_ellipsis(part) for part in parts):
        return None
    others = [part for place, part in enumerate(parts) if place != index % len(parts)]
    return parts[index] if all(_is_whole(part) for part in others) else None


def _literal(node: cst.BaseExpression) -> int | None:
    """Return the value of ``2`` or ``-1``."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        below = _literal(node.expression)
        return None if below is None else -below
    value = evaluated(node) if isinstance(node, cst.Integer) else None
    return value if isinstance(value, int) else None


def _is_ellipsis(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis)


def _is_whole(part: cst.BaseSlice) -> bool:
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    return _is_ellipsis(part)


class _Problem(NamedTuple):
    """A message and its help; ``is_one_more`` if ``kth`` is one too high."""

    message: str
    help: str
    is_one_more: bool = False


_UNSORTED = _Problem(
    "`mx.topk` does not sort: its last value is not the smallest",
    "Use `mx.min(values, axis=-1, keepdims=True)`, or sort the values",
)
_TOO_MANY = _Problem(
    "`kth` is out of range where the slice takes the whole axis",
    "Pass `kth=k - 1` for `[..., :k]`",
    is_one_more=True,
)
_OTHERS = _Problem(
    "slice takes others than the elements that `kth` separates",
    "Use `kth=k - 1` with `[..., :k]`, and `kth=-k` with `[..., -k:]`",
)
_ONE = _Problem(
    "index is not that of `kth`: the other elements are in no order",
    "Use the index that is `kth`, or sort",
)


def _problem(fact: CallFact, source: Source, part: cst.BaseSlice) -> _Problem | None:
    given = next((a.node for p, a in fact.matched if p.name in ("kth", "k")), None)
    if given is None:
        return None
    made = sources_of(source.module).of(fact, given)
    found = [_placed(fact, made, source, part, size) for size in _SIZES]
    return found[0] if all(one is found[0] for one in found) else None


def _placed(
    fact: CallFact, made: Source, source: Source, part: cst.BaseSlice, size: int
) -> _Problem | None:
    """Return the problem of a slice of an axis of one size."""
    names: dict[str, int] = {}
    if fact.symbol == "mlx.core.topk":
        k = _number(made, names, size)
        return _UNSORTED if k != 1 and _is_last(part) else None
    bound = _bound(part)
    if bound is None:
        return None
    value = _number(source.at(bound), names, size)
    known = len(names)
    kth = _number(made, names, size)
    if value is None or kth is None or (len(names) > known and not isinstance(part, cst.Index)):
        return None
    is_from_end, place, kth = value < 0, value % size, kth % size
    if isinstance(part, cst.Index):
        return None if place == kth or known > 1 else _ONE
    assert isinstance(part, cst.Slice)
    if part.lower is None:
        if kth == place and not is_from_end:
            return _TOO_MANY if names else None
        return None if kth in (place - 1, place) else _OTHERS
    return None if kth in (place - 1, place) else _OTHERS


def _is_last(part: cst.BaseSlice) -> bool:
    """Test for ``-1`` and ``-1:``."""
    if isinstance(part, cst.Index):
        return _literal(part.value) == -1
    if not isinstance(part, cst.Slice) or part.lower is None or part.upper is not None:
        return False
    return _literal(part.lower) == -1


def _bound(part: cst.BaseSlice) -> cst.BaseExpression | None:
    """Return the index, or the one bound of a slice."""
    if isinstance(part, cst.Index):
        return part.value
    assert isinstance(part, cst.Slice)
    bounds = [one for one in (part.lower, part.upper) if one is not None]
    return bounds[0] if len(bounds) == 1 and part.step is None else None


def _number(source: Source, names: dict[str, int], size: int, depth: int = 6) -> int | None:
    """Compute an expression with numbers for what it reads: the same for the same text."""
    node = source.node
    if depth == 0:
        return None
    if isinstance(node, cst.Integer):
        return _literal(node)
    if isinstance(node, cst.UnaryOperation):
        value = _number(source.at(node.expression), names, size, depth - 1)
        return -value if isinstance(node.operator, cst.Minus) and value is not None else None
    if isinstance(node, cst.BinaryOperation):
        left = _number(source.at(node.left), names, size, depth - 1)
        right = _number(source.at(node.right), names, size, depth - 1)
        if left is None or right is None:
            return None
        if isinstance(node.operator, cst.Add):
            return left + right
        if isinstance(node.operator, cst.Subtract):
            return left - right
        return left * right if isinstance(node.operator, cst.Multiply) else None
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
        ends = sources_of(source.module).ends(source)
        if len(ends) == 1 and ends[0].node is not node:
            return _number(ends[0], names, size, depth - 1)
        text = source.module.parsed.code(node)
        return names.setdefault(text, size // 50 + 3 * len(names))
    return None


def _minus_one(fact: CallFact, module: Module) -> ProposedFix | None:
    given = next((a.node for p, a in fact.matched if p.name == "kth"), None)
    if not isinstance(given, (cst.Name, cst.Attribute)):
        return None
    text = f"{module.parsed.code(given)} - 1"
    return ProposedFix("Subtract 1 from `kth`", safe=False, edits=((given, text),))
