"""The commands of docs/performance.md, at tiny sizes on the CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.gpu import check, language_model, linear_algebra
from tests.benchmarks.gpu.__main__ import main
from tests.benchmarks.gpu.cases import GROUPS
from tests.benchmarks.gpu.figures import COMPILED, EAGER, FORWARD, OURS, Figure, Report, lines, read
from tests.benchmarks.gpu.language_model import THEIRS, Speed, table
from tests.benchmarks.gpu.phases import DECODE, PREFILL, SIZES

STORED = Path(__file__).parents[2] / "docs" / "images" / "performance-h200.json"
TINY = ["--backend", "native", "--size", "tiny"]
PHASES = [
    *((DECODE, batch, SIZES["tiny"].steps) for batch in SIZES["tiny"].batches),
    *((PREFILL, 1, tokens) for tokens in SIZES["tiny"].prompts),
]


@pytest.mark.exhaustive
def test_a_group_is_timed_and_written(tmp_path, capsys):
    path = tmp_path / "figures.json"
    options = ["--dtype", "float32", "--group", "elementwise", "--json", str(path)]
    assert main([*TINY, *options]) == 0
    report = read(path)
    assert report.backend == "native"
    assert report.copy_bandwidth["float32"] > 0
    assert [row.work for row in report.figures] == ["forward", "forward and backward"]
    for row in report.figures:
        assert set(row.milliseconds) == {OURS, EAGER, COMPILED}
        assert all(time > 0 for time in row.milliseconds.values())
        assert row.moved_bytes == 16 * 256 * 4 * (2 if row.work == FORWARD else 5)
    assert "soft_cap 16x256 float32, forward" in capsys.readouterr().out


def test_reports_have_ratios_and_are_read_as_written(tmp_path):
    figure = Figure(
        "elementwise", "soft_cap", (2, 3), "bfloat16", FORWARD, {OURS: 2.0, COMPILED: 3.0}
    )
    report = Report("a GPU", "0.0", "2026-01-01", "cuda", {"bfloat16": 100.0}, (figure,))
    assert "compiled 3 ms (1.50x)" in [*lines(report)][-1]
    path = tmp_path / "figures.json"
    report.write(path)
    assert read(path) == report
    path.write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(ValueError, match="must have version 1"):
        read(path)


@pytest.mark.exhaustive
def test_the_stored_figures_are_drawn(tmp_path):
    path = tmp_path / "figures.svg"
    assert main(["--from", str(STORED), "--picture", str(path)]) == 0
    assert "rms_norm (256 x 4096), forward" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("spoiled", [False, True])
def test_results_are_checked(spoiled, capsys, monkeypatch):
    (case, *_) = GROUPS["elementwise"]()
    if spoiled:
        call = case.call
        case = replace(case, call=lambda *a, **k: [2 * part for part in call(*a, **k)])
    monkeypatch.setitem(GROUPS, "elementwise", lambda: iter([case]))
    check.check_group("native", "float32", "elementwise")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{'FAIL' if spoiled else 'PASS'} {case.name}")


@pytest.mark.exhaustive
def test_linear_algebra_is_measured(tmp_path, capfd):
    figures = tmp_path / "figures.json"
    assert linear_algebra.main([*TINY, "--json", str(figures)]) == 0
    printed = capfd.readouterr().out
    rows = json.loads(figures.read_text(encoding="utf-8"))["rows"]
    assert {row["function"] for row in rows} == set(linear_algebra.DECOMPOSITIONS)
    for row in rows:
        assert min(row["milliseconds"].values()) > 0
        assert 0 < row["error"] < 3
        assert f"| {row['function']} |" in printed


@pytest.mark.exhaustive
def test_a_language_model_is_measured_where_torch_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(language_model, "IMPORTS", ("no_such_package",))
    path = tmp_path / "figures.json"
    assert language_model.main(["--size", "tiny", "--json", str(path)]) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    speeds = [Speed(**record) for record in document["speeds"]]
    names = [f"{OURS}{suffix}" for suffix in ("", ", compiled", ", 4 bits", ", 4 bits, compiled")]
    assert [(speed.model, speed.work, speed.batch, speed.tokens) for speed in speeds] == [
        (name, *call) for name in names for call in PHASES
    ]
    assert all(speed.tokens_per_second > 0 for speed in speeds)
    printed = capsys.readouterr().out
    assert "no_such_package not installed: transformers' model is not measured" in printed
    assert "| prefill | 1 x 32 | ours, 4 bits |" in printed


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
