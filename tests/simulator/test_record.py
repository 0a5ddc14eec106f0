"""The record and the options, which pass from process to process as JSON."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embercoach.config import ConfigError
from embercoach.config.settings import SimulatorSettings
from embercoach.simulator.model import KernelFinding
from embercoach.simulator.session.options import VARIABLE, Options, options_for
from embercoach.simulator.session.record import (
    KernelRow,
    Recorder,
    SimulatedLaunch,
    read,
    record_of,
    write,
)

FAULT = KernelFinding(
    "threadgroup-race",
    "turn",
    "body",
    3,
    (1, 0, 0),
    "Race.",
    "y = x;",
    ("/a.py", 7),
    2,
    ("other",),
    "Fix.",
)
NOTE = KernelFinding("same-value-write", "turn", "header", None, None, "Note.", "", None, 1)
SETTINGS = SimulatorSettings(
    compiler="clang", timeout=2.5, memory=9, checks=False, allow=("crash",)
)


def launch(kernel: str, *findings: KernelFinding, seconds: float = 0.5) -> SimulatedLaunch:
    return SimulatedLaunch(
        kernel=kernel,
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        shapes={},
        seconds=seconds,
        accesses=0,
        findings=tuple(f for f in findings if not f.is_note),
        notes=tuple(f for f in findings if f.is_note),
        launched_at=None,
    )


@pytest.fixture
def recorder() -> Recorder:
    made = Recorder()
    for one in (launch("plain"), launch("turn", FAULT, NOTE), launch("turn", FAULT)):
        made.add(one)
    return made


def test_rows_are_kernels(recorder: Recorder) -> None:
    record = record_of(recorder, ())
    assert record.kernels == (KernelRow("plain", 1, 0.5, 0, 0), KernelRow("turn", 2, 1.0, 1, 1))
    assert (record.launches, record.seconds, record.finding_count, record.notes) == (3, 1.5, 1, 1)
    # Launched twice, it is one finding; its counts are those of both.
    assert [(found.kind, found.count) for found, _ in record.findings] == [
        ("threadgroup-race", 4),
        ("same-value-write", 1),
    ]


def test_allowed_kinds_are_only_counted(recorder: Recorder) -> None:
    record = record_of(recorder, ("threadgroup-race",))
    assert (record.finding_count, record.notes, record.allowed) == (0, 1, 1)


@pytest.mark.sampled(0)
def test_what_is_written_is_read(recorder: Recorder, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    assert read(file) is None
    write(recorder, Options(SETTINGS, record=str(file)))
    assert read(file) == record_of(recorder, SETTINGS.allow)
    assert list(tmp_path.iterdir()) == [file]


def test_options_are_handed_down_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(SETTINGS, compile_only=True, record="r.json")
    monkeypatch.setenv(VARIABLE, options.to_json())
    assert options_for(tmp_path) == options
    assert VARIABLE not in os.environ
    assert options_for(tmp_path) == Options(SimulatorSettings())


def test_options_of_a_project(tmp_path: Path) -> None:
    file = tmp_path / "embercoach.toml"
    file.write_text("[simulator]\ntimeout = 2\n")
    assert options_for(tmp_path) == Options(SimulatorSettings(timeout=2.0))
    file.write_text("[simulator]\ntimeut = 2\n")
    with pytest.raises(ConfigError, match="did you mean 'timeout'"):
        options_for(tmp_path)
