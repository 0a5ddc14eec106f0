"""What a followed kernel did: accesses, barriers and SIMD operations, each with its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.metal.contract import Input, Output
    from embercoach.metal.execution.values import Condition, Value
    from embercoach.metal.program.nodes import Call, Spot, Variable

#: How far a value is the same: for all threads, those of a threadgroup, of a SIMD group, or not.
Reach = Literal["grid", "threadgroup", "simdgroup", "thread"]
Memory = Literal["device", "constant", "threadgroup", "thread"]


@dataclass(frozen=True, slots=True)
class Configuration:
    """How a kernel is launched, as far as it is known.

    Attributes:
        threadgroup: threads of a group along x, y, z. Known, or assumed (see ``assumed``).
        assumed: the axes whose size is an assumption; what is found must hold for any such size.
        groups: groups along x, y, z, None where unknown.
        template: values of the template arguments by name: a number, an MLX dtype name, or None.
        inputs: with ranks, sizes and dtypes where known. Empty for an entry point of a file.
        outputs: likewise.
        output_sizes: number of elements of each output by name, None where unknown.
    """

    threadgroup: tuple[int, int, int]
    assumed: frozenset[int]
    groups: tuple[int | None, int | None, int | None]
    template: Mapping[str, int | bool | str | None]
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    output_sizes: Mapping[str, int | None] | None = None


@dataclass(frozen=True, slots=True)
class Mask:
    """Which threads of the group run something.

    Attributes:
        lanes: a bit for each thread of the group that certainly gets here, or would if the
            conditions hold.
        conditions: unknown conditions that decide it, outermost first; empty: it is certain.
    """

    lanes: int
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """A read, a write or an atomic update of one element by each thread of the mask.

    Attributes:
        variable: the array, buffer or variable that the memory belongs to.
        index: of the element, counted from the start of the variable, in elements.
        value: what is written; None for reads.
        width: elements that are touched from ``index`` on.
        interval: number of barriers before it that order memory of this kind in the threadgroup.
        reduced: for a write, the SIMD reductions that the value stems from.
    """

    kind: Literal["read", "write", "atomic"]
    variable: Variable
    memory: Memory
    index: Value
    value: Value | None
    mask: Mask
    interval: int
    spot: Spot
    width: int = 1
    reduced: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Synchronization:
    """A barrier as it was met.

    Attributes:
        flags: the names behind ``mem_flags::``, None when they are not plain.
        returned: threads that had left the kernel before (see ``Mask``).
    """

    name: str
    flags: frozenset[str] | None
    mask: Mask
    returned: tuple[Mask, ...]
    interval: int
    spot: Spot


@dataclass(frozen=True, slots=True)
class SimdOperation:
    """A ``simd_`` function as it was met."""

    call: Call
    operand: Value
    mask: Mask
    spot: Spot


Event: TypeAlias = Access | Synchronization | SimdOperation


@dataclass(frozen=True, slots=True)
class Trace:
    """What a run of one threadgroup did, in order.

    Attributes:
        lost: where something was met that is not followed; what comes behind is not known.
    """

    configuration: Configuration
    events: tuple[Event, ...]
    lost: tuple[Spot, ...]
