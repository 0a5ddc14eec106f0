"""KERNEL-ATOMIC and KERNEL-INIT: how a kernel writes its outputs, and what they held before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.dataflow.scopes import Expression, items, scope_at
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import Report, check
from embercoach.metal import hazards
from embercoach.metal.inspections.output_uses import output_uses

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernels import KernelBody, PythonKernel
    from embercoach.metal.inspections.output_uses import OutputUses

#: Dtypes that Metal has an atomic type for.
ATOMIC = frozenset({"int32", "uint32", "float32", "uint64", "bool", "bool_"})


@check("KERNEL-ATOMIC-001")
def atomic_dtypes(kernel: PythonKernel) -> Iterator[Report]:
    """The dtypes of atomic outputs."""
    if kernel.flag("atomic_outputs", default=False) is not True:
        return
    for launch in kernel.launches:
        for index, output in enumerate(launch.outputs or ()):
            if output.dtype is not None and output.dtype not in ATOMIC:
                yield Report.at(
                    launch.fact,
                    "KERNEL-ATOMIC-001",
                    node=_dtype_node(launch.fact, index, kernel.module),
                    message=f"no atomic type for {output.dtype} output `{output.name}`",
                    help="Write float32, int32 or uint32 in the kernel, and convert the result",
                )
                break


def _dtype_node(fact: CallFact, index: int, module: Module) -> cst.CSTNode:
    """The expression of one of ``output_dtypes``, or of the whole list where it is elsewhere."""
    argument = fact.keyword("output_dtypes")
    if argument is None:
        return fact.node
    dtypes = items(Expression(argument.node, scope_at(fact, module)))
    return dtypes[index].node if dtypes is not None and index < len(dtypes) else argument.node


@check("KERNEL-ATOMIC-002", "KERNEL-INIT-001")
def output_writes(kernel: KernelBody) -> Iterator[MetalReport]:
    """Check how a kernel whose texts and names are known writes its outputs."""
    program = kernel.program() if kernel.is_whole else None
    if program is None or program.problems:
        return
    uses = output_uses(program)
    if kernel.flag("atomic_outputs", default=False):
        yield from _plain_accesses(uses)
    # Some launch leaves the outputs uninitialized.
    if any(launch.has_init_value is False for launch in kernel.launches):
        yield from _uninitialized(kernel, uses)


def _plain_accesses(uses: dict[str, OutputUses]) -> Iterator[MetalReport]:
    for name, use in uses.items():
        spot = next(iter((*use.stores, *use.updates, *use.reads)), None)
        if spot is None or spot.text != "body":
            continue
        stored = bool(use.stores or use.updates)
        yield MetalReport(
            "KERNEL-ATOMIC-002",
            spot,
            f"plain {'assignment to' if stored else 'read of'} atomic output `{name}`",
            f"Use `atomic_store_explicit(&{name}[i], v, memory_order_relaxed)` or "
            "`atomic_fetch_..._explicit`"
            if stored
            else f"Use `atomic_load_explicit(&{name}[i], memory_order_relaxed)`",
        )
        return


def _uninitialized(kernel: KernelBody, uses: dict[str, OutputUses]) -> Iterator[MetalReport]:
    """Outputs that are updated, and never written before."""
    for name in kernel.outputs or ():
        use = uses.get(name)
        if use is None or use.stores or use.escapes:
            continue
        spot = next(iter((*use.updates, *use.atomic_updates)), None)
        if spot is None or spot.text != "body":
            continue
        yield MetalReport(
            "KERNEL-INIT-001",
            spot,
            f"{hazards.uninitialized_read(name)}: updated without an initial value",
            hazards.UNINITIALIZED_HELP,
        )
