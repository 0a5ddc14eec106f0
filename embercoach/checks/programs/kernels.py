"""The kernels of a Python file: how they are built, their texts, launches, programs and places.

Metal's grammar is loaded for the first kernel with a known text, and not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

import libcst as cst
from msgspec import Struct, field

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.kernel_objects import METAL_KERNEL, kernels_held, kernels_in
from embercoach.analysis.dataflow.scopes import Expression, items, scope_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values import strings
from embercoach.analysis.values.facts import Argument, CallFact, Fact, FactPlace
from embercoach.analysis.values.lattice import Function, Number, ReadFile, Str, StringLiteral
from embercoach.analysis.values.strings import Folded
from embercoach.checks.programs.launches import Launch, configurations_of, has_spread, items_of
from embercoach.checks.programs.metal_checks import MetalCode, MetalKernel
from embercoach.checks.registry import Report
from embercoach.finding import ReadPlace
from embercoach.fixes.source_file import LineIndex
from embercoach.kernel_builder import PARAMETERS as ALL_PARAMETERS
from embercoach.metal.contract import Input, KernelArguments, Output, TemplateArgument
from embercoach.metal.execution.events import Configuration
from embercoach.metal.program.lowering_state import SignatureNames
from embercoach.metal.program.nodes import Program, Text
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.work_budget import WorkBudget

#: The parameters of ``metal_kernel`` that checks ask for by their place too.
PARAMETERS = ALL_PARAMETERS[:5]
#: Those that have defaults.
SETTINGS = ALL_PARAMETERS[4:]
MAX_CONFIGURATIONS = 4


class PythonKernel(MetalCode):
    """A kernel as one ``metal_kernel(...)`` builds it, and the launches of it in the file.

    Args:
        fact: the call of ``metal_kernel``.
        module: the file that is checked.
        own: the call is in this file.
        calls: the launches.
    """

    def __init__(
        self, fact: CallFact, module: Module, *, own: bool = False, calls: tuple[CallFact, ...] = ()
    ) -> None:
        self.fact = fact
        self.module = module
        self.own = own
        self.calls = calls

    # The arguments of ``metal_kernel``

    def argument(self, parameter: str) -> Argument | None:
        """Return the argument for one of the first parameters."""
        return self.fact.argument(PARAMETERS.index(parameter), parameter)

    def names(self, parameter: str) -> tuple[str, ...] | None:
        """``input_names`` or ``output_names``, None if not all are known."""
        argument = self.argument(parameter)
        items = None if argument is None else items_of(argument.value)
        texts = [item.text if isinstance(item, Str) else None for item in items or ()]
        known = tuple(text for text in texts if text is not None)
        return None if items is None or len(known) < len(items) else known

    @cached_property
    def inputs(self) -> tuple[str, ...] | None:
        """The names of the inputs, None if some are unknown."""
        return self.names("input_names")

    @cached_property
    def outputs(self) -> tuple[str, ...] | None:
        """The names of the outputs, None if some are unknown."""
        return self.names("output_names")

    def flag(self, name: str, *, default: bool) -> bool | None:
        """Return a flag that the kernel is built with, None if it is unknown."""
        argument = self.fact.argument(ALL_PARAMETERS.index(name), name)
        if argument is None:
            return None if has_spread(self.fact) else default
        value = argument.value
        return bool(value.const) if type(value) is Number and value.const is not None else None

    # The texts

    @cached_property
    def source(self) -> Folded | None:
        """The body, perhaps with holes, None if nothing is known of it."""
        argument = self.argument("source")
        known = argument is not None and isinstance(argument.value, Str)
        return strings.fold(argument.value) if known else None  # type: ignore[union-attr,arg-type]

    @cached_property
    def header_source(self) -> Folded | None:
        """The header, perhaps with holes, None if nothing is known of it."""
        argument = self.argument("header")
        if argument is None:
            return None if has_spread(self.fact) else strings.fold(Str(()))
        return strings.fold(argument.value) if isinstance(argument.value, Str) else None

    @cached_property
    def readable(self) -> tuple[str, str] | None:
        """Body and header as they can be followed, None where what is unknown is in the way.

        Numbers that are formatted in have names there: see ``metal.unknown_numbers``.
        """
        source, header = self.source, self.header_source
        if source is None or header is None:
            return None
        if not source.holes and not header.holes:
            return source.text.text, header.text.text
        if not (source.holes | header.holes) <= {"number"}:
            return None
        from embercoach.metal.unknown_numbers import with_names

        texts = with_names([(text.text.text, text.numbers) for text in (source, header)])
        return None if texts is None else (texts[0], texts[1])

    @cached_property
    def text(self) -> MetalText:  # type: ignore[override]
        """The facts of the body, of an empty one where it is unknown."""
        above = self.header_source.text.text if self.header_source else ""
        return _parsed(self.source.text.text if self.source else "", above)

    @cached_property
    def header(self) -> MetalText:  # type: ignore[override]
        """The facts of the header, of an empty one where it is unknown."""
        return _parsed_header(self.header_source.text.text if self.header_source else "")

    @property
    def header_known(self) -> bool:  # type: ignore[override]
        """Return whether something is known of the header."""
        return self.header_source is not None

    @property
    def has_holes(self) -> bool:
        """Return whether parts of the texts are unknown, be it numbers."""
        return any(text is not None and text.holes for text in (self.source, self.header_source))

    @property
    def holes(self) -> frozenset[str]:  # type: ignore[override]
        """The kinds of unknown parts that keep a program from being made."""
        known = (text for text in (self.source, self.header_source) if text is not None)
        kinds = frozenset[str]().union(*(text.holes for text in known))
        return kinds if self.readable is None else frozenset()

    @property
    def is_body(self) -> bool:
        """Return whether the source is known, and not a whole function: KERNEL-SIG-001."""
        functions = () if self.source is None else self.text.functions
        return self.source is not None and not any(f.body and not f.member for f in functions)

    @property
    def is_whole(self) -> bool:
        """Return whether both texts are fully known and parsed."""
        known = self.source is not None and self.header_known and not self.has_holes
        return known and self.text.parse_ok and self.header.parse_ok

    @property
    def siblings(self) -> list[PythonKernel]:
        """The other kernels that the same call builds."""
        built = kernel_file(self.module).kernels
        return [one for one in built if one.fact.node is self.fact.node and one is not self]

    # Launches and programs

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches in the file."""
        names = self.inputs, self.outputs
        return tuple(Launch.of(fact, *names, self.module) for fact in self.calls)

    def given(self, name: str) -> tuple[Input, ...]:
        """Return all launches' arguments for an input; empty if a launch has unknown inputs."""
        if any(launch.inputs is None for launch in self.launches):
            return ()
        inputs = (given for launch in self.launches for given in launch.inputs or ())
        return tuple(given for given in inputs if given.name == name)

    def arguments(self, launch: Launch | None = None) -> KernelArguments | None:
        """Return the kernel as MLX gets it from a launch, or what holds for any.

        Returns:
            None where the names of inputs or outputs, or some of the texts, are unknown.
        """
        if self.readable is None or self.inputs is None or self.outputs is None:
            return None
        template = None if launch is None else launch.template
        source, header = self.readable
        name = self.argument("name")
        return KernelArguments(
            name=getattr(name.value, "text", None) or "" if name is not None else "",
            inputs=(launch and launch.inputs) or tuple(map(Input, self.inputs)),
            outputs=(launch and launch.outputs) or tuple(map(Output, self.outputs)),
            source=source,
            header=header,
            template=None if template is None else _pairs(template),
            atomic_outputs=bool(self.flag("atomic_outputs", default=False)),
        )

    @property
    def ways(self) -> tuple[Launch | None, ...]:
        """The launches; None for a kernel that the file does not launch."""
        return self.launches or (None,)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """The distinct ways in which the kernel is launched, a few at most, known ones first."""
        found: dict[Configuration, None] = {}
        for launch in self.ways:
            arguments = self.arguments(launch)
            if arguments is not None:
                found.update(dict.fromkeys(configurations_of(arguments, launch)))
        known_first = sorted(found, key=lambda configuration: bool(configuration.assumed))
        return tuple(known_first[:MAX_CONFIGURATIONS])

    def program(self, launch: Launch | None = None) -> Program | None:
        """Return the body as a launch types it, the first one by default.

        Returns:
            None where ``arguments`` is, and where the file's kernels took all steps of its budget.
        """
        from embercoach.metal.program.lowering import SignatureNames

        kernel = self.arguments(launch or self.ways[0])
        if kernel is None:
            return None
        return kernel_file(self.module).lowered(
            kernel.source, kernel.header, SignatureNames.of(kernel)
        )

    def plan(self) -> tuple[MetalKernel, ...]:
        """The programs of the kernel: its types follow the templates and dtypes of its launches."""
        from embercoach.metal.program.lowering import SignatureNames

        file = kernel_file(self.module)
        planned: dict[SignatureNames, MetalKernel] = {}
        for launch in self.ways:
            kernel = self.arguments(launch)
            if kernel is None:
                return ()
            names = SignatureNames.of(kernel)
            own = tuple(c for c in self.configurations if _belongs(c, names))
            if own and names not in planned:
                program = file.lowered(kernel.source, kernel.header, names)
                if program is None:
                    return ()
                file.budget.note(program.refusal)
                planned[names] = file.share_traces(
                    MetalKernel(kernel.name, program, own, file.budget, program)
                )
        return tuple(planned.values())

    # Places

    @cached_property
    def places(self) -> TextPlaces:
        """The places of the texts in the file."""
        argument = self.argument("source")
        node = argument.node if self.own and argument is not None else None
        texts: dict[Text, Folded | None] = {"body": self.source, "header": self.header_source}
        return TextPlaces(self.module, self.fact.place, node, texts)

    def report(self, code: str, node: cst.CSTNode, what: str, advice: str) -> Iterator[Report]:
        """Report an argument of ``metal_kernel``, if the call is in this file."""
        if self.own:
            yield Report.at(self.fact, code, node=node, message=what, help=advice)

    def name_node(self, parameter: str, index: int) -> cst.CSTNode:
        """The expression of one of ``input_names``, or of the whole list if that is elsewhere."""
        argument = self.argument(parameter)
        assert argument is not None
        scope = scope_of(self.module, self.fact.place.function)
        names = items(Expression(argument.node, scope))
        return names[index].node if names is not None and index < len(names) else argument.node


