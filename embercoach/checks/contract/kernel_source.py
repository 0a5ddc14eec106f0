"""KERNEL-SIG and KERNEL-BUFFER: what a kernel's ``source`` may hold, and which names it has."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING

from embercoach.analysis.values.lattice import Dict, Number, Str
from embercoach.checks.programs.kernel_plans import contracted
from embercoach.checks.programs.kernels import (
    Definition,
    count,
    definitions,
    has_spread,
    header_of,
    names_of,
    parsed,
    source_of,
    target,
    template_of,
)
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.metal import contract
from embercoach.metal.contract import ATTRIBUTES, MAX_BUFFERS
from embercoach.metal.numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.strings import Folded
    from embercoach.checks.programs.kernel_plans import Contracted
    from embercoach.metal.source import TextPiece
    from embercoach.metal.text_facts import TextSpan, Use, WrittenFunction
    from embercoach.metal.written.body import MetalText

#: The specification's words, section 1.6.3: no NaNs, no INFs.
FAST = "fast"
CONSTANTS = frozenset({"INFINITY", "NAN", "HUGE_VALF", "HUGE_VALH", "HUGE_VAL"})
TESTS = frozenset({"isnan", "isinf", "isfinite", "isnormal", "isordered", "isunordered"})


@check("KERNEL-MATH-001")
def math_modes(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``compile_options={"math_mode": "fast"}`` with infinities in the kernel."""
    for kernel in contracted(module, facts):
        if _math_mode(kernel) != FAST:
            continue
        for text, header in ((kernel.body, False), (kernel.above, True)):
            found = next(_uses(text), None)
            if found is None:
                continue
            what, place = found
            yield from kernel.at(
                "KERNEL-MATH-001",
                place,
                f"`{what}` with math mode `fast`, which assumes no infinities or NaNs",
                "Drop `math_mode` (default: `safe`), or use `relaxed`, which honors infinities",
                header=header,
            )
            break


def _math_mode(kernel: Contracted) -> str | None:
    argument = kernel.definition.fact.keyword("compile_options")
    if argument is None or not isinstance(argument.value, Dict):
        return None
    mode = argument.value.get("math_mode")
    return mode.text if isinstance(mode, Str) else None


def _uses(text: MetalText) -> Iterator[tuple[str, TextSpan]]:
    """Infinities and NaNs, and tests for them, in the order of the text."""
    found = [(u.name, u.place) for u in text.free if u.name in CONSTANTS]
    for call in text.calls:
        name = call.name.rpartition("::")[2]
        if name in TESTS or name in ("infinity", "quiet_NaN"):
            found.append((name, call.place))
    yield from sorted(found, key=lambda pair: pair[1].start)


#: Attributes of parameters, besides those of threads.
PARAMETER_ATTRIBUTES = ATTRIBUTES.keys() | frozenset(
    ("buffer", "texture", "sampler", "threadgroup", "stage_in", "function_constant", "payload")
)


