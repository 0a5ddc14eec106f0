"""KERNEL-GRID-001: a grid that counts threadgroups, where MLX counts threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import libcst as cst
from msgspec import Struct

from embercoach.analysis.dataflow.scopes import Expression, display, items, scope_at
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import Argument, CallFact
from embercoach.checks.programs.kernels import PythonKernel, kernel_file, launched
from embercoach.checks.programs.launch_sizes import (
    SymInt,
    alternatives,
    ceil_division,
    is_data_size,
    rounded_down,
    symbolic,
)
from embercoach.checks.programs.launches import item_node
from embercoach.checks.registry import VALUE, ProposedFix, Report, check
from embercoach.metal.program.lowering import SignatureNames, lower_body
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Declare,
    Index,
    Loop,
    Spot,
    Variable,
)
from embercoach.metal.program.nodes import Expression as MetalExpression
from embercoach.metal.program.walk import Node, base, below, mentioned, sources_of
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.tokens import COMPARISONS, tokens_of, whole_number

_GROUP_SIZES = frozenset({"threads_per_threadgroup", "dispatch_threads_per_threadgroup"})
_MAX_SHIFT = 31
_TESTS = COMPARISONS.keys() | {"&&", "||"}


class Product(Struct, frozen=True):
    """A thread-dependent value times something that depends on no thread: ``i * 4``.

    Attributes:
        attributes: the thread attributes that the value depends on.
        factor: the other side as written; for ``i << 2`` it is ``4``.
    """

    attributes: frozenset[str]
    factor: str


class StrideLoop(Struct, frozen=True):
    """A ``for`` loop that starts at a thread-dependent value.

    Attributes:
        start: thread attributes that the first value depends on.
        step: thread attributes that the step depends on, such as ``threads_per_grid``.
        step_text: the step as written: ``i += threads_per_grid.x``.
    """

    start: frozenset[str]
    step: frozenset[str]
    step_text: str


class ThreadValues:
    """The values in a kernel's body that depend on the position of a thread."""

    def __init__(self, source: str, header: str) -> None:
        self._source = source
        self._body = lower_body(source, header, SignatureNames()).body
        self._sources = {} if self._body is None else sources_of(self._body, _is_attribute)

    def _nodes(self) -> Iterator[Node]:
        return iter(()) if self._body is None else below(self._body)

    def _of(self, *variables: Variable) -> frozenset[str]:
        """Return the thread attributes that variables depend on."""
        pairs = ((one, self._sources.get(one, ())) for one in variables)
        found = (one for variable, sources in pairs for one in (variable, *sources))
        return frozenset(one.attribute for one in found if _is_attribute(one))

    def _written(self, spot: Spot) -> str:
        return self._source[spot.place.start : spot.place.end] if spot.text == "body" else ""

    def products(self) -> Iterator[Product]:
        """Thread-dependent values times a value that is the same for all threads."""
        for left, right, is_shift in self._factors():
            for value, other in ((left, right), (right, left)):
                attributes = self._of(*mentioned(value))
                if not attributes or self._of(*mentioned(other)):
                    continue
                factor = self._written(other.spot)
                if is_shift:
                    by = whole_number(factor) if factor.isdecimal() else None
                    if value is right or by is None or by > _MAX_SHIFT:
                        continue
                    factor = str(1 << by)
                yield Product(attributes, factor)

    def spans_groups(self) -> bool:
        """Return whether a group's position is multiplied by the size of a threadgroup."""
        for left, right, is_shift in self._factors():
            for position, size in ((left, right), (right, left)):
                is_position = "threadgroup_position_in_grid" in self._of(*mentioned(position))
                if not is_shift and is_position and self._of(*mentioned(size)) & _GROUP_SIZES:
                    return True
        return False

    def _factors(self) -> Iterator[tuple[MetalExpression, MetalExpression, bool]]:
        """Yield the sides of each multiplication, and whether it is a shift to the left."""
        for node in self._nodes():
            if isinstance(node, (Binary, Assign)):
                operator = node.operator.removesuffix("=") or "="
                if operator in ("*", "<<"):
                    sides = (
                        (node.left, node.right)
                        if isinstance(node, Binary)
                        else (node.target, node.value)
                    )
                    yield *sides, operator == "<<"

    def only_compares(self, attributes: frozenset[str]) -> bool:
        """Return whether thread attributes are in bounds checks alone, and nothing is in a loop."""
        for node in self._nodes():
            if isinstance(node, Loop):
                return False
            is_value = isinstance(node, (Assign, Call, Index)) or (
                isinstance(node, Binary) and node.operator not in _TESTS
            )
            if is_value and self._of(*mentioned(node)) & attributes:
                return False
        return True

    def stride_loops(self) -> Iterator[StrideLoop]:
        """Loops whose counter starts at a thread-dependent value."""
        for node in self._nodes():
            if isinstance(node, Loop) and node.step is not None:
                values = (value for s in node.start if (value := _first_value(s)) is not None)
                first = next(values, None)
                start = None if first is None else self._of(*mentioned(first))
                if start:
                    yield StrideLoop(start, self._step(node.step), self._written(node.step.spot))

    def _step(self, step: MetalExpression) -> frozenset[str]:
        """Attributes in a step, without those that the counter itself stems from."""
        found: set[str] = set()
        for node in below(step):
            if isinstance(node, Assign):
                found |= self._of(*mentioned(node.value) - {base(node.target)})
        return frozenset(found)


