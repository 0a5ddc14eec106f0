"""One path through a kernel: its threads, conditions, memory and variables; joins of paths."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct, field

from embercoach.metal.execution.arithmetic import add, choose, multiply
from embercoach.metal.execution.conditions import Conditions, common
from embercoach.metal.execution.events import Mask, Memory
from embercoach.metal.execution.values import (
    ANYWHERE,
    NOWHERE,
    ZERO,
    LaneValue,
    SymbolPool,
    value_of,
)
from embercoach.metal.program.types import SIZES, Type

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Variable


class Bundle(Struct, frozen=True):
    """A vector: its components."""

    parts: tuple[LaneValue, ...]


class Pointer(NamedTuple):
    """Where something is: the value of a pointer, or the place of what is read or written.

    Attributes:
        root: the variable that the memory belongs to, None where unknown.
        offset: of the object, in components of the root's elements.
        type: of the object.
        member: of a structure in the memory.
        known: False where the offset means nothing.
    """

    root: Variable | None
    memory: Memory
    offset: LaneValue
    type: Type
    member: str = ""
    known: bool = True


class Reference(Struct, frozen=True):
    """A name for something that lives elsewhere."""

    place: Pointer


class Cells(Struct, frozen=True):
    """A private array or structure: what is known of its parts, by member and index.

    Attributes:
        stale: how values may differ that were stored where it is not known, as bits.
    """

    known: Mapping[tuple[str, int], LaneValue | Pointer | Bundle] = field(default_factory=dict)
    stale: int | None = None


Result: TypeAlias = LaneValue | Bundle | Pointer | Cells
Binding: TypeAlias = LaneValue | Bundle | Pointer | Cells | Reference


def size_of(scalar: str | None) -> int | None:
    """Return bytes of a scalar type, None where unknown."""
    if scalar is None:
        return None
    known = SIZES.get(scalar)
    if known is None and scalar.startswith("atomic"):
        return 8 if "long" in scalar else 4
    return known


def ratio(scalar: str | None, root: str | None) -> int | None:
    """Return the number of the root's scalars that one of the type takes, None where unknown."""
    if scalar == root:
        return 1
    size, unit = size_of(scalar), size_of(root)
    if size is None or unit is None or size % unit:
        return None
    return size // unit


def components(kind: Type) -> int:
    """Components that a vector takes in memory: those of three take four unless packed."""
    return 4 if kind.width == 3 and not kind.packed else kind.width


def elements_of(kind: Type) -> int | None:
    """Number of components that an array or a variable has, None where unknown."""
    if kind.pointer or kind.reference:
        return None
    sizes = [size for size in kind.dimensions if size is not None]
    if len(sizes) != len(kind.dimensions):
        return None
    return prod(sizes) * components(kind)


def stride_of(kind: Type, root: Type) -> int | None:
    """Components of the root's elements that an object of the type takes, None where unknown."""
    factor = ratio(kind.scalar, root.scalar)
    if factor is None or kind.pointer:
        return None
    sizes = [size for size in kind.dimensions if size is not None]
    if len(sizes) != len(kind.dimensions):
        return None
    return prod(sizes) * components(kind) * factor


def moved(
    pool: SymbolPool, pointer: Pointer, index: LaneValue, root: Type, *, sign: int = 1
) -> Pointer:
    """Return the pointer some objects further."""
    if index == ZERO or not pointer.known:
        return pointer
    stride = stride_of(pointer.type, root)
    if stride is None or (pointer.member and pointer.offset != ZERO):
        return pointer._replace(offset=pool.unknown("offset"), known=False)
    offset = add(pool, pointer.offset, multiply(pool, index, LaneValue(stride)), sign)
    return pointer._replace(offset=offset)


Environment = dict["Variable", Binding]


