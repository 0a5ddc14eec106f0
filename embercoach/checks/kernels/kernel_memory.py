"""KERNEL-MEMORY: threadgroup memory and arrays that Metal refuses."""

from __future__ import annotations

from collections.abc import Iterator

from embercoach.analysis.values.strings import ANYTHING
from embercoach.checks.programs.metal_checks import MetalCode, MetalKernel, MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.contract import ATTRIBUTES, MAX_THREADGROUP_BYTES
from embercoach.metal.program.nodes import Declare, Program, Variable
from embercoach.metal.program.types import size_of
from embercoach.metal.program.walk import Node, below, children, mentioned
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.text_facts import Declaration, SizeName, WrittenFunction
from embercoach.terminal_text import quoted


def threadgroup_arrays(program: Program) -> dict[Variable, int]:
    """Get the threadgroup variables that occupy memory together with their bytes, as far as known.

    Unused ones take none. Of alternative scopes only the largest counts:
    a compiler may give them the same memory.
    """
    if program.body is None:
        return {}
    return _taken(program.body, mentioned(program.body))


def _taken(node: Node, used: frozenset[Variable]) -> dict[Variable, int]:
    own: dict[Variable, int] = {}
    most: dict[Variable, int] = {}
    for child in children(node):
        if isinstance(child, Declare):
            kind = child.variable.type
            size = size_of(kind)
            shared = kind.space == "threadgroup" and not kind.pointer and not kind.reference
            if shared and size is not None and child.variable in used:
                own[child.variable] = size
        elif any(isinstance(inner, Declare) for inner in below(child)):
            most = max(most, _taken(child, used), key=lambda taken: sum(taken.values()))
    return own | most


TOO_MUCH = "KERNEL-MEMORY-001"
ARRAY = "KERNEL-MEMORY-002"
#: Characters of template arguments that a message shows.
_MOST_ARGUMENTS = 32


@check(TOO_MUCH)
def threadgroup_memory(code: MetalCode) -> Iterator[MetalReport]:
    """Threadgroup arrays that take more than there is."""
    if not any("threadgroup" in text.text for text in (code.text, code.header)):
        return

    for kernel in code.kernels:
        arrays = threadgroup_arrays(kernel.program)
        total = sum(arrays.values())
        if total > MAX_THREADGROUP_BYTES:
            yield MetalReport(
                TOO_MUCH,
                max(arrays, key=arrays.__getitem__).spot,
                f"{hazards.threadgroup_memory(total)}{_with(kernel)}",
                hazards.THREADGROUP_MEMORY_HELP,
            )


def _with(kernel: MetalKernel) -> str:
    """Return the template arguments of the launch that the sizes are of."""
    values = kernel.configurations[0].template if kernel.configurations else {}
    known = [f"{name} = {value}" for name, value in values.items() if value is not None]
    return f" ({quoted(', '.join(known), _MOST_ARGUMENTS)})" if known else ""


@check(ARRAY)
def array_declarations(code: MetalCode) -> Iterator[MetalReport]:
    """Arrays of variable length, and threadgroup variables where there can be none."""
    runtime = _runtime_names(code)
    for text in code.texts:
        if text.parse_ok:
            yield from _variable_sizes(text, runtime)
            yield from _threadgroup_variables(text)


def _runtime_names(code: MetalCode) -> frozenset[str]:
    """Return names from outside a text that stand for what is known at run time only."""
    buffers = frozenset(
        name
        for kernel in code.kernels
        for name, variable in kernel.program.variables.items()
        if variable.kind in ("input", "metadata", "output")
    )
    return buffers.union(() if code.whole else ATTRIBUTES)


def _variable_sizes(text: MetalText, runtime: frozenset[str]) -> Iterator[MetalReport]:
    first_sizes: dict[Declaration, SizeName] = {}
    for size in text.size_names:
        # ``{piece}`` and then ``a[i] = 1;`` reads as the declaration of an array.
        declared = size.array.type != ANYTHING
        if declared and (not size.free or size.name in runtime):
            first_sizes.setdefault(size.array, size)
    for array, size in first_sizes.items():
        yield MetalReport(
            ARRAY,
            text.at(size.place),
            f"size of array `{array.name}` depends on run-time value `{size.name}`",
            f"Make `{size.name}` a template argument or `constexpr`, or use the largest size",
        )


def _threadgroup_variables(text: MetalText) -> Iterator[MetalReport]:
    for array in text.threadgroup_arrays:
        if array.value is not None:
            yield MetalReport(
                ARRAY,
                text.at(array.place),
                f"threadgroup variable `{array.name}` can't have an initializer",
                "Let the threads write it, then wait at a `threadgroup_barrier`",
            )
        helper = None if text.kind == "body" else _helper_around(text, array)
        if helper is not None:
            yield MetalReport(
                ARRAY,
                text.at(array.place),
                f"threadgroup variable `{array.name}` in `{helper.name}`, which is not a kernel",
                "Declare it in the kernel, and pass a `threadgroup` pointer",
            )


def _helper_around(text: MetalText, array: Declaration) -> WrittenFunction | None:
    """Return the function that a variable is declared in, None if that is a kernel, or unclear."""
    start = array.place.start
    around = [f for f in text.functions if f.body and f.extent.start <= start < f.extent.end]
    if not around or any(f.entry is not None for f in around):
        return None
    return around[-1]
