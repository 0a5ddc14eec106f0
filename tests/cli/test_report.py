"""``embercoach report``: from a run, from a saved one, and what it says of mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selectolax.lexbor import LexborHTMLParser

from embercoach import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

PULL = """\
import mlx.core as mx


def total(x: mx.array) -> float:
    return mx.full((2,), x.sum().item())


for x in data:
    total(x)
"""
CLEAN = "import mlx.core as mx\n\nx = mx.zeros((2, 2))\n"


#: A safe fix, and an unsafe one within another.
FIXABLE = """\
import mlx.core as mx


def softplus(x: mx.array) -> mx.array:
    return mx.log(1 + mx.exp(mx.log(1 + mx.exp(x))))


memory = mx.metal.get_active_memory()
"""
FIXABLE_NOTE = """\
import mlx.core as mx

x = mx.random.normal((2,))
doubled = x * 2.0
"""


@pytest.fixture
def model(project: Path) -> Path:
    path = project / "model.py"
    path.write_text(PULL, encoding="utf-8")
    return path


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the project."""
    folder = tmp_path_factory.mktemp("outside") / "elsewhere"
    folder.mkdir()
    return folder


def data_of(page: Path) -> dict[str, Any]:
    tree = LexborHTMLParser(page.read_text(encoding="utf-8"))
    data: dict[str, Any] = json.loads(tree.css_first("script#data").text())
    return data


def head_of(tree: LexborHTMLParser) -> dict[str, str]:
    return {
        one.css_first("dt").text(): one.css_first("dd").text() for one in tree.css("#run > div")
    }


def codes_in(page: Path) -> list[str]:
    data = data_of(page)
    return [data["rules"][row[5]]["code"] for row in data["findings"]]


def test_a_run(embercoach: Cli, project: Path, model: Path) -> None:
    ran = embercoach("report", "--isolated", "model.py")
    assert ran.code == 0
    assert ran.out == "Wrote embercoach-report.html: 0 errors, 1 warning, 0 notes.\n"
    page = project / "embercoach-report.html"
    assert codes_in(page) == ["GRAPH-BREAK-001"]
    assert data_of(page)["files"][0]["source"]["parts"][0][1] == PULL.splitlines()


def test_a_saved_run_makes_the_same_page(embercoach: Cli, project: Path, model: Path) -> None:
    embercoach("check", "--isolated", "--output-format", "json", "-o", "saved.json", ".")
    assert embercoach("report", "--isolated", "-q", "-o", "run.html", ".").out == ""
    assert embercoach("report", "--from", "saved.json", "-o", "saved.html").code == 0
    heads, pages = [], []
    for name in ("run.html", "saved.html"):
        tree = LexborHTMLParser((project / name).read_bytes())
        heads.append(head_of(tree))
        tree.css_first("#run").decompose()
        pages.append(tree.html)
    assert pages[0] == pages[1]
    assert [head.pop("Command") for head in heads] == [
        "embercoach report --isolated .",
        "embercoach report --from saved.json",
    ]
    for head in heads:
        made = datetime.strptime(head.pop("Date").replace("UTC", "+0000"), "%Y-%m-%d %H:%M %z")
        assert abs(made - datetime.now(timezone.utc)) < timedelta(minutes=10)
    assert heads == 2 * [{"Project": project.name, "Version": f"EmberCoach {__version__}"}]


def test_the_command_has_relative_paths(
    embercoach: Cli, project: Path, model: Path, elsewhere: Path
) -> None:
    options = ["--isolated", "--select", "GRAPH,DTYPE"]
    (elsewhere / "other.py").write_text(PULL, encoding="utf-8")
    assert embercoach("report", *options, "-j", "1", str(model), str(elsewhere)).code == 0
    tree = LexborHTMLParser((project / "embercoach-report.html").read_bytes())
    command = "embercoach report --select GRAPH,DTYPE --isolated --jobs 1 model.py elsewhere"
    assert head_of(tree)["Command"] == command


