"""Layout of a scope: suites around statements, their order, and reads after a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of, head_contents
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    SCOPES,
    targets_of,
)
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.reaching import Binding
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import FactPlace


def is_read_later(name: str, binding: Binding, place: FactPlace, module: Module) -> bool:
    """Return whether a name is read after a place, while a binding of it may hold."""
    statement, loop = place.statement, place.loop
    layout, reaching = layout_of(module, place.function), scope_of(module, place.function).reaching
    start = layout.order.get(id(statement))
    if start is None:
        return False
    # An earlier read in the loop is one of the next iteration, after the name is bound again.
    is_anew = loop is not None and layout.is_bound_in(binding, loop) and binding.kind != "updated"
    branches = layout.branches(statement)
    last = layout.last_of(statement)
    for reader in reads_of(module, place.function).get(name, ()):
        at = layout.order[id(reader)]
        if last is not None and not start <= at <= last:
            continue  # after the function has returned
        if any(branches.get(test, arm) != arm for test, arm in layout.branches(reader).items()):
            continue  # in another branch
        is_again = loop is not None and (reader is loop or layout.is_inside(reader, loop))
        if at <= start and (is_anew or not is_again):
            continue
        if reader is statement and (loop is None or is_anew):
            continue
        if binding in (reaching.before(reader, name) or ()):
            return True
    return False


def is_older(path: str, loop: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Return whether the object that a path begins with has been made before a loop."""
    reaching, layout = scope_of(module, place.function).reaching, layout_of(module, place.function)
    bindings = reaching.before(place.statement, path.partition(".")[0]) or ()
    return not any(layout.is_bound_in(binding, loop) for binding in bindings)


@kept_for_file
def reads_of(module: Module, function: FunctionInfo | None) -> dict[str, list[cst.CSTNode]]:
    """Return the statements of a scope that read each name, as often as they read it."""
    root = module.tree if function is None else function.node.body
    found: dict[str, list[cst.CSTNode]] = {}
    for statement in contents_of(root, (cst.BaseExpression, *DEFINITIONS)):
        if not isinstance(statement, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            continue
        bound = {id(target) for target in targets_of(statement)}
        whole = isinstance(statement, DEFINITIONS)
        for inner in contents_of(statement) if whole else head_contents(statement):
            if isinstance(inner, cst.Attribute):
                bound.add(id(inner.attr))
            elif isinstance(inner, cst.Arg) and inner.keyword is not None:
                bound.add(id(inner.keyword))
            elif isinstance(inner, cst.Name) and id(inner) not in bound:
                found.setdefault(inner.value, []).append(statement)
    return found


def assigned_to(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the targets of an assignment."""
    return [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []


_LOOPS = frozenset((cst.For, cst.While))
_BRANCHING = frozenset((cst.If, cst.Match, cst.Try, cst.TryStar))
_ENDING = (cst.Return, cst.Raise)
LEAVING = (*_ENDING, cst.Break)


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
        #: The place of each statement in the text.
        self.order: dict[int, int] = {}
        pending: list[tuple[cst.CSTNode, Level | None]] = [(scope, None)]
        while pending:
            node, around = pending.pop()
            if around is not None:
                self._levels[id(node)] = around
                self.order[id(node)] = len(self.order)
                if isinstance(node, SCOPES):
                    continue
            inner = [
                (statement, Level(node, arm, statements, index, around))
                for arm, statements in _arms(node)
                for index, statement in enumerate(statements)
            ]
            pending += reversed(inner)

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

    def is_bound_in(self, binding: Binding, loop: cst.CSTNode) -> bool:
        """Return whether a loop makes a binding, by its target or in its body."""
        return binding.statement is loop or self.is_inside(binding.statement, loop)

    def branches(self, statement: cst.CSTNode) -> dict[int, str]:
        """Return the arms of tests that a statement is in, by the ``id`` of the test."""
        levels = self.outward(statement)
        return {id(v.owner): v.arm for v in levels if type(v.owner) is cst.If}

    def last_of(self, statement: cst.CSTNode) -> int | None:
        """Return the place of the exit at the end of the suite around a statement, if it has one.

        The exit of the function itself does not count: it ends nothing early.
        """
        for level in self.outward(statement):
            if level.outer is not None and isinstance(level.statements[-1], _ENDING):
                return self.order[id(level.statements[-1])]
        return None

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
            is_apart = one.owner is not other.owner or one.arm != other.arm
            if is_apart or one.position > other.position:
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
    for name in ("handlers", "cases"):
        for index, part in enumerate(getattr(node, name, ())):
            yield f"{name} {index}", _statements(part.body)
    orelse = getattr(node, "orelse", None)
    if isinstance(orelse, cst.If):
        yield "orelse", (orelse,)
    elif isinstance(orelse, cst.Else):
        yield "orelse", _statements(orelse.body)
    final = getattr(node, "finalbody", None)
    if final is not None:
        yield "finally", _statements(final.body)


def _statements(suite: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    found: list[cst.CSTNode] = []
    for statement in suite.body:  # type: ignore[attr-defined]
        found += statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
    return tuple(found)


@kept_for_file
def layout_of(module: Module, function: FunctionInfo | None) -> Layout:
    """Return the layout of a function's body, or of the module's top level."""
    return Layout(module.tree if function is None else function.node)
