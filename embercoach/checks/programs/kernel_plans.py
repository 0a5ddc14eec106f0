"""Kernels as programs that can be followed: of Python files by launch, of Metal files by entry."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from embercoach.analysis.dataflow.scopes import Expression, items, scope_of
from embercoach.checks.programs.kernels import (
    Definition,
    definitions,
    header_of,
    names_of,
    parsed,
    parsed_header,
    source_of,
    target,
)
from embercoach.checks.programs.launches import configurations, kernel_of, launches_of
from embercoach.checks.programs.metal_checks import MetalKernel
from embercoach.checks.registry import Report
from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.metal.syntax import ENTRY_QUALIFIERS
from embercoach.metal.work_budget import WorkBudget, WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import libcst as cst

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.launches import Launch
    from embercoach.metal.contract import Input
    from embercoach.metal.execution.events import Configuration
    from embercoach.metal.program.lowering_state import SignatureNames
    from embercoach.metal.program.nodes import MetalFunction, Program, Statement, Variable
    from embercoach.metal.text_facts import TextSpan
    from embercoach.metal.written.body import MetalText

#: Threadgroups that an entry point is tried with: what is found must hold in all of them.
LINES = (64, 256)
#: Besides, where a position in the threadgroup has two components or more.
PLANES = (8, 16)
#: And where it asks for a thread's position along y, with rows of a simdgroup each.
ROWS = (2, 8)
#: Sizes that a kernel writes down, as that of a tile, are those that it is launched with, maybe.
LEAST, LARGEST, MOST = 8, 1024, 4
_ALL_AXES = frozenset({0, 1, 2})
_WITHIN = frozenset({"thread_position_in_grid", "thread_position_in_threadgroup"})
_OF_GRID = frozenset({"thread_position_in_grid", "threads_per_grid", "grid_size"})
#: Who takes one of these expects more than one simdgroup.
_OF_SIMD_GROUPS = frozenset({"simdgroup_index_in_threadgroup", "simdgroups_per_threadgroup"})


def kernels_of_unit(text: str, budget: WorkBudget) -> tuple[MetalKernel, ...]:
    """The kernels of a text at file scope: entry points that were understood whole.

    Args:
        text: a file, or a text inside one.
        budget: the steps that the file's kernels may take.

    Raises:
        WorkBudgetExceeded: they took all of them.
    """
    from embercoach.metal.program.lowering import lower_unit

    if not any(word in text for word in ENTRY_QUALIFIERS):
        return ()
    if budget.is_spent():
        raise WorkBudgetExceeded
    program = lower_unit(text)
    budget.spend(program.steps)
    budget.note(program.refusal)
    functions = [function for group in program.functions.values() for function in group]
    order = {function: number for number, function in enumerate(functions)}
    doubts = sorted(problem.spot.place.start for problem in program.problems)
    entries = [f for f in functions if f.entry and f.bodies and not _is_doubtful(f, doubts)]
    written = frozenset(chain.from_iterable(map(_numbers, program.constants)))
    return tuple(
        _kernel(program, entry, order if number else None, written, budget)
        for number, entry in enumerate(entries)
    )


def _kernel(
    program: Program,
    entry: MetalFunction,
    order: dict[MetalFunction, int] | None,
    written: frozenset[int],
    budget: WorkBudget,
) -> MetalKernel:
    """One entry point: its arguments are what the body finds in scope.

    Args:
        program: the file.
        entry: the entry point.
        order: of the file's functions; None for the first entry point. That one has them all, the
            others have those that they call. So uncalled ones are inspected too, and each once.
        written: the numbers in the file's constants.
        budget: the steps that the file's kernels may take.
    """
    variables = {variable.name: variable for variable in entry.parameters}
    whole = replace(program, body=entry.bodies[0], variables=variables)
    own = whole
    if order is not None:
        own = replace(whole, functions={}, structs={})
        whole = replace(whole, functions=_called(entry, order))
    configurations = tuple(_configurations(entry, written))
    return MetalKernel(entry.name, whole, configurations, budget, own)


def _called(
    entry: MetalFunction, order: dict[MetalFunction, int]
) -> dict[str, tuple[MetalFunction, ...]]:
    """The functions of a file that an entry point calls, directly or not, by name."""
    from embercoach.metal.program.nodes import Call
    from embercoach.metal.program.walk import below

    reached = {entry}
    pending = [entry]
    while pending:
        for body in pending.pop().bodies:
            for node in below(body):
                if isinstance(node, Call):
                    new = [one for one in node.functions if one not in reached]
                    reached.update(new)
                    pending += new
    found: dict[str, tuple[MetalFunction, ...]] = {}
    for function in sorted(reached & order.keys(), key=order.__getitem__):
        found[function.name] = (*found.get(function.name, ()), function)
    return found


def _is_doubtful(entry: MetalFunction, doubts: Sequence[int]) -> bool:
    """Return whether something inside the entry point was not parsed."""
    extent = entry.spot.place
    first = bisect_left(doubts, extent.start)
    return first < len(doubts) and doubts[first] < extent.end


def _configurations(entry: MetalFunction, written: frozenset[int]) -> Iterator[Configuration]:
    from embercoach.metal.execution.events import Configuration

    if _asks_for_the_grid_alone(entry):
        # It has to hold for any: a finding in one of them is not an assumption.
        for count in LINES:
            yield Configuration((count, 1, 1), frozenset(), (None, None, None), {})
        return
    for threadgroup in _threadgroups(entry, written):
        yield Configuration(threadgroup, _ALL_AXES, (None, None, None), {})


def _threadgroups(entry: MetalFunction, constants: frozenset[int]) -> list[tuple[int, int, int]]:
    written = sorted(constants.union(_numbers(entry.bodies[0])))[:MOST]
    lines = {*LINES, *(n for n in written if n > SIMD_WIDTH)}
    may_be_one = SIMD_WIDTH in written or not any(n > SIMD_WIDTH for n in written)
    if (may_be_one or _steps_by_simdgroup(entry)) and not _expects_simdgroups(entry):
        lines.add(SIMD_WIDTH)
    tried = [(n, 1, 1) for n in sorted(lines)]
    if _asks_for_rows(entry):
        # Launched as a line, each thread would find 0.
        tried = [(SIMD_WIDTH, rows, 1) for rows in ROWS]
    if any(v.attribute in _WITHIN and v.type.width > 1 for v in entry.parameters):
        planes = {*PLANES, *(n for n in written if n * n <= LARGEST)}
        tried += [(n, n, 1) for n in sorted(planes)]
    return tried


def _expects_simdgroups(entry: MetalFunction) -> bool:
    """Return whether a kernel takes the number of a simdgroup, not only to ask for the first."""
    from embercoach.metal.program.nodes import Binary, Name, NumberLiteral
    from embercoach.metal.program.walk import below

    taken = {v for v in entry.parameters if v.attribute in _OF_SIMD_GROUPS}
    mentions = comparisons = 0
    for node in below(entry.bodies[0]) if taken else ():
        if isinstance(node, Name):
            mentions += node.variable in taken
        elif isinstance(node, Binary) and node.operator == "==" and isinstance(node.left, Name):
            # ``if (simdgroup == 0)`` holds for all threads of a group of one.
            first = isinstance(node.right, NumberLiteral) and node.right.value == 0
            comparisons += first and node.left.variable in taken
    return bool(taken) and (not comparisons or mentions > comparisons)


def _steps_by_simdgroup(entry: MetalFunction) -> bool:
    """Return whether something counts on by 32, as where 32 threads share the elements."""
    from embercoach.metal.program.nodes import Assign, NumberLiteral
    from embercoach.metal.program.walk import below

    return any(
        isinstance(node, Assign)
        and node.operator == "+="
        and isinstance(node.value, NumberLiteral)
        and node.value.value == SIMD_WIDTH
        for node in below(entry.bodies[0])
    )


def _asks_for_rows(entry: MetalFunction) -> bool:
    """Return whether a kernel distinguishes the threads of a group along y."""
    from embercoach.metal.program.nodes import Member, Name
    from embercoach.metal.program.walk import below

    positions = [v for v in entry.parameters if v.attribute == "thread_position_in_threadgroup"]
    return any(
        isinstance(node, Member)
        and isinstance(node.base, Name)
        and node.base.variable in positions
        and node.field.startswith("y")
        for node in below(entry.bodies[0])
    )


def _asks_for_the_grid_alone(entry: MetalFunction) -> bool:
    """Return whether a kernel ignores its threadgroup, and distinguishes threads along x."""
    from embercoach.metal.program.nodes import Member, Name
    from embercoach.metal.program.walk import below

    taken = [v for v in entry.parameters if v.attribute]
    positions = [v for v in taken if v.attribute == "thread_position_in_grid"]
    if not positions or any(v.attribute not in _OF_GRID for v in taken):
        return False
    if positions[0].type.width == 1:
        return True
    return any(
        isinstance(node, Member)
        and isinstance(node.base, Name)
        and node.base.variable is positions[0]
        and node.field.startswith("x")
        for node in below(entry.bodies[0])
    )


def _numbers(statement: Statement) -> Iterator[int]:
    """The numbers in a statement that may be the size of a threadgroup."""
    from embercoach.metal.program.nodes import Declare, NumberLiteral
    from embercoach.metal.program.walk import below

    for node in below(statement):
        written: tuple[object, ...] = ()
        if isinstance(node, NumberLiteral):
            written = (node.value,)
        elif isinstance(node, Declare):
            written = node.variable.type.dimensions
        for number in written:
            if isinstance(number, int) and LEAST <= number <= LARGEST and number % LEAST == 0:
                yield number


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


@dataclass(frozen=True, slots=True, eq=False)
class Contracted:
    """A kernel whose body is known, but perhaps for holes.

    Attributes:
        source: the body.
        header: None where nothing is known of it.
        inputs: names of the inputs, None where some are unknown.
        outputs: likewise.
    """

    definition: Definition
    module: Module
    source: Folded
    header: Folded | None
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None

    @property
    def body(self) -> MetalText:
        """The facts of the body."""
        return parsed(self.source.text.text, self.header.text.text if self.header else "")

    @property
    def above(self) -> MetalText:
        """The facts of the header, of an empty one where it is unknown."""
        return parsed_header(self.header.text.text if self.header else "")

    @property
    def whole(self) -> bool:
        """Return whether both texts are fully known and parsed."""
        if self.header is None or self.source.holes or self.header.holes:
            return False
        return self.body.parse_ok and self.above.parse_ok

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches in the file."""
        return launches_of(self.definition, self.module)

    @property
    def program(self) -> Program | None:
        """The body as its first launch types it, None unless the texts and names are known."""
        launches = self.launches
        return program_of(self.definition, launches[0] if launches else None, self.module)

    def given(self, name: str) -> tuple[Input, ...]:
        """Return all launches' arguments for an input; empty if a launch has unknown inputs."""
        found: list[Input] = []
        for launch in self.launches:
            if launch.inputs is None:
                return ()
            found.extend(given for given in launch.inputs if given.name == name)
        return tuple(found)

    def at(
        self, code: str, place: TextSpan, what: str, help_text: str, *, header: bool = False
    ) -> Iterator[Report]:
        """A report about a stretch of the body, or of the header."""
        text = self.header if header else self.source
        assert text is not None
        where = target(self.definition, text, place.start, place.end, self.module)
        if where is not None:
            yield Report.at(where, code, message=what, help=help_text, text_span=where.span)


