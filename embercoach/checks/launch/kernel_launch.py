"""KERNEL-ARGS, and the form of KERNEL-GRID: what a kernel is built and launched with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import Argument, CallFact
from embercoach.analysis.facts.scopes import Expression, display, items, scope_at
from embercoach.analysis.facts.symbolic import is_float, symbolic
from embercoach.analysis.values.joins import as_array
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
)
from embercoach.analysis.values.promotion import FLOATING
from embercoach.checks.programs.kernels import (
    PARAMETERS,
    SETTINGS,
    argument_of,
    count,
    has_spread,
    is_definition,
    launched,
    report_at,
)
from embercoach.checks.registry import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Kernel
    from embercoach.checks.registry import Report

REQUIRED = ("inputs", "grid", "threadgroup", "output_shapes", "output_dtypes")
KEYWORDS = frozenset((*REQUIRED, "template", "init_value", "verbose", "stream"))
FULL = "the call raises"


@check("KERNEL-ARGS-003", on=CallFact)
def built(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.fast.metal_kernel(input_names="x", ...)``."""
    if not is_definition(fact):
        return
    for parameter in ("input_names", "output_names"):
        argument = argument_of(fact, parameter)
        if argument is not None and isinstance(argument.value, Str):
            yield report_at(
                "KERNEL-ARGS-003",
                fact,
                module,
                argument.node,
                f"`{parameter}` is one string, and metal_kernel wants a list of names: {FULL} a "
                "TypeError",
                f"put the name into a list: `{parameter}=[...]`",
            )
    if has_spread(fact):
        return
    missing = [p for p in PARAMETERS[:4] if argument_of(fact, p) is None]
    surplus = _unknown_keyword(fact, frozenset((*PARAMETERS, *SETTINGS)))
    if missing or surplus is not None:
        yield _wrong_keywords(fact, module, "metal_kernel", missing, surplus)


@check("KERNEL-ARGS-001", "KERNEL-ARGS-002", "KERNEL-ARGS-003", on=CallFact)
def launch_arguments(fact: CallFact, module: Module) -> Iterator[Report]:
    """The inputs, shapes and dtypes of a launch."""
    kernels = launched(fact)
    if not kernels:
        return
    yield from _keywords(fact, module)
    yield from _inputs(fact, module, kernels)
    yield from _outputs(fact, module, kernels)


def _keywords(fact: CallFact, module: Module) -> Iterator[Report]:
    """Positional arguments, and keywords that are missing or unknown."""
    positional = next((a for a in fact.arguments if not a.star and a.keyword is None), None)
    if positional is not None:
        yield report_at(
            "KERNEL-ARGS-003",
            fact,
            module,
            positional.node,
            f"a kernel takes keywords only: {FULL} a TypeError",
            "write `inputs=[...]`, `grid=...`, `threadgroup=...`, `output_shapes=[...]`, "
            "`output_dtypes=[...]`",
        )
        return
    if has_spread(fact):
        return
    missing = [name for name in REQUIRED if fact.keyword(name) is None]
    surplus = _unknown_keyword(fact, KEYWORDS)
    if missing or surplus is not None:
        yield _wrong_keywords(fact, module, "a kernel", missing, surplus)


def _unknown_keyword(fact: CallFact, known: frozenset[str]) -> Argument | None:
    return next((a for a in fact.arguments if a.keyword and a.keyword not in known), None)


def _wrong_keywords(
    fact: CallFact, module: Module, callee: str, missing: list[str], surplus: Argument | None
) -> Report:
    if surplus is not None and not missing:
        return report_at(
            "KERNEL-ARGS-003",
            fact,
            module,
            surplus.node,
            f"{callee} takes no `{surplus.keyword}`: {FULL} a TypeError",
            "drop it, or use one of the keywords of MLX's documentation",
        )
    names = " and ".join(f"`{name}`" for name in missing)
    return report_at(
        "KERNEL-ARGS-003",
        fact,
        module,
        fact.node,
        f"{callee} needs {names}: {FULL} a TypeError",
        f"add {names}; the outputs are described by lists, even if there is one",
    )