class State(Struct):
    """Where a path is.

    Attributes:
        lanes: the threads on it, as bits; 0 when nobody is.
        conditions: unknown conditions that brought them here.
        variables: private variables, and what pointers point to.
        phase: threadgroup barriers so far; threadgroup, device: those that order such memory.
    """

    lanes: int
    conditions: Conditions = ()
    variables: Environment = field(default_factory=dict)
    phase: int = 0
    threadgroup: int = 0
    device: int = 0

    @property
    def mask(self) -> Mask:
        """The threads that are here."""
        return Mask(self.lanes, self.conditions)

    def fork(self, lanes: int, conditions: Conditions) -> State:
        """Return a separate path for some of the threads."""
        variables = self.variables.copy()
        return State(lanes, conditions, variables, self.phase, self.threadgroup, self.device)

    def become(self, other: State) -> None:
        """Take another path's place."""
        self.lanes, self.conditions = other.lanes, other.conditions
        self.variables = other.variables
        self.phase, self.threadgroup, self.device = other.phase, other.threadgroup, other.device


def met(pool: SymbolPool, left: State, right: State) -> State:
    """Join two paths that come together."""
    if not left.lanes:
        return right
    if not right.lanes:
        return left
    conditions = common(left.conditions, right.conditions)
    chooser = _chooser(pool, left, right, conditions)
    variables: Environment = {}
    for variable, one in left.variables.items():
        other = right.variables.get(variable)
        if other is None:
            continue
        variables[variable] = one if one is other else joined(pool, chooser, one, other)
    return State(
        left.lanes | right.lanes,
        conditions,
        variables,
        max(left.phase, right.phase),
        max(left.threadgroup, right.threadgroup),
        max(left.device, right.device),
    )


def _chooser(pool: SymbolPool, left: State, right: State, shared: Conditions) -> LaneValue:
    """Return a value that is true where a thread came by the left path."""
    if not left.lanes & right.lanes:
        lanes = left.lanes
        return value_of(tuple([lanes >> thread & 1 for thread in range(pool.lanes)]))
    apart = (*left.conditions[len(shared) :], *right.conditions[len(shared) :])
    bits, origin = 0, NOWHERE
    for condition in apart:
        bits |= condition.symbol.bits
        origin = origin.joined(condition.symbol.origin)
    if left.lanes != right.lanes:
        bits |= ANYWHERE
    return pool.result("path", (apart, left.lanes, right.lanes), bits, origin)


def joined(pool: SymbolPool, chooser: LaneValue, one: Binding, other: Binding) -> Binding:
    """Return the value of a variable after two paths."""
    if one == other:
        return one
    if isinstance(one, LaneValue) and isinstance(other, LaneValue):
        return choose(pool, chooser, one, other)
    if isinstance(one, Bundle) and isinstance(other, Bundle) and len(one.parts) == len(other.parts):
        pairs = zip(one.parts, other.parts, strict=True)
        return Bundle(tuple([choose(pool, chooser, a, b) for a, b in pairs]))
    if isinstance(one, Cells) and isinstance(other, Cells):
        return _joined_cells(pool, chooser, one, other)
    if isinstance(one, Reference) and isinstance(other, Reference):
        return Reference(_joined_pointers(pool, chooser, one.place, other.place))
    if isinstance(one, Pointer) and isinstance(other, Pointer):
        return _joined_pointers(pool, chooser, one, other)
    return pool.unknown("path")


def _joined_cells(pool: SymbolPool, chooser: LaneValue, one: Cells, other: Cells) -> Cells:
    known: dict[tuple[str, int], LaneValue | Pointer | Bundle] = {}
    stale = one.stale
    if other.stale is not None:
        stale = other.stale | (stale or 0)
    for key, part in one.known.items():
        against = other.known.get(key)
        if against is None:
            stale = ANYWHERE
            continue
        found = part if part is against else joined(pool, chooser, part, against)
        if not isinstance(found, Cells | Reference):
            known[key] = found
    if any(key not in one.known for key in other.known):
        stale = ANYWHERE
    return Cells(known, stale)


def _joined_pointers(pool: SymbolPool, chooser: LaneValue, one: Pointer, other: Pointer) -> Pointer:
    if one._replace(offset=other.offset) == other:
        return one._replace(offset=choose(pool, chooser, one.offset, other.offset))
    root = one.root if one.root is other.root else None
    memory = one.memory if one.memory == other.memory else "device"
    return Pointer(root, memory, pool.unknown("offset"), one.type, "", known=False)
