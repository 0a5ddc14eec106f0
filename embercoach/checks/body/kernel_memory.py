"""KERNEL-MEMORY: threadgroup memory and arrays that Metal refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport, metal_check
from embercoach.metal.contract import ATTRIBUTES, MAX_THREADGROUP_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.checks.programs.metal_checks import MetalKernel
    from embercoach.metal.body import MetalText
    from embercoach.metal.facts import Declaration, Function, SizeName
    from embercoach.metal.inspections.memory_use import ThreadgroupArray
    from embercoach.metal.program.nodes import Text

TOO_MUCH = "KERNEL-MEMORY-001"
ARRAY = "KERNEL-MEMORY-002"
_FAILS = "the kernel fails to compile at its first launch"


@metal_check(TOO_MUCH)
def threadgroup_memory(code: MetalCode) -> Iterator[MetalReport]:
    """Threadgroup arrays that take more than there is."""
    if not any("threadgroup" in text.text for text in (code.text, code.header)):
        return
    from embercoach.metal.inspections.memory_use import threadgroup_arrays, total

    for kernel in code.kernels:
        arrays = threadgroup_arrays(kernel.program)
        if total(arrays) <= MAX_THREADGROUP_BYTES:
            continue
        largest = max(arrays, key=lambda array: array.bytes)
        spot = largest.variable.spot
        yield MetalReport(
            TOO_MUCH,
            spot.place,
            f"{_arrays(arrays)} of threadgroup memory{_with(kernel)}, and a threadgroup has "
            f"{MAX_THREADGROUP_BYTES:,}: Metal refuses the kernel, and its first launch raises",
            "work on smaller tiles, keep them in half precision, or give two of them one array",
            spot.text,
        )


def _arrays(arrays: tuple[ThreadgroupArray, ...]) -> str:
    r"""``\`tile\` takes 40,960 bytes``."""
    names = [f"`{array.variable.name}`" for array in arrays]
    taken = f"{sum(array.bytes for array in arrays):,} bytes"
    if len(names) == 1:
        return f"{names[0]} takes {taken}"
    return f"{', '.join(names[:-1])} and {names[-1]} take {taken}"


def _with(kernel: MetalKernel) -> str:
    """The template arguments of the launch that the sizes are of."""
    values = kernel.configurations[0].template if kernel.configurations else {}
    known = [f"{name} = {value}" for name, value in values.items() if value is not None]
    return f" with {', '.join(known)}" if known else ""


@metal_check(ARRAY)
def array_declarations(code: MetalCode) -> Iterator[MetalReport]:
    """Arrays of variable length, and threadgroup variables where there can be none."""
    runtime = _runtime_names(code)
    texts: list[tuple[MetalText, Text | None]] = [(code.text, None)]
    if not code.whole:
        texts.append((code.header, "header"))
    for text, name in texts:
        if not text.parse_ok:
            continue
        yield from _variable_sizes(text, runtime, name)
        yield from _initialized(text, name)
        if name is not None or code.whole:
            yield from _in_helpers(text, name)


def _runtime_names(code: MetalCode) -> frozenset[str]:
    """Names from outside a text that stand for what is known at run time only."""
    buffers = frozenset(
        name
        for kernel in code.kernels
        for name, variable in kernel.program.variables.items()
        if variable.kind in ("input", "metadata", "output")
    )
    return buffers.union(() if code.whole else ATTRIBUTES)


def _variable_sizes(
    text: MetalText, runtime: frozenset[str], name: Text | None
) -> Iterator[MetalReport]:
    told: dict[Declaration, SizeName] = {}
    for size in text.size_names:
        if not size.free or size.name in runtime:
            told.setdefault(size.array, size)
    for array, size in told.items():
        yield MetalReport(
            ARRAY,
            size.place,
            f"the size of `{array.name}` depends on `{size.name}`, which is known at run time "
            f"only: Metal has no arrays of variable length, and {_FAILS}",
            f"make `{size.name}` a template argument of the launch, or declare it `constexpr`; or "
            "take the largest size that may come",
            name,
        )


def _initialized(text: MetalText, name: Text | None) -> Iterator[MetalReport]:
    for array in text.threadgroup_arrays:
        if array.value is not None:
            yield MetalReport(
                ARRAY,
                array.place,
                f"`{array.name}` lies in threadgroup memory, where no variable can have an "
                f"initializer: {_FAILS}",
                "let the threads write it, and put a `threadgroup_barrier` behind that",
                name,
            )


def _in_helpers(text: MetalText, name: Text | None) -> Iterator[MetalReport]:
    for array in text.threadgroup_arrays:
        helper = _helper_around(text, array)
        if helper is not None:
            yield MetalReport(
                ARRAY,
                array.place,
                f"`{array.name}` is a threadgroup variable of the function `{helper.name}`, and "
                f"only kernel functions can have some: {_FAILS}",
                "declare it in the kernel, and pass the function a `threadgroup` pointer",
                name,
            )


def _helper_around(text: MetalText, array: Declaration) -> Function | None:
    """The function that a variable is declared in, None if that is a kernel, or unclear."""
    start = array.place.start
    around = [f for f in text.functions if f.body and f.extent.start <= start < f.extent.end]
    if not around or any(f.entry is not None for f in around):
        return None
    return around[-1]
