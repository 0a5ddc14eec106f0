"""C++ that Metal leaves out, found by the kinds of the syntax tree.

Source: Metal Shading Language Specification 3.2, sections 1.5.4 (restrictions) and 2.1 (types). Of
its restrictions those are left out that the compiler does not keep: MLX's own kernels have derived
classes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.text_facts import BareCast, Foreign
from embercoach.metal.written.refusals import pointer_casts, refused_parts
from embercoach.metal.written.specifiers import is_include_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.metal.program.texts import Parsed
    from embercoach.metal.program.tree import SyntaxNode
    from embercoach.metal.text_facts import ForeignKind, TextSpan
    from embercoach.metal.written.macros import Macros
    from embercoach.metal.written.naming import Scopes

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


@dataclass(frozen=True, slots=True)
class _Reading:
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
