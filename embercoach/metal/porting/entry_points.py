"""The kernels of a ``.metal`` file, the arguments that MLX gives them, and the text around."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.library import is_standard_header
from embercoach.metal.preprocessor import read_macros
from embercoach.metal.program import written_names
from embercoach.metal.program.texts import Declarator, Parsed, SyntaxNode, as_written, unpack
from embercoach.metal.program.types import INTEGER_NAMES
from embercoach.metal.program.written_names import NestingError, Scopes, names_of
from embercoach.metal.text_facts import AttributeMark, Declaration, TextSpan
from embercoach.metal.tokens import tokens_of
from embercoach.metal.work_budget import TOO_DEEP, TOO_INTRICATE

if TYPE_CHECKING:
    from embercoach.metal.porting.flat_texts import FlatText

_FUNCTIONS = ("function_definition", "template_instantiation")


class PortError(ValueError):
    """A kernel that cannot be ported.

    Attributes:
        file: the included file that the place is in, empty for the main one.
        line: as ``column`` from 1.
    """

    def __init__(self, message: str, place: TextSpan | None = None) -> None:
        super().__init__(message)
        self.file = ""
        self.line = 1 if place is None else place.line
        self.column = 1 if place is None else place.column

    def located(self, origin: Callable[[int], tuple[str, int]]) -> PortError:
        """Return the error with the place that its line comes from."""
        self.file, self.line = origin(self.line)
        return self


class KernelParameter(Struct, frozen=True):
    """A parameter of a kernel.

    Attributes:
        declaration: its name, type and address space as written.
        constant: its type is ``const``, or in the constant address space.
        declarator: its stars, reference and dimensions.
        marks: its attributes.
        comment: that after it on its line, often the shape of an array.
    """

    declaration: Declaration
    constant: bool
    declarator: Declarator
    marks: tuple[AttributeMark, ...]
    comment: str = ""

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
        comments: those in front of it.
    """

    name: str
    place: TextSpan
    whole: SyntaxNode
    body: SyntaxNode
    parameters: tuple[KernelParameter, ...]
    template: tuple[TemplateParameter, ...]
    instances: tuple[str, ...]
    comments: str


class KernelFile(Struct, frozen=True):
    """A ``.metal`` file with its kernels.

    Attributes:
        cuts: what the header has not: kernels with their comments, their instantiations, function
            constants, thread attributes, and the includes that MLX has already.
        structs: the definitions of structs, by name.
        refused: the kernels that cannot be read, by name.
        function_constants: template arguments of every kernel that uses them.
        attributes: thread attributes at file scope, which every kernel may use.
    """

    flat: FlatText
    parsed: Parsed
    scopes: Scopes
    cuts: tuple[tuple[int, int], ...]
    structs: Mapping[str, tuple[int, int]]
    kernels: tuple[EntryPoint, ...]
    refused: Mapping[str, PortError]
    function_constants: tuple[TemplateParameter, ...]
    attributes: tuple[KernelParameter, ...]

    def header(self, sources: Sequence[str]) -> str:
        """Return the text around the kernels, without structs that only their signatures name."""
        text = self.flat.text
        names = Counter(
            name for part in (_without(text, self.cuts), *sources) for name in _names(part)
        )
        unused = [self.structs[name] for name in self.structs if names[name] == 1]
        lines = [line.rstrip() for line in _without(text, [*self.cuts, *unused]).splitlines()]
        kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
        return "\n".join(kept).strip("\n")


def _names(text: str) -> Iterator[str]:
    return (token.text for token in tokens_of(text) if token.kind == "name")


