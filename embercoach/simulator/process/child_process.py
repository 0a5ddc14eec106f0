"""The child process that kernels run in, as its parent controls it.

An endless loop or an invalid pointer of a kernel affects the child only; the parent replaces it and
reports a finding.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from embercoach.metal.contract import MAX_THREADGROUP_BYTES
from embercoach.metal.hazards import threadgroup_memory
from embercoach.simulator.build import objects
from embercoach.simulator.build.object_lines import read_image, read_lines
from embercoach.simulator.build.tools import ending
from embercoach.simulator.model import (
    LaunchResult,
    Limits,
    MemoryAccess,
    RawFinding,
    SimulatorError,
    Traffic,
)
from embercoach.simulator.process.answers import MalformedError, check
from embercoach.simulator.process.connection import Child, ChildLostError
from embercoach.simulator.process.profile_counts import profile_of
from embercoach.simulator.reporting.runtime_findings import Scene, raw_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embercoach.simulator.build.object_lines import Image
    from embercoach.simulator.build.toolchain import Toolchain
    from embercoach.simulator.model import Buffer, BuiltKernel

_ROLES = {"input": 0, "output": 1, "info": 2}
_SLOTS = 32
_THREADS = 1024
#: Times the limit of bytes that records may take.
_MOST_RECORDS = 2
#: Runs of a launch: in both orders, again in lockstep, and again with another pattern.
_MOST_RUNS = 4
#: Bytes that a child may always take for buffers and records.
_LEAST_MEMORY = 512 << 20
#: Seconds that the child has beyond a run's, before it is taken to hang.
_GRACE = 10.0


class Process:
    """Runs kernels in a child process that lives as long as nothing happens to it.

    Safe to use from several threads, which take turns, and in processes that fork: each has its own
    child. The child ends with the process.
    """

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._owner = os.getpid()
        _ALL.add(self)

    def run(
        self,
        kernel: BuiltKernel,
        buffers: Sequence[Buffer],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        *,
        limits: Limits,
    ) -> LaunchResult:
        """Run every thread of a launch: once, or, of a checked kernel, in both orders.

        Args:
            kernel: to run.
            buffers: the memory of each ``[[buffer(n)]]``.
            grid: threads in each dimension.
            threadgroup: threads of a threadgroup; at the grid's edge it may be cut.
            limits: of the launch.

        Returns:
            The outputs of the run in ascending order, and the findings of all.

        Raises:
            SimulatorError: more memory or threads than allowed, or the simulator itself fails.
        """
        _refuse(kernel, buffers, grid, threadgroup, limits)
        image = read_image(kernel.object)
        _refuse_arrays(kernel, image)
        scene = Scene(
            kernel,
            image,
            partial(read_lines, kernel.object),
            {buffer.index: buffer for buffer in buffers},
        )
        request, size = _request(kernel, image, buffers, limits)
        request |= {"grid": list(grid), "threadgroup": list(threadgroup)}
        with self._lock:
            child = self._ready_child(_memory_of_slots(buffers, checked=kernel.checked))
            try:
                return self._launch(child, request, size, scene, limits)
            except ChildLostError as lost:
                return _result_of_loss(lost, buffers, limits)
            finally:
                if request.get("done"):
                    child.shrink()
                else:
                    self._drop()

    def close(self) -> None:
        """End the child; the next launch starts another."""
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        if getattr(self, "_child", None) is not None:
            self.end()

    def end(self) -> None:
        """End the child without waiting for who uses it: the whole process ends."""
        if self._owner == os.getpid():
            self._drop()

    def _launch(
        self, child: Child, request: dict[str, Any], size: int, scene: Scene, limits: Limits
    ) -> LaunchResult:
        child.grow(size)
        for asked in request["buffers"]:
            if asked["data"] is not None:
                child.put(asked["data"], scene.buffers[asked["slot"]].data)
        child.ask({**request, "arena": child.size})
        # Filling and comparing buffers takes its time as well.
        patience = limits.seconds + _GRACE + size / 50e6
        answer = self._answer(child, request, scene, patience)
        if answer["is"] == "refusal":
            request["done"] = True
            raise SimulatorError(f"kernel {scene.kernel.name!r} was not run: {answer['why']}")
        outputs = tuple(
            child.get(asked["result"], asked["size"])
            for asked in request["buffers"]
            if "result" in asked
        )
        request["done"] = all(run["ended"] for run in answer["runs"])
        first = answer["runs"][0]
        return LaunchResult(
            outputs,
            raw_findings(answer, scene),
            first["seconds"],
            first["accesses"],
            _traffic(scene.kernel, request["buffers"], first["traffic"]),
            profile_of(first, scene, request) if request["profiled"] else None,
        )

    def _answer(
        self, child: Child, request: dict[str, Any], scene: Scene, patience: float
    ) -> dict[str, Any]:
        """Return the child's final answer; each of its runs has its time limit."""
        runs, deadline = 0, time.monotonic() + patience
        while True:
            answer = child.answer(deadline)
            try:
                check(answer, request)
            except MalformedError:
                raise ChildLostError("malformed") from None
            if answer["is"] in ("result", "refusal"):
                return answer
            if answer["is"] == "line":
                child.reply({"line": scene.line(answer["pc"]) or 0})
            elif (runs := runs + 1) <= _MOST_RUNS:
                deadline = time.monotonic() + patience

    def _ready_child(self, slots: dict[int, int]) -> Child:
        if self._owner != os.getpid():
            self.disown()
        child = self._child
        if child is not None and not (child.is_idle and child.takes(slots)):
            self._drop()
        if self._child is None:
            memory = max(_LEAST_MEMORY, sum(slots.values()))
            child = Child(
                objects.build_runtime(self._toolchain), 1 << (memory - 1).bit_length(), slots
            )
            try:
                child.ready()
            except BaseException:
                child.close()
                raise
            self._child = child
        return self._child

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if self._owner == os.getpid():
            child.close()
        else:
            child.forget()

    def disown(self) -> None:
        """Leave the child to the process that this one was forked from."""
        self._lock = threading.Lock()
        child, self._child = self._child, None
        self._owner = os.getpid()
        if child is not None:
            child.forget()


