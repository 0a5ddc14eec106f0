"""KERNEL-SPACE, KERNEL-RANK and KERNEL-STRIDE: what an input is, and what the body takes it for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.checks.contracted import contracted
from embercoach.checks.registry import Report, file_check
from embercoach.checks.sizes import Size, display, resolve_name, scope_of
from embercoach.metal.contract import CONSTANT_BELOW, shape_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts import CallFact, Fact
    from embercoach.analysis.module import Module
    from embercoach.checks.contracted import Contracted
    from embercoach.checks.launches import Launch
    from embercoach.metal.contract import Input
    from embercoach.metal.program.nodes import Spot
    from embercoach.metal.program.parameter_uses import ParameterUse

FIXED = ("device", "constant")
FAILS = "the kernel fails to compile"


@file_check("KERNEL-SPACE-001", "KERNEL-SPACE-002", "KERNEL-RANK-001", "KERNEL-STRIDE-001")
def kernel_inputs(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """The inputs of each kernel whose texts and names are known."""
    for kernel in contracted(module, facts):
        program = kernel.program if kernel.whole else None
        if program is None:
            continue
        from embercoach.metal.program.parameter_uses import parameter_uses

        uses: dict[str, list[ParameterUse]] = {}
        for use in parameter_uses(program):
            if use.variable.kind == "input" and use.spot.text == "body":
                uses.setdefault(use.variable.name, []).append(use)
        for name, found in uses.items():
            given = kernel.given(name)
            yield from _space(kernel, name, found, given)
            yield from _rank(kernel, name, found, given)
            yield from _strides(kernel, name, found)


# Address spaces


def _space(
    kernel: Contracted, name: str, uses: list[ParameterUse], given: tuple[Input, ...]
) -> Iterator[Report]:
    """Pointers of a fixed address space that an input goes into."""
    for use in uses:
        space = _written_space(use, kernel)
        if space is None:
            continue
        wrong = next((g for g in given if g.address_space not in (None, space)), None)
        if wrong is not None:
            yield from _wrong_space(kernel, use, space, wrong)
            return
        if any(_may_be_small(g, launch, use) for g, launch in _launched(kernel, name)):
            few = (
                f"fewer than {CONSTANT_BELOW}" if space == "device" else f"{CONSTANT_BELOW} or more"
            )
            yield from kernel.at(
                "KERNEL-SPACE-002",
                use.spot.place,
                f"{_taker(use)} is a `{space}` pointer, and MLX passes `{name}` in "
                f"`{_other(space)}` space when it has {few} elements: {FAILS} at the first launch "
                "with such an input",
                _space_help(use),
            )
            return


def _launched(kernel: Contracted, name: str) -> Iterator[tuple[Input, Launch]]:
    for launch in kernel.launches:
        yield from ((given, launch) for given in launch.inputs or () if given.name == name)


def _may_be_small(given: Input, launch: Launch, use: ParameterUse) -> bool:
    """Whether an input of unknown size has one dimension, or any shape that a caller passes.

    Of an input whose rows the body counts, next to none is so small.
    """
    if given.elements is not None:
        return False
    if given.ndim is not None:
        return given.ndim == 1
    return not _counts_rows(use) and _is_shape_generic(given.name, launch)


def _counts_rows(use: ParameterUse) -> bool:
    """Whether an index or offset is computed with a product: ``x[row * columns + column]``."""
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
        f"`{name}` has {one} at a launch, so MLX passes it in `{given.address_space}` space, and "
        f"{_taker(use)} is a `{space}` pointer: {FAILS} there",
        _space_help(use),
    )


def _other(space: str) -> str:
    return "constant" if space == "device" else "device"


def _taker(use: ParameterUse) -> str:
    if use.declared is None:
        return "what it is cast to"
    if use.declared.text == "header" or use.taker != _pointer_name(use):
        return f"the parameter of `{use.taker}` that it is passed for"
    return f"`{use.taker}`"


def _pointer_name(use: ParameterUse) -> str:
    from embercoach.metal.program.nodes import Call

    return "" if isinstance(use.path[-1], Call) else use.taker


def _space_help(use: ParameterUse) -> str:
    if use.declared is not None and use.taker == _pointer_name(use):
        return f"write `auto {use.taker} = ...`, which takes either space, or index the input"
    if use.declared is not None:
        return "make the parameter's type a template parameter, `template <typename P> ... (P p)`"
    return "index the input itself, or cast the elements"


def _written_space(use: ParameterUse, kernel: Contracted) -> str | None:
    """The address space that a pointer is declared for in so many words."""
    if use.manner != "address" or use.space not in FIXED:
        return None
    if use.declared is None:
        return use.space
    return use.space if _is_explicit(use.declared, kernel) else None


def _is_explicit(declared: Spot, kernel: Contracted) -> bool:
    text = kernel.above if declared.text == "header" else kernel.body
    start = declared.place.start
    return any(
        d.place.start == start and d.pointer and d.address_space in FIXED and not d.dimensions
        for d in text.declarations
    )


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
            f"`{name}` is a scalar at a launch, a Python number or a 0-d array: MLX passes a "
            f"reference, which has no elements, and {FAILS}",
            f"write `{name}` without an index, or pass `mx.array([...])`",
        )
    elif number is not None and array is not None:
        one = "one element" if array.elements == 1 else "dimensions"
        yield from kernel.at(
            "KERNEL-RANK-001",
            number.spot.place,
            f"`{name}` is an array with {one} at a launch: MLX passes a pointer, which is no "
            f"number, and {FAILS}",
            f"write `{name}[0]`, or pass a Python number or a 0-d array",
        )


# Strides


def _strides(kernel: Contracted, name: str, uses: list[ParameterUse]) -> Iterator[Report]:
    """An input that may be strided, read as if it were contiguous."""
    launches = kernel.launches
    if not launches or any(launch.ensure_row_contiguous is not False for launch in launches):
        return
    strides = shape_names(name)[1]
    if strides in kernel.source.text.text or any("stride" in n for n in kernel.inputs or ()):
        return
    linear = next((u for u in uses if u.manner in ("element", "address") and u.index), None)
    if linear is None:
        return
    for launch in launches:
        why = _strided(kernel, name, launch)
        if why is not None:
            yield from kernel.at(
                "KERNEL-STRIDE-001",
                linear.spot.place,
                f"`{name}` is read as if its rows lay one behind the other, and with "
                f"`ensure_row_contiguous=False` they need not: {why}",
                f"use `{strides}`, as in `{name}[elem_to_loc(i, {name}_shape, {strides}, "
                f"{name}_ndim)]`, or leave `ensure_row_contiguous` at True",
            )
            return


#: Methods and functions that give a view of other strides, at least at times.
_VIEWS = frozenset(
    ("transpose", "swapaxes", "moveaxis", "broadcast_to", "split", "expand_dims", "as_strided")
)


def _strided(kernel: Contracted, name: str, launch: Launch) -> str | None:
    """Why a launch may pass a strided array, None if nothing speaks for it."""
    node = _argument(kernel, name, launch.fact)
    if node is None:
        return None
    size = resolve_name(Size(node, scope_of(kernel.module, launch.fact.place.function)))
    code = kernel.module.tree.code_for_node(node)
    if _is_view(size.node):
        return f"`{code}` is a view"
    function = launch.fact.place.function
    if function is None or not isinstance(size.node, cst.Name):
        return None
    parameter = next((p for p in function.parameters if p.name == size.node.value), None)
    if parameter is None or size.scope.bindings.get(parameter.name, node) is not None:
        return None
    if _times_bound(function.node, parameter.name) or not _has_rows(name, launch):
        return None
    return f"callers of `{function.name}` may pass a transposed or sliced array"


def _argument(kernel: Contracted, name: str, fact: CallFact) -> cst.BaseExpression | None:
    """The expression that a launch passes for an input."""
    inputs = fact.keyword("inputs")
    if inputs is None or kernel.inputs is None:
        return None
    scope = scope_of(kernel.module, fact.place.function)
    nodes = display(resolve_name(Size(inputs.node, scope)).node)
    if nodes is None or len(nodes) != len(kernel.inputs):
        return None
    return nodes[kernel.inputs.index(name)]


def _is_view(node: cst.CSTNode) -> bool:
    """Whether an expression gives a transposed, sliced or broadcast array at sight."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "T"
    if isinstance(node, cst.Subscript):
        return _is_view(node.value) or any(isinstance(e.slice, cst.Slice) for e in node.slice[1:])
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in _VIEWS
    return False


