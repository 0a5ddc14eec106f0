"""The uses of a thread's position in a kernel: its products, and the strides of loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.numerals import whole_number
from embercoach.metal.program.lowering import SignatureNames, lower_body
from embercoach.metal.program.nodes import Assign, Binary, Declare, Loop
from embercoach.metal.program.walk import base, below, mentioned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.nodes import Expression, Spot, Variable
    from embercoach.metal.program.walk import Node

_GROUP_SIZES = frozenset({"threads_per_threadgroup", "dispatch_threads_per_threadgroup"})
# Values pass through a handful of variables; longer chains gain nothing.
_ROUNDS = 6
_MAX_SHIFT = 31


@dataclass(frozen=True, slots=True)
class Product:
    """A thread-dependent value times something that depends on no thread: ``i * 4``.

    Attributes:
        attributes: the thread attributes that the value depends on.
        factor: the other side as written; for ``i << 2`` it is ``4``.
    """

    attributes: frozenset[str]
    factor: str


@dataclass(frozen=True, slots=True)
class StrideLoop:
    """A ``for`` loop that starts at a thread-dependent value.

    Attributes:
        start: thread attributes that the first value depends on.
        step: thread attributes that the step depends on, such as ``threads_per_grid``.
        step_text: the step as written: ``i += threads_per_grid.x``.
    """

    start: frozenset[str]
    step: frozenset[str]
    step_text: str


class ThreadValues:
    """The values in a kernel's body that depend on the position of a thread."""

    def __init__(self, source: str, header: str) -> None:
        self._source = source
        self._body = lower_body(source, header, SignatureNames()).body
        self._derived: dict[Variable, frozenset[str]] = {}
        self._derive()

    def _nodes(self) -> Iterator[Node]:
        return iter(()) if self._body is None else below(self._body)

    def _derive(self) -> None:
        """Follow attributes through initial values and assignments, whatever their order."""
        flows = [(target, mentioned(value)) for target, value in self._flows()]
        for _ in range(_ROUNDS):
            changed = False
            for target, sources in flows:
                old = self._derived.get(target, frozenset())
                new = old | self._resolved(sources)
                if new != old:
                    self._derived[target] = new
                    changed = True
            if not changed:
                return

    def _flows(self) -> Iterator[tuple[Variable, Expression]]:
        """The values that the body's own variables get."""
        for node in self._nodes():
            if isinstance(node, Declare) and node.initial is not None:
                yield node.variable, node.initial
            elif isinstance(node, Assign):
                target = base(node.target)
                if target is not None and target.kind != "unknown":
                    yield target, node.value

    def _resolved(self, sources: frozenset[Variable]) -> frozenset[str]:
        found: set[str] = set()
        for source in sources:
            if source.kind == "attribute":
                found.add(source.attribute)
            found |= self._derived.get(source, frozenset())
        return frozenset(found)

    def _of(self, node: Node) -> frozenset[str]:
        """The thread attributes that the value of an expression depends on."""
        return self._resolved(mentioned(node))

    def _written(self, spot: Spot) -> str:
        return self._source[spot.place.start : spot.place.end] if spot.text == "body" else ""

    def products(self) -> Iterator[Product]:
        """Thread-dependent values times a value that is the same for all threads."""
        for left, right, is_shift in self._factors():
            for value, other in ((left, right), (right, left)):
                attributes = self._of(value)
                if not attributes or self._of(other):
                    continue
                factor = self._written(other.spot)
                if is_shift:
                    by = whole_number(factor) if factor.isdecimal() else None
                    if value is right or by is None or by > _MAX_SHIFT:
                        continue
                    factor = str(1 << by)
                yield Product(attributes, factor)

    def spans_groups(self) -> bool:
        """Return whether a group's position is multiplied by the size of a threadgroup."""
        for left, right, is_shift in self._factors():
            for position, size in ((left, right), (right, left)):
                is_position = "threadgroup_position_in_grid" in self._of(position)
                if not is_shift and is_position and self._of(size) & _GROUP_SIZES:
                    return True
        return False

    def _factors(self) -> Iterator[tuple[Expression, Expression, bool]]:
        """The sides of each multiplication, and whether it is a shift to the left."""
        for node in self._nodes():
            if isinstance(node, (Binary, Assign)):
                operator = node.operator.removesuffix("=") or "="
                if operator in ("*", "<<"):
                    sides = (
                        (node.left, node.right)
                        if isinstance(node, Binary)
                        else (node.target, node.value)
                    )
                    yield *sides, operator == "<<"

    def stride_loops(self) -> Iterator[StrideLoop]:
        """Loops whose counter starts at a thread-dependent value."""
        for node in self._nodes():
            if isinstance(node, Loop) and node.step is not None:
                values = (value for s in node.start if (value := _first_value(s)) is not None)
                first = next(values, None)
                start = None if first is None else self._of(first)
                if start:
                    yield StrideLoop(start, self._step(node.step), self._written(node.step.spot))

    def _step(self, step: Expression) -> frozenset[str]:
        """Attributes in a step, without those that the counter itself stems from."""
        found: set[str] = set()
        for node in below(step):
            if isinstance(node, Assign):
                found |= self._resolved(mentioned(node.value) - {base(node.target)})
        return frozenset(found)


def _first_value(statement: Node) -> Expression | None:
    """The value that the start of a loop gives its counter."""
    for node in below(statement):
        if isinstance(node, Declare):
            return node.initial
        if isinstance(node, Assign):
            return node.value if base(node.target) is not None else None
    return None
