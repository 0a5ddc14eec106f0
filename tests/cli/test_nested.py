"""The nearest configuration of each file counts, however the file comes to be checked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from embercoach.server.analysis import Analysis
from embercoach.server.wire import Document

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]
    Findings = set[tuple[str, int, str, str]]

SOURCE = "import mlx\nbad_pull\nbad_shape\nbad_bound\nbad_scalar\n"
#: What calls a kernel builder, and so is looked at only where one is configured.
WRAPPED = "Wrapper()\nbad_bound\n"
FOLDERS = ("", "a", "a/b", "a/b/c", "d", "d/venv", "d/e")
BODIES = (
    'profile = "ember"\n',
    'ignore = ["GRAPH-BREAK"]\nshow-notes = true\n',
    'select = ["host-pull"]\n',
    'per-file-ignores = { "/x.py" = ["HOST-PULL"] }\n',
    'per-file-profiles = { "x.py" = "ember" }\n',
    'extend-exclude = ["y.py", "b"]\n',
    'exclude = ["c/*.py"]\nrespect-gitignore = false\n',
    'baseline = "known.json"\n',
    '[kernel-builders."pack.Wrapper"]\nsource = "source"\n',
)
MARKS = st.sampled_from(("", "embercoach.toml", "pyproject.toml", ".git"))


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def found(ran: Ran) -> Findings:
    report = json.loads(ran.out)
    assert report["problems"] == [], ran.err
    return {(f["path"], f["line"], f["code"], f["severity"]) for f in report["findings"]}


def checked(embercoach: Cli, *paths: str) -> Findings:
    return found(embercoach("check", "--no-cache", "--output-format", "json", *paths))


def in_an_editor(name: str) -> Findings:
    path = Path(name).absolute()
    analysis = Analysis("utf-16", [Path.cwd()])
    result = analysis.check(Document(path.as_uri(), path, 1, path.read_text("utf-8"))).result
    assert result.problems == ()
    return {(name, f.line, f.code, f.severity) for f in result.findings}


def configure(folder: str, mark: str, body: str) -> None:
    if mark == ".git":
        Path(folder, ".git").mkdir()
    elif mark == "embercoach.toml":
        Path(folder, mark).write_text(body)
    elif mark:
        body = body.replace("[kernel-builders", "[tool.embercoach.kernel-builders")
        Path(folder, mark).write_text(f"[tool.embercoach]\n{body}")


@pytest.mark.usefixtures("planted")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=3,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example takes too long to shrink it
)
@given(
    chosen=st.fixed_dictionaries(
        {folder: st.tuples(MARKS, st.sampled_from(BODIES)) for folder in FOLDERS}
    )
)
def test_a_folder_is_the_union_of_its_files(
    embercoach: Cli, project: Path, chosen: dict[str, tuple[str, str]]
) -> None:
    shutil.rmtree(project / "tree", ignore_errors=True)
    (project / "tree").mkdir()
    os.chdir(project / "tree")
    (project / "tree" / ".git").mkdir()
    write({".gitignore": "z.py\n"})
    for folder, (mark, body) in chosen.items():
        write({f"{folder}/{name}".lstrip("/"): SOURCE for name in ("x.py", "y.py", "z.py")})
        write({f"{folder}/w.py".lstrip("/"): WRAPPED})
        if folder or mark != ".git":
            configure(folder or ".", mark, body)
    assert embercoach("baseline", "update", "--no-cache", "a/b", "d/e").code == 0
    Path("embercoach-baseline.json").unlink(missing_ok=True)
    for folder in FOLDERS:
        if "known.json" in chosen[folder][1] and not Path(folder, "known.json").exists():
            empty = '{"kind": "embercoach-baseline", "version": 1, "findings": []}\n'
            Path(folder, "known.json").write_text(empty)
    names = embercoach("check", "--show-files", ".").out.splitlines()
    whole = checked(embercoach, ".")
    assert {name for name, *_ in whole} <= set(names)
    for name in names:
        own = {one for one in whole if one[0] == name}
        assert checked(embercoach, name) == own
        assert checked(embercoach, "--force-exclude", name) == own
        assert in_an_editor(name) == own
    assert checked(embercoach, *names) == whole
    assert checked(embercoach, str(Path.cwd())) == {
        (str(Path(name).absolute()), *rest) for name, *rest in whole
    }
    parts: list[Findings] = [checked(embercoach, "--shard", f"{n}/2", ".") for n in (1, 2)]
    assert parts[0] | parts[1] == whole


@pytest.mark.usefixtures("planted")
def test_a_folder_that_is_excluded_above_is_left_out_everywhere(
    embercoach: Cli, project: Path
) -> None:
    write(
        {
            ".git/HEAD": "",
            "embercoach.toml": 'extend-exclude = ["vendored", "old.py"]\n',
            "vendored/embercoach.toml": 'profile = "ember"\n',
            "vendored/x.py": SOURCE,
            "own/embercoach.toml": "",
            "own/old.py": SOURCE,
        }
    )
    assert embercoach("check", "--show-files").out == "own/old.py\n"
    assert checked(embercoach, "--force-exclude", "vendored/x.py") == set()
    assert checked(embercoach, "--force-exclude", "own/old.py")
    assert in_an_editor("vendored/x.py") == set()
    ran = embercoach("check", "--force-exclude", "--stdin-filename", "vendored/x.py", "-")
    assert (ran.code, ran.out) == (0, "")
    reported = json.loads(embercoach("config", "--output-format", "json", "vendored/x.py").out)
    (applied,) = reported["paths"]
    assert applied["configuration"] == "vendored/embercoach.toml"
    assert not applied["checked"]
    assert applied["skipped"]["origin"]["text"] == "embercoach.toml:1"
    # Named on purpose.
    assert checked(embercoach, "vendored") == checked(embercoach, "vendored/x.py") != set()


@pytest.mark.usefixtures("planted")
def test_fixes_and_baselines_are_those_of_each_configuration(
    embercoach: Cli, project: Path
) -> None:
    write(
        {
            "embercoach.toml": 'baseline = "known.json"\n',
            "x.py": SOURCE,
            "sub/embercoach.toml": 'ignore = ["HOST-PULL-009"]\nbaseline = "own.json"\n',
            "sub/x.py": SOURCE,
        }
    )
    assert embercoach("baseline", "update").code == 0
    assert {e["path"] for e in json.loads(Path("known.json").read_text())["findings"]} == {"x.py"}
    assert {e["path"] for e in json.loads(Path("sub/own.json").read_text())["findings"]} == {"x.py"}
    assert embercoach("check").code == 0
    # An entry of another configuration's file counts for nothing, and is kept.
    assert embercoach("baseline", "update", "--baseline", "known.json").code == 0
    assert "sub/x.py" in Path("known.json").read_text()
    write({"sub/own.json": Path("sub/own.json").read_text().replace("x.py", "gone.py")})
    loud = {one for one in checked(embercoach, ".") if one[3] != "note"}
    assert loud == {one for one in checked(embercoach, "sub/x.py") if one[3] != "note"} != set()
    assert embercoach("baseline", "update").code == 0
    assert embercoach("check", "--baseline-strict").code == 0
    assert "sub/x.py" in Path("known.json").read_text()
    write({"x.py": SOURCE, "sub/x.py": SOURCE})
    assert embercoach("check", "--no-baseline", "--fix").code == 1
    assert "good_shape" in Path("x.py").read_text()
    assert "bad_shape" in Path("sub/x.py").read_text()


@pytest.mark.usefixtures("planted")
def test_a_wrong_configuration_below_is_a_problem_of_its_folder(
    embercoach: Cli, project: Path
) -> None:
    write({"x.py": SOURCE, "sub/embercoach.toml": "\nselct = []\n", "sub/x.py": SOURCE})
    ran = embercoach("check", "--output-format", "json", ".")
    assert ran.code == 2
    report = json.loads(ran.out)
    assert {finding["path"] for finding in report["findings"]} == {"x.py"}
    (problem,) = report["problems"]
    assert (problem["path"], problem["line"]) == ("sub/embercoach.toml", 2)
    assert "did you mean 'select'?" in problem["message"]
    assert embercoach("check", "sub/x.py").code == 2


@pytest.mark.usefixtures("planted")
def test_a_file_or_none_for_all_folders(embercoach: Cli, project: Path) -> None:
    write(
        {
            "only.toml": 'select = ["HOST-PULL-012"]\n',
            "x.py": SOURCE,
            "sub/embercoach.toml": 'profile = "ember"\nselct = []\n',
            "sub/x.py": SOURCE,
        }
    )
    named = checked(embercoach, "--config", "only.toml", ".")
    assert {(name, code) for name, _, code, _ in named} == {
        ("x.py", "HOST-PULL-012"),
        ("sub/x.py", "HOST-PULL-012"),
    }
    assert {severity for *_, severity in checked(embercoach, "--isolated", ".")} == {
        "note", "warning", "error"
    }  # fmt: skip


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("at_home", [False, True])
def test_the_search_ends_at_the_top_of_the_checkout_or_at_home(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, at_home: bool
) -> None:
    write({"embercoach.toml": 'ignore = ["ALL"]\n', "top/sub/x.py": SOURCE})
    assert checked(embercoach, "top/sub/x.py") == set()
    if at_home:
        monkeypatch.setenv("HOME", str(project / "top"))
    else:
        write({"top/.git": "gitdir: elsewhere\n"})  # as in a worktree
    found_below = checked(embercoach, "top/sub/x.py")
    assert found_below
    assert checked(embercoach, ".") == found_below == in_an_editor("top/sub/x.py")
    # The last folder is looked at, too.
    write({"top/embercoach.toml": 'select = ["HOST-PULL-012"]\n'})
    assert {code for *_, code, _ in checked(embercoach, ".")} == {"HOST-PULL-012"}


@pytest.mark.usefixtures("planted")
def test_notes_are_listed_where_they_are_to_be(embercoach: Cli, project: Path) -> None:
    write(
        {
            "x.py": "import mlx\nbad_scalar\n",
            "sub/embercoach.toml": "show-notes = true\n",
            "sub/x.py": "import mlx\nbad_scalar\n",
        }
    )
    listed = [
        embercoach("check", "--output-format", "concise", path).out for path in ("x.py", "sub/x.py")
    ]
    assert ["PYTHON-SCALAR-002" in out for out in listed] == [False, True]
    out = embercoach("check", "--output-format", "concise", ".").out
    assert [line.partition(":")[0] for line in out.splitlines() if "SCALAR" in line] == ["sub/x.py"]
