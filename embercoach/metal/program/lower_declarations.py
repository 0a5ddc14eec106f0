"""Lowers declarations: of variables, names for types, functions and structs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.library import ENTRY_QUALIFIERS
from embercoach.metal.program import typing
from embercoach.metal.program.lower_calls import made
from embercoach.metal.program.lower_expressions import initial_value
from embercoach.metal.program.lowering_state import Field, Lowering, Meaning, Twins
from embercoach.metal.program.nodes import (
    Block,
    Construct,
    Declare,
    Expression,
    MetalFunction,
    MetalStruct,
    Opaque,
    Return,
    Statement,
    Variable,
)
from embercoach.metal.program.texts import Declarator, SyntaxNode, unpack, unpack_initialized
from embercoach.metal.program.types import INT, UNKNOWN, VOID, Type, decayed, value
from embercoach.metal.program.walk import fitted, fold, fold_int

_PARAMETERS = frozenset({"parameter_declaration", "optional_parameter_declaration"})


def template_parameter(work: Lowering, part: SyntaxNode) -> Variable:
    """Return a type or a number that a template takes."""
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
    """Return the signature that a declaration of a function and its definition share."""
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
    """Return a lambda that a variable holds, as a function that uses the variables around it."""
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
    """Return the written result, else the type of the last ``return``."""
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


_TYPES_WITH_BODY = frozenset(
    {"struct_specifier", "class_specifier", "union_specifier", "enum_specifier"}
)


def declaration(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """Return the variables of one declaration, in the order of its declarators."""
    found: list[Statement] = []
    written = part.get("type")
    if written is not None and written.kind in _TYPES_WITH_BODY and written.get("body"):
        found += work.statement(written)
    for declarator in part.all("declarator"):
        # Only in a condition the value is the declaration's own.
        parts, initial = unpack_initialized(declarator, part.get("value"))
        found += _declared(work, part, parts, initial, declarator)
    return found


def _declared(
    work: Lowering,
    part: SyntaxNode,
    declarator: Declarator,
    initial: SyntaxNode | None,
    whole: SyntaxNode,
) -> Iterator[Statement]:
    if declarator.bindings:
        yield from _bindings(work, declarator, initial, whole)
        return
    if declarator.name is None:
        yield Opaque("a declaration without a plain name", work.spot(whole))
        return
    if declarator.function is not None:
        yield from _like_function(work, part, declarator, whole)
        return
    if initial is not None and initial.kind == "lambda_expression":
        yield from work.rules.named_lambda(work, declarator.name, initial)
        return
    yield declared(work, part, declarator, initial, whole)


def _bindings(
    work: Lowering, declarator: Declarator, initial: SyntaxNode | None, whole: SyntaxNode
) -> Iterator[Statement]:
    """``auto [a, b] = pair``: the names are there, what they hold is not followed."""
    if initial is not None:
        work.expression(initial)
    for name in declarator.bindings:
        variable = Variable(work.word(name), "local", UNKNOWN, work.spot(name), loops=work.loops)
        work.declare(variable.name, variable)
    yield Opaque("a structured binding", work.spot(whole))


def _like_function(
    work: Lowering, part: SyntaxNode, declarator: Declarator, whole: SyntaxNode
) -> Iterator[Statement]:
    """``uint n(x)`` reads like a function; it is a variable where ``x`` is one."""
    parameters = None if declarator.function is None else declarator.function.get("parameters")
    given = [] if parameters is None else parameters.inner
    values = [_as_value(work, item) for item in given]
    if declarator.name is None or not values or not all(values):
        yield Opaque("the declaration of a function in a body", work.spot(whole))
        return
    kind = _declared_type(work, part, replace(declarator, function=None), None)
    parts = tuple(work.expression(value) for value in values if value is not None)
    yield _variable(work, part, declarator, kind, made(work, whole, kind, parts))


def _as_value(work: Lowering, parameter: SyntaxNode) -> SyntaxNode | None:
    """Return the name that the grammar took for the type of a parameter."""
    inner = parameter.inner
    if len(inner) == 1 and inner[0].kind == "type_identifier":
        name = work.word(inner[0])
        if work.named_type(name) is None:
            return replace(inner[0], kind="identifier")
    return None


def declared(
    work: Lowering,
    part: SyntaxNode,
    declarator: Declarator,
    initial: SyntaxNode | None,
    whole: SyntaxNode,
) -> Declare:
    """Return one variable with its initial value."""
    value: Expression | None = None
    if initial is None or initial.kind in ("initializer_list", "argument_list"):
        kind = _declared_type(work, part, declarator, None)
        if initial is not None:
            value = _built(work, initial, kind)
            open_ended = declarator.dimensions[:1] == [None] and kind.dimensions[:1] == (None,)
            if open_ended and isinstance(value, Construct):
                # float a[] = {1, 2}
                kind = replace(kind, dimensions=(len(value.parts), *kind.dimensions[1:]))
                value = replace(value, type=replace(value.type, dimensions=kind.dimensions))
    else:
        value = work.expression(initial)
        kind = _declared_type(work, part, declarator, value.type)
    return _variable(work, part, declarator, kind, value, whole)


def _built(work: Lowering, initial: SyntaxNode, kind: Type) -> Expression:
    if initial.kind == "initializer_list":
        return initial_value(work, initial, kind)
    return made(work, initial, kind, tuple(map(work.expression, initial.inner)))


def _declared_type(
    work: Lowering, part: SyntaxNode, declarator: Declarator, initial: Type | None
) -> Type:
    if initial is not None:
        initial = typing.deduced(initial, declarator)
    base = typing.written_type(work, part, initial)
    return placed(work, typing.shaped(work, base, declarator))


def placed(work: Lowering, kind: Type) -> Type:
    """Return a variable's type with the space that it lives in where none is written."""
    if kind.space is None and kind != UNKNOWN:
        return replace(kind, space="constant" if work.at_file_scope else "thread")
    return kind


