"""KERNEL-ARGS, and the form of KERNEL-GRID: what a kernel is built and launched with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import libcst as cst

from embercoach.analysis.calls.kernel_objects import METAL_KERNEL
from embercoach.analysis.dataflow.scopes import Expression, items, scope_at
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import Argument, CallFact
from embercoach.analysis.values.lattice import (
    Array,
    Dict,
    DType,
    NoneValue,
    Number,
    Numpy,
    Sequence,
    Str,
    Value,
    any_item,
    as_array,
)
from embercoach.analysis.values.promotion import FLOATING
from embercoach.checks.programs.kernels import PARAMETERS, SETTINGS, PythonKernel, launched
from embercoach.checks.programs.launch_sizes import is_float, symbolic
from embercoach.checks.programs.launches import count, has_spread, item_node, items_of
from embercoach.checks.registry import VALUE, Report, check

REQUIRED = ("inputs", "grid", "threadgroup", "output_shapes", "output_dtypes")
KEYWORDS = frozenset((*REQUIRED, "template", "init_value", "verbose", "stream"))


@check("KERNEL-ARGS-003", of=(METAL_KERNEL,))
def built(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fast.metal_kernel(input_names="x", ...)``."""
    kernel = PythonKernel(fact, module)
    for parameter in ("input_names", "output_names"):
        argument = kernel.argument(parameter)
        if argument is not None and isinstance(argument.value, Str):
            yield Report.at(
                fact,
                "KERNEL-ARGS-003",
                node=argument.node,
                message=f"`{parameter}` must be a list of names, got a string",
                help=f"Put the name into a list: `{parameter}=[...]`",
            )
    if has_spread(fact):
        return
    missing = [p for p in PARAMETERS[:4] if kernel.argument(p) is None]
    surplus = _unknown_keyword(fact, frozenset((*PARAMETERS, *SETTINGS)))
    if missing or surplus is not None:
        yield _wrong_keywords(fact, "metal_kernel", missing, surplus)


@check("KERNEL-ARGS-001", "KERNEL-ARGS-002", "KERNEL-ARGS-003", of=(VALUE,))
def launch_arguments(fact: CallFact, module: Module) -> Iterator[Report]:
    """Yield the inputs, shapes and dtypes of a launch."""
    kernels = launched(fact, module)
    if not kernels:
        return
    yield from _keywords(fact)
    yield from _inputs(fact, kernels)
    yield from _outputs(fact, kernels)


def _keywords(fact: CallFact) -> Iterator[Report]:
    """Positional arguments, and keywords that are missing or unknown."""
    positional = next((a for a in fact.arguments if not a.star and a.keyword is None), None)
    if positional is not None:
        yield Report.at(
            fact,
            "KERNEL-ARGS-003",
            node=positional.node,
            message="kernel launch takes keyword arguments only",
            help="Pass `inputs`, `grid`, `threadgroup`, `output_shapes`, `output_dtypes` by name",
        )
        return
    if has_spread(fact):
        return
    missing = [name for name in REQUIRED if fact.keyword(name) is None]
    surplus = _unknown_keyword(fact, KEYWORDS)
    if missing or surplus is not None:
        yield _wrong_keywords(fact, "kernel launch", missing, surplus)


def _unknown_keyword(fact: CallFact, known: frozenset[str]) -> Argument | None:
    return next((a for a in fact.arguments if a.keyword and a.keyword not in known), None)


def _wrong_keywords(
    fact: CallFact, callee: str, missing: list[str], surplus: Argument | None
) -> Report:
    if surplus is not None and not missing:
        return Report.at(
            fact,
            "KERNEL-ARGS-003",
            node=surplus.node,
            message=f"{callee} has no parameter `{surplus.keyword}`",
            help="Drop it, or use a keyword from MLX's documentation",
        )
    names = ", ".join(f"`{name}`" for name in missing)
    return Report.at(
        fact,
        "KERNEL-ARGS-003",
        message=f"{callee} is missing {names}",
        help=f"Add {names}",
    )


def _inputs(fact: CallFact, kernels: tuple[PythonKernel, ...]) -> Iterator[Report]:
    argument = fact.keyword("inputs")
    if argument is None:
        return
    wanted = _counts(kernels, "input_names")
    if type(argument.value) is Array:
        if wanted:
            yield Report.at(
                fact,
                "KERNEL-ARGS-001",
                node=argument.node,
                message="`inputs` must be a list, got an array",
                help="Put it into a list: `inputs=[...]`",
            )
        return
    given = _known_count(fact, argument)
    if given is None:
        return
    if wanted and given not in wanted:
        yield Report.at(
            fact,
            "KERNEL-ARGS-001",
            node=argument.node,
            message=f"`inputs` has length {given}, `input_names` has length {_or(wanted)}",
            help="Pass one input for each name in `input_names`, in the same order",
        )
    for index, item in enumerate(items_of(argument.value) or ()):
        kind = _no_input(item)
        if kind is not None:
            yield Report.at(
                fact,
                "KERNEL-ARGS-003",
                node=item_node(argument, index),
                message=f"kernel input must be an array or a number, got {kind}",
                help="Pass an array or a number; convert several numbers with `mx.array`",
            )


def _no_input(value: Value) -> str | None:
    """Return the kind of a value that cannot be an input, None if it may be one."""
    if isinstance(value, Sequence) and value.kind in ("list", "tuple", "shape"):
        return "a shape" if value.kind == "shape" else f"a {value.kind}"
    if isinstance(value, NoneValue):
        return "None"
    return "a string" if isinstance(value, Str) else None


