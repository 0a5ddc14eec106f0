"""A simulated program's launches, findings and profiles, and how they pass between processes."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from embercoach.simulator.model import PACKAGE, KernelFinding, Part, SimulatorError, Traffic
from embercoach.simulator.profile.counts import (
    Kind,
    LaunchProfile,
    LineCounts,
    least_bank_cycles,
    merged_vectors,
)
from embercoach.simulator.profile.gpus import GPUS, Gpu
from embercoach.simulator.profile.prediction import RESOURCES, LinePrediction, predict
from embercoach.simulator.reporting.messages import KernelLine, LineSpan, place_of, report

if TYPE_CHECKING:
    from embercoach.simulator.session.options import Options


class CapturedDefinition(Struct, frozen=True):
    """The user's arguments of `mx.fast.metal_kernel`, and file and line of the call."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    body: str
    header: str = ""
    defined_at: tuple[str, int] | None = None


class SimulatedLaunch(Struct, frozen=True):
    """One simulated launch.

    Attributes:
        kernel: the name that the kernel was built with.
        grid: threads along x, y and z.
        threadgroup: threads of a threadgroup, as the call gave it.
        shapes: shape of each input and output by its name.
        seconds: in the kernel, of the first run.
        accesses: memory accesses checked, 0 where checks are off.
        findings: without notes, once for each line.
        notes: the findings of the benign classes.
        launched_at: file and line of the Python call.
        traffic: bytes read and written of each input and output by its name, and of what the body
            asks to know of an input (`x_shape`, `x_strides`); of the first run. Empty where checks
            are off, as nothing counts then.
        profile: counts of its work, None unless they were asked for.
        definition: what the kernel was built from.
    """

    kernel: str
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    shapes: Mapping[str, tuple[int, ...]]
    seconds: float = 0.0
    accesses: int = 0
    findings: tuple[KernelFinding, ...] = ()
    notes: tuple[KernelFinding, ...] = ()
    launched_at: tuple[str, int] | None = None
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    profile: LaunchProfile | None = None
    definition: CapturedDefinition | None = None

    @property
    def device_bytes(self) -> int:
        """Bytes read and written in device memory, by all threads together; 0 without checks.

        Compared with the bytes that a kernel needs, this shows what it reads twice. Each access
        of each thread counts, as `Traffic` says.
        """
        counts = self.traffic.values()
        return sum(count.read + count.written for count in counts if count.space == "device")


class KernelFault(SimulatorError):  # noqa: N818  # the public name
    """A launch had findings, and `on_finding="raise"` was asked for.

    Attributes:
        launch: the launch; the message lists its `findings`.
    """

    def __init__(self, launch: SimulatedLaunch) -> None:
        self.launch = launch
        count = len(launch.findings)
        found = "a finding" if count == 1 else f"{count} findings"
        reports = "\n\n".join(report(finding) for finding in launch.findings)
        super().__init__(f"kernel {launch.kernel!r} has {found}\n\n{reports}")

    @property
    def findings(self) -> tuple[KernelFinding, ...]:
        """The findings of the launch."""
        return self.launch.findings


class Recorder:
    """The launches and findings of an activation, which `activate()` yields."""

    def __init__(self) -> None:
        self._launches: list[SimulatedLaunch] = []
        self._lock = threading.Lock()

    def add(self, launch: SimulatedLaunch) -> None:
        """Keep a launch; any thread may call this."""
        with self._lock:
            self._launches.append(launch)

    @property
    def launches(self) -> list[SimulatedLaunch]:
        """Every launch so far, in order."""
        with self._lock:
            return list(self._launches)

    @property
    def profiles(self) -> list[LaunchProfile]:
        """The counts of every launch so far, in order, of `activate(profile=True)`."""
        return [launch.profile for launch in self.launches if launch.profile is not None]

    @property
    def findings(self) -> list[KernelFinding]:
        """The findings, in order, once for each line of a kernel however often it was launched.

        Benign classes are in `notes`.
        """
        return merged(finding for launch in self.launches for finding in launch.findings)

    @property
    def notes(self) -> list[KernelFinding]:
        """The findings of the benign classes: worth knowing, no bug by themselves."""
        return merged(finding for launch in self.launches for finding in launch.notes)

    def __repr__(self) -> str:
        launches, findings = len(self.launches), len(self.findings)
        return f"<Recorder: {launches} launches, {findings} findings, {len(self.notes)} notes>"


