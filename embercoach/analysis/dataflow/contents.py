"""Contents of bodies and expressions: what is in them by kind, walked once for a file.

Checks ask here, and walk no trees themselves. Each walk counts as work of the file.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from embercoach.analysis.syntax.trees import (
    children,
    head_of,
    is_one_of,
    keyed_path,
    small_statements,
    target_names,
    targets_of,
    walk,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import take_walk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from embercoach.analysis.syntax.trees import Kinds

_N = TypeVar("_N", bound=cst.CSTNode)
_STATEMENTS = (cst.BaseSmallStatement, cst.BaseCompoundStatement)
_WITH_TARGETS = (
    *(cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr),
    cst.Del,
)
_NAMED = (cst.AsName, cst.FunctionDef, cst.ClassDef)


class Contents:
    """The nodes of a body or an expression, in the order of the text."""

    def __init__(self, root: cst.CSTNode, nodes: Iterator[cst.CSTNode]) -> None:
        self._root = root
        self._nodes = tuple(nodes)
        self._by_kind: dict[type, list[cst.CSTNode]] = {}
        take_walk(len(self._nodes))

    def of(self, kind: type[_N], *others: type[_N]) -> list[_N]:
        """Return the nodes of one kind, or of several."""
        if others:
            kinds = (kind, *others)
            return [node for node in self._nodes if is_one_of(type(node), kinds)]  # type: ignore[misc]
        found = self._by_kind.get(kind)
        if found is None:
            found = [node for node in self._nodes if is_one_of(type(node), (kind,))]
            self._by_kind[kind] = found
        return found  # type: ignore[return-value]

    def __iter__(self) -> Iterator[cst.CSTNode]:
        return iter(self._nodes)

    def __contains__(self, node: cst.CSTNode | None) -> bool:
        return node in self._set

    @cached_property
    def _set(self) -> frozenset[cst.CSTNode]:
        return frozenset(self._nodes)

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """The node above each node."""
        return {child: node for node in self._nodes for child in children(node)}

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, innermost first, up to all of the contents."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """Get the innermost statement around a node; outside of statements all of the contents."""
        found = (one for one in (node, *self.above(node)) if is_one_of(type(one), _STATEMENTS))
        return next(found, self._root)

    def uses(self, name: str) -> list[cst.Name]:
        """The places of a variable: no names of attributes, keywords, parameters or functions."""
        return [node for node in self.reads.get(name, ()) if not self.is_label(node)]

    def is_label(self, node: cst.CSTNode) -> bool:
        """Return whether a name is that of an attribute, a keyword, a parameter or a function."""
        parent = self.parents.get(node)
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


@kept_for_file
def contents_of(root: cst.CSTNode, closed: Kinds = ()) -> Contents:
    """Return the contents of a body or an expression, but for what is in ``closed`` kinds."""
    return Contents(root, walk(root, closed))


@kept_for_file
def head_contents(statement: cst.CSTNode) -> Contents:
    """Return the contents of a statement that are neither in its bodies nor in a lambda."""
    return Contents(statement, head_of(statement))
