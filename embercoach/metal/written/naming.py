"""The names of a text: scopes, declarations, and the types written in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from embercoach.metal.library import ENTRY_QUALIFIERS
from embercoach.metal.program.declarators import unpack
from embercoach.metal.text_facts import WrittenFunction, WrittenParameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from embercoach.metal.preprocessor import Macros
    from embercoach.metal.program.declarators import Declarator
    from embercoach.metal.program.texts import Parsed, SyntaxNode
    from embercoach.metal.text_facts import (
        Declaration,
        DeclarationKind,
        PreprocessorLine,
        Use,
        UseKind,
        WrittenCall,
    )

#: Attributes of the entry points of a mesh pipeline.
_MESH_STAGES = frozenset({"mesh", "object"})


def type_words(parsed: Parsed, part: SyntaxNode) -> str:
    """The type of a declaration as written, without qualifiers and without a class body."""
    kind = part.get("type")
    if kind is not None and kind.get("body") is not None:
        kind = kind.get("name")
    return "" if kind is None else " ".join(parsed.word(kind).split())


def _parameter(parsed: Parsed, part: SyntaxNode) -> WrittenParameter:
    parts = unpack(part.get("declarator"))
    name = parts.names[0] if parts.names else None
    return WrittenParameter(
        name="" if name is None else parsed.word(name),
        type=type_words(parsed, part),
        address_space=parsed.space(part),
        pointer=parts.is_address,
        attributes=tuple(parsed.declared_marks(part)),
        place=parsed.place(name or part),
    )


def function(
    parsed: Parsed, part: SyntaxNode, declarator: Declarator, *, member: bool
) -> WrittenFunction | None:
    """The function that a definition or declaration declares, None when it has no plain name."""
    if declarator.function is None or not declarator.names:
        return None
    name = declarator.names[0]
    marks = {
        mark.name
        for child in part.parts
        if child.kind == "attribute_declaration"
        for mark in parsed.attribute_marks(child)
    }
    words = [w for w in (*parsed.qualifiers_in(part), *sorted(marks)) if w in ENTRY_QUALIFIERS]
    words += sorted(marks & _MESH_STAGES)
    listed = declarator.function.get("parameters")
    return WrittenFunction(
        name=parsed.word(name),
        entry=words[0] if words else None,
        body=part.get("body") is not None,
        parameters=tuple(
            _parameter(parsed, child)
            for child in ([] if listed is None else listed.inner)
            if child.kind.endswith("parameter_declaration")
        ),
        place=parsed.place(name),
        extent=parsed.place(part),
        member=member,
        result=type_words(parsed, part) + "*" * declarator.is_address,
    )


def member_names(body: SyntaxNode) -> Iterator[SyntaxNode]:
    """The names that a class body declares, methods and nested types included."""
    for member in body.inner:
        inner = member
        if member.kind == "template_declaration" and member.inner:
            inner = member.inner[-1]
        for declarator in inner.all("declarator"):
            yield from unpack(declarator).names
        name = inner.get("name")
        if name is not None and name.kind == "type_identifier":
            yield name


def callee_words(parsed: Parsed, callee: SyntaxNode) -> tuple[str, tuple[str, ...]]:
    """The callee without its template arguments, and these."""
    last = callee
    if callee.kind == "qualified_identifier":
        last = callee.get("name") or callee
    arguments = last.get("arguments")
    if arguments is None or arguments.kind != "template_argument_list":
        return "".join(parsed.word(callee).split()), ()
    before = parsed.text_between(callee.start, arguments.start)
    return "".join(before.split()), tuple(map(parsed.word, arguments.inner))


def is_include_guard(parsed: Parsed, part: SyntaxNode) -> bool:
    """Return whether a conditional is an include guard: it defines what it tests."""
    asked = part.get("name")
    defined = next((child for child in part.inner if child.kind == "preproc_def"), None)
    name = None if defined is None else defined.get("name")
    if asked is None or name is None or not part.parts[0].kind.startswith("#ifndef"):
        return False
    return parsed.word(asked) == parsed.word(name)


USED: Mapping[str, UseKind] = {
    "identifier": "value",
    "type_identifier": "type",
    "namespace_identifier": "namespace",
}
NAMES = USED.keys() | {"field_identifier"}
# Their contents are not names, or not names of this text.
SKIPPED = frozenset(
    {
        "attribute_declaration",
        "attribute_specifier",
        "field_designator",
        "literal_suffix",
        "preproc_call",
        "preproc_def",
        "preproc_function_def",
        "string_literal",
    }
)
SCOPES = frozenset(
    {
        "compound_statement",
        "field_declaration_list",
        "for_range_loop",
        "for_statement",
        "function_definition",
        "if_statement",
        "lambda_expression",
        "switch_statement",
        "template_declaration",
        "template_instantiation",
        "while_statement",
    }
)
CONDITIONS = frozenset({"preproc_if", "preproc_elif", "preproc_ifdef", "preproc_elifdef"})
# The one part of each that is followed; their names are declared, or none of this text.
FOLLOWED = {
    "type_parameter_declaration": "default_type",
    "optional_type_parameter_declaration": "default_type",
    "variadic_type_parameter_declaration": "default_type",
    "enumerator": "value",
    "alias_declaration": "type",
    "namespace_definition": "body",
    "namespace_alias_definition": "body",
    "using_declaration": "",
    "preproc_include": "",
}
# The child of each that is the name, and the kind of thing that it names.
NAMED: Mapping[str, tuple[str, DeclarationKind]] = {
    "alias_declaration": ("name", "alias"),
    "enum_specifier": ("name", "type"),
    "enumerator": ("name", "enumerator"),
    "lambda_capture_initializer": ("left", "local"),
    "namespace_alias_definition": ("name", "namespace"),
    "namespace_definition": ("name", "namespace"),
    "optional_type_parameter_declaration": ("name", "template"),
    "type_parameter_declaration": ("name", "template"),
    "variadic_type_parameter_declaration": ("name", "template"),
}
# The child of each that can be neither a constant nor a type.
OF_VARIABLES = {
    "assignment_expression": "left",
    "subscript_expression": "argument",
    "update_expression": "argument",
}


class NameScope(Struct, eq=False):
    """A part whose names are visible in it alone.

    Attributes:
        names: the declarations of each name, None where one is not known, each after the byte from
            which on it is visible.
        is_open: any name may be declared here, as in a class whose bases are not followed.
        template: holds template parameters; what a template declares lands outside.
    """

    depth: int = 0
    outer: NameScope | None = None
    template: bool = False
    is_open: bool = False
    names: dict[str, list[tuple[int, Declaration | None]]] = field(default_factory=dict)

    @property
    def lasting(self) -> NameScope:
        """The scope in which what is declared here can live."""
        scope = self
        while scope.template and scope.outer is not None:
            scope = scope.outer
        return scope


class Scopes(Struct):
    """The names of one text.

    Attributes:
        bindings: start byte of each used name to its declaration in the text.
        origins: of each declaration the part that declares it, and its initial value.
        free: uses that no declaration covers, in the order of the text.
    """

    macros: Macros
    declarations: list[Declaration] = field(default_factory=list)
    bindings: dict[int, Declaration] = field(default_factory=dict)
    origins: dict[Declaration, tuple[SyntaxNode | None, SyntaxNode | None]] = field(
        default_factory=dict
    )
    free: list[Use] = field(default_factory=list)
    attribute_uses: list[Use] = field(default_factory=list)
    calls: list[WrittenCall] = field(default_factory=list)
    functions: list[WrittenFunction] = field(default_factory=list)
    directives: list[PreprocessorLine] = field(default_factory=list)
