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
INSTALL, CHECK = ACTION["runs"]["steps"]

RECORDER = f"""#!{sys.executable}
import json, os, pathlib, sys
pathlib.Path(os.environ["RECORD"]).write_text(json.dumps(sys.argv[1:]))
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
    extra = {"RUNNER_TEMP": str(tmp_path), "RECORD": str(tmp_path / "record.json")} | extra
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


def recorded(tmp_path: Path) -> list[str]:
    words = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert isinstance(words, list)
    return words


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["--output-format", "github", "."]),
        ({"output-format": "sarif"}, ["--output-format", "sarif", "."]),
        ({"profile": "ember"}, ["--output-format", "github", "--profile", "ember", "."]),
        ({"paths": ""}, ["--output-format", "github"]),
        ({"paths": "src tests"}, ["--output-format", "github", "src", "tests"]),
        ({"paths": "'a folder' b"}, ["--output-format", "github", "a folder", "b"]),
        ({"paths": "src\ntests\n"}, ["--output-format", "github", "src", "tests"]),
        ({"args": "--select A,B"}, ["--output-format", "github", "--select", "A,B", "."]),
        ({"args": "-n -e", "paths": "x"}, ["--output-format", "github", "-n", "-e", "x"]),
    ],
)
def test_check_passes_the_inputs_on(
    inputs: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    result = play(CHECK, inputs, tmp_path)
    assert result.returncode == 0, result.stderr
    assert recorded(tmp_path) == ["check", *expected]


@pytest.mark.parametrize("name", ["paths", "args", "profile", "output-format"])
@pytest.mark.parametrize("hostile", ["$(touch owned)", "`touch owned`", "; touch owned", "*"])
def test_check_runs_and_expands_nothing(name: str, hostile: str, tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    assert play(CHECK, {name: hostile}, tmp_path).returncode == 0
    assert not (tmp_path / "owned").exists()
    assert hostile in " ".join(recorded(tmp_path))


@pytest.mark.parametrize("status", [0, 1, 2])
def test_check_keeps_the_exit_status(status: int, tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    assert play(CHECK, {}, tmp_path, STATUS=str(status)).returncode == status


def test_an_unclosed_quote_fails(tmp_path: Path) -> None:
    recorder(tmp_path / "embercoach" / "bin" / "embercoach")
    result = play(CHECK, {"args": "'open"}, tmp_path)
    assert result.returncode != 0
    assert not (tmp_path / "record.json").exists()


@pytest.mark.parametrize(
    ("version", "requirement"),
    [("", "/the/action's own path"), ("0.1.0", "embercoach==0.1.0")],
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
    assert created == ["-m", "venv", "--clear", str(tmp_path / "embercoach")]
    assert recorded(tmp_path)[:3] == ["-m", "pip", "install"]
    assert recorded(tmp_path)[-1] == requirement
