"""The calls that must execute whenever a function runs, as the evaluator of its body sees them.

Loops are taken to run at least once, and a branch that only raises not to be taken. Nothing after
an exit that may be taken is certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import libcst as cst
from msgspec import Struct, field

from embercoach.analysis.calls import numpy_api
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.lattice import NONE, BoundMember, Symbol, Value, definite_array

if TYPE_CHECKING:
    from embercoach.analysis.values.facts import Argument, BinaryFact

#: How the host reads an array: it takes its truth value, or its numbers.
Read = Literal["tests", "pulls"]
_PULLS = frozenset(("item", "tolist"))
_READING = frozenset(
    (
        *(f"builtins.{name}" for name in ("float", "int", "bool", "complex")),
        *(f"numpy.{name}" for name in numpy_api.CONVERSIONS),
    )
)
#: A kernel runs on the GPU only, so that these hold where one matters.
_DEVICE, _GPU = "default_device", ("gpu", "DeviceType.gpu")


class MustExecute(Struct):
    """Notes of a run of a body.

    arrays: names that hold arrays, and not None.
    calls: the calls that must execute, with their arguments.
    reads: the expressions that must read an array which depends on an argument.
    shown: names that a use shows to hold arrays.
    operations: the arithmetic on arrays that must execute.
    certain: whether the statement at hand must execute.
    """

    arrays: frozenset[str]
    calls: dict[cst.Call, tuple[Argument, ...]] = field(default_factory=dict)
    reads: dict[cst.CSTNode, Read] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    operations: list[BinaryFact] = field(default_factory=list)
    certain: bool = True
    returns: int = 0
    jumps: int = 0  # out of a loop, or to its next round

    @contextmanager
    def unsure(self) -> Iterator[None]:
        """Run what may not execute; what follows may not either, if that has an exit."""
        before, exits = self.certain, self.returns + self.jumps
        self.certain = False
        try:
            yield
        finally:
            self.certain = before and self.returns + self.jumps == exits

    def note(self, node: cst.Call, callee: Value, arguments: tuple[Argument, ...]) -> None:
        """Note a call."""
        if not self.certain:
            return
        self.calls[node] = arguments
        if isinstance(callee, BoundMember) and callee.name in _PULLS:
            self.note_read(node, callee.owner, "pulls")
        elif isinstance(callee, Symbol) and callee.name in _READING and arguments:
            self.note_read(node, arguments[0].value, "pulls")

    def note_read(self, node: cst.CSTNode, value: Value, how: Read) -> None:
        """Note that a value is read by the host."""
        array = definite_array(value)
        if self.certain and array is not None and array.traced:
            self.reads[node] = how

    def compared(
        self, symbol: str, left: cst.BaseExpression, right: cst.BaseExpression, value: Value
    ) -> bool | None:
        """The outcome of a comparison with None or of the device; ``value`` is the right side's."""
        if symbol not in ("is", "==", "is not", "!="):
            return None
        if isinstance(left, cst.Name) and left.value in self.arrays and value is NONE:
            return symbol in ("is not", "!=")
        if isinstance(left, cst.Attribute) and left.attr.value == "type":
            left = left.value
        if not isinstance(left, cst.Call) or not (dotted(left.func) or "").endswith(_DEVICE):
            return None
        return symbol in ("is", "==") if (dotted(right) or "").endswith(_GPU) else None


def without_raising(node: cst.If) -> bool | None:
    """Return the truth of a test of which one outcome only raises; None if neither does."""
    if _only_raises(node.body):
        return False
    otherwise = node.orelse
    return True if isinstance(otherwise, cst.Else) and _only_raises(otherwise.body) else None


def _only_raises(body: cst.BaseSuite) -> bool:
    """Return whether a branch ends the function by an error."""
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Raise)
