"""Metal text that ``torch.mps.compile_shader`` compiles: the checks of whole Metal files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from embercoach.analysis.calls.library.torch_names import COMPILE_SHADER
from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.values.joins import as_number
from embercoach.analysis.values.lattice import BoundMember, Sequence, Str
from embercoach.analysis.values.strings import fold
from embercoach.analysis.values.torch_values import ShaderLibrary
from embercoach.checks.registry import Report, check, checks_on, load_kernel_checks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Argument, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.metal_checks import MetalKernel
    from embercoach.metal.execution.events import Configuration
    from embercoach.metal.work_budget import WorkBudget


@check()
def shader_texts(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Each text that is known as a whole, once."""
    calls = [fact for fact in facts if isinstance(fact, CallFact)]
    for fact in calls:
        given = fact.argument(0, "source") if fact.symbol == COMPILE_SHADER else None
        source = fold(given.value) if given is not None and isinstance(given.value, Str) else None
        if source is not None and not source.holes:
            assert given is not None
            launches = [call for call in calls if _library_of(call) == given.value]
            yield from _reports(fact, source, launches, module)


def _library_of(fact: CallFact) -> Str | None:
    """The text of the library whose kernel a call launches."""
    callee = fact.callee
    if isinstance(callee, BoundMember) and isinstance(callee.owner, ShaderLibrary):
        return callee.owner.source
    return None


def _reports(
    fact: CallFact, source: Folded, launches: list[CallFact], module: Module
) -> Iterator[Report]:
    from embercoach.checks.programs.kernel_plans import budget_of
    from embercoach.checks.programs.kernels import Definition
    from embercoach.checks.programs.metal_bodies import placed_in_python
    from embercoach.checks.programs.metal_checks import MetalFile
    from embercoach.metal.work_budget import WorkBudgetExceeded
    from embercoach.metal.written.body import EMPTY, read_unit

    load_kernel_checks()
    budget = budget_of(module)
    text = read_unit(source.text.text)
    budget.note(text.refusal)
    code = MetalFile(text, EMPTY, plan=partial(_kernels, text.text, launches, budget))
    definition = Definition(fact, own=True, launches=())
    for body_check in (*checks_on("MetalCode"), *checks_on("MetalFile")):
        with suppress(WorkBudgetExceeded):
            for report in body_check(code):
                yield from placed_in_python(report, definition, source, None, module)


def _kernels(text: str, launches: list[CallFact], budget: WorkBudget) -> tuple[MetalKernel, ...]:
    """The kernels of a text, as the file launches them where it says so."""
    from embercoach.checks.programs.unit_plans import kernels_of_unit

    found = []
    for kernel in kernels_of_unit(text, budget):
        own = [f for f in launches if isinstance(f.callee, BoundMember)]
        known = [_configuration(f) for f in own if f.callee.name == kernel.name]  # type: ignore[attr-defined]
        configurations = tuple(c for c in known if c is not None)
        if configurations and len(configurations) == len(known):
            found.append(replace(kernel, configurations=configurations))
        else:
            found.append(kernel)
    return tuple(found)


def _configuration(fact: CallFact) -> Configuration | None:
    """The launch of ``library.kernel(..., threads=..., group_size=...)``; None if unknown."""
    from embercoach.metal.execution.events import Configuration

    group = _sizes(fact.keyword("group_size"))
    if group is None or None in group:
        return None
    threads = _sizes(fact.keyword("threads")) or (None, None, None)
    known = (group[0] or 1, group[1] or 1, group[2] or 1)
    groups = tuple(
        None if n is None else -(-n // size) for n, size in zip(threads, known, strict=True)
    )
    return Configuration(known, frozenset(), groups, {}, grid=threads)  # type: ignore[arg-type]


def _sizes(argument: Argument | None) -> tuple[int | None, int | None, int | None] | None:
    """The sizes along x, y and z, None for an unknown one; None where even their number is."""
    value = None if argument is None else argument.value
    items = value.items if isinstance(value, Sequence) else (value,) if value is not None else None
    if items is None or not 1 <= len(items) <= 3:
        return None
    found = []
    for item in items:
        number = as_number(item)
        known = number is not None and isinstance(number.const, int) and number.const > 0
        found.append(number.const if known and number is not None else None)
    if len(items) == 1 and not isinstance(value, Sequence) and found[0] is None:
        return None
    x, y, z = (*found, 1, 1)[:3]
    return x, y, z  # type: ignore[return-value]
