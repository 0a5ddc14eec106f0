"""The facts of a kernel body, and of the header or file around it.

``read_body`` takes what MLX calls ``source``, ``read_unit`` what is at file scope: a kernel's
``header`` or a whole ``.metal`` file. Both only read; the checks report errors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from embercoach.metal.library import is_known, is_standard_header
from embercoach.metal.preprocessor import Macros, read_macros
from embercoach.metal.program.declarators import unpack_initialized
from embercoach.metal.program.nodes import Spot
from embercoach.metal.program.texts import as_written
from embercoach.metal.program.types import INTEGER_NAMES
from embercoach.metal.text_facts import SizeName, TextSpan
from embercoach.metal.tokens import whole_number
from embercoach.metal.work_budget import TOO_DEEP, TOO_INTRICATE
from embercoach.metal.written.language import bare_casts, conditional_stretches, foreign_parts
from embercoach.metal.written.name_scopes import NestingError, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.nodes import Text
    from embercoach.metal.program.texts import Parsed, SyntaxNode
    from embercoach.metal.text_facts import (
        AttributeMark,
        BareCast,
        Declaration,
        Foreign,
        PreprocessorLine,
        Use,
        WrittenCall,
        WrittenFunction,
    )
    from embercoach.metal.written.name_scopes import Scopes

# Their operands are not evaluated.
_UNEVALUATED = frozenset({"sizeof_expression", "alignof_expression", "decltype"})
_MAX_STEPS = 8


def size_names(parsed: Parsed, scopes: Scopes) -> Iterator[SizeName]:
    """Each name that makes a size no constant expression, and each that may do so."""
    sizes = _Sizes(parsed, scopes)
    for part in parsed.of_kinds("declaration"):
        if not parsed.holds(part):
            continue
        for declarator in part.all("declarator"):
            parts, _ = unpack_initialized(declarator)
            array = scopes.bindings.get(parts.names[0].start) if parts.names else None
            if array is None or array.kind != "local" or parts.function is not None:
                continue
            dimensions = [size for size in parts.dimensions if size is not None]
            if part.has_error:
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
        # A variable of another type may convert to a constant: ``integral_constant`` does.
        if declaration.kind not in ("local", "parameter") or declaration.type not in INTEGER_NAMES:
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


_CONTROL = frozenset(
    {
        "if_statement",
        "for_statement",
        "for_range_loop",
        "while_statement",
        "do_statement",
        "switch_statement",
        "return_statement",
    }
)
#: In a statement of an expression; others, as a call, may be the use of a macro that declares.
_STORES = frozenset({"assignment_expression", "update_expression"})
#: Their contents are at file scope as well.
_CONDITIONS = frozenset(
    {"preproc_if", "preproc_ifdef", "preproc_elif", "preproc_elifdef", "preproc_else"}
)


class MetalText(Struct, frozen=True):
    """The facts of a Metal text. Places count characters, lines and columns of ``text``.

    Attributes:
        doubtful: stretches where the parser had to guess; empty for a clean parse.
        names_known: False when names may be in scope that no declaration shows: an ``#include``
            of something else than Metal's library, or a macro that builds names.
        free: uses of names that neither the text nor what is around it declares. Names of
            Metal's library and of MLX's signature are among them.
        attribute_uses: those of thread attributes, where a name may be anything as well.
        macros: those of the text and of what is around it.
        numbers: integers written in the text, the sizes of arrays left out.
        foreign: C++ that Metal has not.
        size_names: names that keep the size of an array from being constant, or may do so.
        bare_casts: casts to pointers without an address space.
        conditional: stretches under ``#if``, which are compiled or not.
        has_loose_statements: at file scope there are statements, which C++ has in functions alone:
            the text is a part of a function.
        refusal: the problem to report of a text of which nothing is known, else None.
    """

    text: str
    doubtful: tuple[TextSpan, ...]
    names_known: bool
    kind: Text = "file"
    declarations: tuple[Declaration, ...] = ()
    free: tuple[Use, ...] = ()
    calls: tuple[WrittenCall, ...] = ()
    functions: tuple[WrittenFunction, ...] = ()
    directives: tuple[PreprocessorLine, ...] = ()
    marks: tuple[AttributeMark, ...] = ()
    macros: Macros = field(default_factory=Macros)
    attribute_uses: tuple[Use, ...] = ()
    numbers: frozenset[int] = frozenset()
    foreign: tuple[Foreign, ...] = ()
    size_names: tuple[SizeName, ...] = ()
    bare_casts: tuple[BareCast, ...] = ()
    conditional: tuple[TextSpan, ...] = ()
    has_loose_statements: bool = False
    refusal: str | None = None

    def at(self, place: TextSpan) -> Spot:
        """A place of the text, for a report."""
        return Spot(self.kind, place)

    @property
    def parse_ok(self) -> bool:
        """Return whether the parser understood every character."""
        return not self.doubtful

    def is_conditional(self, place: TextSpan) -> bool:
        """Return whether a place is under ``#if``."""
        return any(part.start <= place.start < part.end for part in self.conditional)

    @property
    def names(self) -> frozenset[str]:
        """The names that the text declares at its outermost scope, macros included."""
        outermost = (d.name for d in self.declarations if d.depth == 0)
        return self.macros.names.union(outermost)

    @property
    def threadgroup_arrays(self) -> tuple[Declaration, ...]:
        """The declarations of threadgroup memory."""
        return tuple(
            d
            for d in self.declarations
            if d.address_space == "threadgroup" and d.kind == "local" and not d.pointer
        )

    @property
    def entry_points(self) -> tuple[WrittenFunction, ...]:
        """Functions marked ``kernel``, ``vertex`` or ``fragment``."""
        return tuple(f for f in self.functions if f.entry is not None)

    @property
    def is_fragment(self) -> bool:
        """Return whether a text at file scope is a part of a function, such as a kernel's body."""
        return self.has_loose_statements and not self.entry_points