def _variable(
    work: Lowering,
    part: SyntaxNode,
    declarator: Declarator,
    kind: Type,
    value: Expression | None,
    whole: SyntaxNode | None = None,
) -> Declare:
    name = declarator.name or part
    constant = typing.is_constant(work, part, declarator, kind)
    variable = Variable(
        work.word(name),
        "constant" if work.at_file_scope or part.kind == "field_declaration" else "local",
        kind,
        work.spot(name),
        constant=constant,
        loops=work.loops,
        target=typing.target(work, part, declarator),
    )
    work.declare(variable.name, variable)
    if constant and value is not None and not kind.dimensions:
        number = fitted(fold(value, work.values), kind)
        if number is not None and not work.parsed.is_function_constant(part):
            work.values[variable] = number
    return Declare(variable, value, work.spot(whole or name))


def alias(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """``using A = type``."""
    name, kind = part.get("name"), part.get("type")
    if name is not None and kind is not None:
        work.declare(work.word(name), typing.descriptor_type(work, kind))
    return []


def typedef(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """``typedef type A``."""
    found: list[Statement] = []
    declarators = [unpack(declarator) for declarator in part.all("declarator")]
    written = part.get("type")
    base = typing.written_type(work, part)
    if written is not None and written.kind in _TYPES_WITH_BODY and written.get("body"):
        name = declarators[0].name if declarators else None
        if written.get("name") is None and name is not None:
            # typedef struct { ... } Item;
            named = replace(name, kind="type_identifier", role="name")
            written = replace(written, parts=[named, *written.parts])
            base = Type(work.word(named))
        found += work.statement(written)
    for parts in declarators:
        if parts.name is not None:
            kind = UNKNOWN if parts.function else typing.shaped(work, base, parts)
            work.declare(work.word(parts.name), kind)
    return found


def enumeration(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """Return the enumerators as constants; of a scoped enumeration they are qualified."""
    name, body = part.get("name"), part.get("body")
    prefix = "" if name is None else work.word(name)
    scoped = part.has("class") or part.has("struct")
    base = part.get("base")
    kind = INT if base is None else typing.specified(work, base, None)
    if prefix:
        work.declare(prefix, kind)
    found: list[Statement] = []
    following: int | None = 0
    for item in [] if body is None else body.inner:
        word = item.get("name")
        if item.kind != "enumerator" or word is None:
            continue
        given = item.get("value")
        value = None if given is None else work.expression(given)
        number = following if value is None else fold_int(value, work.values)
        following = None if number is None else number + 1
        variable = Variable(
            work.word(word), "constant", replace(kind, space="constant"), work.spot(word),
            constant=True,
        )  # fmt: skip
        if number is not None:
            work.values[variable] = number
        if not scoped:
            work.declare(variable.name, variable)
        if prefix:
            work.declare(f"{prefix}::{variable.name}", variable)
        found.append(Declare(variable, value, work.spot(item)))
    return found


_MEMBERS = frozenset({"field_declaration", "function_definition", "declaration"})
_STATEMENTS = frozenset(
    {
        *("alias_declaration", "type_definition", "enum_specifier", "access_specifier"),
        *("static_assert_declaration", "using_declaration", "preproc_if", "preproc_ifdef"),
    }
)


class _Method(Struct, frozen=True):
    """A method that is made when all fields are known."""

    part: SyntaxNode
    declarator: Declarator
    template: tuple[Variable, ...]
    scope: dict[str, Meaning]


def structure(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """Return a struct inside a function."""
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
    struct = MetalStruct(word, tuple(fields), template, methods, work.spot(name))
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
            # Methods see a constant by its name, others through the struct.
            found = declared(work, item, parts, item.get("default_value"), item)
            work.constants.append(found)
            work.scopes[0][f"{struct}::{found.variable.name}"] = found.variable
        else:
            kind = typing.shaped(work, typing.written_type(work, item), parts)
            spot = work.spot(parts.name)
            fields.append(Variable(work.word(parts.name), "field", kind, spot))
