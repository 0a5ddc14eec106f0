"""Declarations, atomic orders and casts that C++ accepts and Metal refuses.

Source: Metal Shading Language Specification 3.2, sections 4 (address spaces), 4.2 (program scope)
and 6.15.1 (memory order). ``language`` and ``body`` read these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.declarators import attribute_parts, unpack, unpack_initialized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.texts import Parsed
    from embercoach.metal.program.tree import SyntaxNode
    from embercoach.metal.text_facts import ForeignKind
    from embercoach.metal.written.macros import Macros

_NESTED_SCOPES = frozenset({"namespace_definition", "linkage_specification", "declaration_list"})
_CASTS = frozenset({"reinterpret_cast", "static_cast"})
#: Types of the library whose variables at program scope need no ``constant``.
_HANDLES = frozenset({"sampler", "metal::sampler"})
_ORDERS = frozenset(
    f"memory_order_{order}" for order in ("acquire", "release", "acq_rel", "seq_cst", "consume")
)


def refused_parts(parsed: Parsed, macros: Macros) -> Iterator[tuple[SyntaxNode, ForeignKind]]:
    """Names of variables that Metal does not allow where they are, and orders of atomics."""
    # A macro may stand for the address space.
    if not macros.blanks:
        outer = list(_at_file_scope(parsed))
        unplaced = [name for part in outer for name in _unplaced(parsed, part, macros)]
        # Calls of a macro, one after the other without `;`, parse as a declarator of its name,
        # and what follows them may parse as declarations at file scope.
        if macros.names.isdisjoint(map(parsed.word, unplaced)):
            yield from ((name, "file scope") for name in unplaced)
        known = set(map(id, outer))
        for part in parsed.of_kinds("declaration"):
            if id(part) not in known and _is_static(parsed, part):
                yield from ((name, "static") for name in _variables(part))
    for part in parsed.of_kinds("call_expression"):
        yield from ((order, "order") for order in _strong_orders(parsed, part))


def pointer_casts(parsed: Parsed, macros: Macros) -> Iterator[tuple[SyntaxNode, SyntaxNode]]:
    """Casts to pointers without an address space: the written target, and its element type."""
    for part in _cast_targets(parsed) if not macros.blanks else ():
        kind, declarator = part.get("type"), part.get("declarator")
        if kind is None or declarator is None or parsed.word(kind) in macros.names:
            continue
        if unpack(declarator).is_address and parsed.space(part) is None:
            yield part, kind


def _cast_targets(parsed: Parsed) -> Iterator[SyntaxNode]:
    for part in parsed.of_kinds("cast_expression", "template_function"):
        if part.kind == "cast_expression":
            target = part.get("type")
        else:
            name, arguments = part.get("name"), part.get("arguments")
            is_cast = name is not None and parsed.word(name) in _CASTS
            target = next(iter(arguments.inner), None) if is_cast and arguments else None
        if target is not None and target.kind == "type_descriptor":
            yield target


def _at_file_scope(parsed: Parsed) -> Iterator[SyntaxNode]:
    """The declarations of a header or a file that are in no function or type."""
    pending = [parsed.tree] if parsed.tree.kind == "translation_unit" else []
    while pending:
        for part in pending.pop().inner:
            if part.kind == "declaration":
                yield part
            elif part.kind in _NESTED_SCOPES:
                pending.append(part)


def _unplaced(parsed: Parsed, part: SyntaxNode, macros: Macros) -> Iterator[SyntaxNode]:
    """The variables of a declaration at file scope that are not in ``constant`` memory."""
    kind, space = part.get("type"), parsed.space(part)
    if kind is None or space in ("constant", "threadgroup") or _is_extern(parsed, part):
        return  # KERNEL-MEMORY-002 reports threadgroup variables
    written = parsed.word(kind)
    if written in _HANDLES or written in macros.names or any(attribute_parts(part)):
        return
    yield from _variables(part)


def _variables(part: SyntaxNode) -> Iterator[SyntaxNode]:
    for declarator in part.all("declarator"):
        parts, _ = unpack_initialized(declarator)
        name = parts.name
        # The parser adds an empty name to ``extern "C" struct S {...};``.
        if name is None or name.start == name.end:
            continue
        if parts.function is None and not parts.is_address:
            yield name


def _is_extern(parsed: Parsed, part: SyntaxNode) -> bool:
    return any(
        c.kind == "storage_class_specifier" and parsed.word(c) == "extern" for c in part.parts
    )


def _is_static(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether a local keeps its value between calls: ``static``, and not a constant."""
    static = any(
        c.kind == "storage_class_specifier" and parsed.word(c) == "static" for c in part.parts
    )
    return static and parsed.space(part) is None and not parsed.is_constant(part)


def _strong_orders(parsed: Parsed, call: SyntaxNode) -> Iterator[SyntaxNode]:
    """The orders of ``atomic_..._explicit`` that are not relaxed."""
    callee, arguments = call.get("function"), call.get("arguments")
    if callee is None or arguments is None:
        return
    name = parsed.word(callee).rpartition("::")[2]
    if not (name.startswith("atomic_") and name.endswith("_explicit")):
        return
    for argument in arguments.inner:
        if parsed.word(argument).rpartition("::")[2] in _ORDERS:
            yield argument
