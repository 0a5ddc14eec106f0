"""The facts of a kernel body, and of the header or file around it.

``read_body`` takes what MLX calls ``source``, ``read_unit`` what is at file scope: a kernel's
``header`` or a whole ``.metal`` file. Both only read; the checks report errors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct, field

from embercoach.metal.cuda_names import QUALIFIERS
from embercoach.metal.library import is_known, is_standard_header
from embercoach.metal.preprocessor import Macros, read_macros
from embercoach.metal.program.nodes import Spot, Text
from embercoach.metal.program.texts import (
    Parsed,
    SyntaxNode,
    as_written,
    attribute_parts,
    cast_target,
    unpack,
    unpack_initialized,
)
from embercoach.metal.program.types import INTEGER_NAMES, is_vector
from embercoach.metal.program.written_names import NestingError, Scopes, is_include_guard, names_of
from embercoach.metal.text_facts import (
    AttributeMark,
    BareCast,
    Declaration,
    Foreign,
    ForeignKind,
    PreprocessorLine,
    SizeName,
    Splat,
    TextSpan,
    Use,
    WrittenCall,
    WrittenFunction,
)
from embercoach.metal.tokens import tokens_of, whole_number
from embercoach.metal.work_budget import TOO_DEEP, TOO_INTRICATE

_NESTED_SCOPES = frozenset({"namespace_definition", "linkage_specification", "declaration_list"})
_BRACES = {"{": 1, "}": -1}
#: Types of the library whose variables at program scope need no ``constant``.
_HANDLES = frozenset({"sampler", "metal::sampler"})
_ORDERS = frozenset(
    f"memory_order_{order}" for order in ("acquire", "release", "acq_rel", "seq_cst", "consume")
)


def refused_parts(parsed: Parsed, macros: Macros) -> Iterator[tuple[SyntaxNode, ForeignKind]]:
    """Yield names of variables that Metal does not allow where they are, and orders of atomics."""
    # A macro may stand for the address space.
    if not macros.blanks:
        outer = list(_at_file_scope(parsed))
        found = [name for part in outer for name in _unplaced(parsed, part, macros)]
        unplaced = list(_outside_of_braces(parsed, found))
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
    if macros.blanks:
        return
    for cast in parsed.of_kinds("cast_expression", "template_function"):
        part = cast_target(parsed, cast)
        if part is None or part.kind != "type_descriptor":
            continue
        kind, declarator = part.get("type"), part.get("declarator")
        if kind is None or declarator is None or parsed.word(kind) in macros.names:
            continue
        if unpack(declarator).is_address and parsed.space(part) is None:
            yield part, kind


def _at_file_scope(parsed: Parsed) -> Iterator[SyntaxNode]:
    """Yield the declarations of a header or a file that are in no function or type."""
    pending = [parsed.tree] if parsed.tree.kind == "translation_unit" else []
    while pending:
        for part in pending.pop().inner:
            if part.kind == "declaration":
                yield part
            elif part.kind in _NESTED_SCOPES:
                pending.append(part)


def _outside_of_braces(parsed: Parsed, names: list[SyntaxNode]) -> Iterator[SyntaxNode]:
    """Yield the names that are in no braces but those of the parts around them.

    After a use of a macro that is not known, the parser may take the statements of a function for
    declarations at file scope.
    """
    if not names or not parsed.faults:
        yield from names
        return
    starts, depths = [0], [0]
    for token in tokens_of(parsed.expanded.text):
        if token.text in _BRACES:
            starts.append(token.start)
            depths.append(depths[-1] + _BRACES[token.text])
    for name in names:
        around = sum(part.kind == "declaration_list" for part in parsed.around(name))
        if depths[bisect_right(starts, parsed.offset(name)) - 1] == around:
            yield name


def _unplaced(parsed: Parsed, part: SyntaxNode, macros: Macros) -> Iterator[SyntaxNode]:
    """Yield the variables of a declaration at file scope that are not in ``constant`` memory."""
    kind, space = part.get("type"), parsed.space(part)
    is_extern = _has_storage(parsed, part, "extern")
    if kind is None or space in ("constant", "threadgroup") or is_extern:
        return  # KERNEL-MEMORY-002 reports threadgroup variables
    written = parsed.word(kind)
    if written in _HANDLES or written in macros.names:
        return
    attributes = [parsed.word(attribute) for attribute in attribute_parts(part)]
    if not attributes:
        yield from _variables(part)
    elif all("buffer(" in attribute for attribute in attributes):
        # The host binds arguments of entry points alone.
        yield from _variables(part, addresses=True)


def _variables(part: SyntaxNode, *, addresses: bool = False) -> Iterator[SyntaxNode]:
    """Yield the names of a declaration that hold values, those of addresses where these count."""
    for declarator in part.all("declarator"):
        parts, _ = unpack_initialized(declarator)
        name = parts.name
        # The parser adds an empty name to ``extern "C" struct S {...};``.
        if name is None or name.start == name.end:
            continue
        if parts.function is None and (addresses or not parts.is_address):
            yield name


def _has_storage(parsed: Parsed, part: SyntaxNode, word: str) -> bool:
    return any(c.kind == "storage_class_specifier" and parsed.word(c) == word for c in part.parts)


def _is_static(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether a local keeps its value between calls: ``static``, and not a constant."""
    if parsed.space(part) is not None or parsed.is_constant(part):
        return False
    return _has_storage(parsed, part, "static")


