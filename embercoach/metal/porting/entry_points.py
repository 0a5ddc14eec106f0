"""The kernels of a ``.metal`` file, and the text around them that MLX gets as ``header``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.library import is_standard_header
from embercoach.metal.preprocessor import read_macros
from embercoach.metal.program.declarators import unpack
from embercoach.metal.program.texts import as_written
from embercoach.metal.program.types import INTEGER_NAMES
from embercoach.metal.work_budget import TOO_DEEP, TOO_INTRICATE
from embercoach.metal.written import naming
from embercoach.metal.written.name_scopes import NestingError, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.metal.program.declarators import Declarator
    from embercoach.metal.program.texts import Parsed, SyntaxNode
    from embercoach.metal.text_facts import AttributeMark, Declaration, TextSpan
    from embercoach.metal.written.naming import Scopes

_FUNCTIONS = ("function_definition", "template_instantiation")


class PortError(ValueError):
    """A kernel that cannot be ported; ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, place: TextSpan | None = None) -> None:
        super().__init__(message)
        self.line = 1 if place is None else place.line
        self.column = 1 if place is None else place.column


class KernelParameter(Struct, frozen=True):
    """A parameter of a kernel.

    Attributes:
        declaration: its name, type and address space as written.
        constant: its type is ``const``, or in the constant address space.
        declarator: its stars, reference and dimensions.
        marks: its attributes.
    """

    declaration: Declaration
    constant: bool
    declarator: Declarator
    marks: tuple[AttributeMark, ...]

    @property
    def name(self) -> str:
        """The name, never empty."""
        return self.declaration.name

    @property
    def place(self) -> TextSpan:
        """The place of the name."""
        return self.declaration.place


class TemplateParameter(Struct, frozen=True):
    """A template argument of the port: of a template, or a function constant.

    Attributes:
        kind: ``dtype``, ``bool`` or ``int``.
        declaration: where the text declares it; None for one that the port adds.
    """

    name: str
    kind: str
    declaration: Declaration | None = None


class EntryPoint(Struct, frozen=True):
    """A kernel that is defined in a file.

    Attributes:
        whole: its definition, with the template around it.
        body: from brace to brace.
        instances: the template arguments of its instantiations, as written.
    """

    name: str
    place: TextSpan
    whole: SyntaxNode
    body: SyntaxNode
    parameters: tuple[KernelParameter, ...]
    template: tuple[TemplateParameter, ...]
    instances: tuple[str, ...]


class KernelFile(Struct, frozen=True):
    """A ``.metal`` file with its kernels.

    Attributes:
        header: the text without kernels, their instantiations, function constants, and the
            includes that MLX has already.
        function_constants: template arguments of every kernel that uses them.
    """

    text: str
    parsed: Parsed
    scopes: Scopes
    header: str
    kernels: tuple[EntryPoint, ...]
    function_constants: tuple[TemplateParameter, ...]


def read_kernels(text: str) -> KernelFile:
    """Read a ``.metal`` file.

    Raises:
        PortError: the file cannot be parsed, or has a kernel that cannot be moved.
    """
    macros = read_macros(text)
    parsed = as_written(text, "file", macros.blanks)
    if parsed.is_exceeded:
        raise PortError(TOO_INTRICATE)
    if parsed.faults:
        raise PortError("the parser does not understand this", parsed.faults[0])
    try:
        scopes = names_of(parsed, macros)
    except NestingError as error:
        raise PortError(TOO_DEEP) from error
    return _Reader(text, parsed, scopes).file()