@check(
    "KERNEL-SIG-001",
    "KERNEL-SIG-002",
    "KERNEL-SIG-003",
    "KERNEL-SIG-004",
    "KERNEL-SIG-005",
    "KERNEL-BUFFER-001",
)
def kernel_sources(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Each kernel that the file builds, once."""
    built = [(found, source_of(found.fact)) for found in definitions(module, facts)]
    calls = Counter(found.fact.node for found, _ in built)
    bodies = [
        (found, None if source is None else _Body(found, source, module)) for found, source in built
    ]
    for definition, body in bodies:
        if body is None:
            yield from _too_many_buffers(definition, None, "", module)
            continue
        if calls[definition.fact.node] > 1:
            body.elsewhere = frozenset(
                declared.name
                for other, text in bodies
                if other.fact.node is definition.fact.node and text not in (None, body)
                for declared in text.text.declarations
            )
        yield from body.reports()


class _Body:
    """The body of one kernel."""

    def __init__(self, definition: Definition, source: Folded, module: Module) -> None:
        self.definition = definition
        self.source = source
        self.module = module
        self.elsewhere = frozenset[str]()
        """Names in the other texts that the same call builds: one of them may never be built."""
        self.header = header_of(definition.fact)
        self.text = parsed(source.text.text, self.header.text.text if self.header else "")

    def reports(self) -> Iterator[Report]:
        """The problems of the body; of a whole function only that it is one."""
        yield from self._directives()
        function = self._function()
        if function is not None:
            yield from self._function_report(function)
            return
        yield from self._marks()
        yield from self._undeclared()
        text = self.source.text.text
        yield from _too_many_buffers(self.definition, self.text, text, self.module)

    def _report(
        self,
        code: str,
        start: int,
        end: int,
        what: str,
        help_text: str,
        change: ProposedFix | None = None,
    ) -> Iterator[Report]:
        where = target(self.definition, self.source, start, end, self.module)
        if where is not None:
            span = where.span
            yield Report.at(
                where, code, message=what, help=help_text, text_span=span, change=change
            )

    def _renaming(self, uses: list[Use], name: str) -> ProposedFix | None:
        """Replace all uses of a name in the body, which must be literal text of this file."""
        parts = []
        for use in uses:
            start, end = use.place.start, use.place.end
            where = target(self.definition, self.source, start, end, self.module)
            if where is None or where.span is None or where.span[1] - where.span[0] != end - start:
                return None
            parts.append((where.place.statement, where.node, where.span, name))
        return ProposedFix(f"Rename to `{name}`", False, (), parts=tuple(parts))

    def _function(self) -> WrittenFunction | None:
        """A function that the body defines: the kernel itself, or else the first helper."""
        written = [f for f in self.text.functions if f.body and not f.member]
        entry = next((f for f in written if f.entry is not None), None)
        if entry is not None or not self.text.parse_ok:
            return entry
        return next(iter(written), None)

    def _function_report(self, function: WrittenFunction) -> Iterator[Report]:
        place = function.place
        if function.entry is not None:
            what = f"`source` holds the {function.entry} function `{function.name}`, must be a body"
            help_text = (
                "Pass only its statements, with the names of `input_names` and `output_names`"
            )
        else:
            what = f"`source` defines the function `{function.name}` inside a function"
            help_text = "Move helper functions into `header`"
        yield from self._report("KERNEL-SIG-001", place.start, place.end, what, help_text)

    def _marks(self) -> Iterator[Report]:
        for mark in self.text.marks:
            if mark.name not in PARAMETER_ATTRIBUTES:
                continue
            if mark.name in ATTRIBUTES:
                help_text = f"Write the name alone where you need the value: `{mark.name}`"
            else:
                help_text = "Use the names of `input_names` and `output_names`; MLX numbers them"
            yield from self._report(
                "KERNEL-SIG-002",
                mark.place.start,
                mark.place.end,
                f"parameter attribute `[[{mark.name}]]` in a kernel body",
                help_text,
            )

    def _directives(self) -> Iterator[Report]:
        from embercoach.metal.msl_names import is_standard_header

        for directive in self.text.directives:
            place = directive.place
            if directive.kind == "include":
                if is_standard_header(directive.target):
                    what = f"`#include {directive.target}` in a kernel body has no effect"
                    help_text = "Drop the line, or move it into `header`"
                else:
                    what = f"`#include {directive.target}` in a kernel body: pasted into a function"
                    help_text = "Move it into `header`, or paste its declarations there"
                yield from self._report("KERNEL-SIG-003", place.start, place.end, what, help_text)
            elif directive.kind == "using namespace":
                yield from self._report(
                    "KERNEL-SIG-004",
                    place.start,
                    place.end,
                    f"`using namespace {directive.target}` in a kernel body",
                    "Drop the line, or move it into `header`",
                )

    def _undeclared(self) -> Iterator[Report]:
        from embercoach.metal.written.body import undeclared

        fact = self.definition.fact
        inputs, outputs = names_of(fact, "input_names"), names_of(fact, "output_names")
        if self.header is None or inputs is None or outputs is None:
            return
        if not (_has_all_names(self.source) and _has_all_names(self.header)):
            return
        template = self._template()
        kernel = contract.KernelArguments(
            name="",
            inputs=tuple(contract.Input(n, ndim=0 if self._is_scalar(n) else None) for n in inputs),
            outputs=tuple(map(contract.Output, outputs)),
            source=self.source.text.text,
            template=None if template is None else tuple(map(contract.TemplateArgument, template)),
        )
        scope = contract.signature(kernel).names
        uses: dict[str, list[Use]] = {}
        for use in undeclared(self.text, scope):
            # What is never indexed or assigned may be a template argument that is not seen here.
            if use.name not in self.elsewhere and (template is not None or use.variable):
                uses.setdefault(use.name, []).append(use)
        for name, found in uses.items():
            first = found[0]
            again = f" ({len(found)} times)" if len(found) > 1 else ""
            yield from self._report(
                "KERNEL-SIG-005",
                first.place.start,
                first.place.end,
                f"undeclared identifier `{name}` in kernel body{again}"
                f"{_why(first, inputs, outputs)}",
                _way_out(first, inputs, outputs, scope),
                None
                if (other := _renamed(first, inputs, outputs)) is None
                else self._renaming(found, other),
            )

    def _template(self) -> frozenset[str] | None:
        """The names of template arguments over all launches, None where some are unknown."""
        if not self.definition.launches:
            return None
        names: set[str] = set()
        for launch in self.definition.launches:
            template = template_of(launch)
            if template is None:
                return None
            names.update(template)
        return frozenset(names)

    def _is_scalar(self, name: str) -> bool:
        """Return whether every launch passes a Python number for an input."""
        inputs = names_of(self.definition.fact, "input_names") or ()
        index = inputs.index(name)
        given = []
        for launch in self.definition.launches:
            argument = launch.keyword("inputs")
            value = None if argument is None else argument.value
            if value is None or count(value) != len(inputs):
                return False
            given.append(value.items[index])  # type: ignore[attr-defined]
        return bool(given) and all(isinstance(value, Number) for value in given)


def _has_all_names(text: Folded) -> bool:
    """Return whether only numbers of a text are unknown, and none is part of a name."""
    if text.holes <= {"number"}:
        holes = (p for p in text.text.pieces if _is_hole(text, p))
        return not any(_is_glued(text.text.text, p.start, p.end) for p in holes)
    return False


def _is_hole(text: Folded, piece: TextPiece) -> bool:
    return piece.origin is not None and isinstance(text.literals[piece.origin], str)


def _is_glued(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end:].lstrip("uUlLfFhH")[:1]
    return any(c == "_" or c.isalnum() for c in before + after)


_SIZES = frozenset({"size", "length", "len", "numel", "count", "stride", "dim", "dims", "dtype"})
#: What signatures of CUDA, and of MLX's own kernels, call the attributes of threads.
_OTHER_NAMES = {
    "threadIdx": "thread_position_in_threadgroup",
    "blockIdx": "threadgroup_position_in_grid",
    "blockDim": "threads_per_threadgroup",
    "gridDim": "threadgroups_per_grid",
    "simd_lane_id": "thread_index_in_simdgroup",
    "simd_lid": "thread_index_in_simdgroup",
    "simd_group_id": "simdgroup_index_in_threadgroup",
    "simd_gid": "simdgroup_index_in_threadgroup",
    "thread_position_in_simdgroup": "thread_index_in_simdgroup",
}


def _why(use: Use, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    """Return why a name is undeclared, to follow the message; "" if unknown."""
    owner, _, kind = use.name.rpartition("_")
    if owner in outputs and kind in ("shape", "strides", "ndim"):
        return f": outputs have no {kind}"
    if owner in inputs and kind in ("shape", "strides", "ndim"):
        return f": scalar `{owner}` has no {kind}"
    if owner in (*inputs, *outputs) and kind in _SIZES:
        return f": MLX passes no {kind}"
    if use.elsewhere is not None:
        return ": declared in another scope or later"
    return ""


def _way_out(
    use: Use, inputs: tuple[str, ...], outputs: tuple[str, ...], scope: frozenset[str]
) -> str:
    """Return the help for an undeclared name."""
    owner, _, kind = use.name.rpartition("_")
    if owner in outputs and kind in ("shape", "strides", "ndim"):
        return "Pass the sizes as an input or as template arguments"
    if owner in inputs and kind in _SIZES:
        return f"Compute it from `{owner}_shape`, or pass it as an input"
    if use.elsewhere is not None:
        return "Declare it where every use can see it"
    numbered = _numbered(use.name, inputs, outputs)
    if numbered is not None:
        return f"Use the declared name: `{numbered}`"
    if use.name in _OTHER_NAMES:
        return f"Use `{_OTHER_NAMES[use.name]}`"
    close = get_close_matches(use.name, scope | ATTRIBUTES.keys(), 1, 0.8)
    if close:
        return f"Did you mean `{close[0]}`?"
    return f'Declare it, or add "{use.name}" to `input_names` or to the template of the launch'


def _renamed(use: Use, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str | None:
    """Return the declared name that an undeclared one certainly stands for."""
    if use.elsewhere is not None:
        return None
    numbered = _numbered(use.name, inputs, outputs)
    if numbered is not None and (numbered in outputs or not use.name.startswith("out")):
        return numbered
    return _OTHER_NAMES.get(use.name)


def _numbered(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str | None:
    """Return the parameter that ``inp0`` or ``out1`` refers to by its number."""
    for stem, names in (("inp", inputs), ("input", inputs), ("out", outputs), ("output", outputs)):
        for end in ("", "_shape", "_strides", "_ndim"):
            number = name.removeprefix(stem).removesuffix(end)
            position = whole_number(number) if number.isdecimal() else None
            if f"{stem}{number}{end}" == name and position is not None and position < len(names):
                return names[position] + end
    return None


def _too_many_buffers(
    definition: Definition, text: MetalText | None, source: str, module: Module
) -> Iterator[Report]:
    """More buffers than Metal's table has entries, whatever the ranks of the inputs are."""
    fact = definition.fact
    if not definition.own or has_spread(fact):
        return
    inputs, outputs = names_of(fact, "input_names"), names_of(fact, "output_names")
    if inputs is None or outputs is None:
        return
    used = {use.name for use in text.free} if text is not None else set()
    kernel = contract.KernelArguments(
        name="",
        # An input whose shape the body reads has a rank, or the body would not compile.
        inputs=tuple(
            contract.Input(n, ndim=None if used.isdisjoint(contract.shape_names(n)) else 1)
            for n in inputs
        ),
        outputs=tuple(map(contract.Output, outputs)),
        source=source,
    )
    fewest, _ = contract.signature(kernel).buffers
    if fewest > MAX_BUFFERS:
        yield Report.at(
            fact,
            "KERNEL-BUFFER-001",
            message=f"kernel needs {fewest} buffers, the limit is {MAX_BUFFERS}",
            help="Pass sizes as one array: each `x_shape`, `x_strides` and `x_ndim` takes a buffer",
        )
