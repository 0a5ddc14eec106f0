"""``embercoach trace`` of a real program, joined with the findings of its files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embercoach.cli.trace.static_check import check_files, configurations_here
from tests.trace.test_trace import trace, traced

pytest.importorskip("mlx.core")
PROGRAM = """\
import operator

import mlx.core as mx
import outside
from vendor import excluded

x = mx.arange(4)
for row in x:
    y = 1, 2, 3, row.item()
    print(row.tolist())  # noqa: HOST-PULL-001
print(*map(operator.methodcaller("item"), [x[0]]))
mx.eval(x)


def report(x: mx.array) -> list:
    return x.tolist()
"""
PULL = "import mlx.core as mx\n\nmx.array(1).item()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    for name, text in {
        "project/embercoach.toml": 'extend-exclude = ["vendor"]\n',
        "project/train.py": PROGRAM,
        "project/vendor/excluded.py": PULL,
        "outside.py": PULL,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return made


def test_findings_of_a_program_are_confirmed_or_have_no_event(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.parent))
    document = traced(project, "python", "train.py")
    found = [
        (one["line"], one["code"], one["confirmed"], one["count"], one["bytes"])
        for one in document["findings"]
    ]
    assert found == [(9, "HOST-PULL-008", True, 4, 16), (16, "HOST-PULL-001", False, 0, 0)]
    states = {
        (Path(site["path"]).name, site["line"], site["kind"]): (site["check"], site["codes"])
        for site in document["sites"]
    }
    assert states == {
        ("train.py", 9, "item"): ("found", ["HOST-PULL-008"]),
        ("train.py", 10, "tolist"): ("suppressed", []),
        ("train.py", 11, "item"): ("not-found", []),
        ("train.py", 12, "eval"): ("explicit", []),
        ("excluded.py", 3, "item"): (None, []),
        ("outside.py", 3, "item"): (None, []),
    }
    summary = document["summary"]
    assert (summary["findings"], summary["confirmed"], summary["not_found"]) == (2, 1, 1)


def test_the_check_can_be_switched_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.parent))
    page = project / "t.html"
    result = trace(
        project,
        "--no-check",
        "--output-format",
        "html",
        "-o",
        str(page),
        "--",
        "python",
        "train.py",
    )
    assert result.returncode == 0, result.stderr
    text = page.read_text(encoding="utf-8")
    assert "array.item" in text
    assert "findings confirmed" not in text


def checked(folder: Path, *paths: Path | str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    return check_files([str(path) for path in paths], configurations_here())


def test_only_python_files_of_the_project_are_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "link.py").symlink_to(project.parent / "outside.py")
    (project / "kernel.metal").write_text("", encoding="utf-8")
    (project / ".env").write_text("TOKEN=mlx\n", encoding="utf-8")
    os.mkfifo(project / "pipe.py")
    (project / ".git").mkdir()
    (project / ".git" / "hook.py").write_text(PULL, encoding="utf-8")
    paths: list[Path | str] = [
        project.parent / "outside.py",
        "../outside.py",
        "link.py",
        "kernel.metal",
        "pipe.py",
        ".git/hook.py",
        "vendor/excluded.py",
        "/dev/zero",
        "/etc/passwd",
        ".env",
        "absent.py",
        "<string>",
        "a\0b.py",
        "",
        "x" * 5000,
        "train.py",
    ]
    result = checked(project, *paths, monkeypatch=monkeypatch)
    assert (list(result.files), result.problems) == ([str(project / "train.py")], ())


def test_findings_of_a_baseline_stay_hidden(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = checked(project, "train.py", monkeypatch=monkeypatch).files.values()
    assert file.baselined == ()
    command = [sys.executable, "-m", "embercoach", "baseline", "update", "--baseline", "known.json"]
    subprocess.run([*command, "train.py"], cwd=project, check=True, capture_output=True)
    known = (project / "known.json").read_text(encoding="utf-8")
    assert "HOST-PULL-008" in known
    configuration = project / "embercoach.toml"
    configuration.write_text('baseline = "known.json"\n', encoding="utf-8")
    again = checked(project, "train.py", monkeypatch=monkeypatch)
    (file,) = again.files.values()
    assert "HOST-PULL-008" in {one.code for one in file.baselined}
    assert "HOST-PULL-008" not in {one.code for one in file.findings}


def test_a_file_with_an_error_is_a_problem(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "broken.py").write_text("import mlx.core as mx\nx = (\n", encoding="utf-8")
    result = checked(project, "broken.py", monkeypatch=monkeypatch)
    assert result.files == {}
    assert [problem.path for problem in result.problems] == ["broken.py"]


def test_a_mistake_in_the_configuration_is_reported_before_the_program_runs(project: Path) -> None:
    (project / "embercoach.toml").write_text("selct = []\n", encoding="utf-8")
    (project / "run.py").write_text("print('started')\n", encoding="utf-8")
    result = trace(project, "--", "python", "run.py")
    assert (result.returncode, result.stdout) == (2, "")
    assert "embercoach.toml" in result.stderr
