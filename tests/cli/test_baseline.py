"""``--baseline`` and ``embercoach baseline update``: new findings only, and a ratchet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.cli.commands.check import FORMATS
from tests.cli.conftest import Ran

pytestmark = pytest.mark.usefixtures("planted")
Cli = Callable[..., Ran]
FILE = "embercoach-baseline.json"
OLD = "import mlx\nbad_pull\nbad_bound\nbad_scalar\n"


@pytest.fixture
def known(embercoach: Cli, project: Path) -> Path:
    """A project whose findings are in its baseline."""
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text(OLD)
    (project / "src" / "b.py").write_text("import mlx\nbad_pull\n")
    ran = embercoach("baseline", "update")
    written = f"Wrote 3 findings to {FILE}: 3 new, 0 gone.\n"
    assert ran == Ran(0, f"{written}Use it with `embercoach check --baseline {FILE}`.\n", "")
    return project


def paths_in(file: Path) -> list[str]:
    return [entry["path"] for entry in json.loads(file.read_text())["findings"]]


def test_it_survives_moved_lines_and_tells_of_what_is_new(embercoach: Cli, known: Path) -> None:
    moved = "import mlx\n# new\n\nif mlx:\n    bad_pull\nbad_bound\nbad_pull\n"
    (known / "src" / "a.py").write_text(moved)
    ran = embercoach("check", "--baseline", FILE, "--output-format", "concise")
    first, *summary = ran.out.splitlines()
    assert ran.code == 1
    assert first == "src/a.py:7:1: GRAPH-BREAK-001 warning bad_pull hurts"
    assert summary[0] == "Found 1 warning; 2 files checked. 3 hidden by the baseline."
    json_run = embercoach("check", "--baseline", FILE, "--output-format", "json")
    reported = json.loads(json_run.out)["summary"]["baseline"]
    assert (reported["known"], reported["fixed"]) == (3, 0)
    assert sum(row["known"] for row in reported["changes"]) == 3
    assert "baseline" not in json.loads(embercoach("--output-format", "json").out)["summary"]


def test_what_is_fixed_is_told_and_update_takes_it_out(embercoach: Cli, known: Path) -> None:
    before = (known / FILE).read_bytes()
    (known / "src" / "a.py").write_text("import mlx\nbad_bound\n")
    (known / "src" / "b.py").unlink()
    ran = embercoach("check", "--baseline", FILE)
    assert ran.code == 0
    assert "2 findings of the baseline fixed; run `embercoach baseline update`" in ran.out
    assert (known / FILE).read_bytes() == before
    ran = embercoach("baseline", "update")
    assert ran.out == f"Wrote 1 finding to {FILE}: 0 new, 2 gone.\n"
    assert paths_in(known / FILE) == ["src/a.py"]
    assert "fixed" not in embercoach("check", "--baseline", FILE).out
    (known / "src" / "a.py").write_text("\n\nimport mlx\nbad_bound\n")
    after = (known / FILE).read_bytes()
    assert embercoach("baseline", "update", "-q") == Ran(0, "", "")
    assert (known / FILE).read_bytes() == after


def test_the_ratchet(embercoach: Cli, known: Path) -> None:
    strict = ("check", "--baseline", FILE, "--baseline-strict", "--output-format")
    assert embercoach(*strict, "text").code == 0
    (known / "src" / "b.py").write_text("import mlx\n")
    for form in FORMATS:
        ran = embercoach(*strict, form)
        assert ran.code == 1
        assert ran.err == (
            f"{FILE}: 1 fixed entry; run `embercoach baseline update "
            f"--baseline {FILE}` and commit it\n"
        )
    assert json.loads(embercoach(*strict, "sarif").out)["runs"][0]["invocations"][0] == {
        "executionSuccessful": True,
        "exitCode": 1,
        "toolExecutionNotifications": [],
    }
    assert embercoach(*strict, "text", "--exit-zero").code == 0
    assert embercoach("baseline", "update", "-q").code == 0
    assert embercoach(*strict, "text").code == 0


@pytest.mark.parametrize(
    ("arguments", "change"),
    [
        (["src/b.py"], None),  # other files were not looked at
        (["--select", "DTYPE"], None),  # nor were other rules
        (["--per-file-ignores", "src/*.py:ALL"], None),
        (["--extend-exclude", "src"], None),
        (["."], "import mlx\n("),  # nor can this be
    ],
)
def test_what_was_not_checked_is_not_fixed(
    embercoach: Cli, known: Path, arguments: list[str], change: str | None
) -> None:
    if change is not None:
        (known / "src" / "a.py").write_text(change)
    ran = embercoach("check", *arguments, "--baseline", FILE, "--baseline-strict")
    assert ran.code == (0 if change is None else 2)
    assert "of the baseline fixed" not in ran.out
    assert ran.err == ""


def test_an_update_of_some_files_leaves_the_others(embercoach: Cli, known: Path) -> None:
    (known / "src" / "a.py").write_text("import mlx\n(")
    (known / "src" / "b.py").write_text("import mlx\nbad_bound\n")
    ran = embercoach("baseline", "update", "src/b.py")
    assert ran == Ran(0, f"Wrote 3 findings to {FILE}: 1 new, 1 gone.\n", "")
    ran = embercoach("baseline", "update")
    assert ran.code == 2
    assert ran.out == f"Wrote 3 findings to {FILE}: 0 new, 0 gone.\n"
    assert ran.err == "src/a.py:2:1: syntax error: '(' was never closed\n"
    assert paths_in(known / FILE) == ["src/a.py", "src/a.py", "src/b.py"]


def test_from_any_folder_by_any_name(
    embercoach: Cli, known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for paths in (["src/a.py", "./src/b.py"], [str(known)], ["src/../src"]):
        ran = embercoach("check", *paths, "--baseline", FILE, "--baseline-strict")
        assert ran.code == 0, ran.out
    monkeypatch.chdir(known / "src")
    assert embercoach("check", "--baseline", f"../{FILE}", "--baseline-strict").code == 0
    old = OLD.encode()
    name = ("--stdin-filename", "a.py", "--baseline", f"../{FILE}")
    assert embercoach("check", "-", *name, stdin=old).code == 0
    ran = embercoach("check", "-", *name, "--output-format", "concise", "-q", stdin=old + old)
    assert [line.partition(" ")[0] for line in ran.out.splitlines()] == ["a.py:6:1:", "a.py:7:1:"]


def test_the_configuration_names_it(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (project / name).mkdir()
        (project / name / "a.py").write_text(OLD)
        (project / name / "embercoach.toml").write_text(f'baseline = "ci/{name}.json"\n')
        (project / name / "ci").mkdir()
    ran = embercoach("check", "one")
    assert ran.code == 2
    assert ran.err == (
        "Error: one/ci/one.json: there is no such baseline; "
        "`embercoach baseline update --baseline one/ci/one.json` writes it\n"
    )
    ran = embercoach("baseline", "update", "one", "two")
    assert ran.code == 0
    assert paths_in(project / "two" / "ci" / "two.json") == ["../a.py", "../a.py"]
    assert not (project / FILE).exists()
    (project / "two" / "a.py").write_text("import mlx\n")
    ran = embercoach("check", "one", "two")
    assert ran.code == 0
    assert "2 hidden by the baseline" in ran.out
    assert "2 findings of the baseline fixed" in ran.out
    assert embercoach("check", "one", "--no-baseline").code == 1
    assert embercoach("check", "one", "--isolated").code == 1
    monkeypatch.chdir(project / "one")
    assert embercoach("check", "--baseline-strict").code == 0
    assert "baseline      ci/one.json\n" in embercoach("check", "--show-settings").out


def test_notes_are_written_on_request(embercoach: Cli, known: Path) -> None:
    ran = embercoach("baseline", "update", "--show-notes", "--baseline", "all.json")
    assert ran.out == "Wrote 4 findings to all.json: 4 new, 0 gone.\n"
    ran = embercoach("check", "--baseline", "all.json", "--show-notes", "--profile", "ember")
    assert (ran.code, "4 hidden by the baseline" in ran.out) == (0, True)


def test_only_what_is_new_is_suppressed(embercoach: Cli, known: Path) -> None:
    (known / "src" / "b.py").write_text("import mlx\nbad_pull\nbad_shape\n")
    assert "Suppressed 1 finding." in embercoach("--baseline", FILE, "--add-noqa").out
    assert (known / "src" / "a.py").read_text() == OLD


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--baseline-strict"], "--baseline-strict requires --baseline"),
        (["check", "--baseline", ""], "--baseline must be a file, got an empty text"),
        (["check", "--baseline", "x", "--no-baseline"], "--no-baseline excludes --baseline"),
        (["check", "--diff", "--baseline-strict", "--baseline", "x"], "exclude each other"),
        (["check", "--baseline", "absent.json"], "absent.json: there is no such baseline"),
        (["check", "--baseline", "bad.json"], "bad.json: not valid JSON: "),
        (["baseline", "update", "--baseline", "bad.json"], "bad.json: not valid JSON: "),
        (["baseline", "update", "--baseline", "no/x.json"], "no/x.json: cannot be written: No "),
        (["baseline", "update", "--config", "x", "--isolated"], "exclude each other"),
        (
            ["baseline", "update", "--config", "x.toml"],
            "configuration cannot be read: No such file",
        ),
        (["baseline", "updat"], "No such command 'updat'"),
    ],
)
def test_mistakes_are_one_clear_error(
    embercoach: Cli, project: Path, arguments: list[str], words: str
) -> None:
    (project / "bad.json").write_text("<<<<<<< HEAD\n")
    ran = embercoach(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "Traceback" not in ran.err
    # What can't be read as a baseline is not overwritten.
    assert (project / "bad.json").read_text() == "<<<<<<< HEAD\n"


def test_a_mistake_in_the_key(embercoach: Cli, project: Path) -> None:
    (project / "embercoach.toml").write_text("baseline = 1\n")
    ran = embercoach("check")
    assert ran.code == 2
    assert ran.err == "Error: baseline must be a string, got number (embercoach.toml:1)\n"
    (project / "embercoach.toml").write_text('baseline = "a\\u0000b"\n')
    ran = embercoach("check")
    assert (ran.code, "Traceback" in ran.err) == (2, False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(content=st.binary(max_size=40), cut=st.integers(0, 400), at=st.integers(0, 400))
def test_a_damaged_file_is_one_clear_error(
    embercoach: Cli, project: Path, content: bytes, cut: int, at: int
) -> None:
    (project / "a.py").write_text(OLD)
    (project / FILE).unlink(missing_ok=True)
    embercoach("baseline", "update", "-q", "a.py", "--no-cache")
    whole = (project / FILE).read_bytes()
    (project / FILE).write_bytes(whole[:at] + content + whole[at + cut :])
    ran = embercoach("a.py", "--no-cache", "--baseline", FILE)
    assert ran.code in (0, 1, 2)
    assert (ran.err.startswith(f"Error: {FILE}: ") and ran.err.count("\n") == 1) == (ran.code == 2)
