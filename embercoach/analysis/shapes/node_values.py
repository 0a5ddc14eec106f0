"""The interpreter that keeps the values of a file's expressions, by their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape, AxesSymbol
from embercoach.analysis.shapes.interpreter import Machine
from embercoach.analysis.shapes.python_values import Items, ListReference, Truth
from embercoach.analysis.shapes.table_calls import lowered

if TYPE_CHECKING:
    import ast

    from embercoach.analysis.shapes.interpreter import SourceFile
    from embercoach.analysis.shapes.path_states import Frame

#: Different values of a node that are kept; with more of them it is unknown.
MOST_VALUES = 8
#: Items of a list that are looked at.
MOST_ITEMS = 64
#: The line of calls that are not in sight.
ANY_CALLER = 0

#: By the line of the call that runs it: the different values of an expression.
Values = dict[int, list[Any]]


class ValueMachine(Machine):
    """A machine that keeps the different values of the file's expressions."""

    def __init__(self, file: SourceFile, *, characters: int) -> None:
        """Prepare the run of a file; ``characters`` is its size."""
        super().__init__(file, characters=characters)
        self.values: dict[ast.AST, Values] = {}
        #: What is learned of unknown axes, perhaps after their array is first used.
        self.learned: dict[AxesSymbol, ArrayShape] = {}

    def evaluate(self, frame: Frame, node: ast.AST) -> Any:
        """The value of an expression, which is kept."""
        value = super().evaluate(frame, node)
        if frame.module is self.file and not self.names_numbers:
            final = self._final(value)
            line = ANY_CALLER if frame.is_root else frame.call_line
            known = self.values.setdefault(node, {}).setdefault(line, [])
            if len(known) < MOST_VALUES:
                keep(known, final)
        return value

    def commit(self) -> None:
        """Keep what happens on the path at hand, and what is learned there."""
        super().commit()
        self.learned.update(self.heap.facts.axes)

    def _final(self, value: Any) -> Any:
        """A value with what is known where it is computed."""
        if type(value) is ListReference:
            held = self.heap.objects.get(value.number)
            if type(held) is not Items or len(held.items or ()) > MOST_ITEMS:
                return UNKNOWN
        return lowered(self, value) if type(value) in _LOWERED else self.heap.value(value)


_LOWERED = (tuple, ListReference, Truth)


def keep(values: list[Any], value: Any) -> None:
    """Add a value to different ones."""
    if not any(one is value or (type(one) is type(value) and one == value) for one in values):
        values.append(value)
