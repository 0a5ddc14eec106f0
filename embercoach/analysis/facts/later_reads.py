"""Reads of a name after a statement: in the order of the text, in loops, and in other branches."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.syntax.trees import head_of, small_statements, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.reaching import Binding, Reaching
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
