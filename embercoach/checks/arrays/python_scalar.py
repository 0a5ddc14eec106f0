"""PYTHON-SCALAR and ASSIGN-SCALAR: Python numbers in array arithmetic.

MLX takes Python numbers as weak scalars, so this code is idiomatic and harmless; the ``ember``
profile asks for arrays throughout, and the fixes keep the dtype.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import BinaryFact, CallFact, CompareFact, Fact, Operand
from embercoach.analysis.values.lattice import Array, BoundMember, Number, as_array, as_number
from embercoach.analysis.values.promotion import COMPLEX, FLOATING, HALF, INTEGERS
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import is_shown, mlx_alias
from embercoach.terminal_text import quoted

FUNCTIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "remainder",
    "**": "power",
}
COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
OF_FRACTION = ", float32 for integers"
HELP = "Use mx.{} with mx.array(value, dtype={})"
#: Characters of an array's expression in a help text.
MOST_QUOTED = 20


@check("PYTHON-SCALAR-001", "PYTHON-SCALAR-002")
def scalar_operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x * 0.5``, ``1 - x``, ``x += 1``."""
    pair = _array_and_number(fact)
    if pair is None or fact.operator not in FUNCTIONS:
        return
    # ``total = 0`` and ``total += x``: the number is what is assigned to.
    assigned = fact.in_place and fact.left.array is not None
    code = "PYTHON-SCALAR-001" if assigned else "PYTHON-SCALAR-002"
    place = "assignment to an mx.array" if assigned else "mx.array arithmetic"
    operator = f"{fact.operator}=" if fact.in_place else fact.operator
    array_node = (fact.left if fact.left.array is not None else fact.right).node
    yield Report.at(
        fact,
        code,
        message=f"Python number in {place} (`{operator}`)",
        help=_help(module, FUNCTIONS[fact.operator], array_node, *pair),
        change=_operator_change(fact, module, pair),
        subject=array_node,
    )


@check("PYTHON-SCALAR-004")
def scalar_comparison(fact: CompareFact, module: Module) -> Iterator[Report]:
    """``x > 0``."""
    pair = _array_and_number(fact)
    if pair is None or fact.operator not in COMPARISONS:
        return
    array_node = (fact.left if fact.left.array is not None else fact.right).node
    change = None
    if len(fact.node.comparisons) == 1:
        change = _rewrite(
            module,
            fact.node,
            COMPARISONS[fact.operator],
            fact.left,
            fact.right,
            pair,
        )
    yield Report.at(
        fact,
        message=f"Python number compared with an mx.array (`{fact.operator}`)",
        help=_help(module, COMPARISONS[fact.operator], array_node, *pair),
        change=change,
        subject=array_node,
    )


@check("PYTHON-SCALAR-003", of=("mlx.", "."))
def scalar_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.maximum(x, 1e-7)``, ``mx.where(c, x, 0.0)``."""
    entry, matched = fact.entry, fact.matched
    if entry is None or not entry.elementwise:
        return
    if fact.array is None and all(as_array(a.value) is None for a in fact.arguments):
        return
    numbers = [
        (a.node, number)
        for p, a in matched
        if p.takes_scalar_or_array and (number := as_number(a.value)) is not None
    ]
    if not numbers:
        return
    # The dtype of a condition does not affect the other operands.
    operands = [Operand.of(a.value, a.node) for p, a in matched if p.name != "condition"]
    if fact.receiver_node is not None and isinstance(fact.callee, BoundMember):
        operands.append(Operand.of(fact.callee.owner, fact.receiver_node))
    certain = all(operand.is_certain for operand in operands)
    arrays = [
        (operand.node, operand.array if certain else _vague(operand.array))
        for operand in operands
        if operand.array is not None
    ]
    name = entry.name.rpartition(".")[2]
    floats = [number for _, number in numbers if number.kind == "float"]
    number = (floats or [number for _, number in numbers])[0]
    help_text = HELP.format(name, "x.dtype")
    if arrays:
        help_text = _help(module, name, *arrays[-1], number)
    yield Report.at(
        fact,
        message=f"Python number as an operand of `mx.{name}`",
        help=help_text,
        change=_argument_change(module, name, arrays, numbers),
        subject=arrays[-1][0] if arrays else None,
    )


def _argument_change(
    module: Module,
    name: str,
    arrays: list[tuple[cst.BaseExpression, Array]],
    numbers: list[tuple[cst.BaseExpression, Number]],
) -> ProposedFix | None:
    """Return the numbers as arrays of the dtype that all array operands have."""
    mx = mlx_alias(module)
    if mx is None or not arrays or not _is_simple(arrays[-1][0]):
        return None
    reference, array = arrays[-1]
    dtypes = {other.dtype for _, other in arrays}
    if len(dtypes) > 1:
        if None not in dtypes:
            return None  # they promote, and the dtype of the number is unknown
        array = _vague(array)
    outcomes = [_keeps_value(array, number, name) for _, number in numbers]
    if None in outcomes:
        return None
    dtype = f"{module.parsed.code(reference)}.dtype"
    edits = [(n, f"{mx}.array({module.parsed.code(n)}, dtype={dtype})") for n, _ in numbers]
    safe = all(outcomes) and not any(is_shown(module, node) for node, _ in numbers)
    return ProposedFix("Make the number an array of the same dtype", safe, tuple(edits))


@check("ASSIGN-SCALAR-001")
def bare_assignment(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``scale = 0.5`` that later feeds ``x * scale``."""
    seen: set[cst.CSTNode] = set()
    for fact in facts:
        for number in _scalars_of(fact):
            origin = number.origin
            if origin is None or origin in seen or origin not in contents_of(module.tree):
                continue
            seen.add(origin)
            yield Report(
                "ASSIGN-SCALAR-001",
                origin,
                fact.place._replace(statement=origin),
                message="Python number assigned here is used in array arithmetic",
                help="Use mx.array(value, dtype=x.dtype) in the arithmetic"
                + (OF_FRACTION if number.kind == "float" else ""),
            )