def _is_attribute(variable: Variable) -> bool:
    return variable.kind == "attribute"


def _first_value(statement: Node) -> MetalExpression | None:
    """Return the value that the start of a loop gives its counter."""
    for node in below(statement):
        if isinstance(node, Declare):
            return node.initial
        if isinstance(node, Assign):
            return node.value if base(node.target) is not None else None
    return None


AXES = "xyz"
THREAD = "thread_position_in_grid"
GROUP = "threadgroup_position_in_grid"
#: Positions of a thread in its threadgroup.
LANES = frozenset(
    {
        "thread_position_in_threadgroup",
        "thread_index_in_threadgroup",
        "thread_index_in_simdgroup",
        "simdgroup_index_in_threadgroup",
    }
)
SHARED_BY = "threads_per_threadgroup"
#: A body that asks for these can step over any number of elements.
TOTALS = frozenset({"threads_per_grid", "threadgroups_per_grid", "grid_size"})

ONE_GROUP = "one threadgroup"
_LOOPS = frozenset({"for", "while"})
SIMPLE = (cst.Name, cst.Integer, cst.Attribute)


@check("KERNEL-GRID-001", of=(VALUE,))
def grid_in_threadgroups(fact: CallFact, module: Module) -> Iterator[Report]:
    """``grid=((n + 255) // 256, 1, 1), threadgroup=(256, 1, 1)``."""
    kernels = launched(fact, module)
    grid, threadgroup = fact.keyword("grid"), fact.keyword("threadgroup")
    if not kernels or grid is None or threadgroup is None:
        return
    scope = scope_at(fact, module)
    counts = items(Expression(grid.node, scope))
    groups = items(Expression(threadgroup.node, scope))
    if counts is None or groups is None or not len(counts) == len(groups) == 3:
        return
    for index in range(3):
        axis = _Axis(fact, index, counts[index], groups)
        what = axis.shortage(kernels)
        if what is None:
            continue
        inline = display(grid.node) is not None
        yield Report.at(
            fact,
            node=item_node(grid, index),
            message=f"{AXES[index]} entry of `grid` counts {what}, must count threads",
            help=f"Pass the number of threads{_example(axis, module)}",
            change=_in_threads(axis, module) if inline else None,
        )
        return


def _in_threads(axis: _Axis, module: Module) -> ProposedFix | None:
    """Multiply the number of groups by the threads of a group, where the body works in groups."""
    node, by = axis.entry.node, axis.written.node
    if not axis.works_in_groups or not isinstance(by, SIMPLE):
        return None
    text = module.parsed.code(node)
    if isinstance(node, cst.Integer) and text == "1":
        text = module.parsed.code(by)
    else:
        shown = text if isinstance(node, (*SIMPLE, cst.Call)) else f"({text})"
        text = f"{shown} * {module.parsed.code(by)}"
    return ProposedFix("Count threads", False, ((node, text),))


def _example(axis: _Axis, module: Module) -> str:
    node = axis.written.node
    if not isinstance(node, SIMPLE):
        return ", or groups times threads per group where a group works together"
    by = module.parsed.code(node)
    return f", or `groups * {by}` where a group works together"


