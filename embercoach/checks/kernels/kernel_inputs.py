"""KERNEL-SPACE, -RANK and -STRIDE: what an input is, and what the body takes it for."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.scopes import (
    Expression,
    display,
    is_rebound,
    items,
    passed_by,
    resolve_name,
    scope_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import CallFact, FunctionVisit
from embercoach.checks.programs.kernels import KernelBody
from embercoach.checks.programs.launches import Launch
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal.contract import CONSTANT_BELOW, Input, shape_names
from embercoach.metal.execution.parameter_uses import ParameterUse, indices_below, parameter_uses
from embercoach.metal.program.nodes import Binary, Call, Variable
from embercoach.metal.program.walk import below

FIXED = ("device", "constant")


@check("KERNEL-SPACE-001", "KERNEL-SPACE-002", "KERNEL-RANK-001")
def kernel_inputs(kernel: KernelBody) -> Iterator[MetalReport]:
    """Yield the inputs of each kernel whose texts and names are known."""
    for name, found in uses_of_inputs(kernel).items():
        given = kernel.given(name)
        yield from _space(kernel, name, found, given)
        yield from _rank(name, found, given)


def uses_of_inputs(kernel: KernelBody) -> dict[str, list[ParameterUse]]:
    """Return the uses of each input in the body, none where the texts are not known to the end."""
    program = kernel.program() if kernel.is_whole else None
    uses: dict[str, list[ParameterUse]] = {}
    for use in parameter_uses(program) if program is not None else ():
        if use.variable.kind == "input" and use.spot.text == "body":
            uses.setdefault(use.variable.name, []).append(use)
    return uses


# Address spaces


def _space(
    kernel: KernelBody, name: str, uses: list[ParameterUse], given: tuple[Input, ...]
) -> Iterator[MetalReport]:
    """Pointers of a fixed address space that an input goes into."""
    for use in uses:
        space = _written_space(use)
        if space is None:
            continue
        wrong = next((g for g in given if g.address_space not in (None, space)), None)
        pairs = ((one, la) for la in kernel.launches for one in la.inputs or ())
        if wrong is not None:
            code, number = "KERNEL-SPACE-001", wrong.elements
            why = f"`{wrong.address_space}` with {number} element{'s' * (number != 1)}"
        elif any(one.name == name and _may_be_small(one, la, use) for one, la in pairs):
            few = f"below {CONSTANT_BELOW}" if space == "device" else f"from {CONSTANT_BELOW}"
            other = "constant" if space == "device" else "device"
            code, why = "KERNEL-SPACE-002", f"`{other}` {few} elements"
        else:
            continue
        what = f"`{space}` {_taker(use)} for `{name}`, which is {why}"
        yield MetalReport(code, use.spot, what, _space_help(use))
        return


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
    if use.index is None:
        return False
    return any(isinstance(n, Binary) and n.operator == "*" for n in below(use.index))


def _taker(use: ParameterUse) -> str:
    if use.declared is None:
        return "cast"
    if use.declared.spot.text == "header" or use.taker != _pointer_name(use):
        return f"parameter of `{use.taker}`"
    return f"pointer `{use.taker}`"


def _pointer_name(use: ParameterUse) -> str:
    return "" if isinstance(use.path[-1], Call) else use.taker


def _space_help(use: ParameterUse) -> str:
    if use.declared is not None and use.taker == _pointer_name(use):
        return f"Write `auto {use.taker} = ...`, which takes either space, or index the input"
    if use.declared is not None:
        return "Make the parameter's type a template parameter: `template <typename P> ... (P p)`"
    return "Index the input itself, or cast the elements"


def _written_space(use: ParameterUse) -> str | None:
    """Return the address space that a pointer is declared for in so many words."""
    if use.manner != "address" or use.space not in FIXED:
        return None
    return use.space if use.declared is None or _is_explicit(use.declared) else None


def _is_explicit(pointer: Variable) -> bool:
    target = pointer.target
    return target is not None and target.space in FIXED and not pointer.type.dimensions


# Scalars and arrays


def _rank(name: str, uses: list[ParameterUse], given: tuple[Input, ...]) -> Iterator[MetalReport]:
    """Yield a scalar that is indexed, or an array that is taken for a number."""
    indexed = next((u for u in uses if u.manner in ("element", "address")), None)
    number = next((u for u in uses if u.manner == "number"), None)
    scalar = any(g.declarator == "&" for g in given)
    array = next((g for g in given if g.declarator == "*"), None)
    if indexed is not None and scalar:
        yield MetalReport(
            "KERNEL-RANK-001",
            indexed.spot,
            f"`{name}` is indexed, but a launch passes a scalar",
            f"Write `{name}` without an index, or pass `mx.array([...])`",
        )
    elif number is not None and array is not None:
        one = "one element" if array.elements == 1 else "dimensions"
        yield MetalReport(
            "KERNEL-RANK-001",
            number.spot,
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
    shapes = (s.expression.node for s in launch.shapes if s.expression is not None)
    return isinstance(node, cst.Name) and any(
        isinstance(shape, cst.Attribute)
        and shape.attr.value == "shape"
        and isinstance(shape.value, cst.Name)
        and shape.value.value == node.value
        for shape in shapes
    )


#: Methods and functions that give a view of other strides, at least at times.
VIEWS = frozenset(
    ("transpose", "swapaxes", "moveaxis", "broadcast_to", "split", "expand_dims", "as_strided")
)
MAX_CALLERS = 4


@check("KERNEL-STRIDE-001")
def strided_inputs(kernel: KernelBody) -> Iterator[MetalReport]:
    """Yield the inputs of a kernel that is built with ``ensure_row_contiguous=False``."""
    if not kernel.launches or kernel.flag("ensure_row_contiguous", default=True) is not False:
        return
    if any("stride" in name for name in kernel.inputs or ()):
        return
    for name, uses in uses_of_inputs(kernel).items():
        _, strides, _ = shape_names(name)
        linear = next(filter(_counts_elements, uses), None)
        if strides in kernel.text.text or linear is None:
            continue
        reasons = (_strided(kernel, name, launch) for launch in kernel.launches)
        why = next((reason for reason in reasons if reason is not None), None)
        if why is not None:
            yield MetalReport(
                "KERNEL-STRIDE-001",
                linear.spot,
                f"`{name}` is read as row-contiguous, but {why}",
                f"Use `{strides}` with `elem_to_loc`, or leave `ensure_row_contiguous` at True",
            )


def _counts_elements(use: ParameterUse) -> bool:
    """Return whether elements are read at an index, in the body or by a function that it calls."""
    if use.manner in ("element", "address") and use.index:
        return True
    return next(indices_below(use), None) is not None


def _strided(kernel: KernelBody, name: str, launch: Launch) -> str | None:
    """Return why a launch may pass a strided array, None if it does not seem to."""
    function = launch.fact.place.function
    node = _argument(kernel, name, launch.fact)
    if node is None:
        return None
    return _reason(node, function, kernel.module, _has_rows(name, launch), MAX_CALLERS)


def _reason(
    node: cst.BaseExpression,
    function: FunctionInfo | None,
    module: Module,
    has_rows: bool,
    depth: int,
) -> str | None:
    """Return why an expression in a function may be a strided array."""
    size = resolve_name(Expression(node, scope_of(module, function)))
    if _is_view(size.node):
        return f"`{module.parsed.code(node)}` is a view"
    if function is None or not isinstance(size.node, cst.Name):
        return None
    name = size.node.value
    if name not in {p.name for p in function.parameters} or is_rebound(module, function, name):
        return None
    if function.outer is None and not function.name.startswith("_"):
        may = f"callers of `{function.name}` may pass a view"
        return may if has_rows else None
    if depth == 0:
        return None
    reasons = (
        _reason(given, call.place.function, module, has_rows, depth - 1)
        for call in _calls(module, function)
        if isinstance(given := passed_by(call).get(name), cst.BaseExpression)
    )
    return next((reason for reason in reasons if reason is not None), None)


def _calls(module: Module, function: FunctionInfo) -> Iterator[FunctionVisit]:
    """Yield the calls of a function that the file makes."""
    for fact in module.facts():
        if isinstance(fact, FunctionVisit) and fact.function is function:
            yield fact


def _argument(kernel: KernelBody, name: str, fact: CallFact) -> cst.BaseExpression | None:
    """Return the expression that a launch passes for an input."""
    inputs = fact.keyword("inputs")
    if inputs is None or kernel.inputs is None:
        return None
    scope = scope_of(kernel.module, fact.place.function)
    given = items(Expression(inputs.node, scope))
    if given is None or len(given) != len(kernel.inputs):
        return None
    node = given[kernel.inputs.index(name)].node
    assert isinstance(node, cst.BaseExpression)
    return node


def _is_view(node: cst.CSTNode) -> bool:
    """Return whether an expression is visibly a transposed, sliced or broadcast array."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "T"
    if isinstance(node, cst.Subscript):
        return _is_view(node.value) or any(isinstance(e.slice, cst.Slice) for e in node.slice[1:])
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in VIEWS
    return False


def _has_rows(name: str, launch: Launch) -> bool:
    """Return whether the input has more than one dimension, or any shape."""
    for given in launch.inputs or ():
        if given.name == name and given.ndim is not None:
            return given.ndim > 1
    return is_shape_generic(name, launch)
