"""Silent mistakes get a message, and a project's files decide on nothing outside of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.config.configuration_files import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

SOURCE = "import mlx\nbad_bound\n"
EMPTY = '{"kind": "embercoach-baseline", "version": 1, "findings": []}\n'


@pytest.fixture(autouse=True)
def _project(planted: None, project: Path) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "x.py").write_text(SOURCE)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("embercoach.toml", "\nselect = []\n",
         "select is empty: no rule is enabled (embercoach.toml:2)"),
        ("pyproject.toml", "[tool.ruff]\n[tool.embercoah]\nselect = []\n",
         "unknown table [tool.embercoah]; did you mean [tool.embercoach]? (pyproject.toml:2)"),
        ("pyproject.toml", "[tool.embercoach]\n[tool.ember-coach.per-file-ignores]\n",
         "unknown table [tool.ember-coach]; did you mean [tool.embercoach]? (pyproject.toml:2)"),
        ("pyproject.toml", "tool.EmberCoach.profile = 1\n", "unknown table [tool.EmberCoach]"),
        ("embercoach.toml", "[per-file-ignores]\n'pkg/' = ['DTYPE']\n'pgk/' = ['DTYPE']\n",
         "per-file-ignores.\"pgk/\" matches no file (embercoach.toml:3)"),
        ("embercoach.toml", "per-file-profiles = { '!pgk/' = 'ember' }\n",
         "per-file-profiles.\"!pgk/\" matches no file (embercoach.toml:1)"),
    ],
)  # fmt: skip
def test_a_probable_mistake_is_a_warning(embercoach: Cli, name: str, text: str, said: str) -> None:
    Path(name).write_text(text)
    ran = embercoach("check", ".")
    (line,) = ran.err.splitlines()
    assert line.startswith(f"embercoach: warning: {said}")
    assert ran.code == (0 if said.startswith("select") else 1)
    assert embercoach("check", "-q", ".").err == ""
    if "matches" not in said:
        assert said in embercoach("check", "pkg/x.py").err
        assert said in embercoach("config", "pkg/x.py").out
        (warning,) = json.loads(embercoach("config", "--output-format", "json").out)["warnings"]
        assert warning.startswith(said)


def test_only_a_run_over_the_whole_project_knows_of_unused_patterns(embercoach: Cli) -> None:
    Path("pkg", "y.py").write_text(SOURCE)
    Path("embercoach.toml").write_text("per-file-ignores = { '/setup.py' = ['DTYPE'] }\n")
    for paths in (["pkg"], ["pkg/x.py"], ["--shard", "1/2", "."]):
        assert embercoach("check", *paths).err == ""
    assert "matches no file" in embercoach("check", str(Path.cwd())).err


@pytest.mark.parametrize(
    "text",
    [
        "[project]\nname = 'embercoach-user'\n[tool.black]\n",
        "[tool.embercoach]\n",
        "[tool.embroidery]\n",
        "[tool.embercoah\n",
    ],
)
def test_files_of_others_are_left_to_them(embercoach: Cli, text: str) -> None:
    Path("pyproject.toml").write_text(text)
    assert embercoach("check", ".").err == ""


def test_nothing_is_selected_on_purpose(embercoach: Cli) -> None:
    Path("embercoach.toml").write_text("ignore = ['all']\n")
    ran = embercoach("check", ".")
    assert (ran.code, ran.err) == (0, "")
    Path("embercoach.toml").write_text("select = []\n")
    ran = embercoach("check", "--select", "host-pull", ".")
    assert (ran.code, ran.err) == (1, "")


@pytest.mark.parametrize(
    "body", ["ignore = ['host-pull-012']", "per-file-ignores = { 'x.py' = ['Host-Pull'] }"]
)
def test_codes_in_lower_case(embercoach: Cli, body: str) -> None:
    Path("embercoach.toml").write_text(f"{body}\n")
    assert embercoach("check", ".").code == 0
    listed = embercoach("config", "pkg/x.py").out
    assert "HOST-PULL" in listed
    assert "embercoach.toml:1" in listed


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("command", [["check"], ["baseline", "update"], ["check", "-"]])
def test_a_baseline_outside_of_its_folder_is_refused(
    embercoach: Cli, project: Path, command: list[str], link: bool
) -> None:
    outside = project / "known.json"
    outside.write_text(EMPTY)
    named = "../known.json"
    if link:
        Path("pkg", "link.json").symlink_to(outside)
        named = "link.json"
    Path("pkg", "embercoach.toml").write_text(f"\nbaseline = '{named}'\n")
    paths = ["--stdin-filename", "pkg/x.py"] if "-" in command else ["pkg"]
    ran = embercoach(*command, *paths)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"Error: baseline must be in this file's folder, got '{named}'; --baseline allows it "
        "(pkg/embercoach.toml:2)\n"
    )
    assert outside.read_text() == EMPTY
    if "-" not in command:
        assert embercoach(*command, "--baseline", "known.json", *paths).code < 2


def test_a_baseline_in_the_project_may_be_a_link(embercoach: Cli, project: Path) -> None:
    Path("pkg", "known.json").write_text(EMPTY)
    Path("linked.json").symlink_to("pkg/known.json")
    for name in ("linked.json", "pkg/../pkg/known.json", str(project / "pkg" / "known.json")):
        Path("embercoach.toml").write_text(f"baseline = '{name}'\n")
        assert embercoach("check").code == 1


def test_the_compiler_of_a_project_is_shown_as_ignored(
    embercoach: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("embercoach.toml").write_text("[simulator]\ncompiler = './clang'\n")
    warning = (
        "simulator.compiler is ignored without --allow-compiler or EMBERCOACH_ALLOW_COMPILER=1"
    )
    assert embercoach("check").err == ""
    assert f"{warning} (embercoach.toml:2)" in embercoach("config").out
    monkeypatch.setenv("EMBERCOACH_ALLOW_COMPILER", "0")
    assert warning in embercoach("config").out
    monkeypatch.setenv("EMBERCOACH_ALLOW_COMPILER", "1")
    assert warning not in embercoach("config").out


@pytest.mark.parametrize("name", ["embercoach.toml", "pyproject.toml"])
def test_a_configuration_that_is_no_plain_file_is_a_clear_error(embercoach: Cli, name: str) -> None:
    os.mkfifo(name)
    ran = embercoach("check", ".")
    assert (ran.code, ran.err) == (2, f"Error: configuration must be a regular file ({name})\n")
    Path(name).unlink()
    Path(name).write_bytes(b"#" * (LARGEST + 1))
    ran = embercoach("check", ".")
    assert (ran.code, ran.err) == (2, f"Error: configuration must be at most 1 MB ({name})\n")
    Path(name).unlink()
    Path(name).mkdir()
    assert embercoach("check", ".").code == 1


def test_a_named_file_of_an_unknown_kind_is_a_problem(embercoach: Cli) -> None:
    Path("notes.txt").write_text("mlx is fast\n")
    for name in ("script", "tool.cgi", "window.pyw"):
        Path(name).write_text(f"#!/usr/bin/env python3\n{SOURCE}")
    ran = embercoach(
        "check", "--output-format", "json", "notes.txt", "script", "tool.cgi", "window.pyw"
    )
    report = json.loads(ran.out)
    assert [finding["path"] for finding in report["findings"]] == [
        "script",
        "tool.cgi",
        "window.pyw",
    ]
    (problem,) = report["problems"]
    assert (ran.code, problem["path"]) == (2, "notes.txt")
    assert problem["message"].startswith("suffix must be one of .py, ")
    Path("embercoach.toml").write_text("extend-exclude = ['*.txt']\n")
    assert embercoach("check", "--force-exclude", "notes.txt").code == 0
    reported = json.loads(embercoach("config", "--output-format", "json", "notes.txt").out)
    assert not reported["paths"][0]["checked_if_named"]


@pytest.mark.parametrize("kept", [0.05, 0.4, 0.95])
def test_a_truncated_notebook_is_a_problem(embercoach: Cli, kept: float) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import mlx\n", "x\n"]}
    text = json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}, indent=1
    )
    text = text[: int(len(text) * kept)]
    Path("a.ipynb").write_text(text)
    ran = embercoach("check", ".")
    place = f"{text.count(chr(10)) + 1}:{len(text) - text.rfind(chr(10))}"
    assert ran.code == 2
    assert f"a.ipynb:{place}: truncated notebook: the file ends within its JSON" in ran.out


def test_a_misspelt_command_is_suggested(embercoach: Cli) -> None:
    ran = embercoach("chekc", ".")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("no such command or path 'chekc'; did you mean 'check'?\n")
    assert "no such command or path 'lint'; did you mean 'check'?" in embercoach("lint", ".").err
    assert "did you mean 'check --fix'?" in embercoach("format", ".").err
    Path("chekc").write_text(SOURCE)
    assert embercoach("chekc").code == 1
    ran = embercoach("absent")
    assert (ran.code, "cannot be read: No such file" in ran.out) == (2, True)
