"""The parts of a simulated launch, and its findings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

if TYPE_CHECKING:
    import numpy as np

    from embercoach.simulator.profile.counts import KernelBlocks, LaunchProfile

#: The folder of this package, which holds no frames of users.
PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"

Part = Literal["body", "header", "generated"]
Role = Literal["input", "output", "info"]

#: The code of the rule page of each kind of finding. Notes are the benign classes.
CODE_OF_KIND = {
    "out-of-bounds": "SIM-BOUNDS-001",
    "write-to-input": "SIM-WRITE-001",
    "threadgroup-race": "SIM-RACE-001",
    "device-race": "SIM-RACE-002",
    "uninitialized-read": "SIM-UNINIT-001",
    "unwritten-output": "SIM-UNINIT-002",
    "divergent-barrier": "SIM-DIVERGE-001",
    "divergent-simd": "SIM-DIVERGE-002",
    "wrong-mem-flags": "SIM-FLAGS-001",
    "order-dependent": "SIM-ORDER-001",
    "timeout": "SIM-TIMEOUT-001",
    "crash": "SIM-CRASH-001",
    "same-value-write": "SIM-BENIGN-001",
    "lane-synchronous": "SIM-BENIGN-002",
    "undefined-arithmetic": "SIM-ARITHMETIC-001",
    "misaligned-access": "SIM-ALIGN-001",
    "simdgroup-deadlock": "SIM-DEADLOCK-001",
    "float-sum-order": "SIM-BENIGN-003",
    "does-not-compile": "SIM-COMPILE-001",
    "variant-does-not-compile": "SIM-COMPILE-002",
    "split-reduction": "SIM-BENIGN-004",
}


#: The same of what a profile advises.
CODE_OF_COST = {
    "uncoalesced-access": "SIM-COST-001",
    "narrow-access": "SIM-COST-002",
    "bank-conflict": "SIM-COST-003",
    "frequent-barriers": "SIM-COST-004",
    "low-occupancy": "SIM-COST-005",
}


class SimulatorError(RuntimeError):
    """The simulator can't do what it was asked for; the message says why and what helps."""


def require_unix() -> None:
    """Refuse a system that has no shared memory and signals as the simulator uses them.

    Raises:
        SimulatorError: this is Windows.
    """
    if sys.platform == "win32":
        raise SimulatorError("the simulator needs Linux or macOS; Windows has WSL")


class LaunchParameter(Struct, frozen=True):
    """A parameter of the generated kernel function, in order.

    Attributes:
        name: as the body knows it.
        type: the element type, as MLX wrote it (``float``, ``bfloat16_t``, ``uint3``).
        space: ``device`` or ``constant`` for a buffer, "" for a thread attribute.
        declarator: ``*`` or ``&`` for a buffer, "" for a thread attribute.
        is_const: whether the kernel may only read it.
        is_atomic: whether it is ``atomic<type>``.
        index: of ``[[buffer(n)]]``, None for a thread attribute.
        attribute: of a thread attribute, "" for a buffer.
    """

    name: str
    type: str
    space: str
    declarator: str
    is_const: bool
    is_atomic: bool
    index: int | None
    attribute: str


class SourceMap(Struct, frozen=True):
    """From lines of the generated source (from 1) to those of the user's header and body.

    Attributes:
        header_lines: lines that the header takes at the top; 0 without a header.
        body_start: the generated line that holds the body's first line.
        body_lines: lines of the body.
    """

    header_lines: int
    body_start: int
    body_lines: int

    def place(self, line: int) -> tuple[Part, int]:
        """Return the part of the kernel that a generated line comes from, and the line there."""
        if line <= self.header_lines:
            return "header", line
        if self.body_start <= line < self.body_start + self.body_lines:
            return "body", line - self.body_start + 1
        return "generated", line


class UnsetUse(Struct, frozen=True):
    """A use of a local variable that the compiler finds without a value on some path.

    Attributes:
        line: of the generated source.
        variable: its name.
    """

    line: int
    variable: str


class BuiltKernel(Struct, frozen=True):
    """A kernel compiled for this machine's CPU.

    Attributes:
        name: that the user gave.
        object: the shared object, which defines ``ember_kernel``.
        parameters: of the generated function, in order.
        source: the text that MLX generated.
        lines: its map.
        checked: whether memory accesses call the runtime.
        unset: what to blame first where a result depends on memory without a value.
        insertions: lines and columns where the compiled text has more characters, and how many.
        blocks: its instructions, of a kernel that is compiled to be profiled.
    """

    name: str
    object: Path
    parameters: tuple[LaunchParameter, ...]
    source: str
    lines: SourceMap
    checked: bool
    unset: tuple[UnsetUse, ...] = ()
    insertions: tuple[tuple[int, int, int], ...] = ()
    blocks: KernelBlocks | None = None

    def original_column(self, line: int, column: int) -> int:
        """Return the column in the source of one in the compiled text, both from 1."""
        for at_line, at_column, more in self.insertions:
            if at_line == line and column >= at_column:
                column = max(at_column, column - more)
        return column


