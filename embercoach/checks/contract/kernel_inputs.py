"""KERNEL-SPACE and KERNEL-RANK: what an input is, and what the body takes it for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import display
from embercoach.checks.programs.contracted import contracted
from embercoach.checks.registry import Report, check
from embercoach.metal.contract import CONSTANT_BELOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.contracted import Contracted
    from embercoach.checks.programs.launches import Launch
    from embercoach.metal.contract import Input
    from embercoach.metal.inspections.parameter_uses import ParameterUse
    from embercoach.metal.program.nodes import Variable

FIXED = ("device", "constant")


@check("KERNEL-SPACE-001", "KERNEL-SPACE-002", "KERNEL-RANK-001")
def kernel_inputs(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """The inputs of each kernel whose texts and names are known."""
    for kernel in contracted(module, facts):
        for name, found in uses_of_inputs(kernel).items():
            given = kernel.given(name)
            yield from _space(kernel, name, found, given)
            yield from _rank(kernel, name, found, given)


def uses_of_inputs(kernel: Contracted) -> dict[str, list[ParameterUse]]:
    """The uses of each input in the body, none where the texts are not known to the end."""
    program = kernel.program if kernel.whole else None
    uses: dict[str, list[ParameterUse]] = {}
    if program is None:
        return uses
    from embercoach.metal.inspections.parameter_uses import parameter_uses

    for use in parameter_uses(program):
        if use.variable.kind == "input" and use.spot.text == "body":
            uses.setdefault(use.variable.name, []).append(use)
    return uses


# Address spaces


def _space(
    kernel: Contracted, name: str, uses: list[ParameterUse], given: tuple[Input, ...]
) -> Iterator[Report]:
    """Pointers of a fixed address space that an input goes into."""
    for use in uses:
        space = _written_space(use)
        if space is None:
            continue
        wrong = next((g for g in given if g.address_space not in (None, space)), None)
        if wrong is not None:
            yield from _wrong_space(kernel, use, space, wrong)
            return
        if any(_may_be_small(g, launch, use) for g, launch in _launched(kernel, name)):
            few = f"below {CONSTANT_BELOW}" if space == "device" else f"from {CONSTANT_BELOW}"
            yield from kernel.at(
                "KERNEL-SPACE-002",
                use.spot.place,
                f"`{space}` {_taker(use)} for `{name}`, which is `{_other(space)}` {few} elements",
                _space_help(use),
            )
            return


def _launched(kernel: Contracted, name: str) -> Iterator[tuple[Input, Launch]]:
    for launch in kernel.launches:
        yield from ((given, launch) for given in launch.inputs or () if given.name == name)


def _may_be_small(given: Input, launch: Launch, use: ParameterUse) -> bool:
    """Return whether an input of unknown size has one dimension, or any shape that a caller passes.

    Of an input whose rows the body counts, next to none is so small.
    """
    if given.elements is not None:
        return False
    if given.ndim is not None:
        return given.ndim == 1
    return not _counts_rows(use) and is_shape_generic(given.name, launch)


def _counts_rows(use: ParameterUse) -> bool:
    """Return whether an index or offset contains a product: ``x[row * columns + column]``."""
    from embercoach.metal.program.nodes import Binary
    from embercoach.metal.program.walk import below

    if use.index is None:
        return False
    return any(isinstance(n, Binary) and n.operator == "*" for n in below(use.index))


def _wrong_space(
    kernel: Contracted, use: ParameterUse, space: str, given: Input
) -> Iterator[Report]:
    one = "1 element" if given.elements == 1 else f"{given.elements} elements"
    name = use.variable.name
    yield from kernel.at(
        "KERNEL-SPACE-001",
        use.spot.place,
        f"`{space}` {_taker(use)} for `{name}`, which is `{given.address_space}` with {one}",
        _space_help(use),
    )


def _other(space: str) -> str:
    return "constant" if space == "device" else "device"


def _taker(use: ParameterUse) -> str:
    if use.declared is None:
        return "cast"
    if use.declared.spot.text == "header" or use.taker != _pointer_name(use):
        return f"parameter of `{use.taker}`"
    return f"pointer `{use.taker}`"


def _pointer_name(use: ParameterUse) -> str:
    from embercoach.metal.program.nodes import Call

    return "" if isinstance(use.path[-1], Call) else use.taker


def _space_help(use: ParameterUse) -> str:
    if use.declared is not None and use.taker == _pointer_name(use):
        return f"Write `auto {use.taker} = ...`, which takes either space, or index the input"
    if use.declared is not None:
        return "Make the parameter's type a template parameter: `template <typename P> ... (P p)`"
    return "Index the input itself, or cast the elements"


def _written_space(use: ParameterUse) -> str | None:
    """The address space that a pointer is declared for in so many words."""
    if use.manner != "address" or use.space not in FIXED:
        return None
    return use.space if use.declared is None or _is_explicit(use.declared) else None


def _is_explicit(pointer: Variable) -> bool:
    target = pointer.target
    return target is not None and target.space in FIXED and not pointer.type.dimensions


# Scalars and arrays


def _rank(
    kernel: Contracted, name: str, uses: list[ParameterUse], given: tuple[Input, ...]
) -> Iterator[Report]:
    """A scalar that is indexed, or an array that is taken for a number."""
    indexed = next((u for u in uses if u.manner in ("element", "address")), None)
    number = next((u for u in uses if u.manner == "number"), None)
    scalar = any(g.declarator == "&" for g in given)
    array = next((g for g in given if g.declarator == "*"), None)
    if indexed is not None and scalar:
        yield from kernel.at(
            "KERNEL-RANK-001",
            indexed.spot.place,
            f"`{name}` is indexed, but a launch passes a scalar",
            f"Write `{name}` without an index, or pass `mx.array([...])`",
        )
    elif number is not None and array is not None:
        one = "one element" if array.elements == 1 else "dimensions"
        yield from kernel.at(
            "KERNEL-RANK-001",
            number.spot.place,
            f"`{name}` is used as a number, but a launch passes an array with {one}",
            f"Write `{name}[0]`, or pass a Python number or a 0-d array",
        )


def is_shape_generic(name: str, launch: Launch) -> bool:
    """Return whether an output takes over the shape of an input, whatever that is."""
    names = [given.name for given in launch.inputs or ()]
    inputs = launch.fact.keyword("inputs")
    nodes = display(inputs.node) if inputs is not None else None
    if nodes is None or name not in names or len(nodes) != len(names):
        return False
    node = nodes[names.index(name)]
    shapes = (s.expression.node for s in launch.shapes or () if s.expression is not None)
    return isinstance(node, cst.Name) and any(
        isinstance(shape, cst.Attribute)
        and shape.attr.value == "shape"
        and isinstance(shape.value, cst.Name)
        and shape.value.value == node.value
        for shape in shapes
    )
