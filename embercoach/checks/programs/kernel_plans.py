"""The kernels of a Python file as programs that can be followed, one for each way of launching."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from embercoach.checks.programs.launches import configurations, kernel_of, launches_of
from embercoach.checks.programs.metal_checks import MetalKernel
from embercoach.metal.work_budget import WorkBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernels import Definition
    from embercoach.checks.programs.launches import Launch
    from embercoach.metal.execution.events import Configuration
    from embercoach.metal.program.lowering_state import SignatureNames
    from embercoach.metal.program.nodes import Program, Variable


class _Planned:
    """The kernels of one file that were planned so far, and the work that they may take."""

    def __init__(self, source: str) -> None:
        self.budget = WorkBudget.of(source)
        #: By the identity of their definition, which stays while it is kept here.
        self.kernels: dict[int, tuple[Definition, tuple[MetalKernel, ...]]] = {}
        #: By body, header and names.
        self.lowered: dict[tuple[str, str, SignatureNames], Program] = {}
        self.headers: set[str] = set()
        #: By the identity of their program: those that are launched alike are followed once.
        self.programs: dict[int, list[MetalKernel]] = {}

    def share_traces(self, kernel: MetalKernel) -> MetalKernel:
        """Return the kernel, with the traces of one that has its program and its launches."""
        known = self.programs.setdefault(id(kernel.program), [])
        for other in known:
            if other.configurations == kernel.configurations:
                return kernel.with_traces_of(other)
        known.append(kernel)
        return kernel


#: Of the file that is checked.
_planned: WeakKeyDictionary[Module, _Planned] = WeakKeyDictionary()


def budget_of(module: Module) -> WorkBudget:
    """Return the budget that the kernels of a module share."""
    return _planned_of(module).budget


def _planned_of(module: Module) -> _Planned:
    planned = _planned.get(module)
    if planned is None:
        _planned.clear()
        planned = _planned[module] = _Planned(module.source)
    return planned


def lowered(module: Module, source: str, header: str, names: SignatureNames) -> Program | None:
    """The program of a body; None where the file's kernels took all steps of its budget."""
    from embercoach.metal.program.lowering import lower_body

    planned, key = _planned_of(module), (source, header, names)
    program = planned.lowered.get(key)
    if program is None:
        if planned.budget.is_spent():
            return None
        program = planned.lowered[key] = lower_body(source, header, names)
        above = 0 if header in planned.headers else program.header_steps
        planned.headers.add(header)
        planned.budget.spend(program.steps + above)
    return program


def program_of(definition: Definition, launch: Launch | None, module: Module) -> Program | None:
    """The kernel's body as a program; its types follow the launch.

    Returns:
        None where ``kernel_of`` is None, and where `lowered` is.
    """
    from embercoach.metal.program.lowering import SignatureNames

    kernel = kernel_of(definition, launch)
    if kernel is None:
        return None
    return lowered(module, kernel.source, kernel.header, SignatureNames.of(kernel))


def kernels_of(definition: Definition, module: Module) -> tuple[MetalKernel, ...]:
    """The programs of a kernel: its types follow the templates and dtypes of its launches.

    Empty where the names of inputs or outputs, or some of the texts, are unknown.
    """
    planned = _planned_of(module)
    known = planned.kernels.get(id(definition))
    if known is None:
        kernels = _kernels_of(definition, module, planned.budget)
        known = definition, tuple(map(planned.share_traces, kernels))
        planned.kernels[id(definition)] = known
    return known[1]


def _kernels_of(
    definition: Definition, module: Module, budget: WorkBudget
) -> tuple[MetalKernel, ...]:
    from embercoach.metal.program.lowering import SignatureNames

    planned: dict[SignatureNames, MetalKernel] = {}
    tried = configurations(definition, module)
    launches: tuple[Launch | None, ...] = launches_of(definition, module) or (None,)
    for launch in launches:
        kernel = kernel_of(definition, launch)
        if kernel is None:
            return ()
        names = SignatureNames.of(kernel)
        own = tuple(c for c in tried if _belongs(c, names, launch))
        if own and names not in planned:
            program = lowered(module, kernel.source, kernel.header, names)
            if program is None:
                return ()
            budget.note(program.refusal)
            planned[names] = MetalKernel(kernel.name, program, own, budget, program)
    return tuple(planned.values())


def _belongs(configuration: Configuration, names: SignatureNames, launch: Launch | None) -> bool:
    """Return whether a configuration is one of a launch."""
    template = dict((launch.template if launch else None) or {})
    given = (configuration.inputs, configuration.outputs)
    return given == (names.inputs, names.outputs) and dict(configuration.template) == template


def values_of(kernel: MetalKernel) -> Mapping[Variable, int | float]:
    """The numbers that template arguments and constants of a kernel hold."""
    from embercoach.metal.program.walk import known_values

    template = kernel.configurations[0].template if kernel.configurations else {}
    return known_values(kernel.own, template)
