"""Declarations at file scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program import lower_declarations
from embercoach.metal.program.declarators import unpack
from embercoach.metal.program.lower_functions import make_function, template_parameter
from embercoach.metal.program.lower_structs import define_struct
from embercoach.metal.program.nodes import Declare
from embercoach.metal.program.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.metal.program.lowering_state import Lowering
    from embercoach.metal.program.nodes import Variable
    from embercoach.metal.program.tree import SyntaxNode


def unit(work: Lowering, parts: Iterable[SyntaxNode]) -> None:
    """Lower the declarations at file scope."""
    for part in parts:
        _item(work, part, ())


def _item(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    kind = part.kind
    if kind == "function_definition":
        _define(work, part, template)
    elif kind == "declaration":
        _declare(work, part, template)
    elif kind == "template_declaration":
        _template(work, part)
    elif kind in ("struct_specifier", "class_specifier"):
        define_struct(work, part, template)
    elif kind == "namespace_definition":
        _namespace(work, part)
    elif kind in ("linkage_specification", "declaration_list"):
        unit(work, part.inner)
    elif kind not in ("template_instantiation", "namespace_alias_definition"):
        work.constants += [found for found in work.statement(part) if isinstance(found, Declare)]


def _namespace(work: Lowering, part: SyntaxNode) -> None:
    """Lower a namespace; its names are found without it, too: using-directives may bring them."""
    name, body = part.get("name"), part.get("body")
    if name is not None:
        work.namespaces.add(work.words(name))
    if body is not None:
        unit(work, body.inner)


def _template(work: Lowering, part: SyntaxNode) -> None:
    parameters = part.get("parameters")
    inner = part.inner[-1] if part.inner else None
    if parameters is None or inner is None:
        work.problem(part, "not understood: a template")
        return
    work.scopes.append({})
    template = tuple(template_parameter(work, p) for p in parameters.inner)
    scope = work.scopes.pop()
    if inner.kind == "alias_declaration":
        name = inner.get("name")
        if name is not None:
            work.declare(work.word(name), UNKNOWN)
        return
    work.templates.append(scope)
    _item(work, inner, template)
    work.templates.pop()


def _declare(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    """A declaration at file scope: constants, and functions without their bodies."""
    for declarator in part.all("declarator"):
        parts = unpack(declarator)
        if parts.function is not None and parts.name is not None:
            make_function(work, part, parts, template)
            return
    work.constants += [
        found for found in lower_declarations.declaration(work, part) if isinstance(found, Declare)
    ]


def _define(work: Lowering, part: SyntaxNode, template: tuple[Variable, ...]) -> None:
    parts = unpack(part.get("declarator"))
    if parts.name is None or parts.function is None:
        # An operator, a constructor out of its struct, a conversion: nothing calls it by name.
        return
    make_function(work, part, parts, template)
