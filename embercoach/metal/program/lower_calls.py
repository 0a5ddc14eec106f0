"""Calls: of functions, of types as conversions, of methods."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from embercoach.metal.library import result_type
from embercoach.metal.program.lowering_state import Lowering, MisreadError
from embercoach.metal.program.nodes import (
    Call,
    Cast,
    Construct,
    Expression,
    Index,
    MetalFunction,
    NumberLiteral,
)
from embercoach.metal.program.types import INT, UNKNOWN, Type, element, value
from embercoach.metal.program.typing import descriptor_type, template_type

if TYPE_CHECKING:
    from embercoach.metal.program.texts import SyntaxNode

_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "as_type"})
_TYPE_TEMPLATES = frozenset({"vec", "packed_vec", "array", "atomic", "matrix", "simdgroup_matrix"})
_LIMITS = frozenset({"numeric_limits", "Limits"})


def call(work: Lowering, part: SyntaxNode) -> Expression:
    """Lower what is written as a call."""
    callee, arguments = part.get("function"), part.get("arguments")
    if callee is None or arguments is None:
        return work.opaque(part, "not understood: a call")
    if arguments.kind == "initializer_list":
        return work.opaque(part, "not understood: a value in braces")
    inner = callee.inner
    if callee.kind == "parenthesized_expression" and len(inner) == 1:
        # (max)(a, b), or a cast: (half)(x)
        callee = inner[0]
        if work.lookup(work.word(callee)) is None and callee.kind == "identifier":
            kind = work.named_type(work.word(callee))
            if kind is not None and len(arguments.inner) > 1:
                # ``(float2)(1, 2)``: a comma expression that is cast.
                operands = [work.expression(argument) for argument in arguments.inner]
                commas = work.opaque(part, "a cast of a comma expression", *operands)
                return Cast(commas, kind, work.spot(part))
    given = tuple(work.expression(argument) for argument in arguments.inner)
    if callee.kind == "field_expression":
        return _method(work, part, callee, given)
    return _named_call(work, part, callee, given)


def _named_call(
    work: Lowering, part: SyntaxNode, callee: SyntaxNode, given: tuple[Expression, ...]
) -> Expression:
    last, scopes = _split(work, callee)
    name = last.get("name") if last.kind in ("template_function", "template_method") else last
    if name is None or name.kind not in ("identifier", "primitive_type", "type_identifier"):
        return work.opaque(part, "not understood: what is called", *given)
    word = work.word(name)
    arguments = last.get("arguments") if name is not last else None
    if arguments is not None:
        if word in _CASTS:
            return _cast(work, part, word, arguments, given)
        if word in _TYPE_TEMPLATES or word in work.structs:
            return made(work, part, template_type(work, last), given)
        if work.is_variable(word):
            # It was `word < a && b > (c)`.
            raise MisreadError({work.parsed.offset(arguments): ">"})
    else:
        kind = work.named_type(word)
        if kind is not None:
            return made(work, part, kind, given)
    template = () if arguments is None else tuple(map(work.words, arguments.inner))
    described = None if arguments is None else arguments.inner
    functions = candidates(work, word, given)
    owner = work.structs.get(scopes.rpartition("::")[2].partition("<")[0])
    if owner is not None:
        functions = accepting(owner.methods.get(word, ()), given)
    result = _result(work, word, given, functions, described)
    if not functions and result == UNKNOWN:
        result = limit_type(work, callee)
    return Call(word, given, result, work.spot(part), scopes, template, functions)


def _split(work: Lowering, callee: SyntaxNode) -> tuple[SyntaxNode, str]:
    """Return the last name of a qualified one, and the text of the scopes before it."""
    scopes: list[str] = []
    while callee.kind == "qualified_identifier" and (name := callee.get("name")) is not None:
        scope = callee.get("scope")
        if scope is not None:
            scopes.append(work.words(scope))
        callee = name
    return callee, "::".join(scopes)


def limit_type(work: Lowering, callee: SyntaxNode) -> Type:
    """Get the type that ``numeric_limits<T>`` or MLX's ``Limits<T>`` is about, if one is named."""
    while callee.kind == "qualified_identifier":
        scope, name = callee.get("scope"), callee.get("name")
        if scope is not None and scope.kind == "template_type":
            arguments, limits = scope.get("arguments"), scope.get("name")
            if limits is None or work.word(limits) not in _LIMITS:
                return UNKNOWN
            if arguments is not None and len(arguments.inner) == 1:
                return descriptor_type(work, arguments.inner[0])
        if name is None:
            break
        callee = name
    return UNKNOWN


def _cast(
    work: Lowering,
    part: SyntaxNode,
    word: str,
    arguments: SyntaxNode,
    given: tuple[Expression, ...],
) -> Expression:
    if len(given) != 1 or len(arguments.inner) != 1:
        return work.opaque(part, "not understood: a cast", *given)
    kind = descriptor_type(work, arguments.inner[0])
    return Cast(given[0], kind, work.spot(part), bits=word == "as_type")


