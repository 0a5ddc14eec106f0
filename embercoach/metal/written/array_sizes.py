"""The names that decide the sizes of arrays, where Metal allows constant expressions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.declarators import unpack_initialized
from embercoach.metal.text_facts import SizeName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.texts import Parsed
    from embercoach.metal.program.tree import SyntaxNode
    from embercoach.metal.written.naming import Scopes

_INTEGERS = """
int uint short ushort char uchar long ulong size_t int8_t int16_t int32_t int64_t uint8_t uint16_t
uint32_t uint64_t unsigned
"""
#: A variable of another type may convert to a constant: ``integral_constant`` does.
_PLAIN = frozenset(_INTEGERS.split()) | {"unsigned int", "unsigned short", "unsigned long"}
# Their operands are not evaluated.
_UNEVALUATED = frozenset({"sizeof_expression", "alignof_expression", "decltype"})
_MAX_STEPS = 8


def size_names(parsed: Parsed, scopes: Scopes) -> Iterator[SizeName]:
    """Each name that makes a size no constant expression, and each that may do so."""
    sizes = _Sizes(parsed, scopes)
    for part in parsed.of_kinds("declaration"):
        if not parsed.holds(part):
            continue
        is_broken: bool | None = None
        for declarator in part.all("declarator"):
            parts, _ = unpack_initialized(declarator)
            array = scopes.bindings.get(parts.names[0].start) if parts.names else None
            if array is None or array.kind != "local" or parts.function is not None:
                continue
            dimensions = [size for size in parts.dimensions if size is not None]
            if dimensions and is_broken is None:
                is_broken = any(inner.broken for inner in part.below())
            if is_broken:
                break
            for size in dimensions:
                for name, free in dict.fromkeys(sizes.reads(size, 0)):
                    yield SizeName(array, name, free, parsed.place(size))


class _Sizes:
    def __init__(self, parsed: Parsed, scopes: Scopes) -> None:
        self._parsed = parsed
        self._scopes = scopes
        self._macros = scopes.macros.mentioned
        self._known: dict[tuple[SyntaxNode, int], tuple[tuple[str, bool], ...]] = {}

    def reads(self, part: SyntaxNode, steps: int) -> Iterator[tuple[str, bool]]:
        """The names that an expression reads when the program runs, or may read (True)."""
        if part.kind in _UNEVALUATED or steps > _MAX_STEPS:
            return
        if part.kind == "identifier":
            yield from self._read(part, steps)
            return
        skipped = part.get("function") if part.kind == "call_expression" else None
        for child in part.inner:
            if child is not skipped:
                yield from self.reads(child, steps)

    def _read(self, part: SyntaxNode, steps: int) -> Iterator[tuple[str, bool]]:
        name = self._parsed.word(part)
        if name in self._macros:
            return
        declaration = self._scopes.bindings.get(part.start)
        if declaration is None:
            yield name, True
            return
        if declaration.kind not in ("local", "parameter") or declaration.type not in _PLAIN:
            return
        if declaration.pointer or declaration.dimensions:
            return
        if declaration.kind == "parameter":
            yield name, False
            return
        owner, value = self._scopes.origins[declaration]
        words = self._specifiers(owner)
        if words is not None and not words:
            yield name, False
        elif words == {"const"} and value is not None:
            # A constant expression if its first value is one.
            found = self._reads_once(value, steps + 1)
            yield from [(name, False)] if any(not free for _, free in found) else found

    def _reads_once(self, value: SyntaxNode, steps: int) -> tuple[tuple[str, bool], ...]:
        """The names that a first value reads: one that mentions others often takes no longer."""
        found = self._known.get((value, steps))
        if found is None:
            found = self._known[value, steps] = tuple(dict.fromkeys(self.reads(value, steps)))
        return found

    def _specifiers(self, owner: SyntaxNode | None) -> set[str] | None:
        """``const``, ``static`` and their like of a declaration, None for other parts."""
        if owner is None or owner.kind != "declaration":
            return None
        return {
            self._parsed.word(child)
            for child in owner.parts
            if child.kind in ("type_qualifier", "storage_class_specifier")
            and child.start not in self._parsed.qualifiers
        }
