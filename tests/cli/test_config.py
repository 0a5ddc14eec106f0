"""``embercoach config``: what applies to a path, and why."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from embercoach import rulebook
from embercoach.config import schema
from embercoach.engine.file_discovery import Why
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
ALL = rulebook.static_codes()
SCHEMA = Draft202012Validator(
    json.loads(files("embercoach.cli").joinpath("applied.schema.json").read_text("utf-8"))
)
MLX = "import mlx.core as mx\n"
CONFIGURATION = """\
[project]
name = "x"

[tool.embercoach]
profile = "recommended"
ignore = [
    "FFT",
    'DTYPE-001',
]
extend-exclude = ["generated/"]
baseline = "known.json"

[tool.embercoach.per-file-ignores]
"scripts/" = ["HOST-PULL", "DTYPE"]

[tool.embercoach.per-file-profiles]
"kernels/" = "ember"

[tool.embercoach.simulator]
timeout = 10
"""


@pytest.fixture
def configured(project: Path) -> Path:
    (project / "pyproject.toml").write_text(CONFIGURATION, encoding="utf-8")
    for name in ("kernels/a.py", "scripts/b.py", "generated/c.py", "d.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(MLX, encoding="utf-8")
    return project


def filed(line: int, path: str = "pyproject.toml") -> dict[str, Any]:
    return {"from": "file", "path": path, "line": line, "text": f"{path}:{line}"}


DEFAULT = {"from": "default", "path": None, "line": None, "text": "default"}
TYPED = {"from": "command-line", "path": None, "line": None, "text": "command line"}


def applied(embercoach: Cli, *arguments: str) -> dict[str, Any]:
    ran = embercoach("config", "--output-format", "json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    reported = json.loads(ran.out)
    SCHEMA.validate(reported)
    (one,) = reported["paths"]
    assert isinstance(one, dict)
    return one


def settings_in(reported: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        "|".join(setting["key"]): (setting["value"], setting["origins"])
        for setting in reported["settings"]
    }


def because(reported: dict[str, Any], code: str) -> dict[str, Any]:
    (rule,) = (rule for rule in reported["rules"] if rule["code"] == code)
    return {**rule["because"], "enabled": rule["enabled"]}


def test_the_form_is_published() -> None:
    SCHEMA.check_schema(SCHEMA.schema)
    parts = SCHEMA.schema["$defs"]
    assert set(parts["reason"]["properties"]["why"]["enum"]) == set(get_args(Why))
    # What is written is required, whole.
    for part in parts.values():
        assert set(part.get("required", ())) == set(part.get("properties", ()))


def test_of_a_folder(embercoach: Cli, configured: Path) -> None:
    reported = applied(embercoach)
    assert reported["path"] == "."
    assert (reported["kind"], reported["language"], reported["checked"]) == ("folder", None, True)
    assert reported["project"] == str(configured)
    assert reported["configuration"] == "pyproject.toml"
    assert reported["profile"] == {"name": "recommended", "pattern": None, "origin": filed(5)}
    assert reported["baseline"] == "known.json"
    settings = settings_in(reported)
    assert settings["ignore"] == (["FFT", "DTYPE-001"], [filed(6)])
    assert settings["select"] == (["ALL"], [DEFAULT])
    assert settings["extend-exclude"] == (["generated/"], [filed(10)])
    assert settings["per-file-ignores|scripts/"] == (["HOST-PULL", "DTYPE"], [filed(14)])
    assert settings["per-file-profiles|kernels/"] == ("ember", [filed(17)])
    assert settings["simulator|timeout"] == (10, [filed(20)])
    assert settings["simulator|checks"] == (True, [DEFAULT])
    assert settings["show-notes"] == (False, [DEFAULT])
    assert [rule["code"] for rule in reported["rules"]] == sorted(ALL)


def test_of_rules_and_what_decides_on_them(embercoach: Cli, configured: Path) -> None:
    reported = applied(embercoach, "d.py")
    assert because(reported, "FFT-NORM-001") == {
        "enabled": False, "key": "ignore", "selector": "FFT", "pattern": None, "origin": filed(7),
    }  # fmt: skip
    assert because(reported, "DTYPE-001")["origin"] == filed(8)
    assert because(reported, "DTYPE-002") == {
        "enabled": True, "key": "select", "selector": None, "pattern": None, "origin": DEFAULT,
    }  # fmt: skip
    reported = applied(embercoach, "scripts/b.py")
    assert because(reported, "HOST-PULL-001") == {
        "enabled": False, "key": "per-file-ignores", "selector": "HOST-PULL",
        "pattern": "scripts/", "origin": filed(14),
    }  # fmt: skip
    # What is off for the project is not off by the table of files.
    assert because(reported, "DTYPE-001")["key"] == "ignore"


def test_of_a_profile(embercoach: Cli, configured: Path) -> None:
    reported = applied(embercoach, "kernels/a.py")
    assert reported["profile"] == {"name": "ember", "pattern": "kernels/", "origin": filed(17)}
    for rule in reported["rules"]:
        page = rulebook.rule(rule["code"])
        assert rule["severity"] == page.severity_in("ember", "default")
        assert rule["severities"] == page.severity["ember"]
        assert rule["name"] == page.name


def test_of_the_command_line(embercoach: Cli, configured: Path) -> None:
    reported = applied(
        embercoach, "kernels/a.py", "--profile", "recommended", "--ignore", "HOST-PULL",
        "--extend-exclude", "x", "--no-baseline", "--show-notes",
    )  # fmt: skip
    assert reported["profile"] == {"name": "recommended", "pattern": None, "origin": TYPED}
    assert reported["baseline"] is None
    settings = settings_in(reported)
    assert settings["ignore"] == (["FFT", "DTYPE-001", "HOST-PULL"], [filed(6), TYPED])
    assert settings["extend-exclude"] == (["generated/", "x"], [filed(10), TYPED])
    assert settings["per-file-profiles"] == ({}, [TYPED])
    assert settings["baseline"] == (None, [TYPED])
    assert settings["show-notes"] == (True, [TYPED])
    assert because(reported, "HOST-PULL-001")["origin"] == TYPED
    # `--select` starts anew.
    reported = applied(embercoach, "d.py", "--select", "FFT")
    assert settings_in(reported)["ignore"] == ([], [DEFAULT])
    assert because(reported, "FFT-NORM-001") == {
        "enabled": True, "key": "select", "selector": "FFT", "pattern": None, "origin": TYPED,
    }  # fmt: skip
    assert because(reported, "DTYPE-002")["enabled"] is False


@pytest.mark.parametrize(
    ("arguments", "key", "origin"),
    [
        (["generated/c.py"], "extend-exclude", filed(10)),
        (["generated/c.py", "--exclude", "generated/"], "exclude", TYPED),
        (["kernels/a.py", "--extend-exclude", "a.py"], "extend-exclude", TYPED),
        (["venv/a.py"], "exclude", DEFAULT),
    ],
)
def test_what_excludes(
    embercoach: Cli, configured: Path, arguments: list[str], key: str, origin: dict[str, Any]
) -> None:
    (configured / "venv").mkdir()
    (configured / "venv" / "a.py").write_text(MLX)
    reported = applied(embercoach, *arguments)
    assert not reported["checked"]
    assert reported["checked_if_named"]
    skipped = reported["skipped"]
    assert (skipped["why"], skipped["key"]) == ("excluded", key)
    assert skipped["origin"] == origin
    assert f" in `{key}`" in skipped["message"]


def test_what_git_ignores(embercoach: Cli, configured: Path) -> None:
    (configured / ".gitignore").write_text("# comment\n\nd.py\n")
    subprocess.run(["git", "init", "-q"], check=True)
    skipped = applied(embercoach, "d.py")["skipped"]
    assert (skipped["why"], skipped["pattern"]) == ("ignored", "d.py")
    assert skipped["origin"] == filed(3, ".gitignore")
    assert applied(embercoach, "d.py", "--no-respect-gitignore")["checked"]


def test_in_words(embercoach: Cli, configured: Path) -> None:
    ran = embercoach("config", "scripts/b.py", "generated/c.py", "absent.py")
    assert (ran.code, ran.err) == (0, "")
    first, second, third = ran.out.split("\n\n")
    pulls = len([code for code in ALL if code.startswith("HOST-PULL")])
    assert "  checked       yes, as Python\n" in first
    assert "  profile       recommended  (pyproject.toml:5)\n" in first
    assert "    off  DTYPE-001  `ignore`: DTYPE-001, pyproject.toml:8\n" in first
    hint = "`per-file-ignores` for scripts/: HOST-PULL, pyproject.toml:14"
    assert f"    off  {pulls} rules  {hint}\n" in first
    assert "simulator.timeout" in first
    assert "pyproject.toml:20\n" in first
    assert "simulator.memory" not in first
    assert "other" in first.splitlines()[-1]
    assert (
        "no: its folder generated matches `generated/` in `extend-exclude`, "
        "pyproject.toml:10; checked if it is named\n"
    ) in second
    assert "no: no such file or folder\n" in third


def test_everything_in_words(embercoach: Cli, configured: Path) -> None:
    out = embercoach("config", "--all", "kernels/a.py").out
    lines = [line.split() for line in out.splitlines()]
    assert {words[0] for words in lines if words[0] in ALL} == ALL
    assert ["PYTHON-SCALAR-002", "error", "default"] in lines
    assert "simulator.memory" in out
    assert '"site-packages"' in out


def test_the_schema_is_printed(embercoach: Cli) -> None:
    assert embercoach("config", "--schema") == Ran(0, schema.rendered_json_schema(), "")