def _strong_orders(parsed: Parsed, call: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield the orders of ``atomic_..._explicit`` that are not relaxed."""
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
#: Headers of the C++ standard library and of CUDA that Metal lacks. Those of C (``stdint.h``) are
#: left out: a compiler brings some of them itself.
_MISSING_HEADERS = frozenset(
    [
        *_LIBRARY.split(),
        *("cuda.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "math_constants.h"),
        *("cooperative_groups.h", "device_launch_parameters.h"),
    ]
)


def foreign_parts(parsed: Parsed, scopes: Scopes) -> Iterator[Foreign]:
    """Yield every use of what Metal lacks, in the order of the text."""
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
    yield from _cuda_qualifiers(parsed, scopes.macros)


def _cuda_qualifiers(parsed: Parsed, macros: Macros) -> Iterator[Foreign]:
    words = QUALIFIERS.keys() - macros.names
    if not any(word in parsed.expanded.text for word in words):
        return
    conditional = tuple(conditional_stretches(parsed))
    for token in tokens_of(parsed.expanded.text):
        place = parsed.written(token.start, token.end).place
        if token.text in words and not any(p.start <= place.start < p.end for p in conditional):
            yield Foreign("cuda", token.text, place)


def bare_casts(parsed: Parsed, macros: Macros) -> Iterator[BareCast]:
    """Casts to pointers that name no address space."""
    is_compiled = _compiled(parsed)
    for part, kind in pointer_casts(parsed, macros):
        if is_compiled(part):
            yield BareCast(parsed.word(kind), parsed.place(part))


def splats(parsed: Parsed, scopes: Scopes) -> Iterator[Splat]:
    """Yield vectors that hold one element in all components, of which only single ones are read."""
    is_compiled = _compiled(parsed)
    reads: dict[Declaration, set[str]] | None = None
    for part in parsed.of_kinds("init_declarator"):
        owner, value = parsed.parent(part), part.get("value")
        kind = None if owner is None else owner.get("type")
        name = unpack(part.get("declarator")).name
        array = value.get("argument") if value and value.kind == "subscript_expression" else None
        if kind is None or name is None or value is None or array is None:
            continue
        written, vector = parsed.word(kind), scopes.bindings.get(name.start)
        if array.kind != "identifier" or not is_vector(written) or not is_compiled(part):
            continue
        if vector is None or vector.dimensions or vector.pointer:
            continue
        reads = _component_reads(parsed, scopes) if reads is None else reads
        if len(reads.get(vector, ())) > 1 and vector.name not in scopes.macros.mentioned:
            source = parsed.word(array)
            declared = scopes.bindings.get(array.start)
            yield Splat(written, source, declared, parsed.place(value))


def _component_reads(parsed: Parsed, scopes: Scopes) -> dict[Declaration, set[str]]:
    """Return the components that are read of each variable of which nothing else is used."""
    found: dict[Declaration, set[str]] = {}
    others: set[Declaration] = set()
    for part in parsed.of_kinds("identifier"):
        variable = scopes.bindings.get(part.start)
        above = parsed.parent(part)
        if (
            variable is None
            or above is None
            or above.role == "declarator"
            or (above.kind == "init_declarator" and part.role == "declarator")
        ):
            continue
        field_name = above.get("field") if above.kind == "field_expression" else None
        component = "" if field_name is None else parsed.word(field_name)
        if len(component) == 1 and not _is_written(parsed, above):
            found.setdefault(variable, set()).add(component)
        else:
            others.add(variable)
    return {variable: names for variable, names in found.items() if variable not in others}


def _is_written(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether an expression is assigned, updated, or its address taken."""
    above = parsed.parent(part)
    return above is not None and (
        above.kind in ("update_expression", "pointer_expression")
        or (above.kind == "assignment_expression" and part.role == "left")
    )


def conditional_stretches(parsed: Parsed) -> Iterator[TextSpan]:
    """Yield the stretches under ``#if``, but for include guards."""
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
    """Return the starts and ends of stretches that may be compiled or not."""
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
        """Return the kind of foreign text that a part is, if it is any."""
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
            found = path is not None and word(path).strip('<">') in _MISSING_HEADERS
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
        """Return the fact of a part."""
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


# Their operands are not evaluated.
_UNEVALUATED = frozenset({"sizeof_expression", "alignof_expression", "decltype"})
_MAX_STEPS = 8


def size_names(parsed: Parsed, scopes: Scopes) -> Iterator[SizeName]:
    """Yield each name that makes a size no constant expression, and each that may do so."""
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
        """Yield the names that an expression reads when the program runs, or may read (True)."""
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
        *("if_statement", "for_statement", "for_range_loop", "while_statement", "do_statement"),
        *("switch_statement", "return_statement"),
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
        splats: vectors that hold one element in all components, which are read apart.
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
    splats: tuple[Splat, ...] = ()
    conditional: tuple[TextSpan, ...] = ()
    has_loose_statements: bool = False
    refusal: str | None = None

    def at(self, place: TextSpan) -> Spot:
        """Return a place of the text, for a report."""
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
        not is_standard_header(d.target) and d.target.strip('<">') not in _MISSING_HEADERS
        for d in found.directives
        if d.kind == "include"
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
        marks=tuple(
            mark
            for part in parsed.of_kinds("attribute_declaration")
            for mark in parsed.attribute_marks(part)
        ),
        macros=macros,
        attribute_uses=tuple(found.attribute_uses),
        numbers=frozenset(_numbers(parsed)),
        foreign=tuple(foreign_parts(parsed, found)),
        size_names=tuple(size_names(parsed, found)),
        bare_casts=tuple(bare_casts(parsed, macros)),
        splats=tuple(splats(parsed, found)),
        conditional=tuple(conditional_stretches(parsed)),
        has_loose_statements=kind != "body" and has_loose_statements(parsed),
    )


def _refused(text: str, kind: Text, problem: str) -> MetalText:
    everything = (TextSpan(0, len(text), 1, 1),)
    return MetalText(text, everything, names_known=False, kind=kind, refusal=problem)


def _numbers(parsed: Parsed) -> Iterator[int]:
    """Yield the integers that the text writes, besides those that are sizes of arrays."""
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
