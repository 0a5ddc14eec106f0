"""Layout of a scope: suites around statements, their order, and reads after a statement."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import libcst as cst

from embercoach.analysis.syntax.trees import SCOPES, head_of, small_statements, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.reaching import Binding, Reaching
    from embercoach.analysis.project.module import Module


def comes_later(
    reads: Reads,
    statement: cst.CSTNode,
    loop: cst.CSTNode | None,
    name: str,
    binding: Binding,
    reaching: Reaching,
) -> bool:
    """Return whether a name is read after a statement, while a binding of it may hold."""
    start = reads.order.get(id(statement))
    if start is None:
        return False
    begin = start if loop is None else reads.order.get(id(loop), start)
    end = start if loop is None else reads.ends.get(id(loop), start)
    # An earlier read in the loop is one of the next iteration, after the name is bound again.
    bound = reads.order.get(id(binding.statement), -1)
    is_anew = loop is not None and begin <= bound <= end and binding.kind != "updated"
    branches = reads.branches[id(statement)]
    leaves = reads.exits.get(id(statement))
    last = None if leaves is None else reads.order.get(leaves)
    for at, reader in reads.of.get(name, ()):
        if last is not None and not start <= at <= last:
            continue  # after the function has returned
        if any(branches.get(test, branch) != branch for test, branch in reads.at(reader)):
            continue  # in another branch
        if at <= start and (is_anew or not (loop is not None and begin <= at <= end)):
            continue
        if reader is statement and (loop is None or is_anew):
            continue
        held = reaching.before(reader, name)
        if held is not None and binding in held:
            return True
    return False


class Reads(NamedTuple):
    """The statements of a scope that read each name, with their places in the text.

    order: the place of each statement, by its ``id``.
    ends: the place of the last statement in each loop.
    branches: of each statement, the branches of tests that it is in, by the ``id`` of the test.
    exits: of statements in a suite that ends with a return or an error, the ``id`` of that.
    """

    of: dict[str, list[tuple[int, cst.CSTNode]]]
    order: dict[int, int]
    ends: dict[int, int]
    branches: dict[int, dict[int, bool]]
    exits: dict[int, int]

    def at(self, statement: cst.CSTNode) -> Iterable[tuple[int, bool]]:
        """The tests around a statement, and which branch it is in."""
        return self.branches[id(statement)].items()


@lru_cache(maxsize=8)
def reads_of(module: Module, function: FunctionInfo | None) -> Reads:
    """The reads of the names of a function's body, or of the module's top level."""
    root = module.tree if function is None else function.node.body
    reads = Reads({}, {}, {}, {}, {})
    body = (cst.BaseExpression, cst.FunctionDef, cst.ClassDef)
    for statement in walk(root, body):
        if not isinstance(statement, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            continue
        at = reads.order[id(statement)] = len(reads.order)
        around = reads.branches.setdefault(id(statement), {})
        _note_branches(statement, around, reads)
        bound = _bound_nodes(statement)
        whole = isinstance(statement, (cst.FunctionDef, cst.ClassDef))
        for inner in walk(statement) if whole else head_of(statement):
            if isinstance(inner, cst.Attribute):
                bound.add(id(inner.attr))
            elif isinstance(inner, cst.Arg) and inner.keyword is not None:
                bound.add(id(inner.keyword))
            elif isinstance(inner, cst.Name) and id(inner) not in bound:
                reads.of.setdefault(inner.value, []).append((at, statement))
    for loop in walk(root, body):
        if isinstance(loop, (cst.For, cst.While)):
            last = [reads.order[id(s)] for s in small_statements(loop.body) if id(s) in reads.order]
            reads.ends[id(loop)] = max(last, default=0)
    return reads


def _note_branches(statement: cst.CSTNode, around: dict[int, bool], reads: Reads) -> None:
    """Note the branches that the statements right below one are in."""
    for name in ("body", "orelse"):
        suite = getattr(statement, name, None)
        below = around
        if isinstance(statement, cst.If):
            below = {**around, id(statement): name == "body"}
        outer = reads.exits.get(id(statement))
        if isinstance(suite, cst.If):
            reads.branches[id(suite)] = below
            reads.exits.update({} if outer is None else {id(suite): outer})
            continue
        if isinstance(suite, cst.Else):
            suite = suite.body
        lines = getattr(suite, "body", ())
        nested = (n.body if isinstance(n, cst.SimpleStatementLine) else (n,) for n in lines)
        inside = [inner for line in nested for inner in line]
        leaves = bool(inside) and isinstance(inside[-1], (cst.Return, cst.Raise))
        end = id(inside[-1]) if leaves else outer
        for inner in inside:
            reads.branches[id(inner)] = below
            reads.exits.update({} if end is None else {id(inner): end})
    for handler in getattr(statement, "handlers", ()):
        _note_branches(handler, around, reads)


def _bound_nodes(statement: cst.CSTNode) -> set[int]:
    """The names that a statement binds, by their ``id``."""
    pending: list[cst.CSTNode] = [*assigned_to(statement)]
    pending.append(getattr(statement, "target", statement))
    found: set[int] = set()
    while pending:
        target = pending.pop()
        found.add(id(target))
        if isinstance(target, (cst.Tuple, cst.List)):
            pending += [element.value for element in target.elements]
    return found


def assigned_to(statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """The targets of an assignment."""
    return [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []


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
