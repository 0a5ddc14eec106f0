"""KERNEL-ATOMIC and KERNEL-INIT: how a kernel writes its outputs, and what they held before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.facts.contexts import context_of
from embercoach.analysis.facts.scopes import Expression, items, scope_at
from embercoach.checks.programs.contracted import contracted
from embercoach.checks.programs.kernels import definitions
from embercoach.checks.programs.launches import launches_of
from embercoach.checks.registry import Report, file_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.facts.facts import CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.contracted import Contracted
    from embercoach.metal.inspections.output_uses import OutputUses

#: Dtypes that Metal has an atomic type for.
ATOMIC = frozenset({"int32", "uint32", "float32", "uint64", "bool", "bool_"})
FAILS = "the kernel fails to compile at its first launch"
UNSET = "MLX does not clear outputs, so it starts from what the memory held before"


@file_check("KERNEL-ATOMIC-001")
def atomic_dtypes(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """The dtypes of atomic outputs."""
    for definition in definitions(module, facts):
        for launch in launches_of(definition, module):
            if launch.atomic_outputs is not True:
                continue
            for index, output in enumerate(launch.outputs or ()):
                if output.dtype is None or output.dtype in ATOMIC:
                    continue
                fact = launch.fact
                yield Report(
                    "KERNEL-ATOMIC-001",
                    _dtype_node(fact, index, module),
                    fact.place,
                    f"`{output.name}` is {output.dtype}, and `atomic_outputs=True` declares every "
                    "output as atomic, which Metal has for 32-bit integers, uint64 and float32: "
                    f"{FAILS}",
                    "let the kernel write float32, int32 or uint32, and convert the result",
                    context_of(fact.place, module.is_test),
                )
                break


def _dtype_node(fact: CallFact, index: int, module: Module) -> cst.CSTNode:
    """The expression of one of ``output_dtypes``, or of the whole list where it is elsewhere."""
    argument = fact.keyword("output_dtypes")
    if argument is None:
        return fact.node
    dtypes = items(Expression(argument.node, scope_at(fact, module)))
    return dtypes[index].node if dtypes is not None and index < len(dtypes) else argument.node


@file_check("KERNEL-ATOMIC-002", "KERNEL-INIT-001")
def output_writes(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """How each kernel whose texts and names are known writes its outputs."""
    for kernel in contracted(module, facts):
        program = kernel.program if kernel.whole else None
        if program is None or program.problems:
            continue
        from embercoach.metal.inspections.output_uses import output_uses

        uses = output_uses(program)
        if _is_atomic(kernel):
            yield from _plain_accesses(kernel, uses)
        if _is_uninitialized(kernel):
            yield from _uninitialized(kernel, uses)


def _is_atomic(kernel: Contracted) -> bool:
    argument = kernel.definition.fact.keyword("atomic_outputs")
    return argument is not None and getattr(argument.value, "const", None) is True


def _is_uninitialized(kernel: Contracted) -> bool:
    """Whether there is a launch that gives the outputs no first value."""
    return any(launch.has_init_value is False for launch in kernel.launches)


def _plain_accesses(kernel: Contracted, uses: dict[str, OutputUses]) -> Iterator[Report]:
    for name, use in uses.items():
        spot = next(iter((*use.stores, *use.updates, *use.reads)), None)
        if spot is None or spot.text != "body":
            continue
        stored = bool(use.stores or use.updates)
        yield from kernel.at(
            "KERNEL-ATOMIC-002",
            spot.place,
            f"`{name}` is atomic, as all outputs are with `atomic_outputs=True`, and has no plain "
            f"{'assignment' if stored else 'value'}: {FAILS}",
            f"use `atomic_store_explicit(&{name}[i], value, memory_order_relaxed)`, or an "
            "`atomic_fetch_...` function"
            if stored
            else f"use `atomic_load_explicit(&{name}[i], memory_order_relaxed)`",
        )
        return


def _uninitialized(kernel: Contracted, uses: dict[str, OutputUses]) -> Iterator[Report]:
    """Outputs that are updated, and never written before."""
    for name in kernel.outputs or ():
        use = uses.get(name)
        if use is None or use.stores or use.escapes:
            continue
        spot = next(iter((*use.updates, *use.atomic_updates)), None)
        if spot is None or spot.text != "body":
            continue
        yield from kernel.at(
            "KERNEL-INIT-001",
            spot.place,
            f"this updates `{name}`, which nothing has written before: {UNSET}",
            "pass `init_value=0` to the launch, or write the output before it is updated",
        )
