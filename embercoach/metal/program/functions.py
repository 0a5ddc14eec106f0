"""Functions, structs and what else stands at file scope."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.program import declarations, typing
from embercoach.metal.program.nodes import Block, Declare, Function, Return, Struct, Variable
from embercoach.metal.program.state import Field
from embercoach.metal.program.types import UNKNOWN, Type, decayed, value
from embercoach.metal.syntax import ENTRY_QUALIFIERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from embercoach.metal.program.nodes import Expression, Statement
    from embercoach.metal.program.state import Lowering, Meaning
    from embercoach.metal.program.tree import Part
    from embercoach.metal.program.typing import Declarator

_PARAMETERS = frozenset({"parameter_declaration", "optional_parameter_declaration"})


def unit(work: Lowering, parts: Iterable[Part]) -> None:
    """Declare what stands at file scope."""
    for part in parts:
        _item(work, part, ())


def _item(work: Lowering, part: Part, template: tuple[Variable, ...]) -> None:
    kind = part.kind
    if kind == "function_definition":
        _define(work, part, template)
    elif kind == "declaration":
        _declare(work, part, template)
    elif kind == "template_declaration":
        _template(work, part)
    elif kind in ("struct_specifier", "class_specifier"):
        _struct(work, part, template)
    elif kind == "namespace_definition":
        _namespace(work, part)
    elif kind in ("linkage_specification", "declaration_list"):
        unit(work, part.inner)
    elif kind not in ("template_instantiation", "namespace_alias_definition"):
        work.constants += [found for found in work.statement(part) if isinstance(found, Declare)]


def _namespace(work: Lowering, part: Part) -> None:
    """What a namespace declares is found without it, too: using-directives may bring it."""
    name, body = part.get("name"), part.get("body")
    if name is not None:
        work.namespaces.add(work.words(name))
    if body is not None:
        unit(work, body.inner)


def _template(work: Lowering, part: Part) -> None:
    parameters = part.get("parameters")
    inner = part.inner[-1] if part.inner else None
    if parameters is None or inner is None:
        work.problem(part, "not understood: a template")
        return
    work.scopes.append({})
    template = tuple(_template_parameter(work, p) for p in parameters.inner)
    scope = work.scopes.pop()
    if inner.kind == "alias_declaration":
        name = inner.get("name")
        if name is not None:
            work.declare(work.word(name), UNKNOWN)
        return
    work.templates.append(scope)
    _item(work, inner, template)
    work.templates.pop()


def _template_parameter(work: Lowering, part: Part) -> Variable:
    """A type or a number that a template takes."""
    if part.kind in _PARAMETERS:
        parts = typing.unpack(work, part.get("declarator"))
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


def _declare(work: Lowering, part: Part, template: tuple[Variable, ...]) -> None:
    """A declaration at file scope: constants, and functions without their bodies."""
    for declarator in part.all("declarator"):
        parts = typing.unpack(work, declarator)
        if parts.function is not None and parts.name is not None:
            _function(work, part, parts, template)
            return
    work.constants += [
        found for found in declarations.declaration(work, part) if isinstance(found, Declare)
    ]


def _define(work: Lowering, part: Part, template: tuple[Variable, ...]) -> None:
    parts = typing.unpack(work, part.get("declarator"))
    if parts.name is None or parts.function is None:
        # An operator, a constructor out of its struct, a conversion: nothing calls it by name.
        return
    _function(work, part, parts, template)


def _function(
    work: Lowering,
    part: Part,
    parts: Declarator,
    template: tuple[Variable, ...],
    owner: Variable | None = None,
    fields: Sequence[Variable] = (),
) -> Function:
    """Make a function; its body is lowered when all functions are known."""
    scope: dict[str, Meaning] = dict(work.templates[-1]) if work.templates else {}
    if owner is not None:
        scope |= {field.name: Field(owner, field) for field in fields}
    work.scopes += [scope, {}]
    entry = work.is_entry(part) or not ENTRY_QUALIFIERS.isdisjoint(_attributes(work, part))
    parameters, defaults = _parameters(work, parts.function)
    base = typing.written_type(work, part)
    result = typing.shaped(work, base, replace(parts, function=None))
    inner = work.scopes.pop()
    work.scopes.pop()
    name = parts.name or part
    function = Function(
        work.word(name), parameters, template, result, work.spot(name), entry, defaults, owner
    )
    if owner is None:
        work.declare(function.name, (function,))
        if work.at_file_scope:
            old = work.functions.get(function.name, ())
            work.functions[function.name] = (*old, function)
    body = part.get("body")
    if body is not None:
        work.later.append(_body(work, function, body, [*work.scopes, scope, inner]))
    return function


def _body(
    work: Lowering, function: Function, body: Part, scopes: list[dict[str, Meaning]]
) -> Callable[[], None]:
    def lower() -> None:
        outer, loops = work.scopes, work.loops
        work.scopes, work.loops = scopes, 0
        function.bodies.extend(found for found in work.statement(body) if isinstance(found, Block))
        work.scopes, work.loops = outer, loops

    return lower


def _parameters(
    work: Lowering, function: Part | None
) -> tuple[tuple[Variable, ...], tuple[Expression, ...]]:
    listed = None if function is None else function.get("parameters")
    found: list[Variable] = []
    defaults: list[Expression] = []
    for part in [] if listed is None else listed.inner:
        if part.kind not in _PARAMETERS:
            continue
        parts = typing.unpack(work, part.get("declarator"))
        if parts.name is None and not found and work.words(part) == "void":
            continue
        found.append(_parameter(work, part, parts))
        default = part.get("default_value")
        if default is not None:
            defaults.append(work.expression(default))
    return tuple(found), tuple(defaults)


def _parameter(work: Lowering, part: Part, parts: Declarator) -> Variable:
    kind = typing.shaped(work, typing.written_type(work, part), parts)
    if kind.dimensions and not kind.reference:
        kind = decayed(kind)
    attribute = next((a for a in _attributes(work, part) if a in ATTRIBUTES), "")
    name = parts.name or part
    variable = Variable(
        work.word(parts.name) if parts.name is not None else "",
        "attribute" if attribute else "parameter",
        kind if kind.space or kind == UNKNOWN else replace(kind, space="thread"),
        work.spot(name),
        attribute=attribute,
        constant=parts.fixed if kind.pointer else typing.is_constant(work, part),
    )
    if variable.name:
        work.declare(variable.name, variable)
    return variable


def _attributes(work: Lowering, part: Part) -> list[str]:
    """The names in ``[[...]]`` of a parameter."""
    found: list[str] = []
    pending = [part]
    while pending:
        current = pending.pop()
        for child in current.parts:
            if child.kind == "attribute":
                name = child.get("name")
                found.append(work.word(name or child))
            elif child.kind == "attribute_declaration" or child.kind.endswith("_declarator"):
                pending.append(child)
    return found


def structure(work: Lowering, part: Part) -> list[Statement]:
    """A struct inside a function."""
    _struct(work, part, ())
    return []


def _struct(work: Lowering, part: Part, template: tuple[Variable, ...]) -> None:
    name, body = part.get("name"), part.get("body")
    if name is None or name.kind != "type_identifier":
        return
    word = work.word(name)
    work.declare(word, Type(word))
    if body is None:
        return
    bases = any(child.kind == "base_class_clause" for child in part.parts)
    scope: dict[str, Meaning] = dict(work.templates[-1]) if work.templates else {}
    fields: list[Variable] = []
    methods: dict[str, tuple[Function, ...]] = {}
    struct = Struct(word, (), template, methods, work.spot(name))
    work.scopes.append(scope)
    pending: list[tuple[Part, Declarator]] = []
    for item in body.inner:
        _member(work, item, fields, pending)
    work.scopes.pop()
    struct = replace(struct, fields=tuple(fields))
    work.structs[word] = struct
    if bases:
        work.problem(part, "a struct with a base")
    owner = Variable("this", "parameter", Type(word, space="thread", reference=True), struct.spot)
    for item, parts in pending:
        function = _function(work, item, parts, (), owner, fields)
        methods[function.name] = (*methods.get(function.name, ()), function)


def _member(
    work: Lowering, item: Part, fields: list[Variable], pending: list[tuple[Part, Declarator]]
) -> None:
    declarators = list(item.all("declarator"))
    if item.kind in ("alias_declaration", "type_definition", "enum_specifier"):
        work.statement(item)
        return
    for declarator in declarators:
        parts = typing.unpack(work, declarator)
        if parts.name is None:
            continue
        if parts.function is not None:
            pending.append((item, parts))
            continue
        kind = typing.shaped(work, typing.written_type(work, item), parts)
        spot = work.spot(parts.name)
        fields.append(Variable(work.word(parts.name), "field", kind, spot))


def named_lambda(work: Lowering, name: Part, part: Part) -> list[Statement]:
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
    function = Function(
        work.word(name), parameters, (), result, work.spot(name), False, defaults, None, blocks
    )
    work.declare(function.name, (function,))
    return []


def _lambda_result(work: Lowering, declarator: Part | None, blocks: list[Block]) -> Type:
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
    return UNKNOWN if last is None or not isinstance(last, Return) else Type("void")
