"""KERNEL-WRITE: kernels that write to their inputs, or through pointers to ``const``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Expression,
    Index,
    Member,
    MetalFunction,
    Name,
    Program,
    Spot,
    Unary,
    Variable,
)
from embercoach.metal.program.types import is_address
from embercoach.metal.program.walk import Node, base, below

_READ_ONLY = frozenset({"input", "metadata"})
# Atomic functions that write nothing.
_LOADS = frozenset({"atomic_load", "atomic_load_explicit"})
# Which argument of Metal's own functions is written through.
_STORES = {"simdgroup_store": 1, "memcpy": 0, "memset": 0}


Way = Literal["direct", "pointer", "atomic", "call", "declared"]


class InputWrite(Struct, frozen=True):
    """A write to an input.

    Attributes:
        variable: the input.
        way: ``direct`` for an assignment, ``pointer`` through a local pointer, ``atomic`` or
            ``call`` by a function; ``declared`` for a pointer that could write to it.
        cast: a cast on the way may have taken the ``const`` away: then it compiles, and writes.
        by: the pointer or the function.
    """

    variable: Variable
    way: Way
    cast: bool
    by: str
    spot: Spot


class _Origin(Struct, frozen=True):
    """The origin of an address: an input, and the local pointer that holds it."""

    variable: Variable
    cast: bool
    pointer: str = ""


def input_writes(program: Program) -> Iterator[InputWrite]:
    """Yield every write to an input in the body of a kernel, in order."""
    if program.body is not None:
        yield from _Writes(program.body).found()


class _Writes:
    def __init__(self, body: Node) -> None:
        self.body = body
        self.pointers: dict[Variable, _Origin | None] = {}

    def found(self) -> Iterator[InputWrite]:
        for node in below(self.body):
            if isinstance(node, Declare):
                self._hold(node.variable, node.initial)
                yield from self._declared(node)
            elif isinstance(node, Assign):
                yield from self._assigned(node)
            elif isinstance(node, Call):
                yield from self._called(node)

    def _declared(self, node: Declare) -> Iterator[InputWrite]:
        origin = self.pointers.get(node.variable)
        if origin is not None and not origin.cast and _may_write(node.variable):
            name = node.variable.name
            yield InputWrite(origin.variable, "declared", False, name, node.variable.spot)

    def _hold(self, variable: Variable, value: Expression | None) -> None:
        """Note what a local pointer or reference points to; nothing if it may be several things."""
        if value is None or not (is_address(variable.type) or variable.type.reference):
            return
        origin = self._origin(value, reference=variable.type.reference)
        held = None
        if origin is not None:
            held = _Origin(origin.variable, origin.cast, variable.name)
        old = self.pointers.setdefault(variable, held)
        if old != held:
            self.pointers[variable] = None

    def _origin(self, address: Expression, *, reference: bool = False) -> _Origin | None:
        """Return the input that an address lies in; with ``reference`` that an element lies in."""
        if reference:
            return self._place(address)
        if isinstance(address, Name):
            variable = address.variable
            if variable.kind in _READ_ONLY:
                return _Origin(variable, cast=False) if is_address(variable.type) else None
            return self.pointers.get(variable)
        if isinstance(address, Cast):
            origin = self._origin(address.operand)
            return None if origin is None else _Origin(origin.variable, True, origin.pointer)
        if isinstance(address, Binary) and address.operator in "+-":
            side = address.left if is_address(address.left.type) else address.right
            return self._origin(side) if is_address(side.type) else None
        if isinstance(address, Unary) and address.operator == "&":
            return self._place(address.operand)
        return None

    def _place(self, place: Expression) -> _Origin | None:
        """Return the input that an element, a component or a scalar input belongs to."""
        while isinstance(place, Member):
            place = place.base
        if isinstance(place, Index):
            inner = place.base
            if is_address(inner.type):
                return self._origin(inner)
            return self._place(inner)
        if isinstance(place, Name):
            variable = place.variable
            if variable.kind in _READ_ONLY:
                # A local pointer may be advanced; a reference is the value itself.
                return _Origin(variable, cast=False) if variable.type.reference else None
            return self.pointers.get(variable) if variable.type.reference else None
        return None

    def _assigned(self, node: Assign) -> Iterator[InputWrite]:
        target = node.target
        origin = self._place(target)
        if origin is not None:
            way: Way = "pointer" if origin.pointer else "direct"
            yield InputWrite(origin.variable, way, origin.cast, origin.pointer, node.target.spot)
        elif isinstance(target, Name) and node.operator == "=":
            self._hold(target.variable, node.value)

    def _called(self, node: Call) -> Iterator[InputWrite]:
        atomic = node.name.startswith("atomic_") and node.name not in _LOADS
        number = 0 if atomic else _STORES.get(node.name)
        if number is not None and not node.functions and number < len(node.arguments):
            yield from self._handed(node, number, "atomic" if atomic else "call")
            return
        if len(node.functions) != 1:
            return
        function = node.functions[0]
        for index, parameter in enumerate(function.parameters[: len(node.arguments)]):
            # What a template's pointer may do follows from its argument: only what it does counts.
            writes = (
                _writes_through(function, parameter) if function.template else _may_write(parameter)
            )
            if parameter.type.pointer and writes:
                yield from self._handed(node, index, "call")

    def _handed(self, node: Call, number: int, way: Way) -> Iterator[InputWrite]:
        argument = node.arguments[number]
        origin = self._origin(argument)
        if origin is not None:
            yield InputWrite(origin.variable, way, origin.cast, node.name, argument.spot)


def _may_write(pointer: Variable) -> bool:
    """Return whether a variable is declared as a writable pointer to device memory."""
    target = pointer.target
    return target is not None and target.space == "device" and not target.constant


def _writes_through(function: MetalFunction, pointer: Variable) -> bool:
    """Return whether a function assigns to an element of one of its parameters."""
    return any(
        isinstance(node, Assign)
        and not isinstance(node.target, Name)
        and base(node.target) is pointer
        for body in function.bodies
        for node in below(body)
    )


CODE = "KERNEL-WRITE-001"


@check(CODE)
def writes_to_inputs(code: MetalCode) -> Iterator[MetalReport]:
    """Assignments, atomics and writing pointers to inputs."""
    if code.whole:
        return

    found: dict[str, dict[tuple[str, int], InputWrite]] = {}
    for kernel in code.kernels:
        for write in input_writes(kernel.program):
            places = found.setdefault(write.variable.name, {})
            places.setdefault((write.spot.text, write.spot.place.start), write)
    for places in found.values():
        first = next(iter(places.values()))
        message = _message(first, len(places))
        yield MetalReport(CODE, first.spot, message, _help(first))


def _message(write: InputWrite, places: int) -> str:
    name, is_input = write.variable.name, write.variable.kind == "input"
    what = hazards.input_write(name) if is_input else f"write to read-only `{name}`"
    if write.way == "declared":
        what = f"writable pointer `{write.by}` to {'input' if is_input else 'read-only'} `{name}`"
    elif write.way == "pointer":
        what += f" through `{write.by}`"
    elif write.way in ("atomic", "call"):
        what += f" by `{write.by}`"
    again = f" ({places} places)" if places > 1 else ""
    return f"{what}{again}{': a cast may drop its `const`' if write.cast else ''}"


def _help(write: InputWrite) -> str:
    if write.way == "declared":
        return "Declare a read-only pointer with `const`: `const device T*`, or `auto`"
    return hazards.INPUT_WRITE_HELP


@check("KERNEL-WRITE-002")
def writes_to_constants(code: MetalCode) -> Iterator[MetalReport]:
    """Assignments to elements of parameters that are declared ``const``, each parameter once."""
    found: dict[tuple[str, int], MetalReport] = {}
    for kernel in code.kernels:
        for functions in kernel.program.functions.values():
            for function in functions:
                for variable, spot in _constant_writes(function):
                    declared = variable.spot
                    found.setdefault(
                        (declared.text, declared.place.start),
                        MetalReport(
                            "KERNEL-WRITE-002",
                            spot,
                            f"write to `{variable.name}`, which is declared const",
                            "Drop `const`, or write to another buffer",
                            declared,
                        ),
                    )
    yield from found.values()


def _constant_writes(function: MetalFunction) -> Iterator[tuple[Variable, Spot]]:
    written = {parameter for parameter in function.parameters if _is_constant(parameter)}
    for body in function.bodies if written else ():
        for node in below(body):
            if isinstance(node, Assign):
                variable = _uncast(node.target)
                # A pointer that is a name may move on.
                is_moved = isinstance(node.target, Name) and not node.target.type.reference
                if variable in written and not (is_moved and is_address(variable.type)):
                    yield variable, node.target.spot


def _is_constant(parameter: Variable) -> bool:
    """Return whether a pointer or reference points to what nothing may write."""
    target = parameter.target
    named = parameter.type.scalar is not None and not parameter.type.dimensions
    return named and target is not None and (target.constant or target.space == "constant")


def _uncast(target: Expression) -> Variable | None:
    """Return the variable of an element; None through a cast, or a pointer that is a member."""
    while isinstance(target, (Index, Member)):
        target = target.base
        if is_address(target.type) and not isinstance(target, Name):
            return None
    return target.variable if isinstance(target, Name) else None