def _inputs(fact: CallFact, module: Module, kernels: tuple[Kernel, ...]) -> Iterator[Report]:
    argument = fact.keyword("inputs")
    if argument is None:
        return
    wanted = _counts(kernels, "input_names")
    if type(argument.value) is Array:
        if wanted:
            yield report_at(
                "KERNEL-ARGS-001",
                fact,
                module,
                argument.node,
                "`inputs` is one array: its rows are taken as the inputs, and their number seldom "
                f"is {_or(wanted)}",
                "put it into a list: `inputs=[...]`",
            )
        return
    given = _known_count(fact, argument)
    if given is None:
        return
    if wanted and given not in wanted:
        yield report_at(
            "KERNEL-ARGS-001",
            fact,
            module,
            argument.node,
            f"`inputs` has {given} entries, and the kernel's input_names has {_or(wanted)}: {FULL} "
            "a ValueError",
            "pass one input for each name of input_names, in the same order",
        )
    assert isinstance(argument.value, Sequence)
    nodes = display(argument.node)
    for index, item in enumerate(argument.value.items or ()):
        kind = _no_input(item)
        if kind is not None:
            yield report_at(
                "KERNEL-ARGS-003",
                fact,
                module,
                nodes[index] if nodes is not None and len(nodes) == given else argument.node,
                f"{kind} is no input of a kernel: {FULL} an error",
                "pass arrays and Python numbers; make an array of several numbers by mx.array",
            )


def _no_input(value: Value) -> str | None:
    """What a value is that no kernel takes as an input, None if it may be one."""
    if isinstance(value, Sequence) and value.kind in ("list", "tuple", "shape"):
        return "a shape" if value.kind == "shape" else f"a {value.kind}"
    if isinstance(value, NoneValue):
        return "None"
    return "a string" if isinstance(value, Str) else None


def _outputs(fact: CallFact, module: Module, kernels: tuple[Kernel, ...]) -> Iterator[Report]:
    shapes, dtypes = fact.keyword("output_shapes"), fact.keyword("output_dtypes")
    if shapes is not None and _is_shape(shapes.value):
        yield report_at(
            "KERNEL-ARGS-003",
            fact,
            module,
            shapes.node,
            f"`output_shapes` is one shape, and a list of shapes is wanted: {FULL} a TypeError",
            "put it into a list: `output_shapes=[...]`",
        )
        shapes = None
    if dtypes is not None and isinstance(dtypes.value, DType):
        yield report_at(
            "KERNEL-ARGS-003",
            fact,
            module,
            dtypes.node,
            f"`output_dtypes` is one dtype, and a list is wanted: {FULL} a TypeError",
            "put it into a list: `output_dtypes=[...]`",
        )
        dtypes = None
    template = fact.keyword("template")
    if template is not None and isinstance(template.value, Dict):
        yield report_at(
            "KERNEL-ARGS-003",
            fact,
            module,
            template.node,
            f"`template` is a dictionary, and a list of pairs is wanted: {FULL} a TypeError",
            'write `template=[("T", x.dtype), ...]`',
        )
    wanted = _counts(kernels, "output_names")
    known = {}
    for argument in (shapes, dtypes):
        given = None if argument is None else _known_count(fact, argument)
        if argument is None or given is None:
            continue
        known[argument.keyword] = given
        if wanted and given not in wanted:
            yield report_at(
                "KERNEL-ARGS-002",
                fact,
                module,
                argument.node,
                f"`{argument.keyword}` has {given} entries, and the kernel's output_names has "
                f"{_or(wanted)}: {FULL} a ValueError",
                "give one shape and one dtype for each name of output_names",
            )
    if not wanted and dtypes is not None and len(set(known.values())) > 1:
        yield report_at(
            "KERNEL-ARGS-002",
            fact,
            module,
            dtypes.node,
            f"`output_shapes` has {known['output_shapes']} entries and `output_dtypes` has "
            f"{known['output_dtypes']}: {FULL} a ValueError",
            "give one shape and one dtype for each name of output_names",
        )


