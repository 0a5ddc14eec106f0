"""Numbers below 0 where there are none: comparisons that never change, indices that wrap around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from embercoach.metal.inspections.first_thread import FirstThread, Large
from embercoach.metal.program.folding import fold
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Conditional,
    Declare,
    If,
    Index,
    Loop,
    Name,
)
from embercoach.metal.program.types import is_address, is_signed
from embercoach.metal.program.walk import base, below, bodies, mentioned, with_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.nodes import Expression, Program, Spot, Variable
    from embercoach.metal.program.walk import Node, Path, Values

_ALWAYS = {">=": True, "<": False}
_FLIPPED = {"<=": ">=", ">": "<"}
#: Functions with a lower bound, and the number of their arguments.
_BOUNDING = {"max": 2, "clamp": 3}
_LESS = frozenset({"<", "<="})
_MORE = frozenset({">", ">="})


@dataclass(frozen=True, slots=True)
class ConstantComparison:
    """A comparison of an unsigned number with 0 that always has the same outcome.

    Attributes:
        outcome: it.
        endless: it keeps a loop going that counts down.
        compared: the number.
    """

    outcome: bool
    endless: bool
    compared: Expression
    spot: Spot


def settled_comparisons(program: Program, values: Values) -> Iterator[ConstantComparison]:
    """Comparisons with 0 that are meant to catch numbers below it, and can't.

    Those of a number that nothing is subtracted from are left out, and those next to a comparison
    with an upper bound, which catches the number that wrapped around.
    """
    for body in bodies(program):
        nodes = tuple(with_path(body))
        lowered = _lowered(body)
        for node, path in nodes:
            if not isinstance(node, Binary):
                continue
            found = _settled(node, values)
            if found is None:
                continue
            outcome, compared = found
            loop = _counting_down(path, node, compared)
            suspicious = loop or _subtracts(compared) or mentioned(compared) & lowered
            if suspicious and not _is_bounded(node, path, compared):
                yield ConstantComparison(outcome, loop, compared, node.spot)


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A call of ``max`` or ``clamp`` with 0 that changes no unsigned number.

    Attributes:
        bounded: the number, a difference that wraps around below 0.
    """

    name: str
    bounded: Expression
    spot: Spot


def void_bounds(program: Program, values: Values) -> Iterator[LowerBound]:
    """Lower bounds of 0 of unsigned differences, but under conditions on their operands."""
    for body in bodies(program):
        lowered = _lowered(body)
        for node, path in with_path(body):
            if isinstance(node, Call) and node.name in _BOUNDING and not node.template:
                bounded = _bounded_below(node, values)
                if bounded is None or _is_guarded(path, bounded):
                    continue
                if _subtracts(bounded) or mentioned(bounded) & lowered:
                    yield LowerBound(node.name, bounded, node.spot)


def _bounded_below(call: Call, values: Values) -> Expression | None:
    """The number of ``max(number, 0u)`` or ``clamp(number, 0u, most)`` of unsigned type."""
    if any(is_signed(a.type) is not False or a.type.scalar == "bool" for a in call.arguments):
        return None
    if call.functions or len(call.arguments) != _BOUNDING[call.name]:
        return None
    number, least = call.arguments[:2]
    if call.name == "max" and fold(number, values) == 0:
        number, least = least, number
    known = fold(least, values) != 0 or fold(number, values) is not None
    return None if known else number


def _is_guarded(path: Path, number: Expression) -> bool:
    """Return whether a condition around a number asks for one of its variables."""
    names = mentioned(number)
    return any(
        isinstance(outer, (If, Conditional, Loop))
        and outer.condition is not None
        and names & mentioned(outer.condition)
        for outer in path
    )


