"""Walking a program: what lies below a node, what it changes, and the number that it is."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Conditional,
    Construct,
    Declare,
    Evaluate,
    Expression,
    If,
    Index,
    Loop,
    Member,
    MetalFunction,
    Name,
    NumberLiteral,
    OpaqueExpression,
    Return,
    Statement,
    Switch,
    Unary,
)
from embercoach.metal.program.types import (
    FLOATS,
    INTEGERS,
    SIZES,
    arithmetic,
    is_address,
    is_floating,
    is_integer,
)
from embercoach.metal.tokens import ARITHMETIC, BITWISE, COMPARISONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from embercoach.metal.program.nodes import Program, Variable
    from embercoach.metal.program.types import Type

if TYPE_CHECKING:
    Value = int | float

_MAX_SHIFT = 63


def fold(expression: Expression, values: Mapping[Variable, int | float]) -> int | float | None:
    """Return the number that an expression always is, None when it is not known.

    Args:
        expression: any expression.
        values: what is known of variables.
    """
    if isinstance(expression, NumberLiteral):
        return expression.value
    if isinstance(expression, Name):
        return values.get(expression.variable)
    if isinstance(expression, Unary):
        return _unary(expression, values)
    if isinstance(expression, Binary):
        return _binary(expression, values)
    if isinstance(expression, Conditional):
        chosen = fold(expression.condition, values)
        if chosen is None:
            return None
        return fold(expression.then if chosen else expression.otherwise, values)
    if isinstance(expression, Cast) and not expression.bits:
        return fitted(fold(expression.operand, values), expression.type)
    return None


def fold_int(expression: Expression, values: Mapping[Variable, int | float]) -> int | None:
    """``fold``, for integers."""
    found = fold(expression, values)
    return int(found) if isinstance(found, int) else None


def fitted(value: float | None, kind: Type) -> int | float | None:
    """Return a number converted to a type; floating-point numbers are not rounded."""
    if value is None or kind.width != 1:
        return None
    if is_floating(kind) and kind.scalar in FLOATS:
        return float(value)
    if kind.scalar == "bool" and is_integer(kind):
        return int(bool(value))
    if not is_integer(kind):
        return None
    try:
        number = int(value)
    except (OverflowError, ValueError):
        return None
    scalar = kind.scalar or ""
    bits = 8 * SIZES[scalar]
    number &= (1 << bits) - 1
    return number - (1 << bits) if INTEGERS[scalar][1] and number >> (bits - 1) else number


def _unary(expression: Unary, values: Mapping[Variable, int | float]) -> int | float | None:
    operand = fold(expression.operand, values)
    if operand is None:
        return None
    if expression.operator == "!":
        return int(not operand)
    if expression.operator == "-":
        return fitted(-operand, expression.type)
    if expression.operator == "~" and isinstance(operand, int):
        return fitted(~operand, expression.type)
    return operand if expression.operator == "+" else None


def _binary(expression: Binary, values: Mapping[Variable, int | float]) -> int | float | None:
    left = fold(expression.left, values)
    symbol = expression.operator
    if symbol in ("&&", "||") and left is not None and bool(left) == (symbol == "||"):
        return int(bool(left))
    right = fold(expression.right, values)
    if left is None or right is None:
        return None
    if symbol in ("&&", "||"):
        return int(bool(right))
    common = arithmetic(expression.left.type, expression.right.type)
    if symbol not in ("<<", ">>") and is_integer(common):
        left, right = fitted(left, common), fitted(right, common)
        if left is None or right is None:
            return None
    if symbol in COMPARISONS:
        return int(COMPARISONS[symbol](left, right))
    if symbol in ARITHMETIC:
        return fitted(ARITHMETIC[symbol](left, right), expression.type)
    if symbol == "/" and is_floating(common):
        return left / right if right else None
    if isinstance(left, int) and isinstance(right, int):
        return fitted(_integer(symbol, left, right), expression.type)
    return None


def _integer(symbol: str, left: int, right: int) -> int | None:
    if symbol in BITWISE:
        return BITWISE[symbol](left, right)
    if symbol in ("<<", ">>") and 0 <= right <= _MAX_SHIFT:
        return left << right if symbol == "<<" else left >> right
    if symbol in ("/", "%") and right:
        # C++ rounds towards zero, Python down.
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if symbol == "/" else left - quotient * right
    return None


Node: TypeAlias = Expression | Statement
#: The nodes around one, outermost first.
Path: TypeAlias = tuple[Node, ...]
Values: TypeAlias = "Mapping[Variable, int | float]"

# Functions of Metal's library that write into their arguments.
_WRITING = frozenset({"sincos", "modf", "frexp", "fract"})


def children(node: Node) -> tuple[Node, ...]:
    """Get the nodes directly below a node, in the order in which they run; those of calls too."""
    inner = _CHILDREN.get(type(node))
    return () if inner is None else inner(node)


def _of_loop(node: Loop) -> tuple[Node, ...]:
    return *node.start, *_given(node.condition), node.body, *_given(node.step)


def _of_switch(node: Switch) -> tuple[Node, ...]:
    inside: list[Node] = [node.value]
    for case in node.cases:
        inside += [*_given(case.value), *case.statements]
    return tuple(inside)


def _given(node: Node | None) -> tuple[Node, ...]:
    return () if node is None else (node,)


# By the type, since most of what is walked are names and numbers, which have none.
_CHILDREN: Mapping[type, Callable[[Any], tuple[Node, ...]]] = {
    Declare: lambda node: _given(node.initial),
    Return: lambda node: _given(node.value),
    Evaluate: lambda node: _given(node.expression),
    Binary: lambda node: (node.left, node.right),
    Assign: lambda node: (node.target, node.value),
    Index: lambda node: (node.base, node.index),
    Member: lambda node: (node.base,),
    Unary: lambda node: (node.operand,),
    Cast: lambda node: (node.operand,),
    Conditional: lambda node: (node.condition, node.then, node.otherwise),
    Call: lambda node: (*_given(node.method), *node.arguments),
    Construct: lambda node: node.parts,
    OpaqueExpression: lambda node: node.parts,
    Block: lambda node: node.statements,
    If: lambda node: (node.condition, node.then, *_given(node.otherwise)),
    Loop: _of_loop,
    Switch: _of_switch,
}


def below(node: Node) -> Iterator[Node]:
    """Return the node and all below it, in order. Functions that are called are not entered."""
    return iter(_block(node)) if type(node) is Block else _descend(node)


@lru_cache(maxsize=256)  # one inspection after the other walks the same bodies
def _block(block: Block) -> tuple[Node, ...]:
    return tuple(_descend(block))


def _descend(node: Node) -> Iterator[Node]:
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        inner = _CHILDREN.get(type(current))
        if inner is not None:
            pending.extend(inner(current)[::-1])


@lru_cache(maxsize=256)  # one inspection after the other walks the same bodies
def with_path(node: Node) -> tuple[tuple[Node, Path], ...]:
    """Return the node and all below it, each with the nodes around it."""
    found: list[tuple[Node, Path]] = []
    pending: list[tuple[Node, Path]] = [(node, ())]
    while pending:
        entry = pending.pop()
        found.append(entry)
        current, path = entry
        of_kind = _CHILDREN.get(type(current))
        if of_kind is not None:
            inner = (*path, current)
            pending.extend([(child, inner) for child in of_kind(current)[::-1]])
    return tuple(found)


def functions(program: Program) -> Iterator[MetalFunction]:
    """Yield the functions that the texts define, methods included, but for entry points."""
    for group in program.functions.values():
        yield from (function for function in group if not function.entry)
    for struct in program.structs.values():
        for group in struct.methods.values():
            yield from group


def bodies(program: Program) -> Iterator[Block]:
    """Yield the program's body and those of its functions."""
    if program.body is not None:
        yield program.body
    for function in functions(program):
        yield from function.bodies


