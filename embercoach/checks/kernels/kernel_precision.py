"""KERNEL-PRECISION: sums in half precision that lose what is added, and literals that leave it."""

from __future__ import annotations

from collections.abc import Iterator

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Expression,
    Index,
    Loop,
    Member,
    Name,
    NumberLiteral,
    Program,
    Unary,
    Variable,
)
from embercoach.metal.program.types import FLOATS, Type, is_floating
from embercoach.metal.program.walk import (
    Node,
    Path,
    Values,
    base,
    below,
    bodies,
    changed,
    counter_of,
    loops,
    mentioned,
    with_path,
)

SUM = "KERNEL-PRECISION-001"
LITERAL = "KERNEL-PRECISION-002"
#: A type's name, and 2 to the number of bits that it keeps of a number.
_SAID = {"half": ("float16", 2_048), "bfloat": ("bfloat16", 256)}
_SUFFIXES = {"half": "h", "bfloat": "bf"}
HALVES = frozenset({"half", "bfloat"})
#: Sums of fewer numbers than this lose little.
FEW = 32
_ARITHMETIC = frozenset({"+", "-", "*", "/"})
_FUSED = frozenset({"fma", "mad"})


def half_sums(program: Program, values: Values) -> Iterator[MetalReport]:
    """Sums in half precision that loops add to many times, each variable once.

    Args:
        program: any program.
        values: the numbers that variables are known to hold.
    """
    for body in bodies(program):
        yield from _Sums(body, values).found()


class _Sums:
    def __init__(self, body: Node, values: Values) -> None:
        self.values = values
        self.nodes = tuple(with_path(body))
        #: The loops around assignments of a variable that do not add to its value.
        self.resets: dict[Variable, list[tuple[Loop, ...]]] = {}
        for node, path in self.nodes:
            if isinstance(node, Declare):
                self.resets.setdefault(node.variable, []).append(loops(path))
            elif isinstance(node, Assign) and not _adds(node):
                variable = base(node.target)
                if variable is not None:
                    self.resets.setdefault(variable, []).append(loops(path))

    def found(self) -> Iterator[MetalReport]:
        reported: set[Variable] = set()
        for node, path in self.nodes:
            if not isinstance(node, Assign) or not _adds(node):
                continue
            variable = base(node.target)
            if variable is None or variable in reported or not _is_half(node.target.type):
                continue
            trips = self._trips(node, variable, loops(path))
            if trips is None or trips >= FEW:
                reported.add(variable)
                name, limit = _SAID[node.target.type.scalar or ""]
                terms = "" if trips is None else f" {trips:,} terms"
                yield MetalReport(
                    SUM,
                    node.spot,
                    f"`{variable.name}` accumulates{terms} in {name}: "
                    f"terms {limit:,} times smaller are lost",
                    "Sum in `float`, and convert to the smaller type once, after the loop",
                )

    def _trips(self, node: Assign, variable: Variable, around: tuple[Loop, ...]) -> int | None:
        """Return how often loops add to the same element, 0 if that is not certain."""
        if variable.kind not in ("local", "output") or _is_pointer(variable):
            return 0
        outer = {loop for found in self.resets.get(variable, ()) for loop in found}
        product: int | None = 1
        certain = False
        for loop in around:
            if loop in outer or not self._is_same_element(node.target, loop):
                continue
            certain = True
            counter = counter_of(loop, self.values)
            trips = None if counter is None else counter.trips
            product = None if trips is None or product is None else product * trips
        return product if certain else 0

    def _is_same_element(self, target: Expression, loop: Loop) -> bool:
        """Return whether all iterations of a loop add to the same element."""
        indices: frozenset[Variable] = frozenset()
        for inner in below(target):
            if isinstance(inner, Index):
                indices |= mentioned(inner.index)
        return not indices & changed(loop)


def _is_pointer(variable: Variable) -> bool:
    return variable.kind == "local" and (variable.type.pointer or variable.type.reference)


def _is_half(kind: Type) -> bool:
    return kind.scalar in HALVES and not kind.pointer and not kind.dimensions


def _adds(node: Assign) -> bool:
    """Return whether an assignment adds a number to what its target holds."""
    if node.operator in ("+=", "-="):
        return not isinstance(node.value, NumberLiteral)
    if node.operator != "=" or not isinstance(node.target, (Name, Index, Member)):
        return False
    value = node.value
    while isinstance(value, Cast) and is_floating(value.type):
        value = value.operand
    if isinstance(value, Call) and value.name in _FUSED and len(value.arguments) == 3:
        return _is_same(value.arguments[2], node.target)
    return any(_is_same(term, node.target) for term in _terms(value))


