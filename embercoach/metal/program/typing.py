"""The types that a text writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from embercoach.metal.program.nodes import Target, Variable
from embercoach.metal.program.texts import Declarator, SyntaxNode, unpack
from embercoach.metal.program.types import NAMED, UNKNOWN, Type, value
from embercoach.metal.program.walk import fold_int

if TYPE_CHECKING:
    from embercoach.metal.program.lowering_state import Lowering


def _is_fixed(work: Lowering, declarator: Declarator) -> bool:
    """Return whether a pointer itself is ``const``, not only its elements."""
    inside = () if declarator.star is None else declarator.star.parts
    return any(part.kind == "type_qualifier" and work.word(part) == "const" for part in inside)


def is_constant(work: Lowering, part: SyntaxNode, declarator: Declarator, kind: Type) -> bool:
    """Return whether a variable is ``const`` or ``constexpr``, or in constant memory."""
    if kind.pointer:
        return _is_fixed(work, declarator)
    return work.parsed.space(part) == "constant" or work.parsed.is_constant(part)


def target(work: Lowering, part: SyntaxNode, declarator: Declarator) -> Target | None:
    """Return the target of a pointer or reference, None for other variables."""
    if not declarator.is_address:
        return None
    is_deduced = work.words(part.get("type")) in ("", "auto")
    return Target(work.parsed.space(part), is_deduced or work.parsed.is_constant(part))


def written_type(work: Lowering, part: SyntaxNode, initial: Type | None = None) -> Type:
    """Return the base type of a declaration or type descriptor, with the address space next to it.

    Args:
        work: the lowering.
        part: what has a ``type``.
        initial: the type of the initial value, which ``auto`` takes.
    """
    base = specified(work, part.get("type"), initial)
    space = work.parsed.space(part)
    return base if space is None else replace(base, space=space)


def descriptor_type(work: Lowering, part: SyntaxNode) -> Type:
    """Return the type of a cast or a template argument."""
    if part.kind != "type_descriptor":
        return specified(work, part, None)
    declarator = unpack(part.get("declarator"))
    return shaped(work, written_type(work, part), declarator)


def shaped(work: Lowering, base: Type, declarator: Declarator) -> Type:
    """Return the type that a declarator makes of a base type."""
    dimensions = tuple(_size(work, size) for size in declarator.dimensions)
    pointers = declarator.pointers + base.pointer
    if declarator.nested or pointers > 1 or (declarator.pointers and base.dimensions):
        return Type(None, pointer=True, space=base.space, reference=declarator.reference)
    return replace(
        base,
        pointer=pointers > 0,
        dimensions=dimensions + base.dimensions,
        reference=declarator.reference,
    )


def deduced(initial: Type, declarator: Declarator) -> Type:
    """Return the base type that ``auto`` represents, before its declarator is applied."""
    if declarator.reference:
        return replace(initial, reference=False)
    found = value(initial)
    return replace(found, pointer=False) if declarator.pointers else found


def _size(work: Lowering, size: SyntaxNode | None) -> int | None:
    number = None if size is None else fold_int(work.expression(size), work.values)
    return number if number is not None and number >= 0 else None


def specified(work: Lowering, part: SyntaxNode | None, initial: Type | None) -> Type:
    """Return the type of a type specifier."""
    if part is None:
        return UNKNOWN
    kind = part.kind
    if kind in ("primitive_type", "type_identifier", "identifier"):
        return _by_name(work, work.word(part))
    if kind == "sized_type_specifier":
        return _sized(work.word(part).split())
    if kind in ("placeholder_type_specifier", "auto"):
        return UNKNOWN if initial is None else initial
    if kind in ("template_type", "template_function"):
        return template_type(work, part)
    if kind == "qualified_identifier":
        return _qualified(work, part)
    if kind == "dependent_type":
        return specified(work, part.inner[0] if part.inner else None, None)
    if kind in ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier"):
        return Type(work.word(name)) if (name := part.get("name")) is not None else UNKNOWN
    if kind == "decltype" and len(part.inner) == 1:
        return value(work.expression(part.inner[0]).type)
    return UNKNOWN


def _by_name(work: Lowering, name: str) -> Type:
    found = work.named_type(name)
    if found is not None:
        return found
    # A type of a library or of an include; a variable is none.
    return UNKNOWN if isinstance(work.lookup(name), Variable) else Type(name)


def _sized(words: list[str]) -> Type:
    """``unsigned int``, ``long``, ``unsigned char`` and so on."""
    longs, unsigned = words.count("long"), "unsigned" in words
    if longs > 1:
        # Metal has no such type.
        return Type("unsigned long long" if unsigned else "long long")
    scalar = next((word for word in ("char", "short", "long", "double") if word in words), "int")
    return Type(f"u{scalar}" if unsigned else scalar)


def _qualified(work: Lowering, part: SyntaxNode) -> Type:
    """``metal::float4``, ``ns::Item``; a member of a template's parameter is unknown."""
    scope, name = part.get("scope"), part.get("name")
    if scope is None or name is None or scope.kind == "template_type":
        return UNKNOWN
    if isinstance(work.lookup(work.word(scope)), Type):
        return UNKNOWN
    return specified(work, name, None)


def template_type(work: Lowering, part: SyntaxNode) -> Type:
    """``vec<T, 4>``, ``array<float, 8>``, ``atomic<int>``, ``simdgroup_matrix<T, 8, 8>``."""
    name, arguments = part.get("name"), part.get("arguments")
    if name is None or arguments is None:
        return UNKNOWN
    given, word = arguments.inner, work.word(name)
    if word in work.structs:
        return Type(work.words(part))
    if not given or work.lookup(word) is not None:
        return UNKNOWN
    scalar = descriptor_type(work, given[0])
    if word == "atomic":
        return UNKNOWN if scalar.scalar is None else Type(f"atomic_{scalar.scalar}")
    numbers = [number_argument(work, argument) for argument in given[1:]]
    if word in ("vec", "packed_vec") and len(numbers) == 1:
        width = numbers[0]
        if width not in (2, 3, 4) or scalar.scalar is None:
            return UNKNOWN
        return Type(scalar.scalar, width, packed=word == "packed_vec")
    if word == "array" and len(numbers) == 1:
        return replace(scalar, dimensions=(numbers[0], *scalar.dimensions))
    if word == "matrix" and len(numbers) == 2:
        return NAMED.get(f"{scalar.scalar}{numbers[0]}x{numbers[1]}", UNKNOWN)
    if word == "simdgroup_matrix" and scalar.scalar is not None:
        return Type(f"simdgroup_{scalar.scalar}8x8")
    return UNKNOWN


def number_argument(work: Lowering, part: SyntaxNode) -> int | None:
    """Return the number that a template argument is; the grammar may take a name for a type."""
    if part.kind == "type_descriptor":
        inner = part.get("type")
        if inner is None or len(part.inner) != 1 or inner.kind != "type_identifier":
            return None
        part = replace(inner, kind="identifier")
    return fold_int(work.expression(part), work.values)