@lru_cache(maxsize=4)
def _contracted(module: Module, built: tuple[Definition, ...]) -> tuple[Contracted, ...]:
    found: list[Contracted] = []
    for definition in built:
        source, header = source_of(definition.fact), header_of(definition.fact)
        if source is None:
            continue
        fact = definition.fact
        names = names_of(fact, "input_names"), names_of(fact, "output_names")
        kernel = Contracted(definition, module, source, header, *names)
        # KERNEL-SIG-001 reports a whole function instead of a body.
        if not any(f.body and not f.member for f in kernel.body.functions):
            found.append(kernel)
    return tuple(found)


def contracted(module: Module, facts: list[Fact]) -> tuple[Contracted, ...]:
    """The kernels of a file whose body is known and is not a whole function."""
    built = definitions(module, facts)
    return _contracted(module, tuple(built)) if built else ()


def report_argument(
    code: str,
    definition: Definition,
    node: cst.CSTNode,
    what: str,
    help_text: str,
) -> Iterator[Report]:
    """Report an argument of ``metal_kernel``, if the call is in this file."""
    if definition.own:
        yield Report.at(definition.fact, code, node=node, message=what, help=help_text)


def name_node(definition: Definition, parameter: str, index: int, module: Module) -> cst.CSTNode:
    """The expression of one of ``input_names``, or of the whole list where it is elsewhere."""
    argument = definition.argument(parameter)
    assert argument is not None
    scope = scope_of(module, definition.fact.place.function)
    names = items(Expression(argument.node, scope))
    return names[index].node if names is not None and index < len(names) else argument.node
