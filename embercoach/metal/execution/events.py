"""The events of a followed kernel: accesses, barriers and SIMD operations with their threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from embercoach.metal.contract import Input, Output
    from embercoach.metal.execution.conditions import Condition
    from embercoach.metal.execution.values import LaneValue
    from embercoach.metal.program.nodes import Call, Spot, Variable

Memory = Literal["device", "constant", "threadgroup", "thread"]
AccessKind = Literal["read", "write", "atomic"]


class LostError(Exception):
    """The code uses a construct that is not followed."""

    def __init__(self, spot: Spot | None = None) -> None:
        super().__init__("lost")
        self.spot = spot


class Configuration(Struct, frozen=True):
    """The launch of a kernel, as far as it is known.

    Attributes:
        threadgroup: threads of a group along x, y, z. Known, or assumed (see ``assumed``).
        assumed: the axes whose size is an assumption; what is found must hold for any such size.
        groups: groups along x, y, z, None where unknown.
        template: values of the template arguments by name: a number, an MLX dtype name, or None.
        inputs: with ranks, sizes and dtypes where known. Empty for an entry point of a file.
        outputs: likewise.
        output_sizes: number of elements of each output by name, None where unknown.
        rounded: the axes along which the grid is rounded up to whole threadgroups, so that its last
            threads have nothing to do.
        grid: threads of the whole grid along x, y, z, None where unknown.
    """

    threadgroup: tuple[int, int, int]
    assumed: frozenset[int]
    groups: tuple[int | None, int | None, int | None]
    template: Mapping[str, int | bool | str | None]
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    output_sizes: Mapping[str, int | None] | None = None
    rounded: frozenset[int] = frozenset()
    grid: tuple[int | None, int | None, int | None] = (None, None, None)

    def __hash__(self) -> int:
        return hash((self.threadgroup, self.assumed, self.groups, self.inputs))


class Mask(NamedTuple):
    """The threads of the group that run something.

    Attributes:
        lanes: a bit for each thread of the group that certainly gets here, or would if the
            conditions hold.
        conditions: unknown conditions that decide it, outermost first; empty: it is certain.
    """

    lanes: int
    conditions: tuple[Condition, ...] = ()


class Access(Struct, frozen=True):
    """A read, a write or an atomic update of one element by each thread of the mask.

    Attributes:
        variable: the array, buffer or variable that the memory belongs to.
        index: of the element, counted from the start of the variable, in elements (of a vector
            type in components).
        value: what is written; None for reads, and where it is not known.
        interval: number of barriers before it that order memory of this kind in the threadgroup.
        phase: number of barriers before it, whatever they order.
        width: elements that are touched from ``index`` on.
        member: of a structure, which one: ``.best``; empty for none or all.
        function: for an atomic, the function's name.
    """

    kind: AccessKind
    variable: Variable
    memory: Memory
    index: LaneValue
    value: LaneValue | None
    mask: Mask
    interval: int
    phase: int
    spot: Spot
    width: int = 1
    member: str = ""
    function: str = ""


class Synchronization(Struct, frozen=True):
    """A barrier as it was executed.

    Attributes:
        name: ``threadgroup_barrier``, ``simdgroup_barrier``, or that of a fence.
        flags: the names after ``mem_flags::``, None when they are not plain.
        returned: threads that had left the kernel before (see ``Mask``).
        phase: number of threadgroup barriers before it.
    """

    name: str
    flags: frozenset[str] | None
    mask: Mask
    returned: tuple[Mask, ...]
    phase: int
    spot: Spot


class SimdOperation(Struct, frozen=True):
    """A ``simd_`` function as it was executed; ``operand`` None where it is not a number.

    Attributes:
        lane: of a shuffle or broadcast its second argument.
    """

    call: Call
    operand: LaneValue | None
    mask: Mask
    spot: Spot
    lane: LaneValue | None = None


Event: TypeAlias = Access | Synchronization | SimdOperation


class StepCount(Struct):
    """Steps that were taken so far."""

    steps: int = 0

    def spend(self, steps: int) -> None:
        """Count some more."""
        self.steps += steps


class Trace(Struct, frozen=True, eq=False):
    """The events of a run of one threadgroup, in order.

    Attributes:
        threads: number of threads in the group.
        lost: the construct that is not followed; later events are not known.
        steps: thread operations that following it took.
        inspected: what looking at the events took.
        too_deep: it ended where calls and statements nest deeper than is followed.
        cut_short: iterations of a loop were left out that certainly run.
    """

    configuration: Configuration
    threads: int
    events: tuple[Event, ...]
    lost: tuple[Spot, ...]
    steps: int = 0
    inspected: StepCount = field(default_factory=StepCount)
    too_deep: bool = False
    cut_short: bool = False

    @property
    def everyone(self) -> int:
        """The mask of all threads."""
        return (1 << self.threads) - 1
