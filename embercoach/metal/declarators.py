"""Unpacking C++ declarators: the name inside the stars, brackets and parentheses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.facts import AttributeMark, Function, Parameter
from embercoach.metal.syntax import ADDRESS_SPACES, ENTRY_QUALIFIERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from embercoach.metal.syntax import Syntax

PARAMETERS = frozenset(
    {"parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration"}
)

_NAMES = frozenset({"identifier", "field_identifier", "type_identifier"})
_POINTERS = frozenset(
    {
        "pointer_declarator",
        "reference_declarator",
        "pointer_type_declarator",
        "abstract_pointer_declarator",
        "abstract_reference_declarator",
    }
)
_ARRAYS = frozenset({"array_declarator", "abstract_array_declarator"})
_FUNCTIONS = frozenset({"function_declarator", "abstract_function_declarator"})


@dataclass(frozen=True, slots=True)
class Declarator:
    """What a declarator holds.

    Attributes:
        names: the nodes of the declared names: one, none (``operator+``, ``A::b``, abstract), or
            several for a structured binding.
        dimensions: the array sizes, outermost first.
        function: the ``function_declarator``, None when no function is declared.
        rest: nodes on the way that hold uses of other names.
    """

    names: tuple[Node, ...] = ()
    pointer: bool = False
    dimensions: tuple[Node, ...] = ()
    function: Node | None = None
    rest: tuple[Node, ...] = ()


def unpack(node: Node) -> Declarator:
    """Take a declarator apart, outside in."""
    pointer = False
    dimensions: list[Node] = []
    function: Node | None = None
    rest: list[Node] = []
    current: Node | None = node
    while current is not None:
        kind = current.type
        if kind in _NAMES:
            return Declarator((current,), pointer, tuple(dimensions), function, tuple(rest))
        if kind == "structured_binding_declarator":
            names = tuple(child for child in current.named_children if child.type in _NAMES)
            return Declarator(names, pointer, (), None, tuple(rest))
        inner = current.child_by_field_name("declarator")
        if kind in _ARRAYS:
            size = current.child_by_field_name("size")
            if size is not None:
                dimensions.insert(0, size)
        elif kind in _POINTERS:
            pointer = True
            inner = inner or _last_declarator(current)
        elif kind in _FUNCTIONS:
            # The innermost one names the function: int (*f(int))(float).
            function = current
        elif kind in ("parenthesized_declarator", "attributed_declarator", "variadic_declarator"):
            inner = _first_declarator(current)
        elif kind == "template_function":
            inner = current.child_by_field_name("name")
            arguments = current.child_by_field_name("arguments")
            if arguments is not None:
                rest.append(arguments)
        else:
            rest.append(current)
            inner = None
        current = inner
    return Declarator((), pointer, tuple(dimensions), function, tuple(rest))


def _first_declarator(node: Node) -> Node | None:
    for child in node.named_children:
        if child.type != "attribute_declaration":
            return child
    return None


def _last_declarator(node: Node) -> Node | None:
    for child in reversed(node.named_children):
        if child.type != "type_qualifier":
            return child
    return None


def address_space(syntax: Syntax, node: Node) -> str | None:
    """The address space written among a declaration's own specifiers."""
    return next((word for word in syntax.qualifiers_in(node) if word in ADDRESS_SPACES), None)


def is_fixed(syntax: Syntax, node: Node) -> bool:
    """Whether ``const`` or ``constexpr`` is written among a declaration's own specifiers."""
    return any(
        child.type == "type_qualifier"
        and child.start_byte not in syntax.qualifiers
        and syntax.words(child) in ("const", "constexpr")
        for child in node.children
    )


def type_words(syntax: Syntax, node: Node) -> str:
    """The type of a declaration as written, without qualifiers and without a class body."""
    kind = node.child_by_field_name("type")
    if kind is None:
        return ""
    if kind.child_by_field_name("body") is not None:
        kind = kind.child_by_field_name("name")
    return "" if kind is None else " ".join(syntax.words(kind).split())


def attribute_marks(syntax: Syntax, node: Node) -> Iterator[AttributeMark]:
    """The ``[[...]]`` attributes of one ``attribute_declaration``."""
    for child in node.named_children:
        if child.type != "attribute":
            continue
        name = child.child_by_field_name("name")
        arguments = next((c for c in child.children if c.type == "argument_list"), None)
        yield AttributeMark(
            syntax.words(child if name is None else name),
            None if arguments is None else syntax.words(arguments)[1:-1].strip(),
            syntax.place(node),
        )


def attribute_nodes(node: Node) -> Iterator[Node]:
    """The ``attribute_declaration`` nodes of a declaration and its declarators."""
    pending = [node]
    while pending:
        current = pending.pop()
        for child in current.children:
            if child.type == "attribute_declaration":
                yield child
            elif child.type.endswith("_declarator") and child.type not in _FUNCTIONS:
                pending.append(child)


def parameter(syntax: Syntax, node: Node) -> Parameter:
    """One parameter of a function."""
    declarator = node.child_by_field_name("declarator")
    parts = Declarator() if declarator is None else unpack(declarator)
    marks = [mark for found in attribute_nodes(node) for mark in attribute_marks(syntax, found)]
    return Parameter(
        name=syntax.words(parts.names[0]) if parts.names else "",
        type=type_words(syntax, node),
        address_space=address_space(syntax, node),
        pointer=parts.pointer,
        attributes=tuple(marks),
        place=syntax.place(parts.names[0] if parts.names else node),
    )


def function(syntax: Syntax, node: Node, declarator: Declarator) -> Function | None:
    """The function that a definition or declaration declares, None when it has no plain name."""
    if declarator.function is None or not declarator.names:
        return None
    marks = {
        mark.name
        for child in node.children
        if child.type == "attribute_declaration"
        for mark in attribute_marks(syntax, child)
    }
    words = [w for w in (*syntax.qualifiers_in(node), *sorted(marks)) if w in ENTRY_QUALIFIERS]
    parameters = declarator.function.child_by_field_name("parameters")
    return Function(
        name=syntax.words(declarator.names[0]),
        entry=words[0] if words else None,
        body=node.child_by_field_name("body") is not None,
        parameters=tuple(
            parameter(syntax, child)
            for child in ([] if parameters is None else parameters.named_children)
            if child.type in PARAMETERS
        ),
        place=syntax.place(declarator.names[0]),
        extent=syntax.place(node),
        member=(above := syntax.parent(node)) is not None
        and above.type == "field_declaration_list",
        result=type_words(syntax, node) + "*" * declarator.pointer,
    )
