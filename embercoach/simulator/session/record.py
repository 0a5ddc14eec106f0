"""A simulated program's launches and findings, as passed from process to process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embercoach.simulator.model import KernelFinding
from embercoach.simulator.profile.gpus import GPUS
from embercoach.simulator.reporting.kernel_lines import LineSpan, place_of
from embercoach.simulator.session.profile_document import documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from embercoach.simulator.session.options import Options
    from embercoach.simulator.session.recorder import Recorder


@dataclass(slots=True)
class KernelRow:
    """The launches and findings of a kernel.

    Attributes:
        name: that it was built with.
        launches: how many there were; of a compiled kernel, how many variants.
        seconds: in all of them.
        findings: that are faults.
        notes: of the benign classes.
    """

    name: str
    launches: int = 0
    seconds: float = 0.0
    findings: int = 0
    notes: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """A simulated program's launches and findings.

    Attributes:
        kernels: in the order of their first launch.
        findings: faults and notes with their places in Python code, without allowed ones.
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
    def faults(self) -> int:
        """Findings that are not notes."""
        return sum(row.findings for row in self.kernels)

    @property
    def notes(self) -> int:
        """Findings of the benign classes."""
        return sum(row.notes for row in self.kernels)


def record_of(recorder: Recorder, allow: Sequence[str], gpu: str | None = None) -> Record:
    """The record of a recorder, findings sorted by the kernels' order."""
    rows: dict[str, KernelRow] = {}
    for launch in recorder.launches:
        row = rows.setdefault(launch.kernel, KernelRow(launch.kernel))
        row.launches += 1
        row.seconds += launch.seconds
    found = [*recorder.findings, *recorder.notes]
    kept = [finding for finding in found if finding.kind not in allow]
    for finding in kept:
        row = rows.setdefault(finding.kernel, KernelRow(finding.kernel))
        row.notes += finding.is_note
        row.findings += not finding.is_note
    placed = tuple((finding, place_of(finding)) for finding in kept)
    profiles = documents(recorder.profiles, GPUS[gpu]) if gpu else ()
    return Record(tuple(rows.values()), placed, len(found) - len(kept), profiles)


def write(recorder: Recorder, options: Options) -> None:
    """Write the record to the file that the options name, whole or not at all."""
    assert options.record is not None
    record = record_of(recorder, options.settings.allow, options.profile)
    data = {
        "kernels": [asdict(row) for row in record.kernels],
        "findings": [(asdict(finding), place) for finding, place in record.findings],
        "allowed": record.allowed,
        "profiles": record.profiles,
    }
    target = Path(options.record)
    draft = target.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(data), encoding="utf-8")
    draft.replace(target)


def read(path: Path) -> Record | None:
    """The record in a file; None if the program ended without writing it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    return Record(
        kernels=tuple(KernelRow(**row) for row in data["kernels"]),
        findings=tuple(
            (_finding(**finding), place and LineSpan(*place)) for finding, place in data["findings"]
        ),
        allowed=data["allowed"],
        profiles=tuple(data["profiles"]),
    )


def _finding(
    *,
    thread: list[int] | None,
    launched_at: list[object] | None,
    details: list[str],
    **rest: object,
) -> KernelFinding:
    """A finding whose tuples JSON has made lists."""
    return KernelFinding(
        thread=thread and tuple(thread),  # type: ignore[arg-type]
        launched_at=launched_at and tuple(launched_at),  # type: ignore[arg-type]
        details=tuple(details),
        **rest,  # type: ignore[arg-type]
    )