class _Reader:
    def __init__(self, text: str, parsed: Parsed, scopes: Scopes) -> None:
        self._text = text
        self._parsed = parsed
        self._scopes = scopes
        self._cuts: list[SyntaxNode] = []
        self._kernels: list[tuple[SyntaxNode, SyntaxNode, Declarator]] = []
        self._instances: dict[str, list[str]] = {}
        self._constants: list[TemplateParameter] = []

    def file(self) -> KernelFile:
        for part in self._outermost():
            self._note(part)
        moved = {id(definition) for _, definition, _ in self._kernels}
        for part in self._parsed.of_kinds("function_definition"):
            if id(part) not in moved and self._entry(part):
                place = self._parsed.place(part)
                raise PortError("kernel in a namespace, a class or under `#if`", place)
        self._check_function_constants()
        return KernelFile(
            self._text,
            self._parsed,
            self._scopes,
            self._header(),
            tuple(self._entry_point(*found) for found in self._kernels),
            tuple(self._constants),
        )

    def _outermost(self) -> Iterator[SyntaxNode]:
        """The parts at file scope, those in an include guard too."""
        for part in self._parsed.tree.inner:
            if part.kind == "preproc_ifdef" and naming.is_include_guard(self._parsed, part):
                yield from part.inner
            else:
                yield part

    def _note(self, part: SyntaxNode) -> None:
        definition = part
        if part.kind == "template_declaration" and part.inner:
            definition = part.inner[-1]
        if definition.kind in _FUNCTIONS and self._entry(definition):
            declarator = unpack(definition.get("declarator"))
            if definition.kind == "template_instantiation":
                self._instance(definition, declarator)
            elif definition.get("body") is not None:
                self._kernels.append((part, definition, declarator))
            self._cuts.append(part)
        elif part.kind == "preproc_include":
            self._include(part)
        elif part.kind == "using_declaration":
            if "".join(self._parsed.word(part).split()) == "usingnamespacemetal;":
                self._cuts.append(part)
        elif part.kind == "declaration":
            self._function_constant(part)

    def _entry(self, part: SyntaxNode) -> bool:
        found = {mark.name for mark in self._parsed.declared_marks(part)}
        return "kernel" in found or "kernel" in self._parsed.qualifiers_in(part)

    def _instance(self, part: SyntaxNode, declarator: Declarator) -> None:
        arguments = next((p for p in declarator.rest if p.kind == "template_argument_list"), None)
        if declarator.name is not None and arguments is not None:
            name = self._parsed.word(declarator.name)
            words = " ".join(self._parsed.word(arguments)[1:-1].split())
            self._instances.setdefault(name, []).append(words)
        else:
            raise PortError("instantiation without a plain name", self._parsed.place(part))

    def _include(self, part: SyntaxNode) -> None:
        path = part.get("path")
        target = "" if path is None else self._parsed.word(path)
        if not is_standard_header(target):
            message = f"MLX cannot include {target}: paste the declarations that the kernel uses"
            raise PortError(message, self._parsed.place(part))
        self._cuts.append(part)

    def _function_constant(self, part: SyntaxNode) -> None:
        marks = self._parsed.declared_marks(part)
        if not any(mark.name == "function_constant" for mark in marks):
            return
        declarator = unpack(part.get("declarator"))
        place = self._parsed.place(part)
        if declarator.name is None or len(list(part.all("declarator"))) != 1:
            raise PortError("function constant without a plain name", place)
        declaration = self._scopes.bindings[declarator.name.start]
        kind = _number_kind(declaration.type)
        if kind is None:
            message = f"function constant must be a bool or an integer, got `{declaration.type}`"
            raise PortError(message, place)
        self._constants.append(TemplateParameter(declaration.name, kind, declaration))
        self._cuts.append(part)

    def _check_function_constants(self) -> None:
        """Refuse function constants that the header uses: it sees no template arguments."""
        declared = {id(one.declaration): one.name for one in self._constants}
        cuts = [(cut.start, cut.end) for cut in self._cuts]
        for part in self._parsed.of_kinds("identifier") if declared else ():
            name = declared.get(id(self._scopes.bindings.get(part.start)))
            if name and not any(start <= part.start < end for start, end in cuts):
                message = f"function constant `{name}` is used outside of kernels"
                raise PortError(message, self._parsed.place(part))

    def _header(self) -> str:
        pieces: list[str] = []
        done = 0
        for cut in self._cuts:
            place = self._parsed.place(cut)
            pieces.append(self._text[done : place.start])
            done = place.end
        pieces.append(self._text[done:])
        lines = [line.rstrip() for line in "".join(pieces).splitlines()]
        kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
        return "\n".join(kept).strip("\n")

    def _entry_point(
        self, whole: SyntaxNode, definition: SyntaxNode, declarator: Declarator
    ) -> EntryPoint:
        parsed = self._parsed
        name, body = declarator.name, definition.get("body")
        listed = None if declarator.function is None else declarator.function.get("parameters")
        if name is None or body is None or body.kind != "compound_statement" or listed is None:
            raise PortError("kernel without a plain name or body", parsed.place(definition))
        return EntryPoint(
            _plain_name(parsed.word(name), parsed.place(name)),
            parsed.place(name),
            whole,
            body,
            tuple(self._parameter(part) for part in listed.inner),
            tuple(self._template(whole)),
            tuple(self._instances.get(parsed.word(name), ())),
        )

    def _parameter(self, part: SyntaxNode) -> KernelParameter:
        parsed = self._parsed
        declarator = unpack(part.get("declarator"))
        if not part.kind.endswith("parameter_declaration") or declarator.name is None:
            raise PortError("parameter without a name", parsed.place(part))
        declaration = self._scopes.bindings[declarator.name.start]
        _plain_name(declaration.name, declaration.place)
        constant = declaration.address_space == "constant" or any(
            child.kind == "type_qualifier"
            and child.start not in parsed.qualifiers
            and parsed.word(child) == "const"
            for child in part.parts
        )
        return KernelParameter(
            declaration, constant, declarator, tuple(parsed.declared_marks(part))
        )

    def _template(self, whole: SyntaxNode) -> Iterator[TemplateParameter]:
        listed = whole.get("parameters") if whole.kind == "template_declaration" else None
        for part in () if listed is None else listed.inner:
            name = part.get("name") or unpack(part.get("declarator")).name
            if name is None:
                name = next((c for c in part.inner if c.kind == "type_identifier"), None)
            declaration = None if name is None else self._scopes.bindings.get(name.start)
            kind: str | None = "dtype"
            if declaration is not None and not part.kind.endswith("type_parameter_declaration"):
                kind = _number_kind(declaration.type)
            if declaration is None or kind is None:
                message = "template parameter must be a type, a bool or an integer"
                raise PortError(message, self._parsed.place(part))
            _plain_name(declaration.name, declaration.place)
            yield TemplateParameter(declaration.name, kind, declaration)


def _number_kind(written: str) -> str | None:
    """The kind of template argument that has a type, None where MLX has none."""
    if written == "bool":
        return "bool"
    return "int" if written in INTEGER_NAMES else None


def _plain_name(name: str, place: TextSpan) -> str:
    """A name that is one in Python as well: it goes into the module.

    Raises:
        PortError: it has other characters than ASCII letters, digits and underscores.
    """
    if not (name.isascii() and name.isidentifier()):
        raise PortError("name must have ASCII letters, digits and underscores only", place)
    return name


def chosen(file: KernelFile, names: Sequence[str]) -> tuple[EntryPoint, ...]:
    """The kernels of these names, all for no names.

    Raises:
        PortError: there is no such kernel.
    """
    if not file.kernels:
        raise PortError("the file defines no kernel")
    known = {kernel.name: kernel for kernel in file.kernels}
    if len(known) < len(file.kernels):
        raise PortError("two kernels have the same name", file.kernels[-1].place)
    for name in names:
        if name not in known:
            raise PortError(f"no kernel `{name}`: the file has {', '.join(known)}")
    return tuple(known[name] for name in names) if names else file.kernels