def _settled(node: Binary, values: Values) -> tuple[bool, Expression] | None:
    """The outcome of a comparison with 0, and what is compared; None if it has no certain one."""
    for number, other, operator in (
        (node.left, node.right, node.operator),
        (node.right, node.left, _FLIPPED.get(node.operator, "")),
    ):
        outcome = _ALWAYS.get(operator)
        unsigned = is_signed(number.type) is False and number.type.scalar != "bool"
        if outcome is not None and unsigned and fold(other, values) == 0:
            return None if fold(number, values) is not None else (outcome, number)
    return None


def _lowered(body: Node) -> frozenset[Variable]:
    """The variables that something is subtracted from, or that hold a difference."""
    found: set[Variable] = set()
    for node in below(body):
        if isinstance(node, Declare) and node.initial is not None and _subtracts(node.initial):
            found.add(node.variable)
        elif isinstance(node, Assign):
            variable = base(node.target)
            less = node.operator == "-=" or (node.operator == "=" and _subtracts(node.value))
            if less and variable is not None:
                found.add(variable)
    return frozenset(found)


def _subtracts(value: Expression) -> bool:
    return any(isinstance(inner, Binary) and inner.operator == "-" for inner in below(value))


def _counting_down(path: Path, node: Binary, compared: Expression) -> bool:
    """Return whether a comparison alone continues a loop that decrements its operand."""
    around = path[-1] if path else None
    if not isinstance(around, Loop) or around.condition is not node:
        return False
    if not isinstance(compared, Name):
        return False
    changes = {
        inner.operator
        for inner in below(around)
        if isinstance(inner, Assign)
        and isinstance(inner.target, Name)
        and inner.target.variable is compared.variable
    }
    return "-=" in changes and "+=" not in changes


def _is_bounded(node: Binary, path: Path, compared: Expression) -> bool:
    """Return whether another comparison excludes numbers that wrapped around."""
    names = mentioned(compared)
    top: Node = node
    for outer in reversed(path):
        if not isinstance(outer, Binary) or outer.operator not in ("&&", "||"):
            break
        top = outer
    return any(
        isinstance(inner, Binary)
        and inner is not node
        and inner.operator in (*_LESS, *_MORE, "==", "!=")
        and names & mentioned(inner)
        for inner in below(top)
    )


@dataclass(frozen=True, slots=True)
class WrappedIndex:
    """An index that is below 0 in the first thread that gets there.

    Attributes:
        buffer: the input or output.
        number: the index as it was meant, None for one that depends on sizes.
        unsigned: it wraps around to a huge number; else it points in front of the buffer.
    """

    buffer: Variable
    number: int | None
    unsigned: bool
    kind: Literal["read", "write"]
    spot: Spot


def wrapped_indices(program: Program, values: Values) -> Iterator[WrappedIndex]:
    """Elements of inputs and outputs in front of the first, which the first thread touches.

    Only accesses that it certainly reaches are reported: a condition that excludes it, or that is
    not understood, silences the code under it.
    """
    body = program.body
    if body is None:
        return
    thread = FirstThread(body, values)
    for node, path in with_path(body):
        if not isinstance(node, Index) or not is_address(node.base.type):
            continue
        found = thread.offset(node.base)
        index = thread.value(node.index)
        if found is None or found[1] != 0 or index is None or not _is_below(index):
            continue
        if thread.reaches(node, path) and not _is_address_of(path):
            number = None if isinstance(index, Large) else index
            unsigned = is_signed(node.index.type) is False
            yield WrappedIndex(found[0], number, unsigned, _use(node, path), node.index.spot)


def _is_below(index: int | Large) -> bool:
    return index.sign < 0 if isinstance(index, Large) else index < 0


def _use(node: Index, path: Path) -> Literal["read", "write"]:
    around = path[-1] if path else None
    return "write" if isinstance(around, Assign) and around.target is node else "read"


def _is_address_of(path: Path) -> bool:
    """Return whether only the address of an element is taken."""
    around = path[-1] if path else None
    return getattr(around, "operator", "") == "&" and not isinstance(around, Binary)
