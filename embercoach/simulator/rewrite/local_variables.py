"""Local variables that are declared without a value: they get the run's pattern.

On a GPU their values are undefined. With a different pattern in each run, a result that depends
on one differs between runs, and is found where the outputs are compared. What the tree does not
show clearly is left as it stands: it is compiled like any other code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.program.declarators import unpack
from embercoach.metal.program.tree import plain_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

#: What the unit's first header gives a variable the pattern with.
FILL_MACRO = "EMBER_FILL"

_STATEMENTS = frozenset({"compound_statement", "case_statement"})
_PLAIN = frozenset({"identifier", "array_declarator"})
_FIXED = frozenset({"const", "constexpr", "consteval", "constinit"})
_SPACE = "thread"


@dataclass(frozen=True, slots=True)
class Filling:
    """An insertion after a declaration.

    Attributes:
        at: after its semicolon, in characters of the parsed text.
        text: statements, on the same line.
    """

    at: int
    text: str


def fillings(syntax: Syntax) -> Iterator[Filling]:
    """Every declaration of variables without a value in the functions of a text."""
    for node in syntax.nodes:
        if node.type != "declaration" or node.has_error or not syntax.holds(node):
            continue
        if not _is_local(syntax, node) or not _is_variable(syntax, node):
            continue
        names = [
            syntax.text_between(name.start, name.end)
            for declarator in _without_value(node.children_by_field_name("declarator"))
            for name in unpack(plain_tree(declarator)).names
        ]
        if names:
            text = "".join(f" {FILL_MACRO}({name})" for name in names)
            yield Filling(syntax.place(node).end, text)


def _is_local(syntax: Syntax, node: Node) -> bool:
    """Return whether it is a statement of a block, in a function that runs when the kernel does."""
    if node.parent is None or node.parent.type not in _STATEMENTS:
        return False
    parent: Node | None = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    return parent is not None and not _fixed(syntax, parent)


def _is_variable(syntax: Syntax, node: Node) -> bool:
    """Return whether the variable is in the thread's own memory and writable."""
    kind = node.child_by_field_name("type")
    if kind is None or kind.type == "placeholder_type_specifier":
        return False
    stored = any(child.type == "storage_class_specifier" for child in node.children)
    return not (stored or _fixed(syntax, node))


def _fixed(syntax: Syntax, node: Node) -> bool:
    """Return whether a declaration's specifiers make it constant, or put it elsewhere."""
    for child in node.children:
        word = syntax.qualifiers.get(child.start_byte)
        if child.type == "type_qualifier" and word is None and syntax.words(child) in _FIXED:
            return True
        if node.type == "declaration" and word not in (None, _SPACE):
            return True
    return False


def _without_value(declarators: list[Node]) -> list[Node]:
    """Those that get none; a later declarator of the declaration may write to it."""
    last = max((i for i, each in enumerate(declarators) if not _is_plain(each)), default=-1)
    return declarators[last + 1 :]


def _is_plain(declarator: Node) -> bool:
    """Return whether it is a name, or arrays of it, without a value."""
    current: Node | None = declarator
    while current is not None and current.type in _PLAIN:
        if current.type == "identifier":
            return True
        current = current.child_by_field_name("declarator")
    return False
