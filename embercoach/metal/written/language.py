"""C++ that Metal leaves out or refuses, found by the kinds of the syntax tree."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.program.declarators import attribute_parts, unpack, unpack_initialized
from embercoach.metal.text_facts import BareCast, Foreign
from embercoach.metal.written.name_scopes import is_include_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.metal.preprocessor import Macros
    from embercoach.metal.program.texts import Parsed, SyntaxNode
    from embercoach.metal.text_facts import ForeignKind, TextSpan
    from embercoach.metal.written.name_scopes import Scopes

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


_KINDS: dict[str, ForeignKind] = {
    "new_expression": "new",
    "delete_expression": "delete",
    "throw_statement": "exception",
    "try_statement": "exception",
    "goto_statement": "goto",
    "lambda_expression": "lambda",
    "virtual": "virtual",
    "gnu_asm_expression": "asm",
}
# The kinds that are looked at: those that their words decide as well.
_LOOKED_AT = (
    *_KINDS, "primitive_type", "sized_type_specifier", "storage_class_specifier",
    "call_expression", "qualified_identifier", "using_declaration", "preproc_include",
)  # fmt: skip
_CALLED: dict[str, ForeignKind] = {"dynamic_cast": "dynamic_cast", "typeid": "typeid"}
_STORAGE = frozenset({"register", "thread_local"})
# Their contents may be compiled or not.
_DOUBTFUL = frozenset(
    {"ERROR", "preproc_if", "preproc_ifdef", "preproc_elif", "preproc_elifdef", "preproc_else"}
)
_LIBRARY = """
algorithm any array atomic bitset chrono cmath complex cstdint cstdio cstdlib cstring deque
functional iostream iterator limits list map memory mutex numeric optional queue random set sstream
stack stdexcept string thread tuple type_traits unordered_map utility valarray variant vector
"""
#: Headers of the C++ standard library that Metal lacks. Those of C (``stdint.h``) are left out: a
#: compiler brings some of them itself.
_CPP_HEADERS = frozenset(_LIBRARY.split())


def foreign_parts(parsed: Parsed, scopes: Scopes) -> Iterator[Foreign]:
    """Every use of what Metal lacks, in the order of the text."""
    declared = (d.name for d in scopes.declarations if d.kind in ("namespace", "alias", "type"))
    reading = _Reading(parsed, scopes.macros.names, scopes.macros.mentioned.union(declared))
    is_compiled = _compiled(parsed)
    names = parsed.of_kinds("qualified_identifier")
    inner = {child for part in names for child in part.parts}
    for part in parsed.of_kinds(*_LOOKED_AT):
        kind = reading.kind(part, qualified=part in inner)
        if kind is not None and is_compiled(part):
            yield reading.foreign(part, kind)
    for part, kind in refused_parts(parsed, scopes.macros):
        if is_compiled(part):
            yield Foreign(kind, parsed.word(part), parsed.place(part))


def bare_casts(parsed: Parsed, macros: Macros) -> Iterator[BareCast]:
    """Casts to pointers that name no address space."""
    is_compiled = _compiled(parsed)
    for part, kind in pointer_casts(parsed, macros):
        if is_compiled(part):
            yield BareCast(parsed.word(kind), parsed.place(part))


def conditional_stretches(parsed: Parsed) -> Iterator[TextSpan]:
    """The stretches under ``#if``, but for include guards."""
    for part in parsed.of_kinds("preproc_if", "preproc_ifdef"):
        if not is_include_guard(parsed, part):
            yield parsed.place(part)


def _compiled(parsed: Parsed) -> Callable[[SyntaxNode], bool]:
    """Return a function that decides whether a part is certainly compiled."""
    starts, ends = _doubtful(parsed)

    def is_compiled(part: SyntaxNode) -> bool:
        last = bisect_right(starts, part.start) - 1
        return not (last >= 0 and part.end <= ends[last]) and parsed.holds(part)

    return is_compiled


def _doubtful(parsed: Parsed) -> tuple[list[int], list[int]]:
    """The starts and ends of stretches that may be compiled or not."""
    starts: list[int] = []
    ends: list[int] = []
    for part in parsed.of_kinds(*_DOUBTFUL):
        if part.kind == "preproc_ifdef" and is_include_guard(parsed, part):
            continue
        if not ends or part.end > ends[-1]:
            starts.append(part.start)
            ends.append(part.end)
    return starts, ends


class _Reading(Struct, frozen=True):
    """A text.

    Attributes:
        macros: their names.
        qualifying: names that may be a namespace of the text.
    """

    parsed: Parsed
    macros: frozenset[str]
    qualifying: frozenset[str]

    def kind(self, part: SyntaxNode, *, qualified: bool) -> ForeignKind | None:
        """The kind of foreign text that a part is, if it is any."""
        name, word = part.kind, self.parsed.word
        if name == "delete_expression" and not word(part.parts[-1]):
            return None  # ``T f(U) = delete;``: no operand
        if name in _KINDS:
            return _KINDS[name]
        if name == "primitive_type":
            return "double" if word(part) == "double" and "double" not in self.macros else None
        if name == "sized_type_specifier":
            return _sized(word(part).split())
        if name == "storage_class_specifier":
            return "storage" if word(part) in _STORAGE else None
        if name == "call_expression":
            return _CALLED.get(self._callee(part))
        if name == "qualified_identifier":
            return "std" if not qualified and self._is_std(part.get("scope")) else None
        if name == "using_declaration":
            target = next(iter(part.inner), None)
            whole = target is not None and target.kind == "identifier" and word(target) == "std"
            return "std" if whole and "std" not in self.qualifying else None
        if name == "preproc_include":
            path = part.get("path")
            found = path is not None and word(path).strip('<">') in _CPP_HEADERS
            return "include" if found else None
        return None

    def _callee(self, part: SyntaxNode) -> str:
        callee = part.get("function")
        if callee is not None and callee.kind == "template_function":
            callee = callee.get("name")
        return "" if callee is None else self.parsed.word(callee)

    def _is_std(self, scope: SyntaxNode | None) -> bool:
        """Return whether a scope is the namespace ``std``, which no text around it declares."""
        if scope is None or scope.kind != "namespace_identifier":
            return False
        return self.parsed.word(scope) == "std" and "std" not in self.qualifying

    def foreign(self, part: SyntaxNode, kind: ForeignKind) -> Foreign:
        """The fact of a part."""
        start = end = part
        if kind == "lambda":
            end = part.get("captures") or part
        elif kind in ("exception", "asm"):
            end = part.parts[0]
        elif kind in ("dynamic_cast", "typeid"):
            end = part.get("function") or part
        elif kind == "include":
            start = end = part.get("path") or part
        words = self.parsed.text_between(start.start, end.end)
        place = self.parsed.stretch(start.start, end.end)
        return Foreign(kind, " ".join(words.split()), place)


def _sized(words: list[str]) -> ForeignKind | None:
    if "double" in words:
        return "double"
    return "long long" if words.count("long") == 2 else None
