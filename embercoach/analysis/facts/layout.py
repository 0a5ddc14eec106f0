"""Layout of a scope: the suites around each statement, and the order of two statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import libcst as cst

from embercoach.analysis.syntax.trees import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

_LOOPS = frozenset((cst.For, cst.While))
_BRANCHING = frozenset((cst.If, cst.Match, cst.Try, cst.TryStar))
LEAVING = (cst.Return, cst.Raise, cst.Break)


class Level(NamedTuple):
    """A place in a suite: the suite's owner and arm, and the level of the owner."""

    owner: cst.CSTNode
    arm: str
    statements: Sequence[cst.CSTNode]
    position: int
    outer: Level | None


class Layout:
    """The place of each simple and compound statement of one scope."""

    def __init__(self, scope: cst.FunctionDef | cst.Lambda | cst.Module) -> None:
        self._levels: dict[int, Level] = {}
        pending: list[tuple[cst.CSTNode, Level | None]] = [(scope, None)]
        while pending:
            node, around = pending.pop()
            for arm, statements in _arms(node):
                for index, statement in enumerate(statements):
                    level = Level(node, arm, statements, index, around)
                    self._levels[id(statement)] = level
                    if not isinstance(statement, SCOPES):
                        pending.append((statement, level))

    def outward(self, statement: cst.CSTNode) -> Iterator[Level]:
        """Yield the levels around a statement, innermost first; none for another scope's."""
        level = self._levels.get(id(statement))
        while level is not None:
            yield level
            level = level.outer

    def loops(self, statement: cst.CSTNode) -> Iterator[cst.For | cst.While]:
        """Yield the loops whose body contains a statement, innermost first."""
        for level in self.outward(statement):
            if type(level.owner) in _LOOPS and level.arm == "body":
                yield level.owner  # type: ignore[misc]

    def is_inside(self, statement: cst.CSTNode, loop: cst.CSTNode) -> bool:
        """Return whether a statement is in the body of a loop."""
        return any(around is loop for around in self.loops(statement))

    def leaves(self, statement: cst.CSTNode, loop: cst.CSTNode) -> bool:
        """Return whether a loop ends with the iteration that executes a statement."""
        for level in self.outward(statement):
            if isinstance(level.statements[-1], LEAVING):
                return True
            if level.owner is loop:
                return False
        return False

    def between(
        self, start: cst.CSTNode, stop: cst.CSTNode, *, whole: bool = False
    ) -> list[cst.CSTNode]:
        """Return the statements after one, up to a later one of its suite or below that.

        With ``whole``, all of the compound statement that contains the later one: a loop, for
        example, executes what follows it as well.
        """
        first = next(self.outward(start), None)
        inner: list[cst.CSTNode] = []
        for level in self.outward(stop):
            at = level.position
            if first is not None and level.owner is first.owner and level.arm == first.arm:
                if whole:
                    inner = [] if level.statements[at] is stop else [level.statements[at]]
                return [*level.statements[first.position + 1 : at], *inner]
            inner = [*level.statements[:at], *inner]
        return []

    def in_sequence(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Return whether one statement executes after another in one pass.

        At most one of them may be conditional: two tests may exclude each other.
        """
        ahead, behind = [*self.outward(first)][::-1], [*self.outward(second)][::-1]
        for depth, (one, other) in enumerate(zip(ahead, behind, strict=False)):
            if (
                one.owner is not other.owner
                or one.arm != other.arm
                or one.position > other.position
            ):
                return False
            if one.position < other.position:
                inner, later = ahead[depth + 1 :], behind[depth + 1 :]
                leaves = any(isinstance(v.statements[-1], (*LEAVING, cst.Continue)) for v in inner)
                return not leaves and not (_is_conditional(inner) and _is_conditional(later))
        return False


def _is_conditional(levels: Sequence[Level]) -> bool:
    return any(
        type(v.owner) in _BRANCHING and not (type(v.owner) is cst.Try and v.arm == "body")
        for v in levels
    )


def _arms(node: cst.CSTNode) -> Iterator[tuple[str, Sequence[cst.CSTNode]]]:
    """Yield the names and statements of the suites of a compound statement."""
    body = getattr(node, "body", None)
    if isinstance(node, cst.Module):
        yield "body", _statements(node)
    elif isinstance(body, cst.BaseSuite):
        yield "body", _statements(body)
    orelse = getattr(node, "orelse", None)
    if isinstance(orelse, cst.If):
        yield "orelse", (orelse,)
    elif isinstance(orelse, cst.Else):
        yield "orelse", _statements(orelse.body)
    for name in ("handlers", "cases"):
        for index, part in enumerate(getattr(node, name, ())):
            yield f"{name} {index}", _statements(part.body)
    final = getattr(node, "finalbody", None)
    if final is not None:
        yield "finally", _statements(final.body)


def _statements(suite: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    found: list[cst.CSTNode] = []
    for statement in suite.body:  # type: ignore[attr-defined]
        found += statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
    return tuple(found)


def layout_of(module: Module, function: FunctionInfo | None) -> Layout:
    """Return the layout of a function's body, or of the module's top level."""
    if module not in _layouts:
        _layouts.clear()
    known = _layouts.setdefault(module, {})
    if function not in known:
        known[function] = Layout(module.tree if function is None else function.node)
    return known[function]


#: Of the file that is checked: they lead back to the module, which they would keep.
_layouts: WeakKeyDictionary[Module, dict[FunctionInfo | None, Layout]] = WeakKeyDictionary()