def _without(text: str, cuts: Iterable[tuple[int, int]]) -> str:
    """Return a text without some stretches of it."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(cuts):
        pieces.append(text[done : max(start, done)])
        done = max(end, done)
    return "".join((*pieces, text[done:]))


def read_kernels(flat: FlatText) -> KernelFile:
    """Read a ``.metal`` file.

    Raises:
        PortError: the file cannot be parsed.
    """
    text = flat.text
    macros = read_macros(text)
    parsed = as_written(text, "file", macros.blanks)
    if parsed.is_exceeded:
        raise PortError(TOO_INTRICATE)
    try:
        scopes = names_of(parsed, macros)
    except NestingError as error:
        raise PortError(TOO_DEEP) from error
    return _Reader(flat, parsed, scopes).file()


class _Reader:
    def __init__(self, flat: FlatText, parsed: Parsed, scopes: Scopes) -> None:
        self._flat = flat
        self._text = flat.text
        self._parsed = parsed
        self._scopes = scopes
        self._cuts: list[SyntaxNode] = []
        self._kernels: list[tuple[SyntaxNode, SyntaxNode, Declarator]] = []
        self._instances: dict[str, list[str]] = {}
        self._constants: list[TemplateParameter] = []
        self._attributes: list[KernelParameter] = []
        self._refused: dict[str, PortError] = {}
        self._structs: dict[str, tuple[int, int]] = {}
        #: The comments in front of kernels.
        self._comments: dict[SyntaxNode, list[SyntaxNode]] = {}

    def file(self) -> KernelFile:
        before = 0
        for part in self._outermost():
            count = len(self._cuts)
            self._note(part)
            if len(self._cuts) > count and part.kind != "preproc_include":
                self._comments[part] = [
                    one for one in self._parsed.comments if before <= one.start < part.start
                ]
            before = part.end
        moved = {id(definition) for _, definition, _ in self._kernels}
        for part in self._parsed.of_kinds("function_definition"):
            if id(part) not in moved and self._entry(part) and self._is_own(part):
                self._refuse(part, "kernel in a namespace, a class or under `#if`")
        self._check_declared()
        self._check_left()
        return KernelFile(
            self._flat,
            self._parsed,
            self._scopes,
            tuple(self._stretch(cut) for cut in self._cuts),
            self._structs,
            tuple(self._entry_points()),
            self._refused,
            tuple(self._constants),
            tuple(self._attributes),
        )

    def _entry_points(self) -> Iterator[EntryPoint]:
        for whole, definition, declarator in self._kernels:
            fault = next((part for part in whole.below() if part.broken), None)
            if fault is not None:
                self._refuse(definition, "the parser does not understand this", fault)
                continue
            try:
                yield self._entry_point(whole, definition, declarator)
            except PortError as error:
                self._refused[self._name(definition)] = error

    def _refuse(self, definition: SyntaxNode, why: str, part: SyntaxNode | None = None) -> None:
        error = PortError(why, self._parsed.place(part or definition))
        self._refused.setdefault(self._name(definition), error)

    def _name(self, definition: SyntaxNode) -> str:
        name = unpack(definition.get("declarator")).name
        return self._parsed.word(name or definition)

    def _outermost(self) -> Iterator[SyntaxNode]:
        """Yield the parts at file scope, those in an include guard too."""
        for part in self._parsed.tree.inner:
            if part.kind == "preproc_ifdef" and written_names.is_include_guard(self._parsed, part):
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
            elif definition.get("body") is not None and self._is_own(definition):
                self._kernels.append((part, definition, declarator))
            self._cuts.append(part)
        elif part.kind == "preproc_include":
            self._include(part)
        elif part.kind == "using_declaration":
            if "".join(self._parsed.word(part).split()) == "usingnamespacemetal;":
                self._cuts.append(part)
        elif part.kind in ("struct_specifier", "class_specifier"):
            self._struct(part)
        elif part.kind == "declaration" and not self._outer_attribute(part):
            self._function_constant(part)

    def _is_own(self, part: SyntaxNode) -> bool:
        """Return whether a part is not in an included file."""
        return not self._flat.origin(self._parsed.place(part).line)[0]

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

    def _struct(self, part: SyntaxNode) -> None:
        """Note the definition of a struct, up to its semicolon."""
        name, place = part.get("name"), self._parsed.place(part)
        end = self._text.find(";", place.end)
        if name is not None and end >= 0 and not self._text[place.end : end].strip():
            self._structs[self._parsed.word(name)] = place.start, end + 1

    def _outer_attribute(self, part: SyntaxNode) -> bool:
        """Note a thread attribute at file scope; return whether a declaration is one."""
        if not any(mark.name in ATTRIBUTES for mark in self._parsed.declared_marks(part)):
            return False
        self._attributes.append(self._parameter(part))
        self._cuts.append(part)
        return True

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

    def _check_declared(self) -> None:
        """Refuse function constants and attributes that the header uses: it does not see them."""
        declared = {
            id(one.declaration): f"function constant `{one.name}`" for one in self._constants
        }
        for one in self._attributes:
            declared[id(one.declaration)] = f"thread attribute `{one.name}`"
        cuts = [(cut.start, cut.end) for cut in self._cuts]
        for part in self._parsed.of_kinds("identifier") if declared else ():
            name = declared.get(id(self._scopes.bindings.get(part.start)))
            if name and not any(start <= part.start < end for start, end in cuts):
                message = f"{name} is used outside of kernels"
                raise PortError(message, self._parsed.place(part))

    def _check_left(self) -> None:
        """Refuse a kernel of which the parser has made something else."""
        seen = [self._stretch(cut) for cut in self._cuts]
        seen += [
            self._stretch(part)
            for part in self._parsed.of_kinds("function_definition", "preproc_def")
        ]
        seen += [self._stretch(part) for part in self._parsed.of_kinds("preproc_function_def")]
        for token in tokens_of(self._text) if not self._refused else ():
            is_entry = token.kind == "name" and token.text == "kernel"
            if is_entry and not any(start <= token.start < end for start, end in seen):
                row = self._text.count("\n", 0, token.start) + 1
                place = next(iter(self._parsed.faults), TextSpan(token.start, token.end, row, 1))
                self._refused["a kernel"] = PortError("the parser does not understand this", place)

    def _stretch(self, part: SyntaxNode) -> tuple[int, int]:
        """Return the characters of a part, with the comments in front of a kernel."""
        place = self._parsed.place(part)
        before = self._comments.get(part)
        return self._parsed.place(before[0]).start if before else place.start, place.end

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
            "\n".join(dedent(parsed.word(one)) for one in self._comments.get(whole, ())),
        )

    def _parameter(self, part: SyntaxNode) -> KernelParameter:
        parsed = self._parsed
        declarator = unpack(part.get("declarator"))
        if not part.kind.endswith("declaration") or declarator.name is None:
            raise PortError("parameter without a name", parsed.place(part))
        declaration = self._scopes.bindings[declarator.name.start]
        _plain_name(declaration.name, declaration.place)
        constant = declaration.address_space == "constant" or parsed.is_constant(part)
        end = parsed.place(part).end
        rest = self._text[end : self._text.find("\n", end)].lstrip(" \t,)")
        return KernelParameter(
            declaration,
            constant,
            declarator,
            tuple(parsed.declared_marks(part)),
            rest.strip("/* \t") if rest.startswith(("//", "/*")) else "",
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
    """Return the kind of template argument that has a type, None where MLX has none."""
    if written == "bool":
        return "bool"
    return "int" if written in INTEGER_NAMES else None


def _plain_name(name: str, place: TextSpan) -> str:
    """Return a name that is one in Python as well: it goes into the module.

    Raises:
        PortError: it has other characters than ASCII letters, digits and underscores.
    """
    if not (name.isascii() and name.isidentifier()):
        raise PortError("name must have ASCII letters, digits and underscores only", place)
    return name


def chosen(file: KernelFile, names: Sequence[str]) -> tuple[EntryPoint, ...]:
    """Return the kernels of these names, all for no names.

    Raises:
        PortError: there is no such kernel.
    """
    if not file.kernels and not file.refused:
        raise PortError("the file defines no kernel")
    known = {kernel.name: kernel for kernel in file.kernels}
    if len(known) < len(file.kernels):
        raise PortError("two kernels have the same name", file.kernels[-1].place)
    for name in names:
        if name in file.refused:
            raise file.refused[name]
        if name not in known:
            raise PortError(f"no kernel `{name}`: the file has {', '.join(known)}")
    return tuple(known[name] for name in names) if names else file.kernels
