"""Declarations of variables, and of names for types."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.metal.program import typing
from embercoach.metal.program.declarators import unpack, unpack_initialized
from embercoach.metal.program.folding import fitted, fold, fold_int
from embercoach.metal.program.lower_calls import made
from embercoach.metal.program.lower_expressions import initial_value
from embercoach.metal.program.nodes import Construct, Declare, Opaque, Variable
from embercoach.metal.program.types import INT, UNKNOWN, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.declarators import Declarator
    from embercoach.metal.program.lowering_state import Lowering
    from embercoach.metal.program.nodes import Expression, Statement
    from embercoach.metal.program.tree import SyntaxNode

_TYPES_WITH_BODY = frozenset(
    {"struct_specifier", "class_specifier", "union_specifier", "enum_specifier"}
)


def declaration(work: Lowering, part: SyntaxNode) -> list[Statement]:
    """The variables of one declaration, in the order of its declarators."""
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
        yield _opaque(work, whole, "a declaration without a plain name")
        return
    if declarator.function is not None:
        yield from _like_function(work, part, declarator, whole)
        return
    if initial is not None and initial.kind == "lambda_expression":
        yield from work.rules.named_lambda(work, declarator.name, initial)
        return
    yield declared(work, part, declarator, initial, whole)


def _opaque(work: Lowering, part: SyntaxNode, why: str) -> Opaque:
    return Opaque(why, work.spot(part))


def _bindings(
    work: Lowering, declarator: Declarator, initial: SyntaxNode | None, whole: SyntaxNode
) -> Iterator[Statement]:
    """``auto [a, b] = pair``: the names are there, what they hold is not followed."""
    if initial is not None:
        work.expression(initial)
    for name in declarator.bindings:
        variable = Variable(work.word(name), "local", UNKNOWN, work.spot(name), loops=work.loops)
        work.declare(variable.name, variable)
    yield _opaque(work, whole, "a structured binding")


def _like_function(
    work: Lowering, part: SyntaxNode, declarator: Declarator, whole: SyntaxNode
) -> Iterator[Statement]:
    """``uint n(x)`` reads like a function; it is a variable where ``x`` is one."""
    parameters = None if declarator.function is None else declarator.function.get("parameters")
    given = [] if parameters is None else parameters.inner
    values = [_as_value(work, item) for item in given]
    if declarator.name is None or not values or not all(values):
        yield _opaque(work, whole, "the declaration of a function in a body")
        return
    kind = _declared_type(work, part, replace(declarator, function=None), None)
    parts = tuple(work.expression(value) for value in values if value is not None)
    yield _variable(work, part, declarator, kind, made(work, whole, kind, parts))


def _as_value(work: Lowering, parameter: SyntaxNode) -> SyntaxNode | None:
    """The name that the grammar took for the type of a parameter."""
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
    """One variable with its initial value."""
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
    """A variable's type with the space that it lives in where none is written."""
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
    """The enumerators as constants; of a scoped enumeration they are qualified."""
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