def test_absolute_paths_are_shown_relative(
    embercoach: Cli, project: Path, model: Path, elsewhere: Path
) -> None:
    (elsewhere / "package").mkdir()
    (elsewhere / "package/other.py").write_text(PULL, encoding="utf-8")
    (elsewhere / "package/broken.py").write_text("import mlx\ndef (:\n", encoding="utf-8")
    assert embercoach("report", "--isolated", str(model), str(elsewhere)).code == 2
    page = project / "embercoach-report.html"
    shown = [file["path"] for file in data_of(page)["files"]]
    assert shown == ["elsewhere/package/other.py", "model.py"]
    assert data_of(page)["checkouts"] == ["elsewhere", "."]
    assert all(file["source"] for file in data_of(page)["files"])
    text = page.read_text(encoding="utf-8")
    assert str(elsewhere.parent) not in text
    assert str(project) not in text
    tree = LexborHTMLParser(text)
    (problem,) = tree.css(".problems li code")
    assert problem.text().startswith("elsewhere/package/broken.py:2:")


@pytest.mark.parametrize("notes", [False, True])
def test_fixes_are_counted_as_check_counts_them(
    embercoach: Cli, project: Path, *, notes: bool
) -> None:
    if notes:
        (project / "embercoach.toml").write_text("show-notes = true\n", encoding="utf-8")
    (project / "model.py").write_text(FIXABLE, encoding="utf-8")
    (project / "other.py").write_text(FIXABLE_NOTE, encoding="utf-8")
    assert embercoach("report", ".").code == 0
    tree = LexborHTMLParser((project / "embercoach-report.html").read_bytes())
    assert tree.css_first("#fixes").text() in embercoach("check", ".").out.splitlines()


def test_a_saved_run_of_a_file_that_is_gone(embercoach: Cli, project: Path, model: Path) -> None:
    embercoach("check", "--isolated", "--output-format", "json", "-o", "saved.json", ".")
    model.unlink()
    ran = embercoach("report", "--from", "saved.json")
    assert ran.code == 0
    assert "Sources of 1 of 1 file not found" in ran.err
    assert "not found: model.py; run `embercoach report` in the folder of the check" in ran.err
    assert embercoach("report", "-q", "--from", "saved.json").err == ""
    page = project / "embercoach-report.html"
    assert codes_in(page) == ["GRAPH-BREAK-001"]
    assert data_of(page)["files"][0]["source"] is None