def loops(path: Path) -> tuple[Loop, ...]:
    """Return the loops among the nodes around something, outermost first."""
    return tuple(node for node in path if isinstance(node, Loop))


def base(expression: Expression) -> Variable | None:
    """Return the variable that an element, a component or a cast pointer belongs to."""
    while True:
        if isinstance(expression, Name):
            return expression.variable
        if isinstance(expression, (Index, Member)):
            expression = expression.base
        elif isinstance(expression, Cast) and is_address(expression.type):
            expression = expression.operand
        else:
            return None


def mentioned(node: Node) -> frozenset[Variable]:
    """Return the variables whose names are in a node."""
    return frozenset(inner.variable for inner in below(node) if isinstance(inner, Name))


def changed(node: Node) -> frozenset[Variable]:
    """Get the variables that a node may change: declared, assigned, or handed on to be written."""
    found: set[Variable] = set()
    for inner in below(node):
        if isinstance(inner, Declare):
            found.add(inner.variable)
        elif isinstance(inner, Assign):
            variable = base(inner.target)
            if variable is not None:
                found.add(variable)
        elif isinstance(inner, Call):
            found |= _handed_on(inner)
        elif isinstance(inner, Unary) and inner.operator == "&":
            found |= mentioned(inner.operand)
        elif isinstance(inner, OpaqueExpression):
            found |= mentioned(inner)
    return frozenset(found)


