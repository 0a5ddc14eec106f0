"""KERNEL-MSL-001, -ATOMIC-001, -INIT-001 and -SPACE-001: variables in the memory they need."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.library import is_known
from embercoach.metal.program.nodes import (
    Assign,
    Call,
    Cast,
    Declare,
    Expression,
    If,
    Index,
    Loop,
    Member,
    Name,
    Opaque,
    OpaqueExpression,
    Program,
    Spot,
    Switch,
    Unary,
    Variable,
)
from embercoach.metal.program.types import NAMED
from embercoach.metal.program.walk import Node, base, below, bodies, changed, children, mentioned
from embercoach.metal.program.written_facts import MetalText
from embercoach.metal.text_facts import Declaration

CODE = "KERNEL-SPACE-001"
KINDS = frozenset({"local", "parameter", "field"})


@check(CODE)
def pointers_without_space(code: MetalCode) -> Iterator[MetalReport]:
    """``float* p = values;`` in a body or a header, or in a file."""
    for text in code.texts:
        # A macro may stand for the address space.
        if text.parse_ok and not text.macros.blanks:
            yield from _bare(text)


def _bare(text: MetalText) -> Iterator[MetalReport]:
    # KERNEL-UNIT-004 reports the arguments of entry points.
    parameters = {parameter.place for entry in text.entry_points for parameter in entry.parameters}
    for declaration in text.declarations:
        if not _lacks_space(declaration) or text.is_conditional(declaration.place):
            continue
        if declaration.place not in parameters:
            yield MetalReport(
                CODE,
                text.at(declaration.place),
                f"pointer or reference `{declaration.name}` without an address space",
                "Write `device`, `constant`, `threadgroup` or `thread` before "
                f"`{declaration.type}`",
            )
    # But for the initial values of these pointers.
    lines = {d.place.line for d in text.declarations if _lacks_space(d)}
    for cast in text.bare_casts:
        if cast.type in NAMED and cast.place.line not in lines:
            yield MetalReport(
                CODE,
                text.at(cast.place),
                f"cast to `{cast.type}*` without an address space",
                f"Write the space of the pointer that is cast: `device {cast.type}*`",
            )


def _lacks_space(declaration: Declaration) -> bool:
    return (
        declaration.pointer
        and declaration.address_space is None
        and declaration.kind in KINDS
        and declaration.type in NAMED
    )


_NUMBERS = frozenset(NAMED) - {"void", "auto"}


def unset_reads(program: Program) -> Iterator[tuple[Variable, Spot]]:
    """Yield the first read of each variable without a value, in functions that are understood."""
    for body in bodies(program):
        nodes = tuple(below(body))
        if not any(isinstance(node, (Opaque, OpaqueExpression)) for node in nodes):
            unset = frozenset(
                node.variable for node in nodes if isinstance(node, Declare) and _is_unset(node)
            )
            if unset:
                reading = _Reading(unset)
                reading.run(body)
                yield from reading.found.items()


def _is_unset(declaration: Declare) -> bool:
    variable = declaration.variable
    kind = variable.type
    plain = variable.kind == "local" and not kind.pointer and not kind.reference
    return plain and declaration.initial is None and kind.scalar in _NUMBERS


class _Reading(Struct):
    """The first run of a body, in the order in which it runs.

    Attributes:
        unset: the variables that are declared without a value.
        assigned: those of them that some path has assigned so far.
        set_in_loop: those that the loops around assign otherwise than by updates.
        found: the first read of each that no path assigns before.
    """

    unset: frozenset[Variable]
    assigned: set[Variable] = field(default_factory=set)
    set_in_loop: frozenset[Variable] = frozenset()
    found: dict[Variable, Spot] = field(default_factory=dict)

    def run(self, node: Node) -> None:
        """Run a node once."""
        if isinstance(node, Loop):
            outer, self.set_in_loop = self.set_in_loop, self.set_in_loop | _set_in(node, self.unset)
            self._run_all(node)
            self.set_in_loop = outer
        elif isinstance(node, (If, Switch)):
            self._run_all(node)
        elif isinstance(node, Declare):
            self._declare(node)
        elif isinstance(node, Assign):
            self.run(node.value)
            self._target(node)
        elif isinstance(node, Name):
            # An array is passed on by its address.
            self._read(node) if not node.variable.type.dimensions else self._hand_on(node)
        elif isinstance(node, Index):
            self._element(node)
        elif isinstance(node, Call):
            # What it may write it may also only write.
            self.assigned |= _handed_on(node) & self.unset
            self._run_all(node)
        elif _is_alias(node):
            self.assigned |= mentioned(node) & self.unset
        else:
            self._run_all(node)

    def _run_all(self, node: Node) -> None:
        for child in children(node):
            self.run(child)

    def _hand_on(self, node: Expression) -> None:
        self.assigned |= mentioned(node) & self.unset

    def _element(self, node: Index) -> None:
        inner: Expression = node
        while isinstance(inner, Index):
            self.run(inner.index)
            inner = inner.base
        if node.type.dimensions:
            self._hand_on(node)
        elif isinstance(inner, Name):
            self._read(inner)
        else:
            self.run(inner)

    def _declare(self, node: Declare) -> None:
        variable = node.variable
        if node.initial is None:
            self.assigned.discard(variable)
            return
        if variable.type.reference or variable.type.pointer:
            # It may be assigned under the other name.
            self.assigned |= mentioned(node.initial) & self.unset
        self.run(node.initial)

    def _target(self, node: Assign) -> None:
        variable = base(node.target)
        inner: Expression = node.target
        while isinstance(inner, (Index, Member)):
            if isinstance(inner, Index):
                self.run(inner.index)
            inner = inner.base
        if not isinstance(inner, Name):
            self.run(inner)
        elif node.operator != "=":
            self._read(inner)
        if variable is not None:
            self.assigned.add(variable)

    def _read(self, name: Name) -> None:
        variable = name.variable
        if variable not in self.unset or variable in self.assigned | self.set_in_loop:
            return
        self.found.setdefault(variable, name.spot)


def _is_alias(node: Node) -> bool:
    """Return whether an expression is an address, or a reference of another type."""
    if isinstance(node, Unary):
        return node.operator == "&"
    return isinstance(node, Cast) and node.type.reference


def _handed_on(call: Call) -> frozenset[Variable]:
    """Return the variables that a call may write.

    A simdgroup's matrices are passed by reference; a function of another file may take one, too.
    """
    foreign = not call.functions and call.method is None and not is_known(call.name, "call")
    if foreign or call.name.startswith("simdgroup_"):
        return frozenset().union(*map(mentioned, call.arguments))
    return changed(call)


def _set_in(loop: Loop, unset: frozenset[Variable]) -> frozenset[Variable]:
    """Return the variables that a loop assigns by other operations than updates of their value."""
    found: set[Variable] = set()
    for node in below(loop):
        if isinstance(node, Assign):
            variable = base(node.target)
            if variable is not None and variable in unset and node.operator == "=":
                value = mentioned(node.value)
                if variable not in value:
                    found.add(variable)
        elif isinstance(node, Call):
            found |= _handed_on(node) & unset
        elif isinstance(node, Unary):
            found |= changed(node) & unset
    return frozenset(found)


LANGUAGE = "KERNEL-MSL-001"
ATOMIC = "KERNEL-ATOMIC-001"
UNSET = "KERNEL-INIT-001"
_ATOMIC_FLOATS = frozenset({"atomic_float", "atomic<float>"})


@check(LANGUAGE, ATOMIC)
def misplaced_variables(code: MetalCode) -> Iterator[MetalReport]:
    """Variables of functions that are declared ``device``, and threadgroup atomics of floats."""
    for text in code.texts:
        yield from _misplaced(text)


@check(UNSET)
def unset_variables(code: MetalCode) -> Iterator[MetalReport]:
    """Yield variables that are declared without a value and read: ``float sum; sum += x[i];``."""
    if code.text.marks and not code.whole:
        return  # KERNEL-SIG-002: `uint i [[thread_position_in_grid]];` is meant to have a value
    for kernel in code.kernels:
        if kernel.own.problems:
            continue
        for variable, spot in unset_reads(kernel.own):
            yield MetalReport(
                UNSET,
                spot,
                f"{hazards.uninitialized_read(variable.name)}: declared without a value",
                hazards.UNINITIALIZED_SHARED_HELP
                if variable.type.space == "threadgroup"
                else "Give it a value where it is declared",
            )


def _misplaced(text: MetalText) -> Iterator[MetalReport]:
    for declaration in text.declarations if text.parse_ok else ():
        if declaration.kind != "local" or declaration.pointer:
            continue
        if text.is_conditional(declaration.place):
            continue
        space, name = declaration.address_space, declaration.name
        kind = "".join(declaration.type.removeprefix("metal::").split())
        if space == "device" and kind != "auto":
            yield MetalReport(
                LANGUAGE,
                text.at(declaration.place),
                f"local variable `{name}` in `device` memory",
                "Drop `device`; for a variable of all threadgroups add an output with `init_value`",
            )
        elif space == "threadgroup" and kind in _ATOMIC_FLOATS:
            yield MetalReport(
                ATOMIC,
                text.at(declaration.place),
                f"no atomic type for float variable `{name}` in threadgroup memory",
                "Reduce with `simd_sum` and a threadgroup array, or use an atomic output",
            )
