"""Structs: their fields, constants and methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.program import lower_declarations, typing
from embercoach.metal.program.declarators import unpack
from embercoach.metal.program.lower_functions import make_function, template_parameter
from embercoach.metal.program.lowering_state import Field
from embercoach.metal.program.nodes import MetalFunction, Struct, Variable
from embercoach.metal.program.types import Type

if TYPE_CHECKING:
    from embercoach.metal.program.declarators import Declarator
    from embercoach.metal.program.lowering_state import Lowering, Meaning
    from embercoach.metal.program.nodes import Statement
    from embercoach.metal.program.tree import SyntaxNode

_MEMBERS = frozenset({"field_declaration", "function_definition", "declaration"})
_STATEMENTS = frozenset(
    {
        "alias_declaration",
        "type_definition",
        "enum_specifier",
        "access_specifier",
        "static_assert_declaration",
        "using_declaration",
        "preproc_if",
        "preproc_ifdef",
    }
)


@dataclass(frozen=True, slots=True)
class _Method:
    """A method that is made when all fields are known."""

    part: SyntaxNode
    declarator: Declarator
    template: tuple[Variable, ...]
    scope: dict[str, Meaning]


def structure(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """A struct inside a function."""
    define_struct(work, part, ())
    return []


def define_struct(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    """A struct; one without a body only declares its name."""
    name, body = part.get("name"), part.get("body")
    if name is None or name.kind != "type_identifier":
        work.problem(part, "a struct without a plain name")
        return
    word = work.word(name)
    work.declare(word, Type(word))
    if body is None:
        return
    if part.has("base_class_clause"):
        work.problem(part, "a struct with a base")
    scope: dict[str, Meaning] = dict(work.templates[-1]) if work.templates else {}
    fields: list[Variable] = []
    pending: list[_Method] = []
    work.scopes.append(scope)
    for item in body.inner:
        _member(work, item, word, fields, pending)
    work.scopes.pop()
    methods: dict[str, tuple[MetalFunction, ...]] = {}
    struct = Struct(word, tuple(fields), template, methods, work.spot(name))
    work.structs[word] = struct
    owner = Variable("this", "parameter", Type(word, space="thread", reference=True), struct.spot)
    scope |= {field.name: Field(owner, field) for field in fields}
    for method in pending:
        work.templates.append(method.scope)
        function = make_function(
            work, method.part, method.declarator, method.template, owner, scope
        )
        work.templates.pop()
        methods[function.name] = (*methods.get(function.name, ()), function)
    # They call each other by their bare names.
    scope |= {called: found for called, found in methods.items() if called != word}


def _member(
    work: Lowering, item: SyntaxNode, struct: str, fields: list[Variable], pending: list[_Method]
) -> None:
    template: tuple[Variable, ...] = ()
    scope: dict[str, Meaning] = {}
    parameters = item.get("parameters")
    if item.kind == "template_declaration" and parameters is not None and item.inner:
        work.scopes.append(scope)
        template = tuple(template_parameter(work, p) for p in parameters.inner)
        work.scopes.pop()
        item = item.inner[-1]
    if item.kind in _STATEMENTS:
        work.statement(item)
        return
    if item.kind not in _MEMBERS:
        work.problem(item, f"not understood in a struct: {item.kind.replace('_', ' ').lower()}")
        return
    static = any(work.word(child) == "static" for child in item.parts if "storage" in child.kind)
    for declarator in item.all("declarator"):
        parts = unpack(declarator)
        if parts.name is None:
            continue
        if parts.function is not None:
            pending.append(_Method(item, parts, template, scope))
        elif static:
            _static(work, item, struct, parts)
        else:
            kind = typing.shaped(work, typing.written_type(work, item), parts)
            spot = work.spot(parts.name)
            fields.append(Variable(work.word(parts.name), "field", kind, spot))


def _static(work: Lowering, item: SyntaxNode, struct: str, parts: Declarator) -> None:
    """A constant of a struct: methods see it by its name, others through the struct."""
    found = lower_declarations.declared(work, item, parts, item.get("default_value"), item)
    work.constants.append(found)
    work.scopes[0][f"{struct}::{found.variable.name}"] = found.variable