def test_an_incomplete_run_is_reported_and_told(embercoach: Cli, project: Path) -> None:
    (project / "broken.py").write_text("import mlx\ndef (:\n", encoding="utf-8")
    ran = embercoach("report", "--isolated", ".")
    assert ran.code == 2
    assert ran.err.startswith("broken.py:2:")
    assert "broken.py:2:" in (project / "embercoach-report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "missing.json"], "cannot read missing.json: No such file"),
        (["--from", "."], "File '.' is a directory"),
        (["--from", "text.json"], "text.json is not JSON: Expecting value (line 1, column 1)"),
        (["--from", "next.json"], "next.json must have version 1, got 2"),
        (["--from", "clean.json", "clean.py"], "--from and PATHS exclude each other"),
        (["--from", "clean.json", "--select", "DTYPE"], "--from and --select exclude each other"),
        (["--from", "clean.json", "--isolated"], "--from and --isolated exclude each other"),
        (["--from", "clean.json", "-o", "no/where.html"], "cannot write no/where.html: No such"),
        (["-o", ".", "clean.py"], "File '.' is a directory"),
        (["--config", "pyproject.toml", "--isolated"], "--config and --isolated exclude"),
        (["--baseline", "x.json", "--no-baseline"], "--baseline and --no-baseline exclude"),
        (["--baseline", "", "clean.py"], "--baseline must be a file, got an empty text"),
        (["--baseline", "gone.json", "clean.py"], "gone.json"),
        (["--from", "clean.json", "--no-baseline"], "--from and --no-baseline exclude each other"),
        (["--select", "NOTHING", "clean.py"], "NOTHING"),
        (["empty"], "no Python, notebook, Metal or Objective-C files found under the given paths"),
        (["gone.py"], "gone.py"),
    ],
)
def test_mistakes(embercoach: Cli, project: Path, arguments: list[str], message: str) -> None:
    (project / "empty").mkdir()
    (project / "clean.py").write_text(CLEAN, encoding="utf-8")
    (project / "text.json").write_text("nothing found", encoding="utf-8")
    (project / "next.json").write_text('{"version": 2, "findings": []}', encoding="utf-8")
    embercoach("check", "--isolated", "--output-format", "json", "-o", "clean.json", "clean.py")
    ran = embercoach("report", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_file(embercoach: Cli, project: Path, model: Path) -> None:
    taken = project / "taken.html"
    taken.touch(mode=0o400)
    ran = embercoach("report", "--isolated", "-o", "taken.html", "model.py")
    assert ran.code == 2
    assert "cannot write taken.html: Permission denied" in ran.err


@pytest.mark.parametrize(
    "path", ["link.py", "folder/secret.py", "../secret.py", "{above}/secret.py"]
)
def test_a_saved_report_shows_no_file_outside_the_project(
    embercoach: Cli, project: Path, model: Path, path: str
) -> None:
    inside = project / "inside"
    inside.mkdir()
    (project / "secret.py").write_text(PULL.replace("total", "hunter2"), encoding="utf-8")
    embercoach("check", "--isolated", "--output-format", "json", "-o", "saved.json", "model.py")
    saved = (project / "saved.json").read_text("utf-8")
    saved = saved.replace('"model.py"', json.dumps(path.format(above=project)))
    (inside / "saved.json").write_text(saved, encoding="utf-8")
    os.chdir(inside)
    Path("pyproject.toml").touch()
    Path("link.py").symlink_to("../secret.py")
    Path("folder").symlink_to("..", target_is_directory=True)
    ran = embercoach("report", "--from", "saved.json")
    assert ran.code == 0
    assert "is outside the project" in ran.err
    assert data_of(inside / "embercoach-report.html")["files"][0]["source"] is None


@pytest.mark.parametrize(
    "command", ["check --output-format junit", "report", "port --force k.metal"]
)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("link", "it is a link"),
        ("dangling", "it is a link"),
        ("out/x", "out is a link to a folder outside"),
        ("{here}/out/x", "out is a link to a folder outside"),
        ("pipe", "not a regular file"),
        ("in/x", ""),
        ("/dev/null", ""),
        ("/dev/stdout", ""),
    ],
)
def test_output_follows_no_link_out_and_waits_for_no_pipe(
    embercoach: Cli, project: Path, command: str, name: str, reason: str
) -> None:
    if command.startswith("port") and name.startswith("/dev"):
        pytest.skip("port creates files only")
    here, outside = project / "here", project / "x"
    (here / "real").mkdir(parents=True)
    outside.write_text("precious", encoding="utf-8")
    os.chdir(here)
    Path("k.metal").write_text("kernel void f(device float *x [[buffer(0)]]) { x[0] = 1; }")
    Path("link").symlink_to("../x")
    Path("dangling").symlink_to("../new")
    Path("out").symlink_to("..", target_is_directory=True)
    Path("in").symlink_to("real", target_is_directory=True)
    os.mkfifo("pipe")
    shown = name.format(here=here)
    paths = [] if command.startswith("port") else ["--isolated", "k.metal"]
    ran = embercoach(*command.split(), "-o", shown, *paths)
    assert ran.code == (2 if reason else 0)
    assert (f"cannot write {shown}: {reason}" in ran.err) == bool(reason)
    assert sorted(one.name for one in project.iterdir()) == ["here", "x"]
    assert outside.read_text("utf-8") == "precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_closed_and_full_streams_end_in_an_ordinary_status(project: Path, model: Path) -> None:
    full = "embercoach: cannot write standard output: No space left on device\n"
    for line, code, err in (
        ("check --isolated model.py >&-", 1, ""),
        ("check --isolated model.py >&- 2>&-", 1, ""),
        ("check --isolated - <&-", 2, "Error: cannot read standard input: Bad file descriptor\n"),
        ("rules > /dev/full", 2, full),
        ("explain DTYPE-001 > /dev/full", 2, full),
        ("check --isolated --output-format json model.py > /dev/full", 2, full),
        ("check --isolated model.py > /dev/full 2> /dev/full", 2, ""),
    ):
        script = f'"$0" -m embercoach {line}'
        done = subprocess.run(
            ["sh", "-c", script, sys.executable], check=False, capture_output=True, text=True
        )
        assert (line, done.returncode, done.stderr) == (line, code, err)