#: One whose source is known, and not a whole function.
KernelBody: TypeAlias = PythonKernel


def _pairs(template: Mapping[str, int | bool | str | None]) -> tuple[TemplateArgument, ...]:
    return tuple(TemplateArgument(name, value) for name, value in template.items())


def _belongs(configuration: Configuration, names: SignatureNames) -> bool:
    """Return whether a configuration is one of the launches that give these names."""
    template = {given.name: given.value for given in names.template or ()}
    given = (configuration.inputs, configuration.outputs, dict(configuration.template))
    return given == (names.inputs, names.outputs, template)


@lru_cache(maxsize=256)
def _parsed(source: str, header: str) -> MetalText:
    from embercoach.metal.program.written_facts import read_body

    return read_body(source, _parsed_header(header))


def _parsed_header(header: str) -> MetalText:
    from embercoach.metal.program.written_facts import read_unit

    return read_unit(header, "header")


class KernelFile(Struct):
    """The kernels of one file, and the work that they may take together.

    Attributes:
        kernels: those of these facts.
        programs: of bodies, by body, header and names.
        headers: those whose steps are counted.
        alike: by the identity of their program: those that are launched alike are followed once.
    """

    budget: WorkBudget
    facts: list[Fact] | None = None
    kernels: list[PythonKernel] = field(default_factory=list)
    programs: dict[tuple[str, str, SignatureNames], Program] = field(default_factory=dict)
    headers: set[str] = field(default_factory=set)
    alike: dict[int, list[MetalKernel]] = field(default_factory=dict)

    def lowered(self, source: str, header: str, names: SignatureNames) -> Program | None:
        """Get the program of a body; None where the file's kernels took all steps of its budget."""
        from embercoach.metal.program.lowering import lower_body

        key = source, header, names
        program = self.programs.get(key)
        if program is None:
            if self.budget.is_spent():
                return None
            program = self.programs[key] = lower_body(source, header, names)
            above = 0 if header in self.headers else program.header_steps
            self.headers.add(header)
            self.budget.spend(program.steps + above)
        return program

    def share_traces(self, kernel: MetalKernel) -> MetalKernel:
        """Return the kernel, with the traces of one that has its program and its launches."""
        known = self.alike.setdefault(id(kernel.program), [])
        for other in known:
            if other.configurations == kernel.configurations:
                return kernel.with_traces_of(other)
        known.append(kernel)
        return kernel


