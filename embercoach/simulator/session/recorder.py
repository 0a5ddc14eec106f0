"""The launches of an activation and their findings."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.simulator.model import KernelFinding, SimulatorError
from embercoach.simulator.reporting.messages import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import FrameType

    from embercoach.simulator.model import Traffic
    from embercoach.simulator.profile.counts import LaunchProfile

_PACKAGE = str(Path(__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """One simulated launch.

    Attributes:
        kernel: the name that the kernel was built with.
        grid: threads along x, y and z.
        threadgroup: threads of a threadgroup, as the call gave it.
        shapes: shape of each input and output by its name.
        seconds: in the kernel, of the first run.
        accesses: memory accesses checked, 0 where checks are off.
        findings: the faults, once for each line.
        notes: the findings of the benign classes.
        launched_at: file and line of the Python call.
        traffic: bytes read and written of each input and output by its name, and of what the body
            asks to know of an input (`x_shape`, `x_strides`); of the first run. Empty where checks
            are off, as nothing counts then.
        profile: counts of its work, None unless they were asked for.
    """

    kernel: str
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    shapes: Mapping[str, tuple[int, ...]]
    seconds: float
    accesses: int
    findings: tuple[KernelFinding, ...]
    notes: tuple[KernelFinding, ...]
    launched_at: tuple[str, int] | None
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    profile: LaunchProfile | None = None

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
        faults = "a fault" if count == 1 else f"{count} faults"
        reports = "\n\n".join(report(finding) for finding in launch.findings)
        super().__init__(f"kernel {launch.kernel!r} has {faults}\n\n{reports}")

    @property
    def findings(self) -> tuple[KernelFinding, ...]:
        """The faults of the kernel."""
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
        """The faults, in order, once for each line of a kernel however often it was launched.

        Benign classes are in `notes`.
        """
        return merged(finding for launch in self.launches for finding in launch.findings)

    @property
    def notes(self) -> list[KernelFinding]:
        """The findings of the benign classes: worth knowing, no fault by themselves."""
        return merged(finding for launch in self.launches for finding in launch.notes)

    def __repr__(self) -> str:
        launches, findings = len(self.launches), len(self.findings)
        return f"<Recorder: {launches} launches, {findings} findings, {len(self.notes)} notes>"


def merged(findings: Iterable[KernelFinding]) -> list[KernelFinding]:
    """One finding for each kind and line of a kernel: the first, with the counts of all."""
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
        if not file.startswith(_PACKAGE):
            return file, frame.f_lineno
        frame = frame.f_back
    return None