def _handed_on(call: Call) -> set[Variable]:
    """Return the variables that a call may change."""
    found: set[Variable] = set()
    if call.method is not None:
        found |= mentioned(call.method)
    for number, argument in enumerate(call.arguments):
        by_reference = call.name in _WRITING or any(
            number < len(f.parameters) and f.parameters[number].type.reference
            for f in call.functions
        )
        if by_reference or is_address(argument.type) or argument.type.scalar is None:
            found |= mentioned(argument)
    for function in call.functions:
        # A lambda may change what stands around it; another function finds none of it.
        for body in function.bodies:
            for inner in below(body):
                variable = base(inner.target) if isinstance(inner, Assign) else None
                if variable is not None:
                    found.add(variable)
    return found


def assigned(node: Node) -> Iterator[tuple[Variable, Expression]]:
    """Yield the values that variables get below a node: first ones, and those of assignments."""
    for inner in below(node):
        if isinstance(inner, Declare) and inner.initial is not None:
            yield inner.variable, inner.initial
        elif isinstance(inner, Assign):
            variable = base(inner.target)
            if variable is not None and variable.kind != "unknown":
                yield variable, inner.value


def sources_of(
    node: Node, is_source: Callable[[Variable], bool]
) -> dict[Variable, frozenset[Variable]]:
    """Get the sources whose values may flow into each variable below a node, in whatever order."""
    targets: dict[Variable, list[Variable]] = {}
    for target, value in assigned(node):
        for variable in mentioned(value):
            targets.setdefault(variable, []).append(target)
    found = {variable: frozenset({variable}) for variable in targets if is_source(variable)}
    pending = list(found)
    while pending:
        variable = pending.pop()
        for target in targets.get(variable, ()):
            old = found.get(target, frozenset())
            if not found[variable] <= old:
                found[target] = old | found[variable]
                pending.append(target)
    return found


def known_values(program: Program, template: Mapping[str, object]) -> dict[Variable, int | float]:
    """Return the numbers that template arguments and constants hold.

    Args:
        program: any program.
        template: the template arguments of a launch by name.
    """
    values: dict[Variable, int | float] = {}
    for name, variable in program.variables.items():
        given = template.get(name)
        if variable.kind == "template" and isinstance(given, int):
            values[variable] = int(given)
    if values:
        _add_values(values, program.constants)
    else:
        values.update(_constant_values(program.constants))
    for body in bodies(program):
        _add_values(values, (node for node in below(body) if isinstance(node, Declare)))
    return values


@lru_cache(maxsize=4)  # one kernel of a file after the other asks
def _constant_values(constants: tuple[Declare, ...]) -> Mapping[Variable, int | float]:
    values: dict[Variable, int | float] = {}
    _add_values(values, constants)
    return values