def merged(findings: Iterable[KernelFinding]) -> list[KernelFinding]:
    """Return one finding for each kind and line of a kernel: the first, with the counts of all."""
    first: dict[tuple[object, ...], KernelFinding] = {}
    for finding in findings:
        # A kernel's name may stand for several texts; so does the line.
        text = finding.excerpt if finding.line else finding.message
        key = (finding.kind, finding.kernel, finding.part, finding.line, text)
        known = first.get(key)
        count = finding.count + (known.count if known else 0)
        first[key] = replace(known or finding, count=count)
    return list(first.values())


def calling_place() -> tuple[str, int] | None:
    """File and line of the innermost Python frame outside of this package."""
    # The one way that costs no traceback.
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def documents(profiles: Iterable[LaunchProfile], gpu: Gpu) -> tuple[dict[str, Any], ...]:
    """Get one for each kernel, call and geometry: the first launch's counts, and their number."""
    first: dict[tuple[object, ...], LaunchProfile] = {}
    launches: dict[tuple[object, ...], int] = {}
    for profile in profiles:
        key = (
            *(profile.kernel, profile.launched_at, profile.grid, profile.threadgroup),
            tuple(profile.source.items()),
        )
        first.setdefault(key, profile)
        launches[key] = launches.get(key, 0) + 1
    return tuple(_document(profile, launches[key], gpu) for key, profile in first.items())


def predictions(profiles: Iterable[LaunchProfile], gpu: Gpu) -> Iterator[str]:
    """Yield a line for each kernel, call and geometry."""
    for one in documents(profiles, gpu):
        place = one["launched_at"]
        called = f" at {place['path']}:{place['line']}" if place else ""
        yield (
            f"kernel {one['kernel']!r}{called}: {one['predicted_seconds'] * 1e6:.1f} us predicted, "
            f"bound by {RESOURCES[one['bound']]}"
        )


def _document(profile: LaunchProfile, launches: int, gpu: Gpu) -> dict[str, Any]:
    predicted = predict(profile, gpu)
    place, occupancy = profile.launched_at, predicted.occupancy
    device = [buffer for buffer in profile.buffers if buffer.space == "device"]
    first = next((one for one in predicted.lines if one.share), None)
    return {
        "kernel": profile.kernel,
        "launched_at": place and {"path": place[0], "line": place[1]},
        "launches": launches,
        "grid": list(profile.grid),
        "threadgroup": list(profile.threadgroup),
        "threadgroups": profile.threadgroups,
        "simdgroups": profile.simdgroups,
        "threadgroup_bytes": profile.threadgroup_bytes,
        "registers": profile.registers,
        "device_bytes": sum(buffer.read + buffer.written for buffer in device),
        "gpu": gpu.name,
        "gpu_bandwidth": gpu.bandwidth,
        "gpu_flops": gpu.flops,
        "gpu_sources": list(dict.fromkeys((gpu.source, gpu.family.source))),
        "predicted_seconds": predicted.seconds,
        "bound": predicted.bound,
        "bound_at": first and {"part": first.counts.part, "line": first.counts.line},
        "busy_seconds": dict(predicted.busy),
        "occupancy": {
            "simdgroups": occupancy.simdgroups,
            "most": occupancy.most,
            "limit": occupancy.limit,
        },
        **_work(profile.lines),
        "source": {part: list(lines) for part, lines in profile.source.items()},
        "source_at": dict(_source_places(profile)),
        "lines": [_line(line, profile) for line in predicted.lines],
    }


def _source_places(profile: LaunchProfile) -> Iterator[tuple[Part, dict[str, Any]]]:
    """Yield the file and line where a part's first line is, if its lines are found in one file."""
    for part in profile.source:
        lines = [counts for counts in profile.lines if counts.part == part and counts.line]
        found = set()
        for line in lines:
            text = profile.text(part, line.line)
            own = KernelLine(profile.kernel, part, line.line, text, profile.launched_at)
            if (place := own.place) is not None:
                found.add((place.path, place.line - line.line + 1))
        if len(found) == 1:
            ((path, first),) = found
            yield part, {"path": path, "line": first}


def _line(line: LinePrediction, profile: LaunchProfile) -> dict[str, Any]:
    counts = line.counts
    return {
        "part": counts.part,
        "line": counts.line,
        "text": profile.text(counts.part, counts.line),
        "share": round(line.share, 4),
        **_work([counts]),
    }


