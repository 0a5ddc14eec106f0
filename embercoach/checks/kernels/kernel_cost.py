"""KERNEL-PERF: operations that make a correct kernel slow."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from msgspec import Struct

from embercoach.checks.programs.kernel_plans import values_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, once_at_each_start
from embercoach.checks.registry import check
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Declare,
    Expression,
    Index,
    Loop,
    OpaqueExpression,
    Program,
    Variable,
)
from embercoach.metal.program.types import is_integer
from embercoach.metal.program.walk import (
    Node,
    Values,
    base,
    below,
    bodies,
    changed,
    counter_of,
    fold,
    has_loops,
    loops,
    mentioned,
    with_path,
)

DIVISION = "KERNEL-PERF-001"
ARRAY = "KERNEL-PERF-002"
#: Loops that turn fewer times cost little, and a compiler unrolls them.
FEW_TURNS = 8
#: Loops that a compiler may unroll, so that their counters are constants.
MOST_UNROLLED = 64
#: Smaller arrays may be kept in registers by a chain of selections.
SMALL_ARRAY = 8
_RUNTIME = frozenset({"input", "metadata", "attribute", "parameter"})


def _divisions(program: Program, values: Values) -> Iterator[MetalReport]:
    """Integer divisions in innermost loops by a size, once for each loop and size.

    The divisor stays the same while the loop turns. If the dividend does too, the compiler divides
    once, before the loop: that is left out.
    """
    given = _given(program)
    for body in bodies(program):
        origins = _Origins(values, _single_values(body), given)
        reported: set[tuple[Loop, Variable]] = set()
        for node, path in with_path(body):
            divided = _divided(node)
            around = loops(path)
            if divided is None or not around or has_loops(around[-1]):
                continue
            dividend, divisor = divided
            loop = around[-1]
            owner = origins.runtime(divisor)
            if owner is None or (loop, owner) in reported or _is_short(loop, values):
                continue
            moving = changed(loop)
            if mentioned(dividend) & moving and not mentioned(divisor) & moving:
                reported.add((loop, owner))
                yield MetalReport(
                    DIVISION,
                    node.spot,
                    f"integer division by a value from `{owner.name}` in an inner loop",
                    "Update quotient and remainder in the loop, or make the divisor a template "
                    "argument",
                )


def _given(program: Program) -> frozenset[Variable]:
    """Return the values that a launch passes; arguments of helper functions may be constants."""
    return frozenset(v for v in program.variables.values() if v.kind in _RUNTIME)


def _is_short(loop: Loop, values: Values) -> bool:
    counter = counter_of(loop, values)
    return counter is not None and counter.trips is not None and counter.trips < FEW_TURNS


def _divided(node: Node) -> tuple[Expression, Expression] | None:
    """Dividend and divisor of a division of integers."""
    if isinstance(node, Assign) and node.operator in ("/=", "%="):
        sides = (node.target, node.value)
    elif isinstance(node, Binary) and node.operator in ("/", "%"):
        sides = (node.left, node.right)
    else:
        return None
    whole = all(is_integer(side.type) and side.type.width == 1 for side in sides)
    return sides if whole else None


def _single_values(body: Node) -> dict[Variable, Expression | None]:
    """Return the one value that each local variable has, None for those that have several."""
    found: dict[Variable, Expression | None] = {}
    for node in below(body):
        if isinstance(node, Declare):
            found[node.variable] = node.initial if node.variable not in found else None
        elif isinstance(node, Assign):
            variable = base(node.target)
            if variable is not None:
                found[variable] = None
    return found


class _Origins(Struct, frozen=True):
    """The origins of values in a body.

    Attributes:
        values: of the variables that a compiler knows.
        single: the one value of each local variable, None for those that have several.
        given: the values that a launch passes.
    """

    values: Values
    single: dict[Variable, Expression | None]
    given: frozenset[Variable]

    def of(
        self, expression: Expression, fixed: Collection[Variable] = ()
    ) -> Iterator[Variable | None]:
        """Yield the variables that an expression stems from; None for what is not followed.

        Args:
            expression: its local variables are followed to their values.
            fixed: variables that are left out.
        """
        pending, seen = [expression], set(fixed)
        while pending:
            current = pending.pop()
            if any(isinstance(inner, (Call, OpaqueExpression)) for inner in below(current)):
                yield None
            for variable in sorted(mentioned(current) - seen, key=lambda v: v.spot.place.start):
                seen.add(variable)
                yield variable
                initial = self.single.get(variable) if variable.kind == "local" else None
                if initial is None:
                    yield None
                else:
                    pending.append(initial)

    def runtime(self, expression: Expression) -> Variable | None:
        """Return the variable of the launch that an expression certainly stems from."""
        if fold(expression, self.values) is not None:
            return None
        for variable in self.of(expression):
            if variable is None or variable in self.given:
                return variable
        return None


def _dynamic_indices(program: Program, values: Values) -> Iterator[MetalReport]:
    """Private arrays that are indexed by what no compiler knows, each once."""
    given = _given(program)
    for body in bodies(program):
        reported: set[Variable] = set()
        origins = _Origins(values, _single_values(body), given)
        for node, path in with_path(body):
            array = base(node) if isinstance(node, Index) else None
            if array is None or array in reported or not _is_private(array):
                continue
            assert isinstance(node, Index)
            fixed = values.keys() | {
                counter.variable
                for loop in loops(path)
                if (counter := counter_of(loop, values)) is not None
                and counter.trips is not None
                and counter.trips <= MOST_UNROLLED
            }
            turning = _turning(loops(path), origins)
            known = given | turning.keys()
            by = next((v for v in origins.of(node.index, fixed) if v in known), None)
            by = by if by is None else turning.get(by, by)
            if by is not None:
                reported.add(array)
                yield MetalReport(
                    ARRAY,
                    node.spot,
                    f"dynamic index into private array `{array.name}`, by `{by.name}`",
                    "Use constant loop bounds or threadgroup memory; put fixed tables into "
                    "`constant`",
                )


def _turning(around: tuple[Loop, ...], origins: _Origins) -> dict[Variable, Variable]:
    """Counters of loops that turn as often as the launch says, with what it says it by."""
    found: dict[Variable, Variable] = {}
    for loop in around:
        counter = counter_of(loop, origins.values)
        if counter is None or counter.trips is not None or not isinstance(loop.condition, Binary):
            continue
        sides = (loop.condition.left, loop.condition.right)
        bounds = [side for side in sides if counter.variable not in mentioned(side)]
        owner = origins.runtime(bounds[0]) if len(bounds) == 1 else None
        if owner is not None:
            found[counter.variable] = owner
    return found


def _is_private(variable: Variable) -> bool:
    kind = variable.type
    if variable.kind != "local" or variable.constant or kind.pointer or kind.reference:
        return False
    sizes = [size for size in kind.dimensions if size is not None]
    elements = 1
    for size in sizes:
        elements *= size
    known = bool(sizes) and len(sizes) == len(kind.dimensions)
    return known and elements >= SMALL_ARRAY and kind.space in (None, "thread")


@check(DIVISION)
def divisions_in_loops(code: MetalCode) -> Iterator[MetalReport]:
    """Integer divisions by sizes, in innermost loops."""
    if not {"/", "%"} & set(code.text.text + code.header.text):
        return

    found = (_divisions(kernel.own, values_of(kernel)) for kernel in code.kernels)
    yield from once_at_each_start(chain.from_iterable(found))


@check(ARRAY)
def dynamic_arrays(code: MetalCode) -> Iterator[MetalReport]:
    """Private arrays whose index is known at run time only."""
    if "[" not in code.text.text:
        return

    for kernel in code.kernels:
        yield from _dynamic_indices(kernel.own, values_of(kernel))