def _add_values(values: dict[Variable, int | float], declared: Iterable[Declare]) -> None:
    """Add the numbers of variables that are declared to be constant."""
    for declaration in declared:
        variable = declaration.variable
        if variable.constant and not is_address(variable.type) and declaration.initial is not None:
            value = fitted(fold(declaration.initial, values), variable.type)
            if value is not None:
                values[variable] = value


#: Comparisons, and what they are with the sides exchanged.
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
#: Steps that are followed of a counter that is halved or doubled.
_MAX_STEPS = 64


class Counter(Struct, frozen=True):
    """The variable that a loop counts with.

    Attributes:
        start: its first value as written.
        trips: how often the body runs, None when that is not known.
    """

    variable: Variable
    start: Expression
    trips: int | None


def counter_of(loop: Loop, values: Values) -> Counter | None:
    """Return the counter of a ``for`` loop that only its step changes, None for other loops.

    Args:
        loop: any loop.
        values: the numbers that variables are known to hold.
    """
    started = _started(loop)
    step = loop.step
    if started is None or not isinstance(step, Assign) or not isinstance(step.target, Name):
        return None
    variable, start = started
    if step.target.variable is not variable or variable in changed(loop.body):
        return None
    return Counter(variable, start, _trips(loop, step, variable, start, values))


def _started(loop: Loop) -> tuple[Variable, Expression] | None:
    if len(loop.start) != 1:
        return None
    first = loop.start[0]
    if isinstance(first, Declare) and first.initial is not None:
        return first.variable, first.initial
    if isinstance(first, Evaluate) and isinstance(first.expression, Assign):
        given = first.expression
        if given.operator == "=" and isinstance(given.target, Name):
            return given.target.variable, given.value
    return None


def _trips(
    loop: Loop, step: Assign, variable: Variable, start: Expression, values: Values
) -> int | None:
    first, by = fold_int(start, values), fold_int(step.value, values)
    bound = _bound(loop.condition, variable, values)
    if first is None or by is None or bound is None:
        return None
    operator, last = bound
    if step.operator in ("+=", "-="):
        return _by_sums(first, by if step.operator == "+=" else -by, operator, last)
    return _by_factors(first, by, step.operator, operator, last)


def _bound(
    condition: Expression | None, variable: Variable, values: Values
) -> tuple[str, int] | None:
    """Return the comparison that keeps a loop going, with the counter on its left."""
    if not isinstance(condition, Binary) or condition.operator not in FLIPPED:
        return None
    for side, other, sign in (
        (condition.left, condition.right, condition.operator),
        (condition.right, condition.left, FLIPPED[condition.operator]),
    ):
        if isinstance(side, Name) and side.variable is variable:
            last = fold_int(other, values)
            return None if last is None else (sign, last)
    return None


def _by_sums(first: int, by: int, operator: str, last: int) -> int | None:
    if by == 0:
        return None
    if operator == "!=":
        trips, rest = divmod(last - first, by)
        return trips if rest == 0 and trips >= 0 else None
    if (by > 0) != (operator in ("<", "<=")):
        return None
    distance = (last - first) * (1 if by > 0 else -1) + (operator in ("<=", ">="))
    return max(0, -(-distance // abs(by)))


def _by_factors(first: int, by: int, change: str, operator: str, last: int) -> int | None:
    value = first
    for trips in range(_MAX_STEPS):
        if not _goes_on(value, operator, last):
            return trips
        if change == "*=":
            value *= by
        elif change == "/=" and by:
            value //= by
        elif change == ">>=" and by >= 0:
            value >>= by
        elif change == "<<=" and 0 <= by < _MAX_STEPS:
            value <<= by
        else:
            return None
    return None


def _goes_on(value: int, operator: str, last: int) -> bool:
    if operator == "!=":
        return value != last
    if operator in ("<", "<="):
        return value < last + (operator == "<=")
    return value > last - (operator == ">=")


def has_loops(loop: Loop) -> bool:
    """Return whether other loops are in a loop."""
    return any(node is not loop and type(node) is type(loop) for node in below(loop))
