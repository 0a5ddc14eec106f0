"""KERNEL-GRID-004: more threads than elements, and nothing in the body that stops them."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import Expression, display, scope_at
from embercoach.analysis.sizes.ceil_division import is_attribute, is_item, whole_multiple
from embercoach.analysis.sizes.symbolic import Term, symbolic
from embercoach.analysis.syntax.trees import walk
from embercoach.checks.programs.kernel_plans import program_of
from embercoach.checks.programs.kernels import definitions
from embercoach.checks.programs.launches import configurations_of, launches_of
from embercoach.checks.registry import Report, check
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.sizes.ceil_division import CeilDivision
    from embercoach.analysis.sizes.symbolic import SymInt
    from embercoach.checks.programs.kernels import Definition
    from embercoach.checks.programs.launches import Launch, OutputShape

AXES = "xyz"


@check("KERNEL-GRID-004")
def rounded_grids(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``grid=((n + 255) // 256 * 256, 1, 1)`` and ``y[thread_position_in_grid.x] = ...``."""
    for definition in definitions(module, facts):
        for launch in launches_of(definition, module):
            yield from _of_launch(definition, launch, module)


def _of_launch(definition: Definition, launch: Launch, module: Module) -> Iterator[Report]:
    for axis, entry in enumerate(launch.grid or ()):
        rounded = None if entry.size is None else whole_multiple(entry.size)
        if rounded is None or entry.size is None or not _overshoots(rounded, launch, module):
            continue
        written = _unguarded(definition, launch, axis, module) & _of_count(launch, rounded)
        if not written:
            continue
        argument = launch.fact.keyword("grid")
        assert argument is not None
        nodes = display(argument.node)
        name = min(written)
        yield Report.at(
            launch.fact,
            "KERNEL-GRID-004",
            node=argument.node if nodes is None else nodes[axis],
            message=(
                f"{AXES[axis]} entry of `grid` is rounded up: "
                f"{hazards.out_of_bounds('write', name)}"
            ),
            help="Pass the number of elements, or guard the body: `if (i < n)`",
        )


def _overshoots(rounded: CeilDivision, launch: Launch, module: Module) -> bool:
    """Return whether rounding up may change the count."""
    if rounded.is_exact:
        return False
    if rounded.divisor.known is not None and rounded.count.known is not None:
        return rounded.divisor.known != 0
    function = launch.fact.place.function
    scope = scope_at(launch.fact, module)
    # A function that asks for ``n % divisor`` may see to it that nothing is left.
    return not any(
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Modulo)
        and symbolic(Expression(node.right, scope)) == rounded.divisor
        for node in walk(module.tree if function is None else function.node)
    )


def _of_count(launch: Launch, rounded: CeilDivision) -> set[str]:
    """The outputs that have as many elements, along some axis, as was rounded up from."""
    names = [output.name for output in launch.outputs or ()]
    pairs = zip(names, launch.shapes or (), strict=False)
    return {name for name, shape in pairs if _has(shape, rounded.count)}


def _has(shape: OutputShape, count: SymInt) -> bool:
    if shape.sizes is not None:
        return count in (*shape.sizes, reduce(mul, shape.sizes))
    # The shape of an array, and a count that is its size or the length of one of its axes.
    whole = None if shape.expression is None else symbolic(shape.expression)
    if whole is None or whole.term is None or not is_attribute(whole, "shape"):
        return False
    size = Term("attribute", (whole.term.parts[0], "size"))
    return count.term == size or is_item(count, whole)


def _unguarded(definition: Definition, launch: Launch, axis: int, module: Module) -> set[str]:
    """The outputs that every thread of a group writes to, at its own position, without a guard."""
    from embercoach.metal.execution.follow import follow
    from embercoach.metal.inspections.rounding import unguarded

    program = program_of(definition, launch, module)
    if program is None or program.problems:
        return set()
    found = [
        {variable.name for variable in unguarded(follow(program, configuration), axis)}
        for configuration in configurations_of(definition, launch)
    ]
    return set.intersection(*found) if found else set()
