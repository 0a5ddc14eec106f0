"""``embercoach check``: options, output, exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.cli import output
from embercoach.engine import cache
from tests.cli.conftest import Ran

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

pytestmark = pytest.mark.usefixtures("planted")
Cli = Callable[..., Ran]

NOTE = "import mlx\nbad_scalar\n"
WARNING = "import mlx\nbad_pull\n"
ERROR = "import mlx\nbad_bound\n"
SAFE = "import mlx\nbad_shape\n"
FORMATS = (
    *("text", "full", "concise", "grouped"),
    *("json", "github", "gitlab", "sarif", "junit", "markdown"),
)


def codes_of(ran: Ran) -> list[str]:
    return [f["code"] for f in json.loads(ran.out)["findings"]]


@pytest.fixture
def constant_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A program whose version and digest stay; later tests get the fingerprint of the real one."""
    monkeypatch.setattr("embercoach.__version__", "0.0.0")
    monkeypatch.setattr(cache, "program", lambda: "this program")
    cache.fingerprint.cache_clear()
    yield
    cache.fingerprint.cache_clear()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.usefixtures("constant_program")
def test_a_run_in_every_format(
    embercoach: Cli, project: Path, form: str, snapshot: SnapshotAssertion
) -> None:
    (project / "a.py").write_text(NOTE + "bad_shape; bad_pull  # why\n")
    (project / "b.py").write_text("import mlx\nloop_(\n  bad_pull)  # noqa: GRAPH-BREAK-001\n")
    (project / "c.py").write_text("import mlx\ndef f(:\n")
    (project / "d.py").write_text("import numpy\n")
    ran = embercoach("check", ".", "absent.py", "--output-format", form)
    assert (ran.code, ran.err) == (2, "")
    codes = ["PYTHON-SCALAR-002", "HOST-PULL-009", "GRAPH-BREAK-001"]
    if form == "full":
        assert ran == embercoach("check", ".", "absent.py")
    elif form == "json":
        report = json.loads(ran.out)
        assert codes_of(ran) == codes
        assert [problem["path"] for problem in report["problems"]] == ["absent.py", "c.py"]
        assert report["run"] == {"version": "0.0.0", "program": "this program", "shard": None}
        counts = {"files_checked": 2, "files_skipped": 1, "suppressed": 1}
        assert report["checkouts"] == [{"path": ".", **counts}]
        assert report["summary"].items() >= counts.items()
    elif form == "gitlab":
        names = [entry["check_name"] for entry in json.loads(ran.out)]
        assert names == [*codes[1:], "incomplete", "incomplete"]
    elif form == "sarif":
        log = json.loads(ran.out)
        (run,) = log["runs"]
        assert [r["ruleId"] for r in run["results"]] == codes
        assert run["invocations"][0]["exitCode"] == 2
        assert len(run["invocations"][0]["toolExecutionNotifications"]) == 2
    else:
        assert ran.out == snapshot


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        ("import mlx\n", [], 0),
        ("", [], 0),
        (NOTE, [], 0),
        (NOTE, ["--show-notes"], 0),
        (NOTE, ["--profile", "ember"], 1),
        (WARNING, [], 1),
        (ERROR, [], 1),
        (WARNING, ["--exit-zero"], 0),
        ("import mlx\n(", [], 2),
        ("import mlx\n(", ["--exit-zero"], 2),
        ("import mlx\ncrash_value", [], 2),
        (WARNING, ["--ignore", "GRAPH-BREAK"], 0),
        (WARNING, ["--select", "DTYPE,FFT-NORM-001", "--select", "HOST"], 0),
        (WARNING, ["--select", "DTYPE", "--extend-select", "GRAPH-BREAK-001"], 1),
        (SAFE, ["--fix"], 0),
        (SAFE, ["--diff"], 1),
        (SAFE, ["--diff", "--exit-zero"], 0),
        (WARNING, ["--diff"], 0),
        (ERROR, ["--fix"], 1),
        (ERROR, ["--fix", "--unsafe-fixes"], 0),
        (ERROR, ["--unsafe-fixes"], 1),
        (WARNING, ["--add-noqa"], 0),
        ("import mlx\nbad_break\n", ["--fix"], 2),
        ("import mlx\nbad_break\n", ["--diff"], 2),
    ],
)  # fmt: skip
def test_exit_codes(
    embercoach: Cli, project: Path, content: str, options: list[str], code: int
) -> None:
    (project / "a.py").write_text(content)
    assert embercoach("check", "a.py", *options).code == code


