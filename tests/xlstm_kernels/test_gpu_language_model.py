"""`python -m tests.benchmarks.gpu.language_model`, at tiny sizes on the CPU."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.benchmarks.gpu import language_model
from tests.benchmarks.gpu.language_model import THEIRS, Speed, main, measure, table
from tests.benchmarks.gpu.phases import CALLS, DECODE, OURS, PREFILL, SIZES, Device, Phase, run

TINY = SIZES["tiny"]
CALLS_OF_TINY = [
    *((DECODE, batch, TINY.steps) for batch in TINY.batches),
    *((PREFILL, 1, tokens) for tokens in TINY.prompts),
]
DEVICE = Device(lambda: None, lambda: None, lambda: 3 * 10**9)
NEVER = float("inf")


def phase(model, call):
    return Phase(model, DECODE, 2, 4, lambda: call)


def test_ours_is_measured_where_torch_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(language_model, "IMPORTS", ("no_such_package",))
    path = tmp_path / "figures.json"
    assert main(["--size", "tiny", "--json", str(path)]) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["version"] == 1
    assert document["packages"]["mlx"]
    speeds = [Speed(**record) for record in document["speeds"]]
    names = [f"{OURS}{suffix}" for suffix in ("", ", compiled", ", 4 bits", ", 4 bits, compiled")]
    assert [(speed.model, speed.work, speed.batch, speed.tokens) for speed in speeds] == [
        (name, *call) for name in names for call in CALLS_OF_TINY
    ]
    assert all(speed.tokens_per_second > 0 for speed in speeds)
    printed = capsys.readouterr().out
    assert "no_such_package not installed: transformers' model is not measured" in printed
    assert "ours: decode 1 x 4: " in printed
    assert "| prefill | 1 x 32 | ours, 4 bits |" in printed


@pytest.mark.oracle
def test_transformers_is_measured():
    for name in language_model.IMPORTS:
        pytest.importorskip(name)
    speeds = measure(THEIRS, "tiny", time.time() + 60)
    assert {(speed.model, speed.work, speed.batch, speed.tokens) for speed in speeds} >= {
        (THEIRS, *call) for call in CALLS_OF_TINY if call[0] == DECODE
    }
    assert {speed.tokens for speed in speeds if speed.work == PREFILL} == set(TINY.prompts)


def test_nothing_starts_after_the_deadline(capsys):
    assert main(["--size", "tiny", "--seconds", "0"]) == 1
    printed = capsys.readouterr().out
    assert "ours: decode 1 x 4: skipped, out of time" in printed
    assert "tokens/s, peak" not in printed


def test_the_median_of_calls_after_the_first_one_counts(capsys):
    calls = []
    run(iter([phase(OURS, lambda: calls.append(1))]), DEVICE, NEVER)
    assert len(calls) == 1 + CALLS
    speed = Speed(**json.loads(capsys.readouterr().out))
    assert (speed.model, speed.work, speed.batch, speed.tokens) == (OURS, DECODE, 2, 4)
    assert speed.peak_gigabytes == 3.0


def test_a_phase_that_fails_is_reported_and_the_others_go_on(capsys):
    phases = [phase("first", lambda: 1 // 0), phase("second", lambda: None)]
    run(iter(phases), DEVICE, NEVER)
    failed, other = capsys.readouterr().out.splitlines()
    assert failed.startswith("first: decode 2 x 4: ZeroDivisionError: ")
    assert json.loads(other)["model"] == "second"


def test_a_process_that_fails_is_reported(capsys, monkeypatch):
    monkeypatch.setitem(language_model.MODULES, THEIRS, "tests.no_such_module")
    assert measure(THEIRS, "tiny", time.time() + 60) == []
    assert "transformers: exit status 1" in capsys.readouterr().out


def test_a_process_that_hangs_is_killed(capsys, monkeypatch):
    monkeypatch.setattr(language_model, "GRACE_SECONDS", 0.0)
    assert measure(OURS, "tiny", time.time()) == []
    assert f"ours: exit status {-signal.SIGKILL}" in capsys.readouterr().out


def test_ratios_are_to_the_fastest_of_transformers_for_the_same_work():
    speeds = [
        Speed(OURS, DECODE, 1, 64, 300.0, 14.0),
        Speed(OURS, PREFILL, 1, 512, 9000.0, 15.5),
        Speed(THEIRS, DECODE, 1, 64, 50.0, None),
        Speed(f"{THEIRS}, CUDA graph", DECODE, 1, 64, 200.0, 14.5),
    ]
    assert [*table(speeds)][2:] == [
        "| prefill | 1 x 512 | ours | 9000 |  | 15.5 |",
        "| decode | 1 x 64 | ours | 300 | 1.50 | 14 |",
        "| decode | 1 x 64 | transformers | 50 | 0.25 |  |",
        "| decode | 1 x 64 | transformers, CUDA graph | 200 | 1.00 | 14.5 |",
    ]
