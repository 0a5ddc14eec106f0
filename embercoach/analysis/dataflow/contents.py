"""Contents of bodies and expressions: what is in them by kind, walked once for a file.

Checks ask here, and walk no trees themselves. Each walk counts as work of the file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

import libcst as cst

from embercoach.analysis.syntax.trees import (
    BODIES,
    Kinds,
    children,
    is_one_of,
    keyed_path,
    small_statements,
    target_names,
    targets_of,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import take_walk

_N = TypeVar("_N", bound=cst.CSTNode)
_Span: TypeAlias = tuple[int, int]
_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
_WITH_TARGETS = (
    *(cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr),
    cst.Del,
)
_BODIES = tuple(BODIES)
_NAMED = (cst.AsName, cst.FunctionDef, cst.ClassDef)


class _TreeOrder:
    """The nodes of a tree in the order of the text, each with where what is below it ends.

    A tree is walked once for a file. The contents of each body in it are spans of the order, and
    the nodes of a kind are found in a span by their positions.
    """

    def __init__(self, root: cst.CSTNode) -> None:
        nodes: list[cst.CSTNode] = []
        above: list[int] = []
        pending, parents = [root], [-1]
        while pending:
            node = pending.pop()
            inner = children(node)
            above.append(parents.pop())
            if inner:
                inner.reverse()
                pending += inner
                parents += [len(nodes)] * len(inner)
            nodes.append(node)
        take_walk(len(nodes))
        self.nodes, self.above = nodes, above
        self.position = dict(zip(nodes, range(len(nodes)), strict=True))
        self.ends = ends = [*range(1, len(nodes) + 1)]
        for at in range(len(nodes) - 1, 0, -1):
            parent = above[at]
            if ends[parent] == parent + 1:  # this is its last child
                ends[parent] = ends[at]
        self._by_type: dict[type, list[int]] = defaultdict(list)
        for at, kind in enumerate(map(type, nodes)):
            self._by_type[kind].append(at)
        self._by_kinds: dict[Kinds, list[int]] = {}

    def of(self, kinds: Kinds, start: int, end: int) -> list[int]:
        """Return the positions of nodes of some kinds, from one position to before another."""
        found = self._by_kinds.get(kinds)
        if found is None:
            parts = [at for kind, at in self._by_type.items() if is_one_of(kind, kinds)]
            found = parts[0] if len(parts) == 1 else sorted(chain.from_iterable(parts))
            self._by_kinds[kinds] = found
        return found[bisect_left(found, start) : bisect_left(found, end)]

    def without(self, kinds: Kinds, start: int, end: int, kept: int) -> Iterator[tuple[int, int]]:
        """Yield the spans outside of nodes of some kinds, with those nodes if ``kept`` is 1."""
        for at in self.of(kinds, start, end):
            if at >= start:
                yield start, at + kept
                start = self.ends[at]
        yield start, end


class Contents:
    """The nodes of a body or an expression, in the order of the text."""

    def __init__(self, root: cst.CSTNode, order: _TreeOrder, spans: tuple[_Span, ...]) -> None:
        self._root = root
        self._order = order
        self._spans = spans
        self._by_kind: dict[type, list[cst.CSTNode]] = {}

    def of(self, kind: type[_N], *others: type[_N]) -> list[_N]:
        """Return the nodes of one kind, or of several."""
        if others:
            return self._found((kind, *others))  # type: ignore[return-value]
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = self._found((kind,))
        return found  # type: ignore[return-value]

    def _found(self, kinds: Kinds) -> list[cst.CSTNode]:
        order = self._order
        found = [order.nodes[at] for span in self._spans for at in order.of(kinds, *span)]
        take_walk(len(found))
        return found

    def __iter__(self) -> Iterator[cst.CSTNode]:
        for start, end in self._spans:
            take_walk(end - start)
            yield from self._order.nodes[start:end]

    def __contains__(self, node: cst.CSTNode | None) -> bool:
        at = self._order.position.get(node, -1)  # type: ignore[arg-type]
        return any(start <= at < end for start, end in self._spans)

    def parent_of(self, node: cst.CSTNode | None) -> cst.CSTNode | None:
        """Return the node above a node; None for the whole of the contents and other nodes."""
        at = self._order.position.get(node, -1)  # type: ignore[arg-type]
        parent = self._order.nodes[self._order.above[at]] if at > 0 else None
        return parent if parent in self or parent is self._root else None

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, innermost first, up to all of the contents."""
        parent = self.parent_of(node)
        while parent is not None:
            yield parent
            parent = self.parent_of(parent)

    def statement_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """Get the innermost statement around a node; outside of statements all of the contents."""
        found = (one for one in (node, *self.above(node)) if is_one_of(type(one), _STATEMENTS))
        return next(found, self._root)

    def uses(self, name: str) -> list[cst.Name]:
        """The places of a variable: no names of attributes, keywords, parameters or functions."""
        return [node for node in self.reads.get(name, ()) if not self.is_label(node)]

    def is_label(self, node: cst.CSTNode) -> bool:
        """Return whether a name is that of an attribute, a keyword, a parameter or a function."""
        parent = self.parent_of(node)
        return (
            (isinstance(parent, cst.Attribute) and parent.attr is node)
            or (isinstance(parent, cst.Arg) and parent.keyword is node)
            or (isinstance(parent, (cst.Param, cst.FunctionDef)) and parent.name is node)
        )

    @property
    def calls(self) -> list[cst.Call]:
        """The calls."""
        return self.of(cst.Call)

    @cached_property
    def reads(self) -> dict[str, list[cst.Name]]:
        """The names by their text: of variables, attributes and keywords."""
        found: dict[str, list[cst.Name]] = {}
        for node in self.of(cst.Name):
            found.setdefault(node.value, []).append(node)
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """The text of all names."""
        return frozenset(self.reads)

    @cached_property
    def statements(self) -> tuple[cst.BaseSmallStatement, ...]:
        """The simple statements of a body, without those of functions and classes in it."""
        return tuple(small_statements(self._root))

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The names that the simple statements of a body assign or update."""
        targets = (target for statement in self.statements for target in targets_of(statement))
        return frozenset(target.value for target in targets if isinstance(target, cst.Name))

    def values_of(self, names: AbstractSet[str]) -> list[cst.BaseExpression]:
        """Return the values that the statements of a body assign to some names."""
        assigns = (s for s in self.statements if isinstance(s, cst.Assign))
        return [s.value for s in assigns if not names.isdisjoint(bound_by(s))]

    @cached_property
    def targets(self) -> list[cst.CSTNode]:
        """The targets of assignments, loops and deletions, those of a tuple one by one."""
        nodes = [n for n in self.of(*_WITH_TARGETS) if getattr(n, "value", n) is not None]
        pending = [node.target for node in nodes]  # type: ignore[attr-defined]
        found: list[cst.CSTNode] = []
        while pending:
            target = pending.pop()
            if isinstance(target, (cst.Tuple, cst.List)):
                pending += [element.value for element in target.elements]
            else:
                found.append(target)
        return found

    @cached_property
    def stored(self) -> frozenset[str]:
        """The names that are bound or deleted, or of whose objects parts are changed."""
        named = [node.name for node in self.of(*_NAMED)]  # type: ignore[attr-defined]
        return frozenset(map(root_name, (*self.targets, *named)))

    @cached_property
    def stored_paths(self) -> frozenset[str | None]:
        """The paths that are assigned, with the objects that they belong to."""
        return frozenset(keyed_path(part) for t in self.targets for part in contents_of(t))

    @cached_property
    def changed(self) -> frozenset[str]:
        """The names of whose objects attributes or items are set; empty for other objects."""
        owned = (cst.Attribute, cst.Subscript)
        return frozenset(root_name(t) for t in self.targets if isinstance(t, owned))


def root_name(node: cst.CSTNode) -> str:
    """Return ``x`` of ``x.y[0]``; empty for what begins with no name."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def bound_by(statement: cst.CSTNode) -> Iterator[str]:
    """Yield the names that an assignment or a loop binds."""
    for target in statement.targets if isinstance(statement, cst.Assign) else ():
        yield from target_names(target.target)
    if isinstance(statement, cst.For):
        yield from target_names(statement.target)


