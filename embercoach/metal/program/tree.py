"""A syntax tree as plain objects: the grammar's own nodes are slow to ask for their fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node


#: Children from which on their roles are looked up.
_MANY = 30


@dataclass(slots=True, eq=False)
class SyntaxNode:
    """A node of the syntax tree; comments are left out.

    Attributes:
        kind: the grammar's name for it.
        role: the field of its parent that it fills, empty for none.
        start: byte offset in the parsed data.
        broken: the grammar had to guess here.
    """

    kind: str
    role: str
    start: int
    end: int
    named: bool
    broken: bool = False
    parts: list[SyntaxNode] = field(default_factory=list)
    _by_role: dict[str, SyntaxNode] | None = None

    def get(self, role: str) -> SyntaxNode | None:
        """The child in a field."""
        if len(self.parts) > _MANY:  # each name of a long declaration asks for its type
            if self._by_role is None:
                self._by_role = {part.role: part for part in reversed(self.parts)}
            return self._by_role.get(role)
        for part in self.parts:
            if part.role == role:
                return part
        return None

    def all(self, role: str) -> Iterator[SyntaxNode]:
        """The children in a field."""
        return (part for part in self.parts if part.role == role)

    @property
    def inner(self) -> list[SyntaxNode]:
        """The children that are not punctuation."""
        return [part for part in self.parts if part.named]

    def below(self) -> Iterator[SyntaxNode]:
        """The part and everything below it, in the order of the text."""
        pending = [self]
        while pending:
            part = pending.pop()
            yield part
            pending.extend(reversed(part.parts))

    def has(self, kind: str) -> bool:
        """Return whether a child is of this kind."""
        return any(part.kind == kind for part in self.parts)


def plain_tree(root: Node) -> SyntaxNode:
    """The tree below a node."""
    cursor = root.walk()
    top = _part(root, "")
    path = [top]
    if not cursor.goto_first_child():
        return top
    while True:
        node = cursor.node
        if node is not None and node.type != "comment":
            part = _part(node, cursor.field_name or "")
            path[-1].parts.append(part)
            if cursor.goto_first_child():
                path.append(part)
                continue
        while not cursor.goto_next_sibling():
            path.pop()
            if not path or not cursor.goto_parent():
                return top


def _part(node: Node, role: str) -> SyntaxNode:
    broken = node.is_error or node.is_missing
    return SyntaxNode(node.type, role, node.start_byte, node.end_byte, node.is_named, broken, [])
