"""Functions: their parameters, their bodies, and lambdas that have a name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.program import typing
from embercoach.metal.program.declarators import unpack
from embercoach.metal.program.lowering_state import Twins
from embercoach.metal.program.nodes import Block, Declare, MetalFunction, Return, Variable
from embercoach.metal.program.types import UNKNOWN, VOID, Type, decayed, value
from embercoach.metal.syntax import ENTRY_QUALIFIERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.metal.program.declarators import Declarator
    from embercoach.metal.program.lowering_state import Lowering, Meaning
    from embercoach.metal.program.nodes import Expression, Statement
    from embercoach.metal.program.tree import SyntaxNode

_PARAMETERS = frozenset({"parameter_declaration", "optional_parameter_declaration"})


def template_parameter(work: Lowering, part: SyntaxNode) -> Variable:
    """A type or a number that a template takes."""
    if part.kind in _PARAMETERS:
        parts = unpack(part.get("declarator"))
        kind = typing.shaped(work, typing.written_type(work, part), parts)
        name = parts.name or part
        variable = Variable(work.word(name), "template", kind, work.spot(name), constant=True)
        work.declare(variable.name, variable)
        return variable
    names = [child for child in part.inner if child.kind == "type_identifier"]
    name = part.get("name") or (names[0] if names else part)
    variable = Variable(work.word(name), "template", UNKNOWN, work.spot(name), constant=True)
    work.declare(variable.name, Type(variable.name))
    return variable


def make_function(
    work: Lowering,
    part: SyntaxNode,
    parts: Declarator,
    template: tuple[Variable, ...],
    owner: Variable | None = None,
    members: dict[str, Meaning] | None = None,
) -> MetalFunction:
    """Make a function; its body is lowered when all functions are known.

    Args:
        work: the lowering.
        part: the definition or declaration.
        parts: its declarator, which declares a function.
        template: the function's template parameters; ``work.templates`` has their meanings.
        owner: of a method the object.
        members: of a method what names mean in its struct; may grow until bodies are lowered.
    """
    around: list[dict[str, Meaning]] = [
        {} if members is None else members,
        work.templates[-1] if work.templates else {},
        {},
    ]
    work.scopes += around
    marks = [mark.name for mark in work.parsed.declared_marks(part)]
    entry = not ENTRY_QUALIFIERS.isdisjoint((*work.parsed.qualifiers_in(part), *marks))
    parameters, defaults = _parameters(work, parts.function)
    base = typing.written_type(work, part)
    result = typing.shaped(work, base, replace(parts, function=None))
    del work.scopes[-len(around) :]
    name = parts.name or part
    function = MetalFunction(
        work.word(name), parameters, template, result, work.spot(name), entry, defaults, owner
    )
    body = part.get("body")
    if owner is None:
        _declare_function(work, function, defined=body is not None)
    if body is not None:
        work.later.append(_body(work, function, body, [*work.scopes, *around]))
    return function


def _declare_function(work: Lowering, function: MetalFunction, *, defined: bool) -> None:
    """Add a function to those of its name; of a declaration and its definition one stays."""
    known = work.lookup(function.name)
    others = known if isinstance(known, tuple) else ()
    twins = work.twins.setdefault(_signature(function), Twins())
    if not defined and any(twin in others for twin in reversed(twins.all)):
        return
    kept = others
    if twins.prototypes:
        kept = tuple(f for f in others if f not in twins.prototypes)
        twins.prototypes = [f for f in twins.prototypes if f not in others]
    twins.all.append(function)
    if not defined:
        twins.prototypes.append(function)
    work.scopes[-1][function.name] = (*kept, function)
    if work.at_file_scope:
        work.functions[function.name] = (*kept, function)


def _signature(function: MetalFunction) -> tuple[str, tuple[Type, ...], int]:
    """The signature that a declaration of a function and its definition share."""
    kinds = tuple([parameter.type for parameter in function.parameters])
    return function.name, kinds, len(function.template)


def _body(
    work: Lowering, function: MetalFunction, body: SyntaxNode, scopes: list[dict[str, Meaning]]
) -> Callable[[], None]:
    def lower() -> None:
        outer, loops = work.scopes, work.loops
        work.scopes, work.loops = scopes, 0
        function.bodies.extend(found for found in work.statement(body) if isinstance(found, Block))
        work.scopes, work.loops = outer, loops

    return lower


def _parameters(
    work: Lowering, function: SyntaxNode | None
) -> tuple[tuple[Variable, ...], tuple[Expression, ...]]:
    listed = None if function is None else function.get("parameters")
    found: list[Variable] = []
    defaults: list[Expression] = []
    for part in [] if listed is None else listed.inner:
        if part.kind not in _PARAMETERS:
            continue
        parts = unpack(part.get("declarator"))
        if parts.name is None and not found and work.words(part) == "void":
            continue
        found.append(_parameter(work, part, parts))
        default = part.get("default_value")
        if default is not None:
            defaults.append(work.expression(default))
    return tuple(found), tuple(defaults)


def _parameter(work: Lowering, part: SyntaxNode, parts: Declarator) -> Variable:
    kind = typing.shaped(work, typing.written_type(work, part), parts)
    if kind.dimensions and not kind.reference:
        kind = decayed(kind)
    marks = work.parsed.declared_marks(part)
    attribute = next((mark.name for mark in marks if mark.name in ATTRIBUTES), "")
    name = parts.name or part
    variable = Variable(
        work.word(parts.name) if parts.name is not None else "",
        "attribute" if attribute else "parameter",
        kind if kind.space or kind == UNKNOWN else replace(kind, space="thread"),
        work.spot(name),
        attribute=attribute,
        constant=typing.is_constant(work, part, parts, kind),
        target=typing.target(work, part, parts),
    )
    if variable.name:
        work.declare(variable.name, variable)
    return variable


def named_lambda(work: Lowering, name: SyntaxNode, part: SyntaxNode) -> list[Statement]:
    """A lambda that a variable holds, as a function that uses the variables around it."""
    captures, declarator, body = (part.get(r) for r in ("captures", "declarator", "body"))
    if body is None or captures is None or work.words(captures) not in ("[&]", "[]"):
        variable = Variable(work.word(name), "local", UNKNOWN, work.spot(name), loops=work.loops)
        work.declare(variable.name, variable)
        return [Declare(variable, work.expression(part), work.spot(part))]
    work.scopes.append({})
    parameters, defaults = _parameters(work, declarator)
    outer, work.loops = work.loops, 0
    blocks = [found for found in work.statement(body) if isinstance(found, Block)]
    work.loops = outer
    work.scopes.pop()
    result = _lambda_result(work, declarator, blocks)
    function = MetalFunction(
        work.word(name), parameters, (), result, work.spot(name), False, defaults, None, blocks
    )
    work.declare(function.name, (function,))
    return []


def _lambda_result(work: Lowering, declarator: SyntaxNode | None, blocks: list[Block]) -> Type:
    """The written result, else the type of the last ``return``."""
    written = None if declarator is None else declarator.get("type")
    for child in [] if declarator is None else declarator.inner:
        if child.kind == "trailing_return_type" and child.inner:
            written = child.inner[0]
    if written is not None:
        return typing.descriptor_type(work, written)
    last = blocks[0].statements[-1] if blocks and blocks[0].statements else None
    if isinstance(last, Return) and last.value is not None:
        return value(last.value.type)
    return UNKNOWN if last is None or not isinstance(last, Return) else VOID