EMPTY = MetalText("", (), names_known=True)
"""The header of a kernel that has none."""


@lru_cache(maxsize=64)
def read_unit(text: str, kind: Text = "file") -> MetalText:
    """Read text at file scope: the ``header`` of a kernel, or a ``.metal`` file."""
    return _read(text, kind, EMPTY) if text.strip() else EMPTY


def read_body(source: str, header: MetalText = EMPTY) -> MetalText:
    """Read the ``source`` of a kernel.

    Args:
        source: the body as MLX gets it.
        header: the kernel's header as ``read_unit`` gave it.
    """
    return _read(source, "body", header)


def _read(text: str, kind: Text, around: MetalText) -> MetalText:
    macros = read_macros(text).joined(around.macros)
    # Macros that are not C++ are left out.
    parsed = as_written(text, kind, macros.blanks)
    if parsed.is_exceeded:
        return _refused(text, kind, TOO_INTRICATE)
    try:
        found = names_of(parsed, macros, around.names)
    except NestingError:
        return _refused(text, kind, TOO_DEEP)
    sound = around.parse_ok and around.names_known
    foreign = any(
        d.kind == "include" and not is_standard_header(d.target) for d in found.directives
    )
    return MetalText(
        text=text,
        kind=kind,
        doubtful=parsed.faults,
        names_known=sound and not foreign and not macros.paste,
        declarations=tuple(found.declarations),
        free=tuple(found.free),
        calls=tuple(found.calls),
        functions=tuple(found.functions),
        directives=tuple(found.directives),
        marks=tuple(_marks(parsed)),
        macros=macros,
        attribute_uses=tuple(found.attribute_uses),
        numbers=frozenset(_numbers(parsed)),
        foreign=tuple(foreign_parts(parsed, found)),
        size_names=tuple(size_names(parsed, found)),
        bare_casts=tuple(bare_casts(parsed, macros)),
        conditional=tuple(conditional_stretches(parsed)),
        has_loose_statements=kind != "body" and has_loose_statements(parsed),
    )


def _refused(text: str, kind: Text, problem: str) -> MetalText:
    everything = (TextSpan(0, len(text), 1, 1),)
    return MetalText(text, everything, names_known=False, kind=kind, refusal=problem)


def _marks(parsed: Parsed) -> Iterator[AttributeMark]:
    for part in parsed.of_kinds("attribute_declaration"):
        yield from parsed.attribute_marks(part)


def _numbers(parsed: Parsed) -> Iterator[int]:
    """The integers that the text writes, besides those that are sizes of arrays."""
    for part in parsed.of_kinds("number_literal"):
        digits = parsed.word(part).rstrip("uUlL")
        number = whole_number(digits) if digits.isdecimal() else None
        if number is not None and part.role != "size" and parsed.holds(part):
            yield number


def undeclared(text: MetalText, scope: frozenset[str] = frozenset()) -> tuple[Use, ...]:
    """Uses of names that nothing declares: the text does not compile.

    Silent where the parse of the text or of what is around it is doubtful, and where names may come
    from elsewhere.

    Args:
        text: a body or a header.
        scope: names that MLX's signature brings into a body's scope; empty for a header.
    """
    if not text.parse_ok or not text.names_known:
        return ()
    return tuple(
        use for use in text.free if use.name not in scope and not is_known(use.name, use.kind)
    )


def redeclared(body: MetalText, scope: frozenset[str]) -> tuple[Declaration, ...]:
    """Declarations in a body's outermost scope of names that the signature already declares.

    C++ refuses to declare a parameter again there; in an inner scope it would be a new variable.

    Args:
        body: a body.
        scope: names that MLX's signature certainly brings into the body's scope.
    """
    return tuple(d for d in body.declarations if d.depth == 0 and d.name in scope)


def has_loose_statements(parsed: Parsed) -> bool:
    """Return whether a text at file scope has statements outside of functions."""
    pending = list(parsed.tree.parts)
    while pending:
        part = pending.pop()
        if part.kind in _CONDITIONS:
            pending.extend(part.parts)
        elif _is_statement(part):
            return True
    return False


def _is_statement(part: SyntaxNode) -> bool:
    if part.kind == "expression_statement":
        return any(inner.kind in _STORES for inner in part.inner)
    return part.kind in _CONTROL