_ALL: weakref.WeakSet[Process] = weakref.WeakSet()


def _after_fork() -> None:
    for process in list(_ALL):
        process.disown()


@atexit.register
def _close_all() -> None:
    for process in list(_ALL):
        process.end()


os.register_at_fork(after_in_child=_after_fork)


def _refuse(
    kernel: BuiltKernel,
    buffers: Sequence[Buffer],
    grid: tuple[int, int, int],
    threadgroup: tuple[int, int, int],
    limits: Limits,
) -> None:
    """Refuse launches that can't be."""
    total = sum(buffer.data.nbytes for buffer in buffers)
    if total > limits.bytes:
        raise SimulatorError(
            f"kernel {kernel.name!r}: its buffers take {total:,} bytes; the limit is "
            f"{limits.bytes:,}. Use smaller arrays, or raise the limit: "
            "activate(limits=Limits(bytes=...))"
        )
    records = sum(map(_record_bytes, buffers)) if kernel.checked else 0
    if records > _MOST_RECORDS * limits.bytes:
        raise SimulatorError(
            f"kernel {kernel.name!r}: race records of its outputs take {records:,} bytes. "
            "Use smaller arrays, run it without checks, or raise the limit: "
            "activate(limits=Limits(bytes=...))"
        )
    if any(buffer.index >= _SLOTS for buffer in buffers):
        raise SimulatorError(
            f"kernel {kernel.name!r}: {len(buffers)} buffers, the limit is {_SLOTS - 1}"
        )
    size = [min(extent, whole) for extent, whole in zip(threadgroup, grid, strict=True)]
    if min(*grid, *threadgroup) < 1 or size[0] * size[1] * size[2] > _THREADS:
        raise SimulatorError(
            f"kernel {kernel.name!r}: grid {grid} with threadgroup {threadgroup} can't be "
            f"launched: extents must be positive, and a threadgroup at most {_THREADS} threads"
        )