def _scalars_of(fact: Fact) -> Iterator[Number]:
    if isinstance(fact, (BinaryFact, CompareFact)):
        pair = _array_and_number(fact)
        if pair is not None:
            yield pair[1]
    elif isinstance(fact, CallFact) and (fact.symbol or "").startswith("mlx.core."):
        if fact.entry is None or not fact.entry.elementwise:
            return
        if any(as_array(a.value) is not None for a in fact.arguments):
            numbers = (as_number(argument.value) for argument in fact.arguments)
            yield from (number for number in numbers if number is not None)


def _array_and_number(fact: BinaryFact | CompareFact) -> tuple[Array, Number] | None:
    left, right = fact.left, fact.right
    array, number = left.array, right.number
    if array is None:
        array, number = right.array, left.number
    if array is None or number is None:
        return None
    return (array if left.is_certain and right.is_certain else _vague(array)), number


def _vague(array: Array) -> Array:
    """Return an array of unknown dtype: no fix that needs it is safe."""
    return replace(array, dtype=None)


def _operator_change(
    fact: BinaryFact, module: Module, pair: tuple[Array, Number]
) -> ProposedFix | None:
    if fact.in_place:
        return _in_place_change(fact, module, *pair)
    return _rewrite(
        module,
        fact.node,
        FUNCTIONS[fact.operator],
        fact.left,
        fact.right,
        pair,
        keeps=fact.operator != "/" or pair[0].dtype in FLOATING,
    )


def _in_place_change(
    fact: BinaryFact, module: Module, array: Array, number: Number
) -> ProposedFix | None:
    """``x *= mx.array(0.5, dtype=x.dtype)``: still in place, so aliases see it."""
    mx = mlx_alias(module)
    if mx is None or fact.left.array is None or not _is_simple(fact.left.node):
        return None
    keeps = _keeps_value(array, number, FUNCTIONS[fact.operator])
    if keeps is None:
        return None
    dtype = f"{module.parsed.code(fact.left.node)}.dtype"
    text = f"{mx}.array({module.parsed.code(fact.right.node)}, dtype={dtype})"
    safe = keeps and (fact.operator != "/" or array.dtype in FLOATING)
    return ProposedFix(
        "Make the number an array of the same dtype", safe, ((fact.right.node, text),)
    )


def _rewrite(
    module: Module,
    node: cst.CSTNode,
    function: str,
    left: Operand,
    right: Operand,
    pair: tuple[Array, Number],
    keeps: bool = True,
) -> ProposedFix | None:
    """``mx.function(left, right)`` with the number as an array; None if that isn't possible."""
    mx = mlx_alias(module)
    reference = (left if left.array is not None else right).node
    same = _keeps_value(*pair, function)
    if mx is None or same is None or not _is_simple(reference):
        return None
    dtype = f"{module.parsed.code(reference)}.dtype"
    operands = [
        module.parsed.code(one.node)
        if one.array is not None
        else f"{mx}.array({module.parsed.code(one.node)}, dtype={dtype})"
        for one in (left, right)
    ]
    text = f"{mx}.{function}({', '.join(operands)})"
    safe = keeps and same and not _has_comment(module, node) and not is_shown(module, node)
    return ProposedFix(
        f"Use {mx}.{function} with an array of the same dtype", safe, ((node, text),)
    )


def _keeps_value(array: Array, number: Number, function: str) -> bool | None:
    """Test whether ``mx.array(number, dtype=array.dtype)`` has the same effect as the weak scalar.

    None if it may not: it would lose a fraction or an imaginary part, or wrap a number that raised
    an error. An array of unknown dtype may hold integers or booleans.
    """
    dtype, kind = array.dtype, number.kind
    if dtype is None:
        return None
    if dtype in COMPLEX:
        return False
    if kind == "complex":
        return None
    if dtype in FLOATING:
        # These take the truth value of the number before rounding to half makes it zero.
        return not (function.startswith("logical_") and dtype in HALF and kind == "float")
    if kind == "bool":
        return False
    if kind == "float" or dtype not in INTEGERS:
        return None
    return False if number.const is None else _fits(dtype, number.const) or None


def _fits(dtype: str, const: object) -> bool:
    if not isinstance(const, int):
        return False
    bits = int(dtype.removeprefix("u").removeprefix("int"))
    low, high = (0, 1 << bits) if dtype[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    return low <= const < high


def _has_comment(module: Module, node: cst.CSTNode) -> bool:
    """Test whether it contains a comment, which the rewritten expression would lose."""
    if "#" not in module.parsed.code(node):
        return False
    from libcst import matchers

    return bool(matchers.findall(module.parsed.exact(node), matchers.Comment()))


def _is_simple(node: cst.CSTNode) -> bool:
    """Return whether it is a name or attribute: evaluating it twice costs and changes nothing."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _help(
    module: Module, function: str, node: cst.BaseExpression, array: Array, number: Number
) -> str:
    """Return the remedy: a typed constant, but no integer for a number with a fraction."""
    dtype = f"{_shown(module, node)}.dtype"
    if number.kind != "float" or array.dtype in FLOATING or array.dtype in COMPLEX:
        return HELP.format(function, dtype)
    if array.dtype is None:
        return HELP.format(function, dtype) + OF_FRACTION
    return HELP.format(function, "mx.float32")


def _shown(module: Module, node: cst.BaseExpression) -> str:
    return quoted(module.parsed.code(node), MOST_QUOTED) if _is_simple(node) else "x"
