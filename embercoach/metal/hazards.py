"""Messages for hazards in kernels, shared by the checks (KERNEL rules) and the simulator (SIM).

An access is a "read", a "write", an "atomic update" and so on; a spot is an array or one of its
elements, as in ``tile[3]``.
"""

from __future__ import annotations

from typing import Literal

from embercoach.metal.contract import MAX_THREADGROUP_BYTES

#: Where the two accesses of a race are, if not in one threadgroup and one pass of the code.
Scope = Literal["", " across iterations", " between threadgroups"]

RACE_HELP = "Put `threadgroup_barrier(mem_flags::mem_threadgroup)` between the two accesses"
ATOMIC_OUTPUT_HELP = "Pass `atomic_outputs=True` to `mx.fast.metal_kernel`"
DEVICE_RACE_HELP = "Let one thread own each element, use atomics, or split the kernel in two"
FLAG_HELP = (
    "Name the memory in the barrier's flags: `mem_threadgroup` for arrays, else `mem_device`"
)
BOUNDS_HELP = "Guard the access with a bounds check, or size the array for the index"
DIVERGENCE_HELP = "Move the barrier out of the branch; guard the work instead of returning early"
INPUT_WRITE_HELP = "Write to an output; copy the input into it where the kernel updates it in place"
UNINITIALIZED_HELP = (
    "Write before reading, or pass `init_value`: 0 for sums, the greatest number for minimums"
)
UNINITIALIZED_SHARED_HELP = (
    "Write the element before, with `threadgroup_barrier(mem_flags::mem_threadgroup)` after it"
)
UNWRITTEN_HELP = "Write every element, or pass `init_value=0` to the launch"
FEW_THREADS_HELP = (
    "Pass the number of threads as `grid`, which doesn't count threadgroups, or fewer elements in "
    "`output_shapes`"
)
THREADGROUP_MEMORY_HELP = "Use smaller tiles or half precision, or let two arrays share memory"


def data_race(spot: str, here: str, there: str, where: str = "", scope: Scope = "") -> str:
    """Get two accesses that nothing orders; ``where`` is the other one's line, if it is another."""
    if not where:
        accesses = _plural(here) if here == there else f"{here} and {there}"
        return f"data race on `{spot}`{scope}: unsynchronized {accesses}"
    accesses = (
        f"{_plural(here)} here and at {where}"
        if here == there
        else f"{here} here, {there} at {where}"
    )
    return f"data race on `{spot}`{scope}: {'' if scope else 'unsynchronized '}{accesses}"


def atomic_update(operation: str, array: str, kind: str) -> str:
    """Get the remedy of a race between updates of one element; ``kind`` is its type, or ""."""
    atomic = f"`atomic_fetch_{operation}_explicit`"
    if not array:
        return f"Pass `atomic_outputs=True` to `metal_kernel` and use {atomic}"
    if kind in ("float", "half", "bfloat"):
        return f"Sum in a variable of each thread, then with `simd_sum`: `{array}` can't be atomic"
    kind = "atomic_uint" if kind.startswith("u") else "atomic_int"
    return f"Declare `{array}` as `threadgroup {kind}` and use {atomic}"


def same_element(spot: str, who: str, *, update: bool) -> str:
    """Threads that write one element, or add to it."""
    return f"data race on `{spot}`: {who} {'add to' if update else 'write'} the same element"


def _plural(access: str) -> str:
    return f"{access}es" if access.endswith("s") else f"{access}s"


def missing_flag(flag: str, spot: str) -> str:
    """Return a barrier between two accesses whose flags leave their memory out."""
    return f"barrier without `{flag}` does not order `{spot}`"


def out_of_bounds(access: str, spot: str, extent: str = "") -> str:
    """Return an access past either end of ``spot``; ``extent`` states the array's size."""
    word = "to" if access.endswith(("write", "access")) else "of"
    return f"out-of-bounds {access} {word} `{spot}`{extent and ': '}{extent}"


def barrier_divergence(who: str) -> str:
    """Return a barrier that not all threads of its threadgroup or simdgroup reach."""
    return f"barrier divergence: {who} never reach this barrier"


def input_write(spot: str) -> str:
    """Return a write to an input, whose memory other arrays may share."""
    return f"write to input `{spot}`"


def uninitialized_read(spot: str) -> str:
    """Return a read of memory that the kernel has not written."""
    return f"uninitialized read of `{spot}`"


def unwritten_output(spot: str) -> str:
    """Elements of an output that no thread writes."""
    return f"unwritten output `{spot}`"


def threadgroup_memory(size: int) -> str:
    """Threadgroup arrays of more bytes than a threadgroup has."""
    return f"{size:,} bytes of threadgroup memory exceed the limit of {MAX_THREADGROUP_BYTES:,}"
