"""``embercoach merge`` and ``report --from`` of several files: shards and checkouts as one run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selectolax.lexbor import LexborHTMLParser

from embercoach.cli.commands.check import FORMATS
from embercoach.cli.entry import start

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.cli.conftest import Ran

    Cli = Callable[..., Ran]

ROOT = Path(__file__).parents[2]
FILES = {
    "a/pyproject.toml": "[tool.embercoach]\nshow-notes = true\n",
    "a/m0.py": "import mlx\nbad_pull\nbad_shape\n",
    "a/m1.py": "import mlx\nbad_scalar\nbad_bound  # embercoach: ignore[HOST-PULL-012]\n",
    "a/sub/m2.py": "import mlx\nx = 1  # embercoach: ignore[DTYPE-001]\n",
    "a/broken.py": "import mlx\ndef (:\n",
    "b/pyproject.toml": '[tool.embercoach]\nbaseline = "known.json"\n',
    "b/m0.py": "import mlx\nbad_pull\nbad_bound\n",
    "b/m3.py": "import mlx\nbad_twice\nbad_scalar\n",
    "b/plain.py": "import numpy\n",
    "c/日本 m.py": "import mlx\nbad_shape\nbad_shape\n",
}


@pytest.fixture
def fleet(project: Path, planted: None) -> Path:
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    assert start(["baseline", "update", "-q", "b"]) == 0
    (project / "b/m0.py").write_text("import mlx\nbad_shape\nbad_bound\n", encoding="utf-8")
    return project


def save(name: str, *arguments: str) -> str:
    start(["check", "--output-format", "json", "-o", name, *arguments])
    return name


def shards(count: int, *arguments: str) -> list[str]:
    numbers = range(1, count + 1)
    return [save(f"s{n}.json", "--shard", f"{n}/{count}", *arguments) for n in numbers]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_shards_make_the_very_report_of_the_whole(embercoach: Cli, fleet: Path, count: int) -> None:
    whole = save("whole.json", "a", "b", "c")
    ran = embercoach("merge", *reversed(shards(count, "a", "b", "c")), "-o", "merged.json")
    assert (ran.code, ran.out, ran.err) == (2, "", "")
    assert Path("merged.json").read_bytes() == Path(whole).read_bytes()
    summary = json.loads(Path(whole).read_text())["summary"]
    known, fixed = {"known": 1, "fixed": 0}, {"known": 0, "fixed": 1}
    assert summary["baseline"] == {
        "known": 2,
        "fixed": 1,
        "changes": [
            {"path": "b/m0.py", "code": "GRAPH-BREAK-001"} | fixed,
            {"path": "b/m0.py", "code": "HOST-PULL-012"} | known,
            {"path": "b/m3.py", "code": "DTYPE-001"} | known,
        ],
    }
    assert (summary["suppressed"], summary["problems"], summary["files_skipped"]) == (1, 1, 1)


def test_checkouts_one_by_one_make_the_very_report_of_all(embercoach: Cli, fleet: Path) -> None:
    whole = Path(save("whole.json", "a", "b", "c"))
    parts = [save(f"{top}.json", top) for top in "cab"]
    assert embercoach("merge", *parts).out == whole.read_text(encoding="utf-8")


def test_shards_of_checkouts_that_lie_in_each_other(embercoach: Cli, fleet: Path) -> None:
    whole = Path(save("whole.json", ".", "b", "a/sub"))
    assert json.loads(whole.read_text("utf-8"))["summary"]["files_checked"] == 6
    assert embercoach("merge", *shards(3, ".", "b", "a/sub")).out == whole.read_text("utf-8")


def test_a_merged_report_can_be_merged(embercoach: Cli, fleet: Path) -> None:
    whole = Path(save("whole.json", "a", "b", "c"))
    embercoach("merge", save("a.json", "a"), save("b.json", "b"), "-o", "ab.json")
    assert embercoach("merge", save("c.json", "c"), "ab.json").out == whole.read_text("utf-8")


@pytest.mark.parametrize(
    "form", [form for form in FORMATS if form not in ("text", "full", "sarif")]
)
def test_other_formats_are_those_of_the_whole(embercoach: Cli, fleet: Path, form: str) -> None:
    whole = embercoach("check", "--show-notes", "--output-format", form, "a", "b", "c")
    options = ["--show-notes", "--output-format", form]
    merged = embercoach("merge", *options, *shards(2, "--show-notes", "a", "b", "c"))
    assert (merged.out, merged.code) == (whole.out, whole.code)
    if form == "markdown":
        assert "| a | 0 | 3 | 1 | 3 | 1 |" in whole.out
        assert "| b | 0 | 1 | 1 | 2 | 0 |" in whole.out


@pytest.mark.parametrize("form", ["text", "full", "concise", "grouped", "json"])
def test_statistics_are_those_of_the_whole(embercoach: Cli, fleet: Path, form: str) -> None:
    options = ["--statistics", "--show-notes", "--output-format", form]
    whole = embercoach("check", *options, "a", "b", "c")
    merged = embercoach("merge", *options, *shards(2, "--show-notes", "a", "b", "c"))
    assert (merged.out, merged.code) == (whole.out, whole.code)


@pytest.mark.parametrize("here", [True, False])
def test_sarif_is_that_of_the_whole_but_for_edits(embercoach: Cli, fleet: Path, here: bool) -> None:
    Path("c/way.py").write_text("import mlx\norigin_ = beside_ = 1\nbad_pull\n", encoding="utf-8")
    whole = json.loads(embercoach("check", "--output-format", "sarif", "a", "b", "c").out)
    names = shards(2, "a", "b", "c")
    results = whole["runs"][0]["results"]
    assert any("codeFlows" in result and "relatedLocations" in result for result in results)
    for result in results:
        result.pop("fixes", None)
    if not here:
        for top in "abc":
            shutil.rmtree(top)
        # Our own fingerprint needs no sources, GitHub's does.
        for result in results:
            del result["partialFingerprints"]["primaryLocationLineHash"]
    merged = json.loads(embercoach("merge", "--output-format", "sarif", *names).out)
    assert merged == whole


def test_text_shows_sources_where_they_are(embercoach: Cli, fleet: Path) -> None:
    names = [save("a.json", "a"), save("c.json", "c")]
    shutil.rmtree("c")
    out = embercoach("merge", "--output-format", "text", *names).out
    assert "2 | bad_pull" in out
    assert "c/日本 m.py:2:1: HOST-PULL-009 warning" in out
    assert "2 | bad_shape" not in out.partition("c/日本")[2]


def test_a_missing_shard_is_no_clean_run(embercoach: Cli, project: Path) -> None:
    for number in range(6):
        Path(f"m{number}.py").write_text("import mlx\n")
    first, _, third = shards(3, ".")
    ran = embercoach("merge", first, third, "-o", "merged.json", "--exit-zero")
    assert ran.code == 2
    (problem,) = json.loads(Path("merged.json").read_text())["problems"]
    assert problem["path"] == "shard 2 of 3"
    assert "missing from this report (s1.json, s3.json)" in problem["message"]
    assert embercoach("report", "--from", first, "--from", third).code == 2
    assert "shard 2 of 3" in Path("embercoach-report.html").read_text("utf-8")


def test_shards_of_different_files_are_no_run(embercoach: Cli, project: Path) -> None:
    for number in range(6):
        Path(f"m{number}.py").write_text("import mlx\n")
    first = save("one.json", "--shard", "1/2", ".")
    Path("more.py").write_text("import mlx\n")
    second = save("two.json", "--shard", "2/2", ".")
    ran = embercoach("merge", "--output-format", "concise", first, second)
    assert ran.code == 2
    assert "shard 2 of 2:1:1: 1 of 6 files are missing from this report (one.json)" in ran.out
    assert "shard 1 of 2:1:1: 6 of 7 files are missing from this report (two.json)" in ran.out


def test_very_many_missing_shards_are_one_problem(embercoach: Cli, project: Path) -> None:
    Path("m.py").write_text("import mlx\n")
    document = json.loads(Path(save("a.json", "--shard", "1/1", ".")).read_text())
    document["run"]["shard"]["count"] = 10**12
    Path("a.json").write_text(json.dumps(document))
    out = embercoach("merge", "--output-format", "concise", "a.json").out
    assert "shards 2, 3, 4, 5, 6, 7, 8, 9 and 999999999991 more of 1000000000000:1:1: " in out
    document["run"]["shard"]["count"] = 0
    Path("a.json").write_text(json.dumps(document))
    assert "expected `int` >= 1 - at `$.run.shard.count`" in embercoach("merge", "a.json").err
    document["run"]["shard"] |= {"number": 3, "count": 2}
    Path("a.json").write_text(json.dumps(document))
    assert "run.shard must be a part of count" in embercoach("merge", "a.json").err


def test_what_is_there_twice_is_told_once(embercoach: Cli, fleet: Path) -> None:
    one, two = shards(2, "a", "b", "c")
    whole = json.loads(Path(save("whole.json", "a", "b", "c")).read_text())
    shutil.copy(one, "copy.json")
    ran = embercoach("merge", one, "copy.json", two)
    assert ran.err == "embercoach: copy.json holds the same as s1.json: left out\n"
    assert json.loads(ran.out) == whole
    ran = embercoach("merge", one, two, save("a.json", "a"))
    merged = json.loads(ran.out)
    assert merged["findings"] == whole["findings"]
    assert "findings are in several reports and listed once" in ran.err
    assert embercoach("merge", "-q", one, "copy.json", two).err == ""


def test_other_versions_are_told(embercoach: Cli, project: Path) -> None:
    Path("a.py").write_text("import mlx\n")
    Path("b.py").write_text("import mlx\n")
    document = json.loads(Path(save("a.json", "a.py")).read_text())
    document["run"]["version"] = "0.0.9"
    Path("old.json").write_text(json.dumps(document))
    ran = embercoach("merge", "old.json", save("b.json", "b.py"))
    assert ran.code == 0
    assert "the reports are of different versions" in ran.err
    assert "EmberCoach 0.0.9" in ran.err
    del document["run"], document["checkouts"]
    Path("older.json").write_text(json.dumps(document))
    ran = embercoach("merge", "older.json", "b.json")
    assert "a version that doesn't name itself wrote older.json" in ran.err
    assert "checkouts" not in json.loads(ran.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'FILE.json...'"),
        (["absent.json"], "cannot read absent.json: No such file"),
        (["."], "cannot read .: Is a directory"),
        (["text.json"], "text.json is not JSON"),
        (["good.json", "--statistics", "--output-format", "sarif"], "with --statistics, got sarif"),
        (["good.json", "-o", "no/where.json"], "cannot write no/where.json"),
    ],
)
def test_mistakes(embercoach: Cli, project: Path, arguments: list[str], message: str) -> None:
    Path("text.json").write_text("nothing")
    Path("good.json").write_text(json.dumps({**json.loads(Path(save("g.json", ".")).read_text())}))
    ran = embercoach("merge", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


def overview(name: str) -> dict[str, list[str]]:
    tree = LexborHTMLParser(Path(name).read_text(encoding="utf-8"))
    rows = tree.css("#by-checkouts tbody tr")
    return {
        row.css_first("th").text(): [cell.text() for cell in row.css("td.number")] for row in rows
    }


def test_one_page_of_several_reports(embercoach: Cli, fleet: Path) -> None:
    names = shards(2, "a", "b", "c")
    options = [word for name in names for word in ("--from", name)]
    assert embercoach("report", *options, "-o", "merged.html").code == 2
    # Errors, warnings, notes; files checked, passed over, not checked.
    assert overview("merged.html") == {
        "a": ["0", "3", "1", "3", "0", "1"],
        "b": ["0", "1", "1", "2", "1", "0"],
        "c": ["0", "2", "0", "1", "0", "0"],
    }
    embercoach("report", "a", "b", "c", "-o", "run.html")
    assert overview("run.html") == overview("merged.html")
    data: dict[str, Any] = json.loads(
        LexborHTMLParser(Path("merged.html").read_text("utf-8")).css_first("#data").text()
    )
    inside = [data["checkouts"][number] for number in data["inside"]]
    assert inside == [file["path"].split("/")[0] for file in data["files"]]
    embercoach("report", "c", "-o", "one.html")
    assert overview("one.html") == {}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkouts of real code, whose files import each other, and what one run finds there."""
    folder = tmp_path_factory.mktemp("real")
    for name, source in (("examples", "examples"), ("pack", "tests/xlstm_kernels/recurrent/slstm")):
        shutil.copytree(ROOT / source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    slstm = Path("xlstm_kernels", "recurrent", "slstm")
    shutil.copytree(ROOT / slstm, folder / "pack" / slstm)
    for name in ("examples", "pack"):
        (folder / name / "embercoach.toml").write_text('profile = "ember"\n')
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("count", [2, 5, 9])
def test_real_code_in_shards(real: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.chdir(real)
    tops = ["examples", "pack"]
    if not Path("whole.json").exists():
        save("whole.json", "--no-cache", "-j1", *tops)
        assert json.loads(Path("whole.json").read_text())["summary"]["errors"] > 20
    # The first shards find everything themselves, later ones use what those have kept.
    start(["merge", "-o", "merged.json", *shards(count, "-j1", *tops)])
    assert Path("merged.json").read_bytes() == Path("whole.json").read_bytes()


def test_files_outside_the_project_are_not_quoted(
    project: Path, embercoach: Cli, planted: None
) -> None:
    """A saved report may name any file, and a job may merge those of a pull request."""
    (project / "repo" / ".git").mkdir(parents=True)
    (project / "repo" / "m.py").write_text("import mlx\nbad_shape\n")
    (project / "secret").write_text("import mlx\nhunter2\n")
    saved = save("saved.json", "repo/m.py")
    text = Path(saved).read_text(encoding="utf-8")
    for path in ("../secret", str(project / "secret"), "/etc/passwd"):
        document = json.loads(text)
        for finding in document["findings"]:
            finding["path"] = path
        Path("repo", "r.json").write_text(json.dumps(document), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir("repo")
            shown = embercoach("merge", "r.json", "--output-format", "text").out
        assert f"{path}:2:" in shown
        assert "hunter2" not in shown
        assert "root:" not in shown


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("command", [["merge"], ["report", "-o", "r.html", "--from"]])
def test_a_pipe_is_not_waited_for(project: Path, embercoach: Cli, command: list[str]) -> None:
    os.mkfifo("saved.json")
    ran = embercoach(*command, "saved.json")
    assert ran.code == 2
    assert "saved.json" in ran.err


def test_numbers_that_no_program_counts_to_are_refused(project: Path, embercoach: Cli) -> None:
    Path("m.py").write_text("import mlx\n")
    text = Path(save("a.json", "m.py")).read_text(encoding="utf-8")
    Path("b.json").write_text(text.replace('"suppressed": 0', f'"suppressed": {"9" * 4_000}'))
    ran = embercoach("merge", "a.json", "b.json")
    assert ran.code == 2
    assert "b.json" in ran.err
    assert "internal error" not in ran.err