class _Orders(NamedTuple):
    """The trees that were walked for the file: whole files, and parts of others by their nodes."""

    files: list[_TreeOrder]
    parts: dict[cst.CSTNode, _TreeOrder]


@kept_for_file
def _orders() -> _Orders:
    return _Orders([], {})


def _order_with(root: cst.CSTNode) -> _TreeOrder:
    files, parts = _orders()
    order = next((file for file in files if root in file.position), None) or parts.get(root)
    if order is None:
        order = _TreeOrder(root)
        if isinstance(root, cst.Module):
            files.append(order)
        else:
            parts.update(dict.fromkeys(order.nodes, order))
    return order


@kept_for_file
def contents_of(root: cst.CSTNode, closed: Kinds = ()) -> Contents:
    """Return the contents of a body or an expression, but for what is in ``closed`` kinds."""
    order = _order_with(root)
    at = order.position[root]
    end = order.ends[at]
    spans = tuple(order.without(closed, at, end, 1)) if closed else ((at, end),)
    return Contents(root, order, spans)


@kept_for_file
def head_contents(statement: cst.CSTNode) -> Contents:
    """Return the contents of a statement that are neither in its bodies nor in a lambda."""
    order = _order_with(statement)
    at = order.position[statement]
    spans = order.without(_BODIES, at + 1, order.ends[at], 0)
    return Contents(statement, order, tuple(spans))