def _times_bound(function: cst.CSTNode, name: str) -> bool:
    """Whether a function binds a parameter anew somewhere."""
    pending: list[cst.CSTNode] = [function]
    while pending:
        node = pending.pop()
        if isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.NamedExpr)):
            target = node.target
            names = [target] if isinstance(target, cst.Name) else getattr(target, "elements", ())
            values = [n.value if isinstance(n, cst.Element) else n for n in names]
            if any(isinstance(v, cst.Name) and v.value == name for v in values):
                return True
        pending.extend(node.children)
    return False


def _has_rows(name: str, launch: Launch) -> bool:
    """Whether the input has more than one dimension, or any shape."""
    for given in launch.inputs or ():
        if given.name == name and given.ndim is not None:
            return given.ndim > 1
    return _is_shape_generic(name, launch)


def _is_shape_generic(name: str, launch: Launch) -> bool:
    """Whether an output takes over the shape of an input, whatever that is."""
    names = [given.name for given in launch.inputs or ()]
    inputs = launch.fact.keyword("inputs")
    nodes = display(inputs.node) if inputs is not None else None
    if nodes is None or name not in names or len(nodes) != len(names):
        return False
    node = nodes[names.index(name)]
    shapes = (s.size.node for s in launch.shapes or () if s.size is not None)
    return isinstance(node, cst.Name) and any(
        isinstance(shape, cst.Attribute)
        and shape.attr.value == "shape"
        and isinstance(shape.value, cst.Name)
        and shape.value.value == node.value
        for shape in shapes
    )
