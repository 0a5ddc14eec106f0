"""The names of a text: the scopes that hold them, and the kinds of C++ that declare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.metal.program.tree import SyntaxNode
    from embercoach.metal.text_facts import (
        Declaration,
        DeclarationKind,
        PreprocessorLine,
        Use,
        UseKind,
        WrittenCall,
        WrittenFunction,
    )
    from embercoach.metal.written.macros import Macros

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


@dataclass(slots=True, eq=False)
class NameScope:
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


@dataclass(slots=True)
class Scopes:
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
