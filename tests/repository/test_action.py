"""The composite action's scripts, run in bash as a runner runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, CHECK, UPLOAD = ACTION["runs"]["steps"]
#: The files that a runner gives a step.
GIVEN = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")

# Notes how it was called, a line a call.
RECORDER = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["RECORD"], "a") as record:
    print(json.dumps(sys.argv[1:]), file=record)
sys.exit(int(os.environ.get("STATUS", "0")))
"""


def environment(step: dict[str, Any], inputs: dict[str, str]) -> dict[str, str]:
    """Fill a step's env from inputs and their defaults."""
    values = {name: declared["default"] for name, declared in ACTION["inputs"].items()} | inputs
    expressions = {f"${{{{ inputs.{name} }}}}": value for name, value in values.items()}
    expressions["${{ github.action_path }}"] = "/the/action's own path"
    return {name: expressions[expression] for name, expression in step["env"].items()}


def play(
    step: dict[str, Any], inputs: dict[str, str], tmp_path: Path, **extra: str
) -> subprocess.CompletedProcess[str]:
    files = {name: str(tmp_path / name) for name in GIVEN}
    extra = {"RUNNER_TEMP": str(tmp_path), "RECORD": str(tmp_path / "record"), **files} | extra
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env=os.environ | environment(step, inputs) | extra,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def recorder(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(RECORDER, encoding="utf-8")
    path.chmod(0o755)


def recorded(tmp_path: Path) -> list[list[str]]:
    lines = (tmp_path / "record").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["--output-format", "github", "--", "."]),
        ({"output-format": "sarif"}, ["--output-format", "sarif", "--", "."]),
        ({"profile": "ember"}, ["--output-format", "github", "--profile", "ember", "--", "."]),
        (
            {"baseline": "b c.json"},
            ["--output-format", "github", "--baseline", "b c.json", "--", "."],
        ),
        ({"paths": ""}, ["--output-format", "github", "--"]),
        ({"paths": "src tests"}, ["--output-format", "github", "--", "src", "tests"]),
        ({"paths": "'a folder' b"}, ["--output-format", "github", "--", "a folder", "b"]),
        ({"paths": "src\ntests\n"}, ["--output-format", "github", "--", "src", "tests"]),
        ({"args": "--select A,B"}, ["--output-format", "github", "--select", "A,B", "--", "."]),
        ({"paths": "--fix @a b"}, ["--output-format", "github", "--", "--fix", "@a", "b"]),
        ({"args": "-n -e", "paths": "x"}, ["--output-format", "github", "-n", "-e", "--", "x"]),
    ],
)
def test_check_passes_the_inputs_on(
    inputs: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    result = play(CHECK, inputs, tmp_path)
    assert result.returncode == 0, result.stderr
    assert recorded(tmp_path)[0] == ["check", *expected]


@pytest.mark.parametrize("name", ["paths", "args", "profile", "output-format", "baseline"])
@pytest.mark.parametrize("hostile", ["$(touch owned)", "`touch owned`", "; touch owned", "*"])
def test_check_runs_and_expands_nothing(name: str, hostile: str, tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    assert play(CHECK, {name: hostile}, tmp_path).returncode == 0
    assert not (tmp_path / "owned").exists()
    assert hostile in " ".join(recorded(tmp_path)[0])


@pytest.mark.parametrize("status", [0, 1, 2])
def test_check_keeps_the_exit_status(status: int, tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    assert play(CHECK, {}, tmp_path, STATUS=str(status)).returncode == status


def test_an_unclosed_quote_fails(tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    result = play(CHECK, {"args": "'open"}, tmp_path)
    assert result.returncode != 0
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize(
    ("version", "requirement"), [("", "/the/action's own path"), ("0.1.0", "embercoach==0.1.0")]
)
def test_install(version: str, requirement: str, tmp_path: Path) -> None:
    """The environment is a fresh one of its own; what is installed follows the version input."""
    recorder(tmp_path / "embercoach" / "bin" / "python")
    creator = tmp_path / "python"
    creator.write_text('#!/bin/sh\necho "$@" >"$RUNNER_TEMP/created"\n', encoding="utf-8")
    creator.chmod(0o755)
    result = play(INSTALL, {"version": version, "python": str(creator)}, tmp_path)
    assert result.returncode == 0, result.stderr
    created = (tmp_path / "created").read_text(encoding="utf-8").split()
    assert created == ["-I", "-m", "venv", "--clear", str(tmp_path / "embercoach")]
    (command,) = recorded(tmp_path)
    assert command[:4] == ["-I", "-m", "pip", "install"]
    assert command[-1] == requirement


@pytest.mark.parametrize(
    ("system", "scripts", "python"),
    [("Linux", "bin", "python3"), ("macOS", "bin", "python3"), ("Windows", "Scripts", "python")],
)
def test_each_system_has_its_python_and_its_folder(
    system: str, scripts: str, python: str, tmp_path: Path
) -> None:
    for name in ("python", "embercoach"):
        recorder(tmp_path / "embercoach" / scripts / name)
    creator = tmp_path / "path" / python
    creator.parent.mkdir()
    creator.write_text('#!/bin/sh\necho "$@" >"$RUNNER_TEMP/created"\n', encoding="utf-8")
    creator.chmod(0o755)
    path = os.pathsep.join([str(creator.parent), os.environ["PATH"]])
    for step in (INSTALL, CHECK):
        result = play(step, {}, tmp_path, RUNNER_OS=system, PATH=path)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "created").read_text(encoding="utf-8").startswith("-I -m venv --clear")
    assert [words[0] for words in recorded(tmp_path)] == ["-I", *["check"] * 4]


# --- what the job gets -------------------------------------------------------------------------


def test_the_reports_are_of_the_same_findings(tmp_path: Path) -> None:
    """The same options and paths again, with another form, another file, and no exit code."""
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    inputs = {"args": "--select A -o mine.txt", "paths": "a b", "profile": "ember"}
    assert play(CHECK, inputs, tmp_path).returncode == 0
    _, *reports = recorded(tmp_path)
    kinds = {"json": "embercoach.json", "sarif": "embercoach.sarif", "markdown": "embercoach.md"}
    assert reports == [
        [
            *["check", "--profile", "ember", "--select", "A", "-o", "mine.txt"],
            *["--output-format", kind, "--output-file", str(tmp_path / name), "--exit-zero"],
            *["--", "a", "b"],
        ]
        for kind, name in kinds.items()
    ]


@pytest.mark.parametrize("option", ["--diff", "--statistics", "--add-noqa", "--show-files"])
def test_what_lists_no_findings_has_no_reports(option: str, tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    assert play(CHECK, {"args": option}, tmp_path, STATUS="1").returncode == 1
    assert len(recorded(tmp_path)) == 1
    assert not (tmp_path / "GITHUB_OUTPUT").exists()


def installed(tmp_path: Path) -> Path:
    """A runner on which the action has installed this checkout, and a project to check."""
    start = f"import sys; sys.path[0] = {str(ROOT)!r}; from embercoach.cli import main; main()"
    for name, code in (("embercoach", f'-c "{start}"'), ("python", "")):
        script = tmp_path / "embercoach" / "bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {code} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    project = tmp_path / "src"
    project.mkdir()
    return project


def outputs(tmp_path: Path) -> dict[str, str]:
    lines = (tmp_path / "GITHUB_OUTPUT").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_job_gets_annotations_a_summary_and_counts(tmp_path: Path) -> None:
    """A file is named like a command and an output, one is broken, and two are in Python's way."""
    project = installed(tmp_path)
    name = "x\nsarif-file=|etc|passwd\n::add-mask::x\n##[set-output name=errors]9.py"
    (project / name).write_text(
        "import mlx.core as mx\nfrom loader import data\n\n"
        "def f(x: mx.array) -> list:\n    return x.tolist() * x\n"
        "\n\nfor x in data:\n    f(x)\n",
        encoding="utf-8",
    )
    (project / "broken.py").write_text("import mlx.core as mx\nx = (\n", encoding="utf-8")
    for module in ("json", "click"):
        (tmp_path / f"{module}.py").write_text("open('owned', 'w')\n", encoding="utf-8")
    result = play(CHECK, {"paths": "src"}, tmp_path, GITHUB_WORKSPACE="")
    assert result.returncode == 2, result.stderr
    assert not (tmp_path / "owned").exists()
    assert all(line.startswith(("::warning ", "::error ")) for line in result.stdout.splitlines())
    sarif = tmp_path / "embercoach.sarif"
    assert outputs(tmp_path) == {
        "errors": "0",
        "warnings": "1",
        "notes": "0",
        "fixable": "0",
        "sarif-file": str(sarif),
    }
    (run,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"]
    assert [found["ruleId"] for found in run["results"]] == ["HOST-PULL-001"]
    summary = (tmp_path / "GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")
    assert summary.startswith("## EmberCoach\n")
    assert "HOST-PULL-001" in summary
    assert "Not checked" in summary
    assert "##[" not in summary


def test_the_summary_can_be_left_out(tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    assert play(CHECK, {"summary": "false"}, tmp_path).returncode == 0
    assert not (tmp_path / "GITHUB_STEP_SUMMARY").exists()


def test_a_mistake_in_options_leaves_no_reports(tmp_path: Path) -> None:
    installed(tmp_path)
    result = play(CHECK, {"paths": "src", "args": "--selct A"}, tmp_path)
    assert result.returncode == 2
    assert "No such option" in result.stderr
    assert not (tmp_path / "GITHUB_OUTPUT").exists()


def test_a_report_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    script = tmp_path / "embercoach" / "bin" / "embercoach"
    script.parent.mkdir(parents=True)
    script.write_text('#!/bin/sh\ncase "$*" in *sarif*) echo full >&2; exit 3;; esac\n')
    script.chmod(0o755)
    result = play(CHECK, {}, tmp_path)
    assert (result.returncode, result.stderr) == (1, "full\n")


def test_the_upload_follows_the_check_whatever_it_found() -> None:
    assert UPLOAD["uses"].startswith("github/codeql-action/upload-sarif@")
    assert UPLOAD["with"]["sarif_file"] == "${{ steps.check.outputs.sarif-file }}"
    for condition in ("!cancelled()", "inputs.upload-sarif == 'true'", "sarif-file != ''"):
        assert condition in UPLOAD["if"]
    assert ACTION["inputs"]["upload-sarif"]["default"] == "false"


def test_the_outputs_are_those_of_the_check() -> None:
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.check.outputs.{name} }}}}"
    assert CHECK["id"] == "check"
