"""A kernel of a file with its texts: what the checks of MLX's contract look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis.facts.scopes import Expression, items, scope_of
from embercoach.checks.programs.kernel_plans import program_of
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
from embercoach.checks.programs.launches import launches_of
from embercoach.checks.registry import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.launches import Launch
    from embercoach.metal.contract import Input
    from embercoach.metal.program.nodes import Program
    from embercoach.metal.text_facts import TextSpan
    from embercoach.metal.written.body import MetalText


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
