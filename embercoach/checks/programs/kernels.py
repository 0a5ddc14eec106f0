"""The kernels of a file, their texts, and the places of findings; all kernel checks use it.

Metal's grammar is loaded for the first kernel with a known text, and not before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from embercoach.analysis.calls.kernel_objects import METAL_KERNEL, kernels_held, kernels_in
from embercoach.analysis.facts.facts import Argument, CallFact, Fact, FactPlace
from embercoach.analysis.values import strings
from embercoach.analysis.values.lattice import NONE, Function, Kernel, Sequence, Str, Value
from embercoach.kernel_builder import PARAMETERS as ALL_PARAMETERS

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.metal.written.body import MetalText

#: The parameters of ``metal_kernel`` that checks ask for by their place too.
PARAMETERS = ALL_PARAMETERS[:5]
#: Those that have defaults.
SETTINGS = ALL_PARAMETERS[4:]
SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Definition:
    """A kernel as one ``metal_kernel(...)`` builds it, and the launches of it in the file.

    own: the call is in this file.
    """

    fact: CallFact
    own: bool
    launches: tuple[CallFact, ...]

    def argument(self, parameter: str) -> Argument | None:
        """The argument of ``metal_kernel`` for a parameter."""
        return argument_of(self.fact, parameter)


def argument_of(definition: CallFact, parameter: str) -> Argument | None:
    """The argument of a ``metal_kernel(...)`` for one of its first parameters."""
    return definition.argument(PARAMETERS.index(parameter), parameter)


def definitions(module: Module, facts: list[Fact]) -> list[Definition]:
    """The kernels that a file builds or launches, each once for each way it is built.

    Left out are calls of what may be ``metal_kernel`` or something else: the texts may belong to
    the other, as with ``mx.fast.cuda_kernel``.
    """
    known = _definitions.get(module)
    if known is None or known[0] is not facts:
        _definitions.clear()
        known = _definitions[module] = (facts, _definitions_in(facts))
    return known[1]


#: Of one file's facts, which many checks ask for. They lead back to the module, so that it would
#: live for as long as they are here.
_definitions: WeakKeyDictionary[Module, tuple[list[Fact], list[Definition]]] = WeakKeyDictionary()


def _definitions_in(facts: list[Fact]) -> list[Definition]:
    built: dict[CallFact, None] = {}
    launches: dict[CallFact, list[CallFact]] = {}
    own: set[cst.CSTNode] = set()
    doubtful: set[cst.CSTNode] = set()
    for fact in facts:
        if not isinstance(fact, CallFact):
            continue
        if is_definition(fact):
            own.add(fact.node)
        else:
            doubtful.add(fact.node)
        if not is_definition(fact) and not isinstance(fact.callee, Function):
            for kernel in kernels_in(fact.callee):
                launches.setdefault(kernel.definition, []).append(fact)
            continue
        built.update((kernel.definition, None) for kernel in kernels_held(fact.result))
    built.update((definition, None) for definition in launches)
    return [
        Definition(fact, fact.node in own, _closest(launches.get(fact, [])))
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


def is_definition(fact: CallFact) -> bool:
    """Return whether a call is one of ``mx.fast.metal_kernel``."""
    return fact.symbol == METAL_KERNEL


def launched(fact: CallFact) -> tuple[Kernel, ...]:
    """The kernels that a call may launch."""
    return tuple(kernels_in(fact.callee))


def has_spread(fact: CallFact) -> bool:
    """Return whether arguments are passed by ``*`` or ``**``."""
    return any(argument.star for argument in fact.arguments)


def items_of(value: Value | None) -> tuple[Value, ...] | None:
    """The items of a list or tuple, None if they are unknown or it is something else."""
    return value.items if isinstance(value, Sequence) and value.kind in ("list", "tuple") else None


def count(value: Value | None) -> int | None:
    """The length of a list or tuple, None if it is unknown or something else."""
    items = items_of(value)
    return None if items is None else len(items)


def names_of(definition: CallFact, parameter: str) -> tuple[str, ...] | None:
    """``input_names`` or ``output_names``, None if not all are known."""
    argument = argument_of(definition, parameter)
    items = None if argument is None else items_of(argument.value)
    if items is None:
        return None
    texts = [item.text if isinstance(item, Str) else None for item in items]
    return tuple(t for t in texts if t is not None) if None not in texts else None


def source_of(definition: CallFact) -> Folded | None:
    """The body, perhaps with holes, None if nothing is known of it."""
    argument = argument_of(definition, SOURCE)
    if argument is None or not isinstance(argument.value, Str):
        return None
    return strings.fold(argument.value)


def header_of(definition: CallFact) -> Folded | None:
    """The header, perhaps with holes, None if nothing is known of it."""
    argument = argument_of(definition, "header")
    if argument is None:
        return None if has_spread(definition) else strings.fold(Str(()))
    return strings.fold(argument.value) if isinstance(argument.value, Str) else None


def readable(source: Folded, header: Folded) -> tuple[str, str] | None:
    """Body and header as they can be followed, None where what is unknown of them is in the way.

    Numbers that are formatted in have names there: see ``metal.unknown_numbers``.
    """
    if not source.holes and not header.holes:
        return source.text.text, header.text.text
    if not (source.holes | header.holes) <= {"number"}:
        return None
    from embercoach.metal.unknown_numbers import with_names

    texts = with_names([(text.text.text, text.numbers) for text in (source, header)])
    return None if texts is None else (texts[0], texts[1])


def body_of(definition: CallFact) -> MetalText | None:
    """The facts of the body, None where some of it or of the header is unknown."""
    source, header = source_of(definition), header_of(definition)
    if source is None or header is None or source.holes or header.holes:
        return None
    return parsed(source.text.text, header.text.text)


@lru_cache(maxsize=256)
def parsed(source: str, header: str) -> MetalText:
    """The facts of a body under a header."""
    from embercoach.metal.written.body import read_body

    return read_body(source, parsed_header(header))


def parsed_header(header: str) -> MetalText:
    """The facts of a header."""
    from embercoach.metal.written.body import read_unit

    return read_unit(header, "header")


def template_of(launch: CallFact) -> dict[str, Value] | None:
    """The template arguments of a launch by name, None where they are unknown."""
    argument = launch.keyword("template")
    if argument is None:
        return None if has_spread(launch) else {}
    if argument.value == NONE:
        return {}
    items = items_of(argument.value)
    if items is None:
        return None
    pairs: dict[str, Value] = {}
    for item in items:
        pair = items_of(item)
        if pair is None or len(pair) != 2:
            return None
        name, value = pair
        if not isinstance(name, Str) or name.text is None:
            return None
        pairs[name.text] = value
    return pairs


@dataclass(frozen=True, slots=True)
class Target:
    """The node and place of a report: see ``Report``."""

    node: cst.CSTNode
    place: FactPlace
    span: tuple[int, int] | None


def target(
    definition: Definition, source: Folded, start: int, end: int, module: Module
) -> Target | None:
    """Return the place of a stretch of a body: in its literal, or else at the argument.

    None if it is in another file, which reports it when that is checked.
    """
    place = definition.fact.place
    first = source.text.position(start)
    if first is not None:
        number, offset = first
        literal = source.literals[number]
        if not isinstance(literal, str) and literal.module is module:
            place = place._replace(statement=literal.statement)
            return Target(literal.node, place, (offset, _stop(source, number, start, end)))
    argument = definition.argument(SOURCE)
    if definition.own and argument is not None:
        return Target(argument.node, place, None)
    return None


def _stop(source: Folded, number: int, start: int, end: int) -> int:
    """Return the end of a stretch in the literal that it starts in."""
    for offset in range(end, start, -1):
        last = source.text.end_position(offset)
        if last is not None and last[0] == number:
            return last[1]
    raise AssertionError("the first character is in the literal")
