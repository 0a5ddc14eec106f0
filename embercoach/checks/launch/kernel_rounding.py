"""KERNEL-GRID-004: more threads than elements, and nothing in the body that stops them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import walk
from embercoach.checks.programs.kernels import definitions
from embercoach.checks.programs.launches import configurations_of, launches_of, program_of
from embercoach.checks.quotients import whole_multiple
from embercoach.checks.registry import Report, file_check
from embercoach.checks.sizes import (
    Size,
    Sum,
    constant,
    display,
    key,
    linear,
    multiplied,
    resolve,
    same,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernels import Definition
    from embercoach.checks.programs.launches import Launch
    from embercoach.checks.quotients import Ceiling

AXES = "xyz"


@file_check("KERNEL-GRID-004")
def rounded_grids(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``grid=((n + 255) // 256 * 256, 1, 1)`` and ``y[thread_position_in_grid.x] = ...``."""
    for definition in definitions(module, facts):
        for launch in launches_of(definition, module):
            yield from _of_launch(definition, launch, module)


def _of_launch(definition: Definition, launch: Launch, module: Module) -> Iterator[Report]:
    for axis, entry in enumerate(launch.grid or ()):
        rounded = None if entry.size is None else whole_multiple(entry.size)
        if rounded is None or entry.size is None or not _overshoots(rounded, launch):
            continue
        written = _unguarded(definition, launch, axis) & _of_count(launch, rounded)
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
                f"the {AXES[axis]} entry of `grid` is rounded up, and nothing in the body "
                "stops the threads past the last element: they write behind the end of "
                f"`{name}`, into other memory"
            ),
            help=(
                "pass the number of elements, MLX runs no thread beyond it; or let the body "
                "check it: `if (i < n)`"
            ),
        )


def _overshoots(rounded: Ceiling, launch: Launch) -> bool:
    """Whether rounding up may change the count, as far as anyone can see."""
    divisor = constant(rounded.divisor)
    if divisor is not None and rounded.count.keys() <= {None}:
        return rounded.count.get(None, 0) % divisor != 0
    function = launch.fact.place.function
    root = rounded.divisor.scope.module.tree if function is None else function.node
    return not _asks_for_rest(root, rounded.divisor)


def _asks_for_rest(root: cst.CSTNode, divisor: Size) -> bool:
    """Whether ``n % divisor`` stands anywhere: the function may see to it that nothing is left."""
    return any(
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Modulo)
        and same(Size(node.right, divisor.scope), divisor)
        for node in walk(root)
    )


def _of_count(launch: Launch, rounded: Ceiling) -> set[str]:
    """The outputs that have as many elements, along some axis, as was rounded up from."""
    names = [output.name for output in launch.outputs or ()]
    shapes = [shape.size for shape in launch.shapes or ()]
    return {n for n, s in zip(names, shapes, strict=False) if s is not None and _has(s, rounded)}


def _has(shape: Size, rounded: Ceiling) -> bool:
    shape = resolve(shape)
    nodes = display(shape.node)
    if nodes is not None:
        sizes = [linear(Size(node, shape.scope)) for node in nodes]
        one: Sum = {None: 1}
        return rounded.count in (*sizes, reduce(multiplied, sizes, one))
    if not isinstance(shape.node, cst.Attribute) or shape.node.attr.value != "shape":
        return False
    # The shape of an array, and a count that is its size or the length of one of its axes.
    if len(rounded.count) != 1:
        return False
    ((term, times),) = rounded.count.items()
    whole = ("attribute", key(Size(shape.node.value, shape.scope)), "size")
    is_axis = isinstance(term, tuple) and term[:2] == ("item", key(shape))
    return times == 1 and (is_axis or term == whole)


def _unguarded(definition: Definition, launch: Launch, axis: int) -> set[str]:
    """The outputs that every thread of a group writes to, at its own position, without a guard."""
    from embercoach.metal.execution.follow import follow
    from embercoach.metal.inspections.rounding import unguarded

    program = program_of(definition, launch)
    if program is None or program.problems:
        return set()
    found = [
        {variable.name for variable in unguarded(follow(program, configuration), axis)}
        for configuration in configurations_of(definition, launch)
    ]
    return set.intersection(*found) if found else set()
