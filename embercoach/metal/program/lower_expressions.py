"""Expressions, calls aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from embercoach.metal.program import lower_calls, types
from embercoach.metal.program.lowering_state import Field, Lowering, MisreadError
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Cast,
    Conditional,
    Construct,
    Expression,
    Index,
    Member,
    NumberLiteral,
    Unary,
    Variable,
)
from embercoach.metal.program.types import BOOL, INT, ULONG, UNKNOWN, Type
from embercoach.metal.program.typing import descriptor_type
from embercoach.metal.tokens import escaped

if TYPE_CHECKING:
    from embercoach.metal.program.texts import SyntaxNode

    Rule = Callable[[Lowering, SyntaxNode], Expression]

_SWIZZLES = (frozenset("xyzw"), frozenset("rgba"))
_CAST_LIKE = frozenset({"*", "&", "-", "+"})
_NULL = Type("void", pointer=True)


def expression(work: Lowering, part: SyntaxNode) -> Expression:
    """Lower an expression; what is not understood becomes opaque."""
    rule = _RULES.get(part.kind)
    if rule is None or part.broken:
        return work.opaque(part, f"not understood: {part.kind.replace('_', ' ').lower()}")
    return rule(work, part)


def _number(work: Lowering, part: SyntaxNode) -> Expression:
    text = work.word(part)
    found = types.literal(text)
    if found is None:
        return work.opaque(part, f"not a number: {text}")
    return NumberLiteral(found[0], found[1], work.spot(part), text)


def _character(work: Lowering, part: SyntaxNode) -> Expression:
    text = work.word(part)
    content = text[1:-1]
    character = escaped(content) if content.startswith("\\") else content
    if not character or len(character) > 1 or (character != content and character > "\x7f"):
        return work.opaque(part, "a character with an escape")
    return NumberLiteral(ord(character), Type("char"), work.spot(part), text)


def named(work: Lowering, name: str, part: SyntaxNode) -> Expression:
    """Return the use of a name as a value."""
    meaning = work.lookup(name)
    if isinstance(meaning, Variable):
        return work.use(meaning, part)
    if isinstance(meaning, Field):
        owner = work.use(meaning.owner, part)
        kind = meaning.variable.type
        return Member(owner, name, replace(kind, space=owner.type.space), work.spot(part))
    if meaning is not None:
        return work.opaque(part, f"`{name}` is not a variable")
    return work.use(work.variable(name, part), part)


def _qualified(work: Lowering, part: SyntaxNode) -> Expression:
    """``mem_flags::mem_none``, ``Enum::value``, ``Struct::constant``, ``space::constant``."""
    name = work.words(part)
    while name.startswith(("::", "metal::")):
        name = name[name.index("::") + 2 :]
    if isinstance(work.lookup(name), Variable):
        return named(work, name, part)
    scope, last = name.rpartition("::")[::2]
    if not scope or scope in work.namespaces:
        return named(work, last, part)
    used = work.use(work.variable(name, part), part)
    return replace(used, type=lower_calls.limit_type(work, part)) if used.type == UNKNOWN else used


def _parenthesized(work: Lowering, part: SyntaxNode) -> Expression:
    inner = part.inner
    if len(inner) != 1:
        return work.opaque(part, "not understood: parentheses")
    return work.expression(inner[0])


def _operands(work: Lowering, part: SyntaxNode) -> tuple[SyntaxNode, str, SyntaxNode] | None:
    left, right, symbol = part.get("left"), part.get("right"), part.get("operator")
    if left is None or right is None or symbol is None:
        return None
    return left, work.parsed.symbol(symbol), right


def _binary(work: Lowering, part: SyntaxNode) -> Expression:
    operands = _operands(work, part)
    if operands is None:
        return work.opaque(part, "not understood: an operation")
    left, symbol, right = operands
    name = _in_parentheses(work, left) if symbol in _CAST_LIKE else ""
    kind = work.in_parentheses(name) if name else "value"
    if kind == "unknown":
        return work.opaque(part, f"`{name}` may be a type", work.expression(right))
    if kind == "type":
        # (uint)*p and (T)&x: to the grammar a multiplication.
        type_ = work.named_type(name) or UNKNOWN
        return _cast_first(work, part, type_, symbol, right)
    return _operation(work, part, symbol, work.expression(left), work.expression(right))


def _operation(
    work: Lowering, part: SyntaxNode, symbol: str, left: Expression, right: Expression
) -> Expression:
    kind = types.binary(symbol, left.type, right.type)
    return Binary(symbol, left, right, kind, work.spot(part))


def _in_parentheses(work: Lowering, part: SyntaxNode) -> str:
    """Return the single name in parentheses, empty for other content."""
    inner = part.inner
    if part.kind != "parenthesized_expression" or len(inner) != 1:
        return ""
    return work.word(inner[0]) if inner[0].kind == "identifier" else ""


def _cast_first(
    work: Lowering, part: SyntaxNode, kind: Type, symbol: str, right: SyntaxNode
) -> Expression:
    """``(T)-a * b``: the cast binds to the first operand of what follows."""
    operands = _operands(work, right) if right.kind == "binary_expression" else None
    if operands is None:
        operand, spot = work.expression(right), work.spot(right)
        if symbol == "*":
            return Cast(dereferenced(work, operand, right), kind, work.spot(part))
        result = types.unary(symbol, operand.type)
        return Cast(Unary(symbol, operand, result, spot), kind, work.spot(part))
    left, inner, rest = operands
    first = _cast_first(work, part, kind, symbol, left)
    return _operation(work, part, inner, first, work.expression(rest))


def dereferenced(work: Lowering, operand: Expression, part: SyntaxNode) -> Expression:
    """``*p`` as ``p[0]``."""
    zero = NumberLiteral(0, INT, work.spot(part), "0")
    return Index(operand, zero, types.element(operand.type), work.spot(part))


def _comma(work: Lowering, part: SyntaxNode) -> Expression:
    left, right = part.get("left"), part.get("right")
    if left is None or right is None:
        return work.opaque(part, "not understood: a comma")
    return _operation(work, part, ",", work.expression(left), work.expression(right))


def _unary(work: Lowering, part: SyntaxNode) -> Expression:
    symbol, argument = part.get("operator"), part.get("argument")
    if symbol is None or argument is None:
        return work.opaque(part, "not understood: an operation")
    operand = work.expression(argument)
    if symbol.kind == "*":
        return dereferenced(work, operand, part)
    if symbol.kind not in ("-", "+", "!", "~", "&"):
        return work.opaque(part, f"not understood: `{symbol.kind}`", operand)
    return Unary(symbol.kind, operand, types.unary(symbol.kind, operand.type), work.spot(part))


def _subscript(work: Lowering, part: SyntaxNode) -> Expression:
    base, indices = part.get("argument"), part.get("indices")
    if base is None or indices is None or len(indices.inner) != 1:
        return work.opaque(part, "not understood: an index")
    array, index = work.expression(base), work.expression(indices.inner[0])
    return Index(array, index, types.element(array.type), work.spot(part))


def _field(work: Lowering, part: SyntaxNode) -> Expression:
    argument, name = part.get("argument"), part.get("field")
    if argument is None or name is None or name.kind != "field_identifier":
        return work.opaque(part, "not understood: a member")
    base = work.expression(argument)
    if part.has("->"):
        base = dereferenced(work, base, argument)
    return member(work, base, name, part)


def member(work: Lowering, base: Expression, name: SyntaxNode, part: SyntaxNode) -> Expression:
    """``base.name``."""
    word = work.word(name)
    return Member(base, word, _member_type(work, base.type, word), work.spot(part))


def _member_type(work: Lowering, base: Type, name: str) -> Type:
    if types.is_address(base):
        return UNKNOWN
    if base.width > 1:
        letters = set(name)
        if len(name) <= 4 and any(letters <= swizzle for swizzle in _SWIZZLES):
            return Type(base.scalar, len(name), space=base.space)
        return UNKNOWN
    struct = work.structs.get((base.scalar or "").partition("<")[0])
    if struct is None:
        return UNKNOWN
    for item in struct.fields:
        if item.name == name:
            if any(item.type.scalar == t.name for t in struct.template):
                return UNKNOWN
            # A pointer keeps the space that it points to.
            return item.type if item.type.pointer else replace(item.type, space=base.space)
    return UNKNOWN


def _assignment(work: Lowering, part: SyntaxNode) -> Expression:
    operands = _operands(work, part)
    if operands is None:
        return work.opaque(part, "not understood: an assignment")
    left, symbol, right = operands
    target = work.expression(left)
    if right.kind == "initializer_list":
        given = initial_value(work, right, target.type)
    else:
        given = work.expression(right)
    return Assign(symbol, target, given, target.type, work.spot(part))


def _update(work: Lowering, part: SyntaxNode) -> Expression:
    symbol, argument = part.get("operator"), part.get("argument")
    if symbol is None or argument is None:
        return work.opaque(part, "not understood: an operation")
    target = work.expression(argument)
    one = NumberLiteral(1, INT, work.spot(symbol), "1")
    postfix = symbol.start > argument.start
    operator = f"{symbol.kind[0]}="
    return Assign(operator, target, one, target.type, work.spot(part), postfix)


def _conditional(work: Lowering, part: SyntaxNode) -> Expression:
    condition, then, otherwise = (
        part.get(role) for role in ("condition", "consequence", "alternative")
    )
    if condition is None or then is None or otherwise is None:
        return work.opaque(part, "not understood: a choice")
    chosen, refused = work.expression(then), work.expression(otherwise)
    kind = types.conditional(chosen.type, refused.type)
    return Conditional(work.expression(condition), chosen, refused, kind, work.spot(part))


def _cast(work: Lowering, part: SyntaxNode) -> Expression:
    kind, operand = part.get("type"), part.get("value")
    if kind is None or operand is None:
        return work.opaque(part, "not understood: a cast")
    written = kind.get("type")
    plain = written is not None and len(kind.inner) == 1 and written.kind == "type_identifier"
    if plain and operand.kind in ("unary_expression", "pointer_expression"):
        word = work.in_parentheses(work.word(kind))
        symbol = operand.get("operator")
        if word != "type" and symbol is not None and symbol.kind in _CAST_LIKE:
            if word == "value":
                opening, closing = part.parts[0], part.parts[2]
                blanks = (work.parsed.offset(opening), work.parsed.offset(closing))
                raise MisreadError(dict.fromkeys(blanks, " "))
            name = work.word(kind)
            return work.opaque(part, f"`{name}` may be a type", work.expression(operand))
    return Cast(work.expression(operand), descriptor_type(work, kind), work.spot(part))


def _compound_literal(work: Lowering, part: SyntaxNode) -> Expression:
    kind, given = part.get("type"), part.get("value")
    if kind is None or given is None:
        return work.opaque(part, "not understood: a value in braces")
    type_ = descriptor_type(work, kind)
    parts = initial_parts(work, given, type_)
    return lower_calls.made(work, part, type_, parts)


def initial_value(work: Lowering, part: SyntaxNode, kind: Type) -> Expression:
    """Return an initial value, perhaps in braces, for a variable of a type."""
    if part.kind != "initializer_list":
        return work.expression(part)
    parts = initial_parts(work, part, kind)
    scalar = kind.width == 1 and not kind.dimensions and kind.scalar not in work.structs
    if scalar and kind.scalar is not None and len(parts) == 1:
        return parts[0]
    if lower_calls.constructed(work, kind):
        return lower_calls.made(work, part, kind, parts)
    return Construct(
        parts, Type(kind.scalar, kind.width, dimensions=kind.dimensions), work.spot(part)
    )


def initial_parts(work: Lowering, part: SyntaxNode, kind: Type) -> tuple[Expression, ...]:
    """Return the values in braces, nested ones with the types of what they fill."""
    struct = None if kind.dimensions else work.structs.get(kind.scalar or "")
    found = []
    for index, item in enumerate(part.inner):
        inner = UNKNOWN
        if kind.dimensions:
            inner = types.element(kind)
        elif struct is not None and index < len(struct.fields):
            inner = struct.fields[index].type
        found.append(initial_value(work, item, inner))
    return tuple(found)


def _sizeof(work: Lowering, part: SyntaxNode) -> Expression:
    described, given = part.get("type"), part.get("value")
    if described is not None:
        kind = descriptor_type(work, described)
    elif given is not None:
        kind = work.named_type(_in_parentheses(work, given)) or work.expression(given).type
    else:
        return work.opaque(part, "not understood: sizeof")
    size = types.size_of(kind)
    if size is None:
        return replace(work.opaque(part, "the size of an unknown type"), type=ULONG)
    return NumberLiteral(size, ULONG, work.spot(part), work.word(part))


def _template(work: Lowering, part: SyntaxNode) -> Expression:
    """``f<3>`` that nobody calls: ``i < n && j > k``, unless there is a template."""
    name, arguments = part.get("name"), part.get("arguments")
    if name is not None and arguments is not None:
        word = work.word(name)
        if work.is_variable(word) or work.lookup(word) is None:
            raise MisreadError({work.parsed.offset(arguments): ">"})
    return work.opaque(part, "not understood: a template")


def _condition(work: Lowering, part: SyntaxNode) -> Expression:
    given = part.get("value")
    if given is None or part.get("initializer") is not None:
        return work.opaque(part, "a declaration in a condition")
    return work.expression(given)


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "number_literal": _number,
        "user_defined_literal": _number,
        "true": lambda work, part: NumberLiteral(1, BOOL, work.spot(part), "true"),
        "false": lambda work, part: NumberLiteral(0, BOOL, work.spot(part), "false"),
        "null": lambda work, part: NumberLiteral(0, _NULL, work.spot(part), "nullptr"),
        "char_literal": _character,
        "identifier": lambda work, part: named(work, work.word(part), part),
        "qualified_identifier": _qualified,
        "parenthesized_expression": _parenthesized,
        "binary_expression": _binary,
        "comma_expression": _comma,
        "unary_expression": _unary,
        "pointer_expression": _unary,
        "subscript_expression": _subscript,
        "field_expression": _field,
        "assignment_expression": _assignment,
        "update_expression": _update,
        "conditional_expression": _conditional,
        "cast_expression": _cast,
        "call_expression": lower_calls.call,
        "initializer_list": lambda work, part: initial_value(work, part, UNKNOWN),
        "compound_literal_expression": _compound_literal,
        "sizeof_expression": _sizeof,
        "lambda_expression": lambda work, part: work.opaque(part, "a lambda expression"),
        "template_function": _template,
        "condition_clause": _condition,
    }
)