def _outputs(fact: CallFact, kernels: tuple[PythonKernel, ...]) -> Iterator[Report]:
    fit = []
    for name, (is_unfit, what, instead) in _LISTS.items():
        argument = fact.keyword(name)
        if argument is None:
            continue
        if is_unfit(argument.value):
            message = f"`{name}` must be a list{what}"
            node = argument.node
            yield Report.at(fact, "KERNEL-ARGS-003", node=node, message=message, help=instead)
        elif name != "template":
            fit.append(argument)
    wanted = _counts(kernels, "output_names")
    known = {}
    for argument in fit:
        given = _known_count(fact, argument)
        if given is None:
            continue
        known[argument.keyword] = given
        if wanted and given not in wanted:
            yield Report.at(
                fact,
                "KERNEL-ARGS-002",
                node=argument.node,
                message=(
                    f"`{argument.keyword}` has length {given}, "
                    f"`output_names` has length {_or(wanted)}"
                ),
                help="Give one shape and one dtype for each name in `output_names`",
            )
    if not wanted and len(set(known.values())) > 1:
        yield Report.at(
            fact,
            "KERNEL-ARGS-002",
            node=fit[-1].node,
            message=(
                f"`output_shapes` has length {known['output_shapes']}, "
                f"`output_dtypes` has length {known['output_dtypes']}"
            ),
            help="Give one shape and one dtype for each name in `output_names`",
        )


def _is_shape(value: Value) -> bool:
    """Return whether a value is a shape itself, not a list of shapes."""
    if not isinstance(value, Sequence) or value.items == ():
        return False
    if value.kind == "shape":
        return True
    return value.kind in ("list", "tuple") and type(any_item(value)) is Number


#: What a launch takes lists for: whether a value is none, the message, and the help.
_LISTS: Mapping[str, tuple[Callable[[Value], bool], str, str]] = {
    "output_shapes": (
        _is_shape,
        " of shapes, got one shape",
        "Put it into a list: `output_shapes=[...]`",
    ),
    "output_dtypes": (
        lambda value: isinstance(value, DType),
        ", got one dtype",
        "Put it into a list: `output_dtypes=[...]`",
    ),
    "template": (
        lambda value: isinstance(value, Dict),
        " of pairs, got a dictionary",
        'Write `template=[("T", x.dtype), ...]`',
    ),
}


def _counts(kernels: tuple[PythonKernel, ...], parameter: str) -> frozenset[int]:
    """Return the numbers of names of the kernels, empty if one is unknown."""
    counts: set[int] = set()
    for kernel in kernels:
        argument = kernel.argument(parameter)
        known = None if argument is None else _known_count(kernel.fact, argument)
        if known is None:
            return frozenset()
        counts.add(known)
    return frozenset(counts)


def _known_count(fact: CallFact, argument: Argument) -> int | None:
    """Get the length of a list, None where callers elsewhere may pass another or items may come."""
    known = count(argument.value)
    if known is None or not isinstance(argument.value, Sequence):
        return None
    if isinstance(argument.node, cst.Name):
        function = fact.place.function
        if function is not None and any(p.name == argument.node.value for p in function.parameters):
            return None
        return known or None
    # A list that others hold too may have grown where inference does not see it.
    shared = isinstance(argument.node, (cst.Attribute, cst.Subscript))
    return None if shared and argument.value.kind == "list" else known


def _or(counts: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(counts)))


@check("KERNEL-GRID-002", "KERNEL-GRID-003", of=(VALUE,))
def grid_form(fact: CallFact, module: Module) -> Iterator[Report]:
    """``grid=(n / 2, 1, 1)``, ``grid=(n, 1)``, ``threadgroup=256``."""
    if not launched(fact, module):
        return
    for name in ("grid", "threadgroup"):
        argument = fact.keyword(name)
        if argument is None:
            continue
        value = argument.value
        if type(value) is Number:
            yield Report.at(
                fact,
                "KERNEL-GRID-003",
                node=argument.node,
                message=f"`{name}` must have three entries, got one number",
                help=f"Write `{name}=(n, 1, 1)`",
            )
            continue
        given = _known_count(fact, argument)
        if given is not None and given != 3:
            yield Report.at(
                fact,
                "KERNEL-GRID-003",
                node=argument.node,
                message=f"`{name}` must have three entries, got {given}",
                help="Write all three dimensions, with 1 for unused ones",
            )
        elif given is not None:
            yield from _entries(fact, module, argument, name)


def _entries(fact: CallFact, module: Module, argument: Argument, name: str) -> Iterator[Report]:
    """Yield the three entries of a grid or a threadgroup."""
    assert isinstance(argument.value, Sequence)
    written = items(Expression(argument.node, scope_at(fact, module))) or ()
    for index, value in enumerate(argument.value.items or ()):
        size = written[index] if len(written) == 3 else None
        node = item_node(argument, index)
        if _is_float(value, size):
            yield Report.at(
                fact,
                "KERNEL-GRID-002",
                node=node,
                message=(
                    f"{'xyz'[index]} entry of `{name}` must be an int, got a float{_array(value)}"
                ),
                help="Compute it with Python integers: `(n + 1) // 2`, `math.ceil(...)`",
            )
        elif isinstance(value, Number) and size is not None:
            known = symbolic(size).known
            if known is not None and known <= 0:
                yield Report.at(
                    fact,
                    "KERNEL-GRID-003",
                    node=node,
                    message=f"{'xyz'[index]} entry of `{name}` must be positive, got {known}",
                    help="Write 1 for unused dimensions",
                )


def _is_float(value: Value, size: Expression | None) -> bool:
    """Return whether a size is a float, by its value or as it is written."""
    array = as_array(value)
    if array is not None:
        return array.dtype in FLOATING
    if size is None or type(value) not in (Number, Numpy):
        return False
    return getattr(value, "kind", None) == "float" and is_float(symbolic(size))


def _array(value: Value) -> str:
    return " array" if as_array(value) is not None else ""
