"""One run in all formats: they agree, and forges get the addresses that they know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt

from tests.cli.conftest import Ran

pytestmark = pytest.mark.usefixtures("planted")
Cli = Callable[..., Ran]


def cells(markdown: str) -> list[list[str]]:
    """The rows of a document's table, without its head."""
    found: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "table_close":
            return found[1:]
        if token.type == "tr_open":
            found.append([])
        elif token.type == "inline" and found:
            found[-1].append(token.content)
    raise AssertionError("no table")


#: How many findings a report tells of.
COUNTS: dict[str, Callable[[str], int]] = {
    "text": lambda out: len(re.findall(r"^\S+:\d+:\d+: [A-Z-]+-\d{3} ", out, re.MULTILINE)),
    "full": lambda out: len(re.findall(r"^\S+:\d+:\d+: [A-Z-]+-\d{3} ", out, re.MULTILINE)),
    "concise": lambda out: len(re.findall(r"^\S+:\d+:\d+: [A-Z-]+-\d{3} ", out, re.MULTILINE)),
    "grouped": lambda out: len(
        re.findall(r"^  (?:cell \d+:)?\d+:\d+ +[A-Z-]+-\d{3} ", out, re.MULTILINE)
    ),
    "json": lambda out: len(json.loads(out)["findings"]),
    "github": lambda out: len(re.findall(r"^::\w+ title=EmberCoach \(", out, re.MULTILINE)),
    "gitlab": lambda out: sum(e["check_name"] != "incomplete" for e in json.loads(out)),
    "sarif": lambda out: len(json.loads(out)["runs"][0]["results"]),
    "junit": lambda out: len(
        [e for e in ET.fromstring(out).iter() if e.tag in ("failure", "skipped")]
    ),
    "markdown": lambda out: sum(int(row[3]) for row in cells(out)),
}


def test_paths_for_gitlab_start_at_the_project(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("import mlx\nbad_pull\n")
    monkeypatch.setenv("CI_PROJECT_DIR", str(project))
    monkeypatch.chdir(project / "src")
    (entry,) = json.loads(embercoach("./a.py", "--output-format", "gitlab").out)
    assert entry["location"] == {"path": "src/a.py", "lines": {"begin": 2}}


def test_links_of_a_step_summary_lead_to_the_commit(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "src").mkdir()
    (project / "src" / "a b.py").write_text("import mlx\nbad_pull\n")
    arguments = ("a b.py", "--output-format", "markdown")
    monkeypatch.chdir(project / "src")
    assert "[a b.py:2](a%20b.py#L2)" in embercoach(*arguments).out
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/it")
    assert "[a b.py:2](a%20b.py#L2)" in embercoach(*arguments).out
    monkeypatch.setenv("GITHUB_SHA", "abc")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project))
    link = "[a b.py:2](https://github.com/me/it/blob/abc/src/a%20b.py#L2)"
    assert link in embercoach(*arguments).out


def test_the_suffix_of_the_file_chooses_the_format(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text("import mlx\nbad_pull\n")

    def written(name: str, *options: str) -> str:
        assert embercoach(".", "-o", str(project / name), *options).code == 1
        return (project / name).read_text()

    assert COUNTS["json"](written("report.JSON")) == 1
    assert COUNTS["sarif"](written("report.sarif")) == 1
    assert COUNTS["text"](written("report.txt")) == 1
    assert COUNTS["concise"](written("report.json", "--output-format", "concise")) == 1
    refused = embercoach(".", "-o", "report.html")
    assert (refused.code, refused.err.splitlines()[-1]) == (
        2,
        "Error: this command writes no HTML; `embercoach report` writes findings",
    )