#: Of the file that is checked: its kernels lead back to the module.
_files: WeakKeyDictionary[Module, KernelFile] = WeakKeyDictionary()


def kernel_file(module: Module) -> KernelFile:
    """Return what the kernels of a file share."""
    file = _files.get(module)
    if file is None:
        _files.clear()
        file = _files[module] = KernelFile(WorkBudget.of(module.source))
    return file


def definitions(module: Module, facts: list[Fact]) -> list[PythonKernel]:
    """Return the kernels that a file builds or launches, each once for each way it is built.

    Left out are calls of what may be ``metal_kernel`` or something else: the texts may belong to
    the other, as with ``mx.fast.cuda_kernel``.
    """
    file = kernel_file(module)
    if file.facts is not facts:
        file.facts, file.kernels = facts, _definitions_in(module, facts)
    return file.kernels


def _definitions_in(module: Module, facts: list[Fact]) -> list[PythonKernel]:
    built: dict[CallFact, None] = {}
    launches: dict[CallFact, list[CallFact]] = {}
    own: set[cst.CSTNode] = set()
    doubtful: set[cst.CSTNode] = set()
    for fact in facts:
        if not isinstance(fact, CallFact):
            continue
        is_definition = fact.symbol == METAL_KERNEL
        (own if is_definition else doubtful).add(fact.node)
        if not is_definition and not isinstance(fact.callee, Function):
            for kernel in kernels_in(fact.callee):
                launches.setdefault(kernel.definition, []).append(fact)
            continue
        built.update((kernel.definition, None) for kernel in kernels_held(fact.result))
    built.update((definition, None) for definition in launches)
    return [
        PythonKernel(fact, module, own=fact.node in own, calls=_closest(launches.get(fact, [])))
        for fact in built
        if fact.node not in doubtful
    ]