def _work(lines: Sequence[LineCounts]) -> dict[str, Any]:
    """Return the counts of a line, or of all lines of a launch."""
    memory = [one for line in lines for one in merged_vectors(line.memory)]
    device = [one for one in memory if one.space == "device"]
    shared = [one for one in memory if one.space == "threadgroup"]
    atomics = [one for one in memory if one.access == "atomic"]
    cycles = sum(one.bank_cycles for one in shared)
    return {
        "instructions": _summed(line.issued for line in lines),
        "active_lanes": _active(lines),
        "flops": sum(line.flops for line in lines),
        "flops_by_kind": _summed(line.flops_of for line in lines),
        "barriers": sum(line.barriers for line in lines),
        "device_bytes_requested": sum(one.lanes * one.width for one in device),
        "device_bytes_moved": sum(one.sectors for one in device) * 32,
        "device_bytes_moved_by_64": sum(one.lines64 for one in device) * 64,
        "device_bytes_moved_by_128": sum(one.lines128 for one in device) * 128,
        "threadgroup_bytes_requested": sum(one.lanes * one.width for one in shared),
        "threadgroup_cycles": cycles,
        "bank_conflict_cycles": cycles
        - sum(min(one.bank_cycles, least_bank_cycles(one)) for one in shared),
        "atomics": sum(one.lanes for one in atomics),
        "atomics_in_turn": sum(one.contention for one in atomics),
    }


def _summed(counts: Iterable[Mapping[Kind, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _active(lines: Sequence[LineCounts]) -> float | None:
    issued = sum(sum(line.issued.values()) for line in lines)
    return round(sum(sum(line.lanes.values()) for line in lines) / issued, 2) if issued else None


class KernelRow(Struct, frozen=True):
    """The launches and findings of a kernel, which others may have the name of.

    Attributes:
        name: that it was built with.
        launches: how many there were; of a compiled kernel, how many variants.
        seconds: in all of them.
        findings: without notes.
        notes: of the benign classes.
        defined_at: file and line of the call that built it first.
        launched_at: those of its first launch.
    """

    name: str
    launches: int = 0
    seconds: float = 0.0
    findings: int = 0
    notes: int = 0
    defined_at: tuple[str, int] | None = None
    launched_at: tuple[str, int] | None = None


class Record(Struct, frozen=True):
    """A simulated program's launches and findings.

    Attributes:
        kernels: in the order of their first launch.
        findings: and notes, with their places in Python code, without allowed ones.
        allowed: how many findings were of an allowed kind.
        profiles: of each kernel and geometry, as `profile_document.document` has them.
    """

    kernels: tuple[KernelRow, ...]
    findings: tuple[tuple[KernelFinding, LineSpan | None], ...]
    allowed: int
    profiles: tuple[Mapping[str, Any], ...] = ()

    @property
    def launches(self) -> int:
        """Of all kernels."""
        return sum(row.launches for row in self.kernels)

    @property
    def seconds(self) -> float:
        """In all kernels."""
        return sum(row.seconds for row in self.kernels)

    @property
    def finding_count(self) -> int:
        """Findings that are not notes."""
        return len(self.findings) - self.notes

    @property
    def notes(self) -> int:
        """Findings of the benign classes."""
        return sum(finding.is_note for finding, _ in self.findings)


def record_of(recorder: Recorder, allow: Sequence[str], gpu: str | None = None) -> Record:
    """Return the record of a recorder, findings sorted by the kernels' order."""
    kernels: dict[tuple[object, ...], list[SimulatedLaunch]] = {}
    for launch in recorder.launches:
        definition = launch.definition
        text = definition and (definition.header, definition.body)
        kernels.setdefault((launch.kernel, text), []).append(launch)
    found = [*recorder.findings, *recorder.notes]
    kept = [finding for finding in found if finding.kind not in allow]
    placed = tuple((finding, place_of(finding)) for finding in kept)
    profiles = documents(recorder.profiles, GPUS[gpu]) if gpu else ()
    rows = tuple(_row(launches, allow) for launches in kernels.values())
    return Record(rows, placed, len(found) - len(kept), profiles)


def _row(launches: Sequence[SimulatedLaunch], allow: Sequence[str]) -> KernelRow:
    found = merged(f for launch in launches for f in (*launch.findings, *launch.notes))
    kept = [finding for finding in found if finding.kind not in allow]
    notes = sum(finding.is_note for finding in kept)
    definition = launches[0].definition
    return KernelRow(
        name=launches[0].kernel,
        launches=len(launches),
        seconds=sum(launch.seconds for launch in launches),
        findings=len(kept) - notes,
        notes=notes,
        defined_at=definition.defined_at if definition else None,
        launched_at=launches[0].launched_at,
    )


def write(recorder: Recorder, options: Options) -> None:
    """Write the record to the file that the options name, whole or not at all."""
    assert options.record is not None
    record = record_of(recorder, options.settings.allow, options.profile)
    target = Path(options.record)
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(to_builtins(record)), encoding="utf-8")
    draft.replace(target)


def read(path: Path) -> Record | None:
    """Return the record in a file; None if the program ended without writing it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    return convert(json.loads(text), Record)