class Buffer(Struct, frozen=True):
    """The memory bound to a ``[[buffer(n)]]``.

    Attributes:
        name: of the parameter.
        index: n.
        role: outputs are writable; info buffers are shapes, strides and ranks.
        data: the bytes as the kernel sees them, one-dimensional uint8; of an output its first
            content where ``initialized``.
        itemsize: bytes of an element, for messages.
        initialized: whether an output has a content before the kernel runs (``init_value``).
        offset: bytes from the start of ``data`` to element 0 (strided inputs may begin inside).
    """

    name: str
    index: int
    role: Role
    data: np.ndarray
    itemsize: int
    initialized: bool = True
    offset: int = 0


class Limits(Struct, frozen=True):
    """Bounds of one launch.

    Attributes:
        seconds: of wall time for one run of all threads, and of CPU time for compiling.
        bytes: of all buffers together.
    """

    seconds: float = 60.0
    bytes: int = 2 << 30


class MemoryAccess(Struct, frozen=True):
    """An access to memory, or the arrival of a thread at an operation.

    Attributes:
        line: of the generated source, None if unknown.
        thread: its position in the grid.
        threadgroup: its position in the grid of threadgroups.
        kind: "read", "write", "atomic read" or "atomic write"; "" for an operation.
        value: read or written, as its type shows it; "" where it is unknown.
    """

    line: int | None
    thread: tuple[int, int, int] | None
    threadgroup: tuple[int, int, int] | None
    kind: str = ""
    value: str = ""


class RawFinding(Struct, frozen=True):
    """A hazard that the runtime recorded.

    Attributes:
        kind: a key of ``CODE_OF_KIND``.
        at: the access that is reported.
        other: the access that it conflicts with, if any.
        buffer: the name of the buffer or threadgroup array, "" if none.
        element: the index of the element there, None if none.
        detail: further facts, a phrase without a full stop.
        count: how many accesses from the same lines had the same problem.
    """

    kind: str
    at: MemoryAccess
    other: MemoryAccess | None
    buffer: str
    element: int | None
    detail: str
    count: int


class Traffic(Struct, frozen=True):
    """Bytes of one buffer that the threads of a launch accessed, as often as they did.

    Each thread's access counts, also where a GPU's cache would give again what another thread has
    fetched; so does a second access by the same thread, unless the compiler makes the two one. An
    atomic operation that reads and writes counts as both, a comparing exchange even where it does
    not store. Accesses outside of the buffer are not counted.

    Attributes:
        space: ``device``, or ``constant``: scalars, inputs of fewer than eight elements, shapes and
            strides, which a GPU fetches once for many threads.
        read: bytes read.
        written: bytes written.
    """

    space: str
    read: int
    written: int


class LaunchResult(Struct, frozen=True):
    """The results of a launch.

    Attributes:
        outputs: bytes of each output, in the order of the parameters, one-dimensional uint8.
        findings: of all runs, merged.
        seconds: wall time of the first run, in the kernel.
        accesses: memory accesses checked in it, 0 if unchecked.
        traffic: of each buffer in it, by the parameter's name; empty if unchecked.
        profile: of the first run, None unless it was profiled.
    """

    outputs: tuple[np.ndarray, ...]
    findings: tuple[RawFinding, ...] = ()
    seconds: float = 0.0
    accesses: int = 0
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    profile: LaunchProfile | None = None


class KernelFinding(Struct, frozen=True):
    """A finding in the user's terms.

    Attributes:
        kind: a key of ``CODE_OF_KIND`` or ``CODE_OF_COST``.
        kernel: the name that the kernel was built with.
        part: the text that ``line`` counts in.
        line: from 1, None where there is none.
        thread: position in the grid, None where no one thread is to blame.
        message: the problem, in one line.
        excerpt: the source line, stripped.
        launched_at: file and line of the Python call, None if unknown.
        count: how many accesses had the same problem.
        details: the two accesses, values, and what else the run recorded, a phrase each.
        help: the remedy, "" if none is known.
    """

    kind: str
    kernel: str
    part: Part
    line: int | None
    thread: tuple[int, int, int] | None
    message: str
    excerpt: str = ""
    launched_at: tuple[str, int] | None = None
    count: int = 1
    details: tuple[str, ...] = ()
    help: str = ""

    @property
    def code(self) -> str:
        """The code of the kind's rule page."""
        return CODE_OF_COST.get(self.kind) or CODE_OF_KIND[self.kind]

    @property
    def is_note(self) -> bool:
        """True for a finding of a benign class, or of a profile."""
        return self.code.startswith(("SIM-BENIGN", "SIM-COST"))
