"""``embercoach config`` and ``check`` with configuration files that extend others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

BASE = """\
[tool.embercoach]
ignore = ["FFT", "GRAPH-BREAK"]
extend-exclude = ["one"]
show-notes = true
[tool.embercoach.simulator]
timeout = 3
compiler = "/usr/bin/clang"
"""
OWN = """\
extend = "../pyproject.toml"
extend-select = ["GRAPH-BREAK-001"]
extend-exclude = ["two"]
"""


@pytest.fixture(autouse=True)
def _files(planted: None, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "pyproject.toml").write_text(BASE)
    for name in ("", "one", "two"):
        (project / "inner" / name).mkdir(exist_ok=True, parents=True)
        (project / "inner" / name / "a.py").write_text("import mlx\nbad_pull\nbad_scalar\n")
    (project / "inner" / "embercoach.toml").write_text(OWN)


def applied(embercoach: Cli, *arguments: str) -> dict[str, Any]:
    (one,) = json.loads(embercoach("config", "--output-format", "json", *arguments).out)["paths"]
    assert isinstance(one, dict)
    return one


def test_the_check_goes_by_both(embercoach: Cli) -> None:
    out = embercoach("check", "inner", "--output-format", "concise", "-q").out
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["inner/a.py:2:1:", "GRAPH-BREAK-001"],
        ["inner/a.py:3:1:", "PYTHON-SCALAR-002"],
    ]


def test_settings_name_the_file_that_has_them(embercoach: Cli) -> None:
    reported = applied(embercoach, "inner/a.py")
    origins = {
        ".".join(one["key"]): [origin["text"] for origin in one["origins"]]
        for one in reported["settings"]
    }
    assert reported["configuration"] == "inner/embercoach.toml"
    assert origins["ignore"] == ["pyproject.toml:2"]
    assert origins["extend"] == ["inner/embercoach.toml:1"]
    assert origins["extend-exclude"] == ["pyproject.toml:3", "inner/embercoach.toml:3"]
    assert origins["simulator.timeout"] == ["pyproject.toml:6"]
    assert origins["simulator.memory"] == ["default"]


@pytest.mark.parametrize(
    ("name", "place"), [("one", "pyproject.toml:3"), ("two", "inner/embercoach.toml:3")]
)
def test_exclusions_name_the_file_that_has_them(embercoach: Cli, name: str, place: str) -> None:
    skipped = applied(embercoach, f"inner/{name}/a.py")["skipped"]
    assert (skipped["key"], skipped["origin"]["text"]) == ("extend-exclude", place)


def test_a_mistake_in_a_base_is_one_line(embercoach: Cli, project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.embercoach]\nselect = 3\n")
    ran = embercoach("check", "inner/a.py")
    assert ran.code == 2
    assert "select must be a list of strings, got number" in ran.err + ran.out
    assert "pyproject.toml:2" in ran.err + ran.out