class _Axis:
    """One axis of one launch: its entry of the grid, and that of the threadgroup."""

    def __init__(
        self, fact: CallFact, index: int, count: Expression, groups: list[Expression]
    ) -> None:
        self.fact = fact
        self.letter = AXES[index]
        self.entry = count
        self.count = symbolic(count)
        self.written = groups[index]
        self.groups = [symbolic(group) for group in groups]
        self.group = self.groups[index]
        division = ceil_division(self.count)
        self.divisor = None if division is None else division.divisor
        #: Of a size that is divided without rounding up.
        self.floor = rounded_down(self.count)
        #: No kernel asks for the position of a thread in the grid.
        self.works_in_groups = True

    def shortage(self, kernels: tuple[PythonKernel, ...]) -> str | None:
        """Return the unit that the grid's entry counts, if it gives all kernels too few threads."""
        if self.divisor is not None:
            short, what = self._by_division, "threadgroups"
        elif self.floor is not None:
            short, what = self._by_floor, "threadgroups"
        elif is_data_size(self.count):
            short, what = self._by_item, "items of one threadgroup each"
        elif self.count.known == 1 and self.group.known != 1:
            short, what = self._by_group, ONE_GROUP
        elif self._fills_outputs():
            short, what = self._by_number, "threadgroups"
        else:
            return None
        for kernel in kernels:
            texts = _texts(kernel)
            if texts is None or _strides(texts) or not short(texts):
                return None
            self.works_in_groups = self.works_in_groups and not self._uses(texts, THREAD)
        return what

    def _by_division(self, body: _Texts) -> bool:
        """Return whether the body needs a thread for each element, or a group for each tile."""
        divisor = self.divisor
        if divisor is None or divisor.known == 1:
            return False
        if (
            self._uses(body, THREAD)
            and divisor in alternatives(self.group)
            and not self._thread_takes_several(body, divisor)
        ):
            return True
        if not self._uses(body, GROUP) or self.group.known == 1:
            return False
        if any(divisor in alternatives(group) for group in self.groups):
            return True
        tiles = {p.factor for p in body.threads.products() if p.attributes == {GROUP}}
        return any(self._is(divisor, factor, body) for factor in tiles)

    def _by_floor(self, body: _Texts) -> bool:
        """Return whether the body has one element for each thread: no loop, one index."""
        divisor = self.floor
        if divisor is None or divisor.known == 1 or divisor not in alternatives(self.group):
            return False
        if not self._uses(body, THREAD) or self._thread_takes_several(body, divisor):
            return False
        return not any(token.text in _LOOPS for token in tokens_of(body.text.text))

    def _fills_outputs(self) -> bool:
        """Return whether the entry has a thread for each ``threadgroup`` elements of an output."""
        count, group = self.count.known, self.group.known
        if count is None or group is None or not 1 <= count < group:
            return False
        return any(size == count * group for size in self._output_sizes())

    def _output_sizes(self) -> Iterator[int]:
        for shape in self._items(self.fact.keyword("output_shapes")):
            sizes = [symbolic(size).known for size in items(shape) or ()]
            known = [size for size in sizes if size is not None]
            if sizes and len(known) == len(sizes):
                yield prod(known)

    def _by_number(self, body: _Texts) -> bool:
        """Return whether the body counts on whole threadgroups: ``group * 256 + lane``."""
        if self._uses(body, THREAD) or not any(u.name in LANES for u in body.text.attribute_uses):
            return False
        factors = {p.factor for p in body.threads.products() if p.attributes == {GROUP}}
        return any(self._is(self.group, factor, body) for factor in factors)

    def _by_item(self, body: _Texts) -> bool:
        """Return whether a whole threadgroup processes the item of its index, lane by lane."""
        if self.group.known == 1 or self._uses(body, THREAD) or body.threads.spans_groups():
            return False
        if not any(
            u.name == GROUP and u.component == self.letter for u in body.text.attribute_uses
        ):
            return False
        loops = (loop for loop in body.threads.stride_loops() if not _is_unit(loop.step_text))
        if not any(loop.start and loop.start <= LANES for loop in loops):
            return False
        factors = {p.factor for p in body.threads.products() if GROUP in p.attributes}
        return not any(
            self._is(size, factor, body) for size in alternatives(self.group) for factor in factors
        )

    def _by_group(self, body: _Texts) -> bool:
        """Return whether the lanes of a threadgroup share the work among themselves."""
        if self._uses(body, THREAD) or (self.group.known or 2) <= 1:
            return False
        lanes = [u for u in body.text.attribute_uses if u.name in LANES]
        if not any(self.letter == (u.component or "x") for u in lanes):
            return False
        return any(
            SHARED_BY in loop.step and loop.start <= LANES for loop in body.threads.stride_loops()
        )

    def _uses(self, body: _Texts, attribute: str) -> bool:
        return any(
            use.name == attribute and (use.component is None or self.letter in use.component)
            for use in body.text.attribute_uses
        )

    def _thread_takes_several(self, body: _Texts, divisor: SymInt) -> bool:
        """Return whether a thread may handle as many elements as the count was divided by."""
        known = divisor.known
        if known is not None and known in body.text.numbers:
            return True
        factors = {p.factor for p in body.threads.products() if THREAD in p.attributes}
        return any(self._is(divisor, factor, body) for factor in factors)

    def _is(self, size: SymInt, factor: str, body: _Texts) -> bool:
        """Return whether a factor of the body has a size's value."""
        known = _number(factor)
        if known is not None:
            return known == size.known
        if size.term is not None and size.term.kind == "name":
            name = size.term.parts[0]
            if isinstance(name, str) and name.lower() == factor.lower():
                return True
        passed = self._passed(factor, body.kernel)
        if passed is not None:
            return passed == size
        written = _written(factor, body)
        return written is not None and written == size.known

    def _passed(self, name: str, kernel: PythonKernel) -> SymInt | None:
        """Get the expression that the launch passes under a name, as template argument or input."""
        template = self.fact.keyword("template")
        for pair in self._items(template):
            parts = items(pair) or ()
            if len(parts) == 2 and _is_string(parts[0].node, name):
                return symbolic(parts[1])
        inputs, given = kernel.inputs or (), self.fact.keyword("inputs")
        sizes = self._items(given) if name in inputs else ()
        return symbolic(sizes[inputs.index(name)]) if sizes and len(sizes) == len(inputs) else None

    def _items(self, argument: Argument | None) -> Sequence[Expression]:
        return () if argument is None else items(Expression(argument.node, self.entry.scope)) or ()


