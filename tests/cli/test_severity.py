"""Severities by rule, which the table ``severity`` sets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

#: A warning, an error and a note by the profile.
SOURCE = "import mlx\nbad_pull\nbad_bound\nbad_scalar\n"


@pytest.fixture(autouse=True)
def _source(planted: None, project: Path) -> None:
    (project / "a.py").write_text(SOURCE)


def configure(project: Path, body: str) -> None:
    (project / "embercoach.toml").write_text(f"[severity]\n{body}")


def severities(embercoach: Cli, *options: str) -> dict[str, str]:
    ran = embercoach("check", "--output-format", "json", *options)
    return {found["code"]: found["severity"] for found in json.loads(ran.out)["findings"]}


PROFILE = {"GRAPH-BREAK-001": "warning", "HOST-PULL-012": "error", "PYTHON-SCALAR-002": "note"}


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("", {}),
        ("GRAPH-BREAK-001 = 'error'", {"GRAPH-BREAK-001": "error"}),
        ("graph-break = 'note'", {"GRAPH-BREAK-001": "note"}),
        ("ALL = 'note'", dict.fromkeys(PROFILE, "note")),
        ("HOST-PULL-012 = 'note'\nHOST = 'warning'", {"HOST-PULL-012": "note"}),
        (
            "ALL = 'warning'\nPYTHON-SCALAR-002 = 'error'",
            {**dict.fromkeys(PROFILE, "warning"), "PYTHON-SCALAR-002": "error"},
        ),
    ],
)
def test_the_longest_prefix_counts(
    embercoach: Cli, project: Path, body: str, changed: dict[str, str]
) -> None:
    configure(project, body)
    assert severities(embercoach) == PROFILE | changed


def test_a_cached_result_has_the_severities_of_today(embercoach: Cli, project: Path) -> None:
    assert severities(embercoach) == PROFILE
    configure(project, "ALL = 'error'")
    assert severities(embercoach) == dict.fromkeys(PROFILE, "error")
    (project / "embercoach.toml").unlink()
    assert severities(embercoach) == PROFILE


def test_the_exit_code_and_hidden_notes_follow(embercoach: Cli, project: Path) -> None:
    configure(project, "ALL = 'note'")
    ran = embercoach("check")
    assert ran.code == 0
    assert "3 notes not shown" in ran.out
    configure(project, "PYTHON-SCALAR = 'error'")
    ran = embercoach("check", "--select", "PYTHON-SCALAR")
    assert ran.code == 1
    assert "a.py:4:1: PYTHON-SCALAR-002 error " in ran.out


def test_the_effective_configuration_has_them(embercoach: Cli, project: Path) -> None:
    configure(project, "HOST-PULL-012 = 'note'")
    (path,) = json.loads(embercoach("config", "--output-format", "json", "a.py").out)["paths"]
    (rule,) = (rule for rule in path["rules"] if rule["code"] == "HOST-PULL-012")
    assert (rule["severity"], rule["severities"]) == ("note", {"default": "note"})
    (setting,) = (one for one in path["settings"] if one["key"][0] == "severity")
    assert (setting["key"], setting["value"]) == (["severity", "HOST-PULL-012"], "note")
    assert setting["origins"][0]["text"] == "embercoach.toml:2"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("severity = 'error'", "severity must be a table from rules to severities, got string"),
        ("severity = { DTYPE = 3 }", 'severity."DTYPE" must be a string, got number'),
        (
            "severity = { DTYPE = 'eror' }",
            "severity.\"DTYPE\": unknown severity 'eror'; did you mean 'error'? ('error' or ",
        ),
        (
            "severity = { DTIPE = 'error' }",
            "severity.\"DTIPE\": unknown rule 'DTIPE'; did you mean 'DTYPE'?",
        ),
        ("severity = { SIM-RACE = 'note' }", "'SIM-RACE' is a finding of `embercoach simulate`"),
    ],
)
def test_a_mistake_is_one_line(embercoach: Cli, project: Path, body: str, said: str) -> None:
    (project / "embercoach.toml").write_text(f"{body}\n")
    ran = embercoach("check")
    assert ran.code == 2
    (line,) = (ran.err + ran.out).splitlines()[:1]
    assert said in line
    assert "embercoach.toml:1" in (ran.err + ran.out)