def _terms(value: Expression) -> Iterator[Expression]:
    """Return the terms of a sum, without those subtracted."""
    if isinstance(value, Binary) and value.operator in ("+", "-"):
        yield value.left
        yield from _terms(value.left)
        if value.operator == "+":
            yield value.right


def _is_same(one: Expression, other: Expression) -> bool:
    """Return whether two expressions are the same variable or the same element, as written."""
    if isinstance(one, Cast) and is_floating(one.type):
        return _is_same(one.operand, other)
    if isinstance(one, Name) and isinstance(other, Name):
        return one.variable is other.variable
    if isinstance(one, Index) and isinstance(other, Index):
        return _is_same(one.base, other.base) and _is_same(one.index, other.index)
    if isinstance(one, NumberLiteral) and isinstance(other, NumberLiteral):
        return one.value == other.value
    if isinstance(one, Binary) and isinstance(other, Binary) and one.operator == other.operator:
        return _is_same(one.left, other.left) and _is_same(one.right, other.right)
    if isinstance(one, Member) and isinstance(other, Member) and one.field == other.field:
        return _is_same(one.base, other.base)
    return False


def promotions(program: Program) -> Iterator[MetalReport]:
    """Literals that alone make arithmetic on half or bfloat run in ``float``."""
    for body in bodies(program):
        for node, path in with_path(body):
            if isinstance(node, Binary) and not _is_inside(node, path):
                scalar, implicit = _wanted(path, node)
                found = _only_literals(node) if scalar in HALVES else None
                if found is None or found[0] != scalar:
                    continue
                (name, _), written = _SAID[scalar], found[1].written
                if scalar == "bfloat" and implicit:
                    what = f"float literal `{written}` in {name}: no implicit conversion to bfloat"
                else:
                    what = f"float literal `{written}` promotes {name} arithmetic to float"
                suffixed = f"{written.rstrip('fF')}{_SUFFIXES[scalar]}"
                yield MetalReport(LITERAL, found[1].spot, what, f"Write `{suffixed}`")


def _is_inside(node: Binary, path: Path) -> bool:
    """Return whether an operation is only a part of another one."""
    around = path[-1] if path else None
    return isinstance(around, (Binary, Unary)) and node.operator in _ARITHMETIC


def _wanted(path: Path, node: Binary) -> tuple[str, bool]:
    """The scalar that the value of an expression is turned into, and whether no cast does so."""
    around = path[-1] if path else None
    kind = None
    if isinstance(around, Cast) and not around.bits:
        return (around.type.scalar or "", False) if around.type.width == 1 else ("", False)
    if isinstance(around, Declare):
        kind = around.variable.type
    elif isinstance(around, Assign) and around.value is node and around.operator == "=":
        kind = around.target.type
    if kind is None or kind.width > 1 or kind.pointer or kind.dimensions:
        return "", False
    return kind.scalar or "", True


def _only_literals(node: Binary) -> tuple[str, NumberLiteral] | None:
    """Get the scalar of all operands but literals, and the first ``float`` literal among them."""
    literal: NumberLiteral | None = None
    scalars: set[str] = set()
    pending: list[Expression] = [node]
    while pending:
        current = pending.pop(0)
        if isinstance(current, Binary) and current.operator in _ARITHMETIC:
            pending[:0] = [current.left, current.right]
        elif isinstance(current, Unary) and current.operator in "+-":
            pending.insert(0, current.operand)
        elif isinstance(current, NumberLiteral):
            if current.type.scalar == "float" and literal is None:
                literal = current
        elif current.type.width == 1 and current.type.scalar in FLOATS:
            scalars.add(current.type.scalar or "")
        else:
            return None
    return (scalars.pop(), literal) if literal is not None and len(scalars) == 1 else None


@check(SUM)
def half_precision_sums(code: MetalCode) -> Iterator[MetalReport]:
    """Loops that add to a variable in half precision."""
    if "for" not in code.text.text and "while" not in code.text.text + code.header.text:
        return

    for kernel in code.kernels:
        yield from half_sums(kernel.own, values_of(kernel))


@check(LITERAL)
def promoting_literals(code: MetalCode) -> Iterator[MetalReport]:
    """``float`` literals in arithmetic of half precision."""
    for kernel in code.kernels:
        yield from promotions(kernel.own)