class _Texts(Struct, frozen=True):
    """A kernel whose texts are known, with its body and header."""

    kernel: PythonKernel
    text: MetalText
    header: MetalText
    threads: ThreadValues


def _texts(kernel: PythonKernel) -> _Texts | None:
    """Return the texts of a kernel, None where some of them is unknown or not understood."""
    body, header = kernel.text, kernel.header
    if kernel.source is None or not kernel.header_known or kernel.has_holes or not body.parse_ok:
        return None
    if kernel_file(kernel.module).lowered(body.text, header.text, SignatureNames()) is None:
        return None
    return _Texts(kernel, body, header, ThreadValues(body.text, header.text))


def _is_string(node: cst.CSTNode, text: str) -> bool:
    return isinstance(node, cst.SimpleString) and node.raw_value == text


def _written(name: str, body: _Texts) -> int | None:
    """Return the value of a constant or macro of the Metal text, None if not an integer literal."""
    for text in (body.text, body.header):
        for macro in text.macros.items:
            if macro.name == name:
                return _number(macro.text)
        for declaration in text.declarations:
            if declaration.name == name and declaration.value is not None:
                return _number(declaration.value)
    return None


def _number(text: str) -> int | None:
    """Return the value of an integer literal of Metal, such as ``32u``; None for other text."""
    digits = text.strip().strip("()").rstrip("uUlL")
    return whole_number(digits) if digits.isascii() and digits.isdecimal() else None


def _strides(body: _Texts) -> bool:
    """Return whether threads may go on to further elements, as far as they are needed."""
    if any(use.name in TOTALS for use in body.text.attribute_uses):
        return not body.threads.only_compares(TOTALS)
    return any(
        loop.start & {THREAD, GROUP} and not _is_unit(loop.step_text)
        for loop in body.threads.stride_loops()
    )


def _is_unit(step: str) -> bool:
    words = "".join(step.split())
    return "++" in words or words.endswith(("+=1", "+=1u"))
