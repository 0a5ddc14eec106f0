"""Declarators of C++, taken apart: the name inside the stars, brackets and parentheses.

The lowering, the names of a text and the simulator's rewriter share this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.texts import SyntaxNode

_NAMES = frozenset({"identifier", "field_identifier", "type_identifier"})
_POINTERS = frozenset(
    {"pointer_declarator", "pointer_type_declarator", "abstract_pointer_declarator"}
)
_REFERENCES = frozenset({"reference_declarator", "abstract_reference_declarator"})
_ARRAYS = frozenset({"array_declarator", "abstract_array_declarator"})
FUNCTIONS = frozenset({"function_declarator", "abstract_function_declarator"})
_WRAPPERS = frozenset(
    {
        "parenthesized_declarator",
        "abstract_parenthesized_declarator",
        "attributed_declarator",
        "variadic_declarator",
    }
)
_UNNAMED = frozenset({"type_qualifier", "attribute_declaration"})


class Declarator(Struct):
    """A declarator.

    Attributes:
        end: the byte after it, where its name becomes visible.
        name: None for an abstract one, and for a name that is not plain (``A::b``).
        bindings: the names of a structured binding.
        dimensions: sizes of an array, outermost first; None for ``[]``.
        function: the part that declares a function, None where none is declared.
        nested: a pointer to an array or to a pointer.
        star: the innermost star, None without one.
        rest: parts on the way that use other names.
    """

    end: int = 0
    name: SyntaxNode | None = None
    bindings: list[SyntaxNode] = field(default_factory=list)
    pointers: int = 0
    reference: bool = False
    dimensions: list[SyntaxNode | None] = field(default_factory=list)
    function: SyntaxNode | None = None
    nested: bool = False
    star: SyntaxNode | None = None
    rest: list[SyntaxNode] = field(default_factory=list)

    @property
    def names(self) -> list[SyntaxNode]:
        """The declared names: one, none, or those of a structured binding."""
        return self.bindings if self.name is None else [self.name]

    @property
    def is_address(self) -> bool:
        """Return whether ``*`` or ``&`` is written."""
        return self.pointers > 0 or self.reference


def unpack(part: SyntaxNode | None) -> Declarator:
    """Take a declarator apart, outside in."""
    found = Declarator(0 if part is None else part.end)
    current = part
    while current is not None:
        kind = current.kind
        if kind in _NAMES:
            found.name = current
            return found
        if kind == "structured_binding_declarator":
            found.bindings = [child for child in current.inner if child.kind in _NAMES]
            return found
        if kind in _ARRAYS:
            found.dimensions.insert(0, current.get("size"))
        elif kind in _POINTERS:
            found.pointers += 1
            found.nested = found.nested or bool(found.dimensions)
            found.star = current
        elif kind in _REFERENCES:
            found.reference = True
        elif kind in FUNCTIONS:
            # The innermost one names the function: int (*f(int))(float).
            found.function = current
        elif kind == "template_function":
            found.name = current.get("name")
            found.rest += current.all("arguments")
            return found
        elif kind not in _WRAPPERS:
            found.rest.append(current)
            return found
        current = current.get("declarator") or _inner(current, kind)
    return found


def unpack_initialized(
    part: SyntaxNode, value: SyntaxNode | None = None
) -> tuple[Declarator, SyntaxNode | None]:
    """A declarator with its initial value: of ``a = 1`` that of ``a``, and ``1``."""
    if part.kind == "init_declarator":
        return unpack(part.get("declarator") or part), part.get("value")
    return unpack(part), value


def attribute_parts(part: SyntaxNode) -> Iterator[SyntaxNode]:
    """The ``attribute_declaration`` parts of a declaration and its declarators."""
    pending = [part]
    while pending:
        for child in pending.pop().parts:
            if child.kind == "attribute_declaration":
                yield child
            elif child.kind.endswith("_declarator"):
                pending.append(child)


def _inner(part: SyntaxNode, kind: str) -> SyntaxNode | None:
    """The declarator inside one whose field the grammar does not name."""
    if kind in FUNCTIONS or kind in _ARRAYS:
        return None
    inner = [child for child in part.inner if child.kind not in _UNNAMED]
    return (inner[0] if kind == "attributed_declarator" else inner[-1]) if inner else None
