"""``pytest --embercoach-trace``: what it reports, in one process and in several."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.processes import run_python

pytest.importorskip("mlx.core")
MODEL = """\
import mlx.core as mx


def total(x):
    if mx.max(x) > 3:
        return mx.sum(x).item()
    return 0.0
"""
TESTS = """\
import mlx.core as mx
import pytest
from model import total


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_total(n):
    assert total(mx.ones((n,)) * n) >= 0


def test_approximately():
    assert mx.array(1.0).item() == pytest.approx(1.0)
"""
CONFTEST = """\
import mlx.core as mx

mx.eval(mx.ones(2))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in (("model", MODEL), ("test_model", TESTS), ("conftest", CONFTEST)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, cwd=folder)


def document(file: Path) -> dict[str, Any]:
    text = files("embercoach.report").joinpath("trace.schema.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    jsonschema.Draft202012Validator(json.loads(text)).validate(found)
    return found


@pytest.mark.parametrize(
    ("workers", "processes"), [([], 1), (["-n", "2"], 2)], ids=["one process", "two workers"]
)
def test_the_waits_of_all_tests_are_counted(
    project: Path, tmp_path: Path, workers: list[str], processes: int
) -> None:
    file = tmp_path / "trace.json"
    result = run(
        project, "--embercoach-trace", "--embercoach-trace-report", f"json:{file}", *workers
    )
    assert result.returncode == 0, result.stdout
    assert "EmberCoach trace" in result.stdout
    trace = document(file)
    found = {
        (site["path"], site["line"], site["operation"]): site["count"] for site in trace["sites"]
    }
    assert found == {
        ("model.py", 5, "bool"): 5,
        ("model.py", 6, "array.item"): 2,
        ("test_model.py", 12, "array.item"): 1,
        ("conftest.py", 3, "mx.eval"): processes,
    }
    assert trace["summary"]["program"] == "pytest"
    states = {(one["line"], one["code"]): one["state"] for one in trace["findings"]}
    assert states[6, "GRAPH-BREAK-001"] == "confirmed"


def test_reports_are_written_in_each_format(project: Path, tmp_path: Path) -> None:
    names = {form: tmp_path / f"trace.{form}" for form in ("json", "html", "perfetto")}
    asked = [
        word
        for form, file in names.items()
        for word in ("--embercoach-trace-report", f"{form}:{file}")
    ]
    result = run(project, "--embercoach-trace", *asked)
    assert all(f"Wrote {file}." in result.stdout for file in names.values()), result.stdout
    assert "<title>EmberCoach trace: pytest</title>" in names["html"].read_text("utf-8")
    spans = json.loads(names["perfetto"].read_text("utf-8"))["traceEvents"]
    assert sum(span["name"] == "array.item model.py:6" for span in spans) == 2


def test_a_failing_test_keeps_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one():\n    assert False\n", "utf-8")
    result = run(tmp_path, "--embercoach-trace")
    assert result.returncode == 1
    assert "pytest evaluated no array." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--embercoach-trace-report", "json:a.json"], "needs --embercoach-trace"),
        (["--embercoach-trace", "--embercoach-simulate"], "exclude each other"),
        (
            ["--embercoach-trace", "--embercoach-trace-report", "xml:a"],
            "--embercoach-trace-report must be TYPE:FILE with json|html|perfetto, got xml:a",
        ),
        (["--embercoach-trace", "--embercoach-trace-report", "json:none/a.json"], "none not found"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    project: Path, arguments: list[str], message: str
) -> None:
    result = run(project, *arguments)
    assert result.returncode == 4
    assert message in result.stderr


def test_a_mistake_in_the_configuration_is_named_before_any_test_runs(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.embercoach]\nselec = []\n", "utf-8")
    (tmp_path / "test_one.py").write_text("print('ran')\n", "utf-8")
    result = run(tmp_path, "--embercoach-trace")
    assert result.returncode == 4
    assert "selec" in result.stderr
    assert "ran" not in result.stdout
