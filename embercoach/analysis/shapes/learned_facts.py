"""The facts that a program's path shows of symbols, and shapes under them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    ArrayShape,
    AxesSymbol,
)
from embercoach.analysis.shapes.size_integers import (
    Integer,
    SizeExpr,
    SizeSymbol,
    substituted,
)

if TYPE_CHECKING:
    from embercoach.analysis.shapes.python_values import (
        Place,
        Truth,
    )


class Facts(Struct):
    """The facts learned of symbols on a path."""

    sizes: dict[SizeSymbol, Integer]
    axes: dict[AxesSymbol, ArrayShape]
    places: dict[Place, Any]
    truths: dict[Truth, bool]
    #: What happens on the path for certain, in order.
    events: tuple[Any, ...] = ()
    #: Whether something on the path raises.
    failed: bool = False

    def copy(self) -> Facts:
        """A copy that is changed separately."""
        return Facts(
            dict(self.sizes),
            dict(self.axes),
            dict(self.places),
            dict(self.truths),
            self.events,
            self.failed,
        )


def shape_under(facts: Facts, shape: ArrayShape) -> ArrayShape:
    """A shape with all that is learned of its symbols."""
    middle = shape.middle
    while middle is not None and middle in facts.axes:
        found = facts.axes[middle]
        head = (*shape.head, *found.head)
        middle = found.middle
        if middle is None:
            shape = ArrayShape((*head, *shape.tail))
        else:
            shape = ArrayShape(head, middle, (*found.tail, *shape.tail))
    sizes = facts.sizes
    if not sizes:
        return shape
    head = tuple([substituted(n, sizes) if type(n) is SizeExpr else n for n in shape.head])
    tail = tuple([substituted(n, sizes) if type(n) is SizeExpr else n for n in shape.tail])
    if head == shape.head and tail == shape.tail:
        return shape
    return ArrayShape(head, middle, tail)
