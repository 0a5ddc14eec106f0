"""The macOS job's scripts: which case of Metal a machine is in, and how many tests ran there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import pytest

GITHUB = Path(__file__).parents[2] / ".github"


probe = SimpleNamespace(**run_path(str(GITHUB / "metal_probe.py")))
count = SimpleNamespace(**run_path(str(GITHUB / "metal_count.py")))

DEVICE = "device: Apple M4\n"
# What the kernel must return, from its definition: each group of 64 reversed, plus one.
MIRRORED = [*range(64, 0, -1), *range(128, 64, -1)]
COMPUTED = "computed: " + " ".join(map(str, MIRRORED)) + "\n"


@pytest.mark.parametrize(
    ("stdout", "stderr", "status", "case", "reason"),
    [
        (DEVICE + COMPUTED, "", 0, "metal-works", "Apple M4"),
        (DEVICE + "computed: " + "0 " * 128, "", 0, "metal-broken", "returned '0 0 0"),
        (DEVICE + COMPUTED.replace(" 1 ", " 2 "), "", 0, "metal-broken", "returned"),
        (DEVICE, "", 0, "metal-broken", "returned ''"),
        (DEVICE, "RuntimeError: unable to build", 1, "metal-broken", "unable to build"),
        (DEVICE, "", -6, "metal-broken", "status -6"),
        ("", "MLX sees no Metal device", 3, "no-metal", "MLX sees no Metal device"),
        ("", "libc++abi: no device\n", -6, "no-metal", "libc++abi: no device"),
    ],
)
def test_classify(stdout: str, stderr: str, status: int, case: str, reason: str) -> None:
    verdict = probe.classify(stdout, stderr, status)
    assert verdict.case == case
    assert reason in verdict.reason


def test_a_broken_probe_is_no_verdict() -> None:
    with pytest.raises(RuntimeError, match="No module named 'mlx'"):
        probe.classify("", "Traceback:\nModuleNotFoundError: No module named 'mlx'\n", 1)


def test_a_hang_is_wrong() -> None:
    verdict = probe.probe(timeout_seconds=0.001)
    assert verdict.case == "metal-broken"
    assert "did not finish" in verdict.reason


@pytest.fixture
def workflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    return tmp_path


@pytest.mark.parametrize("case", ["metal-works", "metal-broken", "no-metal"])
def test_report(case: str, workflow: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probe.report(probe.Verdict(case, "why"))
    assert (workflow / "GITHUB_OUTPUT").read_text(encoding="utf-8") == f"metal={case}\n"
    summary = (workflow / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    assert f"`{case}`" in summary
    assert "why" in summary
    assert ("did not run" in summary) == (case != "metal-works")
    assert ("::warning" in capsys.readouterr().out) == (case != "metal-works")


def run_probe(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
    return subprocess.run(
        [sys.executable, str(GITHUB / "metal_probe.py"), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac may have Metal")
@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["--require"], 1)])
def test_no_metal_here(arguments: list[str], status: int) -> None:
    result = run_probe(*arguments)
    assert result.returncode == status, result.stderr
    assert result.stdout == "no-metal: MLX sees no Metal device\n"


@pytest.mark.metal
def test_metal_is_right_here() -> None:
    result = run_probe("--require")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("metal-works: ")


REPORT = '<testsuites><testsuite name="pytest">{}</testsuite></testsuites>'
PASSED, FAILED = '<testcase name="a"/>', '<testcase name="b"><failure message="x"/></testcase>'
SKIPPED = '<testcase name="c"><skipped message="no device"/></testcase>'


@pytest.mark.parametrize(
    ("cases", "line", "status"),
    [
        (PASSED + PASSED, "2 tests ran on Metal, 0 were skipped", 0),
        (PASSED + FAILED + SKIPPED, "2 tests ran on Metal, 1 were skipped", 0),
        (SKIPPED, "0 tests ran on Metal, 1 were skipped", 1),
        ("", "0 tests ran on Metal, 0 were skipped", 1),
    ],
)
def test_count(
    cases: str, line: str, status: int, workflow: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = workflow / "report.xml"
    report.write_text(REPORT.format(cases), encoding="utf-8")
    assert count.main([str(report)]) == status
    assert line in capsys.readouterr().out
    assert line in (workflow / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [None, "not XML"])
def test_count_without_a_report(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.xml"
    if content is not None:
        report.write_text(content, encoding="utf-8")
    assert count.main([str(report)]) == 2
    assert str(report) in capsys.readouterr().err
