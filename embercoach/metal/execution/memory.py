"""The memory of values: pointers, and the private variables of a thread."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct, field

from embercoach.metal.execution.arithmetic import add, multiply
from embercoach.metal.execution.values import ZERO, LaneValue, SymbolPool
from embercoach.metal.program.types import SIZES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.metal.execution.events import Memory
    from embercoach.metal.program.nodes import Variable
    from embercoach.metal.program.types import Type


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
    """Bytes of a scalar type, None where unknown."""
    if scalar is None:
        return None
    known = SIZES.get(scalar)
    if known is None and scalar.startswith("atomic"):
        return 8 if "long" in scalar else 4
    return known


def ratio(scalar: str | None, root: str | None) -> int | None:
    """The number of the root's scalars that one of the type takes, None where unknown."""
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
    """The pointer some objects further."""
    if index == ZERO or not pointer.known:
        return pointer
    stride = stride_of(pointer.type, root)
    inner = pointer.member and pointer.offset != ZERO
    if stride is None or inner:
        return Pointer(
            pointer.root,
            pointer.memory,
            pool.unknown("offset"),
            pointer.type,
            pointer.member,
            known=False,
        )
    offset = add(pool, pointer.offset, multiply(pool, index, LaneValue(stride)), sign)
    return Pointer(pointer.root, pointer.memory, offset, pointer.type, pointer.member)