@pytest.mark.parametrize(
    "arguments",
    [["a.py"], ["--select", "ALL", "a.py"], ["."], ["-j", "1", "a.py"], ["./a.py", "--quiet"]],
)
def test_check_is_the_default_command(embercoach: Cli, project: Path, arguments: list[str]) -> None:
    (project / "a.py").write_text(WARNING)
    short, full = embercoach(*arguments), embercoach("check", *arguments)
    assert short == full
    assert short.code == 1
    assert "GRAPH-BREAK-001" in short.out


def test_without_paths_the_current_folder_is_checked(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(WARNING)
    assert embercoach("check") == embercoach("check", ".")


def test_no_files_at_all(embercoach: Cli) -> None:
    ran = embercoach("check", ".")
    none = "No Python, notebook, Metal or Objective-C files found.\n"
    assert (ran.code, ran.out) == (0, none)
    assert embercoach("check", ".", "-q").out == ""
    assert json.loads(embercoach("check", "--output-format", "json").out)["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--slect", "X"], "No such option '--slect'"),
        (["check", "--select", "GRAPH-BRAKE-001"], "did you mean 'GRAPH-BREAK-001'?"),
        (["check", "--ignore", "nonsense!"], "unknown rule 'nonsense!'"),
        (["check", "--extend-ignore", "DTIPE"], "did you mean 'DTYPE'?"),
        (["check", "--per-file-ignores", "DTYPE"], "must be PATTERN:CODE,... such as tests/:DTYPE"),
        (["check", "--per-file-ignores", "a:DTIPE"], "did you mean 'DTYPE'?"),
        (["check", "--profile", "loud"], "'loud' is not one of 'recommended', 'ember'"),
        (["check", "--output-format", "xml"], "'xml' is not one of 'text'"),
        (["check", "--jobs", "0"], "0 is not in the range x>=1"),
        (["check", "--fix", "--add-noqa"], "--fix and --add-noqa exclude each other"),
        (["check", "--config", "x.toml", "--isolated"], "--config and --isolated exclude"),
        (["check", "--config", "absent.toml"], "No such file or directory (absent.toml)"),
        (["check", "-", "a.py"], "standard input (-) and other paths exclude each other"),
        (["check", "-", "--add-noqa"], "--add-noqa and standard input (-) exclude each other"),
        (
            ["check", "--statistics", "--output-format", "sarif"],
            "must be text or json with --statistics, got sarif",
        ),
        (
            ["check", "--statistics", "--output-format", "junit"],
            "must be text or json with --statistics, got junit",
        ),
        (["explain"], "Missing argument 'CODE|FILE:LINE[:COLUMN]'"),
        (["explain", "absent.py:3"], "absent.py cannot be read: No such file or directory"),
        (
            ["explain", "GRAPH-BRAKE-001"],
            "unknown rule 'GRAPH-BRAKE-001'; did you mean 'GRAPH-BREAK-",
        ),
        (["rules", "hots-pull"], "no rule begins with 'hots-pull'; did you mean 'HOST-PULL'?"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash'"),
    ],
)
def test_mistakes_are_one_clear_error(embercoach: Cli, arguments: list[str], words: str) -> None:
    ran = embercoach(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "Traceback" not in ran.err


def test_a_mistake_in_the_configuration(embercoach: Cli, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.embercoach]\nignore = ["DTIPE"]\n')
    ran = embercoach(".")
    assert ran.code == 2
    assert ran.err == (
        "Error: ignore: unknown rule 'DTIPE'; did you mean 'DTYPE'? (pyproject.toml:2)\n"
    )


def test_per_file_settings(embercoach: Cli, project: Path) -> None:
    (project / "embercoach.toml").write_text(
        'per-file-profiles = {"kernels/**" = "ember"}\nper-file-ignores = {"old.py" = ["GRAPH"]}\n'
    )
    (project / "kernels").mkdir()
    (project / "kernels" / "k.py").write_text(NOTE)
    (project / "old.py").write_text(WARNING)
    (project / "new.py").write_text(NOTE)
    ran = embercoach(".", "--output-format", "concise", "--quiet")
    assert ran.out == "kernels/k.py:2:1: PYTHON-SCALAR-002 error bad_scalar hurts\n"
    assert embercoach(".", "--isolated", "-q", "--output-format", "concise").out == (
        "old.py:2:1: GRAPH-BREAK-001 warning bad_pull hurts\n"
    )
    given = ("--per-file-ignores", "kernels/:DTYPE,python", "--per-file-ignores", "new.py:ALL")
    assert embercoach(".", *given, "-q", "--output-format", "concise").out == (
        "old.py:2:1: GRAPH-BREAK-001 warning bad_pull hurts\n"
    )
    shown = embercoach("config", "kernels/k.py", *given).out
    assert "`per-file-ignores` for kernels/: PYTHON, command line" in shown
    assert '["DTYPE", "PYTHON"]  command line' in shown
    assert "old.py" not in shown


def test_notes_are_listed_on_request(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(NOTE)
    assert "1 note not shown (--show-notes)" in embercoach("a.py").out
    listed = embercoach("a.py", "--show-notes").out
    assert "PYTHON-SCALAR-002 note" in listed
    assert "Found 1 note" in listed
    (project / "embercoach.toml").write_text("show-notes = true\n")
    assert embercoach("a.py").out == listed
    assert "not shown" in embercoach("a.py", "--no-notes").out
    assert "::notice" in embercoach("a.py", "--output-format", "github").out


def test_quiet(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(WARNING)
    loud, quiet = embercoach("a.py"), embercoach("a.py", "-q")
    assert loud.out.startswith(quiet.out)
    assert loud.out.removeprefix(quiet.out) == "Found 1 warning; 1 file checked.\n"


def test_verbose_says_where_settings_and_results_come_from(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(WARNING)
    (project / "b.py").write_text("print()\n")
    (project / "embercoach.toml").write_text('profile = "ember"\n')
    ran = [embercoach(".", "-v") for _ in range(2)][1]
    assert ran.out == embercoach(".").out
    configuration, time = ran.err.splitlines()
    assert re.fullmatch(
        r"embercoach: embercoach\.toml: profile ember, \d+ rules; 1 file checked, "
        r"1 without MLX code skipped, 1 from \.embercoach_cache",
        configuration,
    )
    assert re.fullmatch(r"embercoach: checked in \d+\.\d\d s", time)
    uncached = embercoach("-", "-v", "--isolated", stdin=WARNING.encode()).err
    assert "no configuration file: profile recommended" in uncached
    assert "1 file checked, no cache\n" in uncached


@pytest.mark.parametrize(("when", "colored"), [("always", True), ("never", False)])
def test_color_goes_before_the_environment(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, when: str, colored: bool
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1" if colored else "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    (project / "a.py").write_text(WARNING)
    for arguments in (["a.py"], ["rules", "DTYPE-001"]):
        assert ("\x1b[1m" in embercoach(*arguments, "--color", when).out) == colored


@pytest.mark.parametrize("form", FORMATS)
def test_the_report_in_a_file(embercoach: Cli, project: Path, form: str) -> None:
    (project / "a.py").write_text(WARNING.replace("mlx", "mlx  # 日本"))
    printed = embercoach("a.py", "--output-format", form)
    ran = embercoach("a.py", "--output-format", form, "-o", "report.txt")
    assert (ran.code, ran.out, ran.err) == (1, "", "")
    assert (project / "report.txt").read_text(encoding="utf-8") == printed.out


def test_a_report_that_cannot_be_written(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(WARNING)
    ran = embercoach("a.py", "-o", "no/such/folder.txt")
    assert ran.code == 2
    assert "cannot write no/such/folder.txt: No such file or directory" in ran.err


def test_fixing_files(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text("import mlx\nbad_twice; bad_bound; bad_scalar\n")
    ran = embercoach("a.py", "--fix")
    assert (project / "a.py").read_text() == "import mlx\ngood_shape; bad_bound; bad_scalar\n"
    assert ran.code == 1
    assert "Fixed 2 findings in 1 file.\nFound 1 error; 1 file checked." in ran.out
    assert "1 fixable with --fix --unsafe-fixes." in ran.out
    (project / "a.py").write_text("import mlx\nbad_twice; bad_bound; bad_scalar\n")
    assert embercoach("a.py", "--fix-only") == Ran(0, "", "Fixed 2 findings in 1 file.\n")
    assert (project / "a.py").read_text() == "import mlx\ngood_shape; bad_bound; bad_scalar\n"
    ran = embercoach("a.py", "--fix", "--unsafe-fixes", "--show-notes", "--output-format", "json")
    assert codes_of(ran) == []
    assert (project / "a.py").read_text() == "import mlx\ngood_shape; good_bound; good_scalar\n"


def test_a_diff_changes_nothing(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(SAFE + "bad_bound")
    (project / "b.py").write_text("import mlx\n")
    ran = embercoach(".", "--diff")
    assert ran.out == (
        "--- a.py\n+++ a.py\n@@ -1,3 +1,3 @@\n import mlx\n-bad_shape\n+good_shape\n bad_bound\n"
        "\\ No newline at end of file\n"
    )
    assert ran.err == "Would fix 1 finding in 1 file. 1 more with --unsafe-fixes.\n"
    assert (project / "a.py").read_text() == SAFE + "bad_bound"
    ran = embercoach(".", "--diff", "--unsafe-fixes")
    assert "+good_bound" in ran.out
    assert ran.err == "Would fix 2 findings in 1 file.\n"
    ran = embercoach("-", "--diff", stdin=b"import mlx\nbad_bound\n")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "Would fix 0 findings in 0 files. 1 more with --unsafe-fixes.\n"
    (project / "c.py").write_text("import mlx\n(")
    ran = embercoach(".", "--diff", "-q")
    assert (ran.code, ran.err) == (2, "c.py:2:1: syntax error: '(' was never closed\n")


@pytest.mark.parametrize("options", [["--fix"], ["--fix", "--unsafe-fixes"]])
def test_a_diff_previews_fixes(embercoach: Cli, project: Path, options: list[str]) -> None:
    source = SAFE + "bad_bound\n"
    (project / "a.py").write_text(source)
    previewed = embercoach(".", "--diff", *options)
    assert previewed == embercoach(".", "--diff", *options[1:])
    assert previewed.code == 1
    assert (project / "a.py").read_text() == source
    stdin = ("-", "--diff", "--stdin-filename", "x.py")
    ran = embercoach(*stdin, *options, stdin=source.encode())
    assert ran == embercoach(*stdin, *options[1:], stdin=source.encode())
    excluded = ("--force-exclude", "--exclude", "x.py")
    assert embercoach(*stdin, *options, *excluded, stdin=source.encode()).out == ""


def test_suppressing_what_is_there(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text("import mlx\nbad_pull; bad_bound\nbad_scalar\n")
    ran = embercoach("a.py", "--add-noqa")
    assert (project / "a.py").read_text() == (
        "import mlx\nbad_pull; bad_bound  # embercoach: ignore[GRAPH-BREAK-001, HOST-PULL-012]\n"
        "bad_scalar\n"
    )
    assert ran.code == 0
    assert ran.out == (
        "Suppressed 2 findings.\n"
        "All clear; 1 file checked. 1 note not shown (--show-notes); 2 suppressed.\n"
    )
    (project / "a.py").write_text("import mlx\nx  # embercoach: ignore[GRAPH-BREAK-001]\n")
    assert "NOQA-001 warning" in embercoach("a.py").out


def test_a_suppression_that_suppresses_nothing_is_not_suppressed(
    embercoach: Cli, project: Path
) -> None:
    text = "import mlx\n# embercoach: ignore[DTYPE-001]\nbad_bound\n"
    (project / "a.py").write_text(text)
    ran = embercoach("a.py", "--add-noqa", "--output-format", "concise")
    assert [line.split()[1] for line in ran.out.splitlines() if line.startswith("a.py")] == [
        "NOQA-001"
    ]
    assert (project / "a.py").read_text().count("NOQA") == 0
    again = embercoach("a.py", "--fix")
    assert again.code == 0, again.out


def test_standard_input(embercoach: Cli, project: Path) -> None:
    ran = embercoach("-", stdin=WARNING.encode())
    assert ran.code == 1
    assert ran.out.startswith("-:2:1: GRAPH-BREAK-001 warning bad_pull hurts\n  |\n2 | bad_pull\n")
    (project / "embercoach.toml").write_text('per-file-profiles = {"k/*" = "ember"}\n')
    ran = embercoach(
        "--stdin-filename", "k/a.py", "-", "--output-format", "concise", "-q", stdin=NOTE.encode()
    )
    assert ran.out == "k/a.py:2:1: PYTHON-SCALAR-002 error bad_scalar hurts\n"
    again = embercoach(
        "--stdin-filename", "k/a.py", "--output-format", "concise", "-q", stdin=NOTE.encode()
    )
    assert again == ran
    ran = embercoach("-", "-q", stdin=b"import mlx\nx = '\xff'\n")
    assert (ran.code, ran.out) == (2, "-:2:6: byte 0xff cannot be decoded as utf-8\n")
    assert sorted(path.name for path in project.iterdir()) == ["embercoach.toml"]


def test_edits_of_standard_input_in_json(embercoach: Cli) -> None:
    ran = embercoach("-", "--output-format", "json", stdin=SAFE.encode())
    (edit,) = json.loads(ran.out)["findings"][0]["fix"]["edits"]
    assert edit == {
        "start": {"line": 2, "column": 1},
        "end": {"line": 2, "column": 10},
        "text": "good_shape",
    }


def test_fixing_standard_input(embercoach: Cli) -> None:
    ran = embercoach("-", "--fix", stdin=b"import mlx\r\nbad_twice; bad_pull\r\n")
    assert ran.code == 1
    assert ran.out.replace("\r", "") == "import mlx\ngood_shape; bad_pull\n"
    assert "GRAPH-BREAK-001" in ran.err
    assert "Fixed 2 findings in 1 file." in ran.err
    ran = embercoach("-", "--fix-only", stdin=b"import mlx\nbad_twice; bad_pull\n")
    fixed = "import mlx\ngood_shape; bad_pull\n"
    assert ran == Ran(0, fixed, "Fixed 2 findings in 1 file.\n")
    ran = embercoach("-", "--fix", stdin=b"import numpy\n")
    assert (ran.code, ran.out) == (0, "import numpy\n")
    # What can't be fixed passes through unharmed.
    ran = embercoach("-", "--fix", "-q", stdin=b"import mlx\n(")
    assert (ran.code, ran.out) == (2, "import mlx\n(")
    ran = embercoach("-", "--diff", "-q", stdin=SAFE.encode())
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.endswith("-bad_shape\n+good_shape\n")


def test_excluded_standard_input(embercoach: Cli) -> None:
    arguments = ("-", "--stdin-filename", "venv/a.py", "--force-exclude")
    assert embercoach(*arguments, stdin=WARNING.encode()) == Ran(0, "", "")
    ran = embercoach(*arguments, "--fix", stdin=SAFE.encode())
    assert (ran.code, ran.out) == (0, SAFE)


def test_excluding(embercoach: Cli, project: Path) -> None:
    for name in ("a.py", "gen/b.py", "venv/c.py"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(WARNING)

    def files(*arguments: str) -> list[str]:
        ran = embercoach("check", "--show-files", *arguments)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.split()

    assert files() == ["a.py", "gen/b.py"]
    assert files("--exclude", "gen") == ["a.py", "venv/c.py"]
    assert files("--extend-exclude", "gen/**,x") == ["a.py"]
    assert files("venv/c.py", "a.py") == ["a.py", "venv/c.py"]
    assert files("venv/c.py", "a.py", "--force-exclude") == ["a.py"]
    ran = embercoach("check", "--show-files", "a.py", "absent.py")
    assert (ran.code, ran.out) == (2, "a.py\n")
    assert ran.err == "absent.py: cannot be read: No such file or directory\n"


def test_settings_are_those_of_config_with_all_rules(embercoach: Cli, project: Path) -> None:
    (project / "embercoach.toml").write_text('select = ["DTYPE", "GRAPH-BREAK-001"]\n')
    options = ("--show-notes", "--ignore", "DTYPE-001", "k/", ".")
    ran = embercoach("check", "--show-settings", *options)
    assert ran == embercoach("config", "--all", *options)
    assert "show-notes" in ran.out


def test_the_cache_can_be_left_alone(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text(WARNING)
    embercoach("a.py", "--no-cache")
    assert not (project / ".embercoach_cache").exists()
    embercoach("a.py")
    assert (project / ".embercoach_cache").is_dir()


def test_internal_errors_are_one_line_unless_debugging(embercoach: Cli, project: Path) -> None:
    (project / "a.py").write_text("import mlx\ncrash_value\n")
    line = "a.py:1:1: internal error while checking: ValueError: planted"
    ran = embercoach("a.py", "-q")
    hint = " (please report it with the output of --debug)"
    assert (ran.code, ran.out, ran.err) == (2, f"{line}{hint}\n", "")
    ran = embercoach("a.py", "-q", "--debug")
    assert ran.out.startswith(f"{line}\nTraceback (most recent call last):\n")


def test_a_bug_of_our_own_is_one_line(
    embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(output, "write_report", fail)
    ran = embercoach("check", ".")
    assert (ran.code, ran.err) == (2, "embercoach: internal error: ZeroDivisionError: planted\n")
    with pytest.raises(ZeroDivisionError):
        embercoach("check", ".", "--debug")


def test_colors_on_request(embercoach: Cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.py").write_text(WARNING)
    bare = embercoach("a.py").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    colored = embercoach("a.py").out
    assert "\x1b[" in colored
    assert "\x1b[" not in bare
    assert "\x1b[" not in embercoach("a.py", "--output-format", "json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert embercoach("a.py").out == bare


def test_a_dangling_link_is_skipped_in_a_folder_and_an_error_by_name(
    embercoach: Cli, project: Path
) -> None:
    (project / "a.py").write_text("import mlx\n", encoding="utf-8")
    for name in ("gone.py", "lost.py"):
        (project / name).symlink_to("nowhere")
    ran = embercoach("check", ".")
    skipped = "embercoach: warning: skipped a dangling symbolic link: gone.py and 1 more\n"
    assert (ran.code, ran.out, ran.err) == (0, "All clear; 1 file checked.\n", skipped)
    ran = embercoach("check", "gone.py")
    assert (ran.code, ran.out.splitlines()[:2]) == (
        2,
        ["gone.py:1:1: dangling symbolic link", "1 file not checked."],
    )