def _closest(launches: list[CallFact]) -> tuple[CallFact, ...]:
    """Launches, without one in a function whose calls are more specific.

    If a kernel is passed to the function, its other launches are left out as well.
    """
    visited = {fact.node for fact in launches if fact.visit is not None}
    functions = {fact.visit.function for fact in launches if fact.visit is not None}

    def is_covered(fact: CallFact) -> bool:
        function = fact.place.function
        return fact.node in visited or (function in functions and _is_passed(fact.node, function))

    return tuple(fact for fact in launches if fact.visit is not None or not is_covered(fact))


def _is_passed(launch: cst.Call, function: FunctionInfo | None) -> bool:
    """Return whether what is launched is a parameter of the function."""
    name = getattr(launch.func, "value", None)
    return function is not None and any(p.name == name for p in function.parameters)


def launched(fact: CallFact, module: Module) -> tuple[PythonKernel, ...]:
    """Return the kernels that a call may launch."""
    return tuple(PythonKernel(kernel.definition, module) for kernel in kernels_in(fact.callee))


class Target(Struct, frozen=True):
    """The node and place of a report: see ``Report``."""

    node: cst.CSTNode
    place: FactPlace
    span: tuple[int, int] | None
    within: ReadPlace | None = None


class TextPlaces(Struct, frozen=True):
    """The way from Metal text to the literals of a Python file.

    Attributes:
        place: of the call that takes the texts.
        argument: what is reported for text of no literal; None where another file reports it.
    """

    module: Module
    place: FactPlace
    argument: cst.CSTNode | None
    texts: Mapping[Text, Folded | None]

    def target(self, kind: Text, start: int, end: int) -> Target | None:
        """Return the place of a stretch of a text: in its literal, or else at the argument."""
        source = self.texts[kind]
        if source is None:
            return None
        first = source.text.position(start)
        if first is not None:
            number, offset = first
            literal = source.literals[number]
            if isinstance(literal, StringLiteral) and literal.module is self.module:
                place = self.place._replace(statement=literal.statement)
                return Target(literal.node, place, (offset, _stop(source, number, start, end)))
            if isinstance(literal, ReadFile) and self.argument is not None:
                lines, stop = LineIndex(literal.text), _stop(source, number, start, end)
                within = ReadPlace(literal.path, *lines.place(offset), *lines.place(stop))
                return Target(self.argument, self.place, None, within)
        return None if self.argument is None else Target(self.argument, self.place, None)


def _stop(source: Folded, number: int, start: int, end: int) -> int:
    """Return the end of a stretch in the literal that it starts in."""
    for offset in range(end, start, -1):
        last = source.text.end_position(offset)
        if last is not None and last[0] == number:
            return last[1]
    raise AssertionError("the first character is in the literal")