def _is_shape(value: Value) -> bool:
    """Whether a value is a shape itself, not a list of shapes."""
    if not isinstance(value, Sequence) or value.items == ():
        return False
    if value.kind == "shape":
        return True
    return value.kind in ("list", "tuple") and type(value.item) is Number


def _counts(kernels: tuple[Kernel, ...], parameter: str) -> frozenset[int]:
    """How many names the kernels have, empty where that is unknown of one."""
    counts: set[int] = set()
    for kernel in kernels:
        argument = argument_of(kernel.definition, parameter)
        known = None if argument is None else _known_count(kernel.definition, argument)
        if known is None:
            return frozenset()
        counts.add(known)
    return frozenset(counts)


def _known_count(fact: CallFact, argument: Argument) -> int | None:
    """The length of a list, None where callers elsewhere may pass another or items may come."""
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


@check("KERNEL-GRID-002", "KERNEL-GRID-003", on=CallFact)
def grid_form(fact: CallFact, module: Module) -> Iterator[Report]:
    """``grid=(n / 2, 1, 1)``, ``grid=(n, 1)``, ``threadgroup=256``."""
    if not launched(fact):
        return
    for name in ("grid", "threadgroup"):
        argument = fact.keyword(name)
        if argument is None:
            continue
        value = argument.value
        if type(value) is Number:
            yield report_at(
                "KERNEL-GRID-003",
                fact,
                module,
                argument.node,
                f"`{name}` is one number, and three are wanted: {FULL} a TypeError",
                f"write `{name}=(n, 1, 1)`",
            )
            continue
        given = _known_count(fact, argument)
        if given is not None and given != 3:
            yield report_at(
                "KERNEL-GRID-003",
                fact,
                module,
                argument.node,
                f"`{name}` has {given} entries, and three are wanted: {FULL} a TypeError",
                "write all three dimensions, with 1 for those that are not used",
            )
        elif given is not None:
            yield from _entries(fact, module, argument, name)


def _entries(fact: CallFact, module: Module, argument: Argument, name: str) -> Iterator[Report]:
    """The three entries of a grid or a threadgroup."""
    assert isinstance(argument.value, Sequence)
    scope = scope_at(fact, module)
    written = items(Expression(argument.node, scope)) or ()
    inline = display(argument.node) is not None
    for index, value in enumerate(argument.value.items or ()):
        size = written[index] if len(written) == 3 else None
        node = size.node if inline and size is not None else argument.node
        if _is_float(value, size):
            yield report_at(
                "KERNEL-GRID-002",
                fact,
                module,
                node,
                f"the {'xyz'[index]} entry of `{name}` is a float{_array(value)}, and Python ints "
                f"are wanted: {FULL} a TypeError",
                "compute launch sizes with Python integers: `(n + 1) // 2`, `math.ceil(...)`",
            )
        elif isinstance(value, Number) and size is not None:
            known = symbolic(size).known
            if known is not None and known <= 0:
                yield report_at(
                    "KERNEL-GRID-003",
                    fact,
                    module,
                    node,
                    f"the {'xyz'[index]} entry of `{name}` is {known}: MLX takes it, and no thread "
                    "of the kernel runs, so the output is never written",
                    "write 1 for dimensions that are not used",
                )


def _is_float(value: Value, size: Expression | None) -> bool:
    """Whether an entry is certainly a float, or an array or NumPy value of floats."""
    array = as_array(value)
    if array is not None:
        return array.dtype in FLOATING
    if size is None or type(value) not in (Number, Numpy):
        return False
    return getattr(value, "kind", None) == "float" and is_float(symbolic(size))


def _array(value: Value) -> str:
    return " array" if as_array(value) is not None else ""