def made(work: Lowering, part: SyntaxNode, kind: Type, given: tuple[Expression, ...]) -> Expression:
    """``float(x)`` converts, ``float4(...)`` and ``Item{...}`` are made of parts."""
    scalar = kind.scalar or ""
    if not kind.dimensions:
        kind = value(kind)
    struct = work.structs.get(scalar.partition("<")[0])
    if constructed(work, kind):
        return replace(work.opaque(part, "a constructor", *given), type=kind)
    whole = kind.width > 1 or kind.dimensions or struct is not None
    if len(given) == 1 and not whole:
        return Cast(given[0], kind, work.spot(part))
    return Construct(given, kind, work.spot(part))


def constructed(work: Lowering, kind: Type) -> bool:
    """Return whether a struct has a constructor, which may do anything with what it is given."""
    struct = None if kind.dimensions else work.structs.get((kind.scalar or "").partition("<")[0])
    return struct is not None and struct.name in struct.methods


def candidates(
    work: Lowering, name: str, given: tuple[Expression, ...]
) -> tuple[MetalFunction, ...]:
    """Return the functions of the texts that a call with such arguments may mean."""
    found = work.lookup(name)
    return accepting(found if isinstance(found, tuple) else (), given)


def accepting(
    functions: tuple[MetalFunction, ...], given: tuple[Expression, ...]
) -> tuple[MetalFunction, ...]:
    """Get those functions that take so many arguments; one alone if it takes just their types."""
    return _accepting(functions, tuple(argument.type for argument in given)) if functions else ()


@lru_cache(maxsize=256)  # a file calls the same again and again
def _accepting(
    functions: tuple[MetalFunction, ...], given: tuple[Type, ...]
) -> tuple[MetalFunction, ...]:
    count = len(given)
    found = tuple(
        f for f in functions if len(f.parameters) - len(f.defaults) <= count <= len(f.parameters)
    )
    exact = tuple(f for f in found if not f.template and _takes(f, given))
    return exact if len(exact) == 1 and len(exact[0].parameters) == count else found


def _takes(function: MetalFunction, given: tuple[Type, ...]) -> bool:
    """Return whether the parameters have the types of the arguments, which are all known."""
    return all(
        argument.scalar is not None and value(parameter.type) == value(argument)
        for parameter, argument in zip(function.parameters, given, strict=False)
    )


def _result(
    work: Lowering,
    name: str,
    given: tuple[Expression, ...],
    functions: tuple[MetalFunction, ...],
    template: list[SyntaxNode] | None,
) -> Type:
    if not functions:
        if work.lookup(name) is not None:
            return UNKNOWN
        made_for = descriptor_type(work, template[0]) if template else None
        return result_type(name, [a.type for a in given], made_for)
    plain, templates = _plain_results(functions)
    if len(plain) > 1:
        return UNKNOWN
    results = plain | {_instantiated(work, f, given, template or []) for f in templates}
    return next(iter(results)) if len(results) == 1 else UNKNOWN


@lru_cache(maxsize=256)  # a file calls the same again and again
def _plain_results(
    functions: tuple[MetalFunction, ...],
) -> tuple[frozenset[Type], tuple[MetalFunction, ...]]:
    """Return the results of functions that are not templates, and the templates."""
    plain = frozenset(function.result for function in functions if not function.template)
    return plain, tuple(function for function in functions if function.template)


def _instantiated(
    work: Lowering,
    function: MetalFunction,
    given: tuple[Expression, ...],
    template: list[SyntaxNode],
) -> Type:
    """Return the result of a function, with its template's parameter put in where it is known."""
    names = [t.name for t in function.template]
    result = function.result
    if result.scalar not in names or result.scalar is None:
        return result
    position = names.index(result.scalar)
    if position < len(template):
        found = descriptor_type(work, template[position])
        return _substituted(result, found)
    for parameter, argument in zip(function.parameters, given, strict=False):
        kind = parameter.type
        if kind.scalar == result.scalar and kind.width == 1:
            plain = argument.type
            if kind.pointer and (plain.pointer or plain.dimensions):
                plain = element(plain)
            elif kind.pointer:
                return UNKNOWN
            return _substituted(result, plain)
    return UNKNOWN


def _substituted(result: Type, real: Type) -> Type:
    """Return a type with its scalar, a template's parameter, replaced."""
    if real.dimensions or (real.pointer and (result.pointer or result.width > 1)):
        return UNKNOWN
    if result.width > 1 and real.width > 1:
        return UNKNOWN
    width = max(result.width, real.width)
    pointer = result.pointer or real.pointer
    return Type(real.scalar, width, pointer, result.space or (real.space if pointer else None))


def _method(
    work: Lowering, part: SyntaxNode, callee: SyntaxNode, given: tuple[Expression, ...]
) -> Expression:
    argument, name = callee.get("argument"), callee.get("field")
    if argument is None or name is None:
        return work.opaque(part, "not understood: a method", *given)
    base = work.expression(argument)
    if callee.has("->"):
        zero = NumberLiteral(0, INT, work.spot(argument), "0")
        base = Index(base, zero, element(base.type), work.spot(argument))
    if name.kind == "template_method":
        name = name.get("name") or name
    word = work.word(name)
    struct = work.structs.get((base.type.scalar or "").partition("<")[0])
    methods = () if struct is None else accepting(struct.methods.get(word, ()), given)
    results = {function.result for function in methods}
    result = results.pop() if len(results) == 1 else UNKNOWN
    return Call(word, given, result, work.spot(part), functions=methods, method=base)