def _refuse_arrays(kernel: BuiltKernel, image: Image) -> None:
    """Refuse more threadgroup memory than a GPU has, as Metal does when it loads the kernel."""
    total = sum(array.size for array in image.arrays)
    if total > MAX_THREADGROUP_BYTES:
        listed = ", ".join(f"{array.name}: {array.size:,}" for array in image.arrays)
        raise SimulatorError(
            f"kernel {kernel.name!r}: {threadgroup_memory(total)} ({listed}). Use smaller tiles, "
            "or let two arrays share memory"
        )


def _memory_of_slots(buffers: Iterable[Buffer], *, checked: bool) -> dict[int, int]:
    """Bytes that the runtime maps for each buffer; of outputs, records of readers and writers."""
    return {
        buffer.index: buffer.data.nbytes * (17 if checked and buffer.role == "output" else 1)
        for buffer in buffers
    }


def _record_bytes(buffer: Buffer) -> int:
    """Of the runtime's records of an output: one for every element, or part of 4 bytes."""
    granule = math.gcd(buffer.itemsize, 4)
    return buffer.data.nbytes // granule * 8 if buffer.role == "output" else 0


def _request(
    kernel: BuiltKernel, image: Image, buffers: Sequence[Buffer], limits: Limits
) -> tuple[dict[str, Any], int]:
    """Return the request to the child without the geometry, and the size of its data."""
    size = 0

    def room(count: int) -> int:
        nonlocal size
        start, size = size, size + -(-count // 64) * 64
        return start

    asked = []
    for buffer in buffers:
        has_content = buffer.initialized or buffer.role != "output"
        count = buffer.data.nbytes
        one = {
            "slot": buffer.index,
            "role": _ROLES[buffer.role],
            "initialized": int(has_content),
            "itemsize": buffer.itemsize,
            "size": count,
            "offset": buffer.offset,
            "data": room(count) if has_content else None,
        }
        if buffer.role == "output":
            one["result"] = room(count)
        asked.append(one)
    request = {
        "object": str(kernel.object),
        "entry": image.entry,
        "image": image.whole,
        "text": image.text,
        "writable": image.writable,
        "arrays": [(array.start, array.size) for array in image.arrays],
        "checked": int(kernel.checked),
        "profiled": int(kernel.blocks is not None),
        "seconds": limits.seconds,
        "body": [kernel.lines.body_start, kernel.lines.body_start + kernel.lines.body_lines],
        "buffers": asked,
    }
    return request, size


def _traffic(
    kernel: BuiltKernel, asked: Sequence[dict[str, Any]], counts: Sequence[tuple[int, int]]
) -> dict[str, Traffic]:
    """Return the bytes that a run counted for each buffer; an unchecked one counts none."""
    if not kernel.checked:
        return {}
    counted = {one["slot"]: count for one, count in zip(asked, counts, strict=True)}
    return {
        parameter.name: Traffic(parameter.space, *counted[parameter.index])
        for parameter in kernel.parameters
        if parameter.index is not None
    }


def _result_of_loss(
    lost: ChildLostError, buffers: Iterable[Buffer], limits: Limits
) -> LaunchResult:
    """Return the result of a launch whose process has ended."""
    if lost.why == "late":
        kind, detail = "timeout", f"after {limits.seconds:g} s"
    elif lost.why == "malformed":
        kind, detail = "crash", "its process sent a malformed answer"
    else:
        kind, detail = "crash", f"its process ended {ending(lost.code)}"
    outputs = tuple(
        np.zeros(buffer.data.nbytes, np.uint8) for buffer in buffers if buffer.role == "output"
    )
    nowhere = MemoryAccess(None, None, None)
    return LaunchResult(outputs, (RawFinding(kind, nowhere, None, "", None, detail, 1),), 0.0, 0)
