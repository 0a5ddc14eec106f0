"""The other commands, and the command line as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embercoach import __version__, rulebook
from embercoach.cli import progress
from embercoach.cli.progress import ProgressBar, progress_of
from embercoach.report.page_lines import LONG
from embercoach.testing.rule_pages import SECTIONS, read_page
from tests.cli.conftest import Ran
from tests.processes import run_python
from tests.rows import each_row

Cli = Callable[..., Ran]
ROOT = Path(__file__).parents[2]
RULES = rulebook.rules()


def test_version(embercoach: Cli) -> None:
    expected = Ran(0, f"embercoach {__version__}\n", "")
    assert embercoach("--version") == embercoach("-V") == expected


def test_help_lists_every_command_with_its_own_words(embercoach: Cli) -> None:
    from embercoach.cli.entry import COMMANDS

    text = " ".join(embercoach("--help").out.split())
    for name, summary in COMMANDS.items():
        assert f"{name} {summary}" in text
        assert embercoach(name, "-h").out.startswith(f"Usage: embercoach {name} ")
    assert "--debug" not in embercoach("check", "--help").out


def test_without_arguments_the_help_is_shown(embercoach: Cli) -> None:
    ran = embercoach()
    assert ran.code == 2
    assert "Usage: embercoach " in ran.out + ran.err


@each_row("code", sorted(RULES))
def test_explain_fits_a_screen_and_begins_with_the_harm(embercoach: Cli, code: str) -> None:
    ran = embercoach("explain", code)
    rule, lines = RULES[code], ran.out.splitlines()
    assert (ran.code, ran.err) == (0, "")
    assert lines[:4] == [f"{code} {rule.name}", "", rule.summary, ""]
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    order = [line for line in lines if line in {*SECTIONS, "Severities"}]
    short = [name for name in SECTIONS if f"\n## {name}\n" in rule.page and name not in LONG]
    assert order == [*short, "Severities"]


@pytest.mark.parametrize(
    ("code", "flagged", "change"),
    [
        ("KERNEL-RACE-001", "if (lane == 0) part[group] = sum;", "threadgroup_barrier(mem_flags"),
        ("KERNEL-BOUNDS-001", "y[i] = tile[t + 1] - tile[t];", "t + 1 < 64 ?"),
        ("KERNEL-GRID-001", "grid=((x.size + 255) // 256, 1, 1),", "grid=(x.size, 1, 1),"),
    ],
)
def test_explain_shows_the_flagged_line_and_the_change(
    embercoach: Cli, code: str, flagged: str, change: str
) -> None:
    shown = embercoach("explain", code).out
    assert flagged in shown[shown.index("\nBad") : shown.index("\nGood")]
    assert change in shown[shown.index("\nHow to fix") : shown.index("\nWhat it reports")]


def test_explain_full_has_all_code_of_the_page(embercoach: Cli) -> None:
    ran = embercoach("explain", "--full", "HOST-PULL-002")
    code = "".join(block.code for block in read_page(rulebook.page_path("HOST-PULL-002")).blocks)
    shown = ran.out.splitlines()
    assert [line for line in code.splitlines() if line and f"    {line}" not in shown] == []
    assert "Evidence" in shown
    refused = embercoach("explain", "--full", "a.py:3")
    assert (refused.code, refused.out) == (2, "")


def test_explain_takes_names_and_any_case(embercoach: Cli) -> None:
    expected = embercoach("explain", "GRAPH-BREAK-001")
    assert embercoach("explain", "graph-break-001") == expected
    assert embercoach("explain", "item-call") == expected


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("NN-00", "no rule 'NN-00'; `embercoach rules NN-00` lists those like it"),
        ("race", "no rule 'race'; `embercoach rules race` lists those like it"),
        ("host-pul-001", "unknown rule 'host-pul-001'; did you mean 'HOST-PULL-001'?"),
        ("steps.py", "'steps.py' is a file; add a line, as in 'steps.py:12'"),
    ],
)
def test_explain_says_what_to_write_instead(
    embercoach: Cli, project: Path, word: str, says: str
) -> None:
    (project / "steps.py").write_text("")
    ran = embercoach("explain", word)
    assert ran.code == 2
    assert says in ran.err


def test_explain_in_json(embercoach: Cli) -> None:
    reported = json.loads(embercoach("explain", "DTYPE-001", "--output-format", "json").out)
    rule = RULES["DTYPE-001"]
    assert reported == {
        "code": "DTYPE-001",
        "name": rule.name,
        "family": rule.family,
        "summary": rule.summary,
        "since": rule.since,
        "events": list(rule.events),
        "fix": rule.fix,
        "severity": rule.severity,
        "kind": None,
        "page": rule.page,
    }


#: Parameters of an escape sequence that set a background.
BACKGROUND = re.compile(r"(?:^|;)(?:7|4[0-8]|10[0-7])(?:;|$)")


@pytest.mark.parametrize("options", [[], ["--full"]])
def test_explain_in_color_leaves_the_background(
    embercoach: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    ran = embercoach("explain", "GRAPH-BREAK-001", *options)
    styles = re.findall(r"\x1b\[([0-9;]*)m", ran.out)
    assert ran.code == 0
    assert set(styles) > {"0"}
    assert [style for style in styles if BACKGROUND.search(style)] == []
    assert "```" not in ran.out


def test_rules(embercoach: Cli) -> None:
    ran = embercoach("rules")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["code", "name", "severity", "fix", "about"]
    assert [line.split()[0] for line in lines[1:]] == sorted(RULES)
    for line, rule in zip(lines[1:], RULES.values(), strict=True):
        assert line.split()[:3] == [
            rule.code,
            rule.name,
            rule.severity_in("recommended", "default"),
        ]
        assert line.endswith(rule.summary)


def test_rules_can_be_filtered(embercoach: Cli) -> None:
    reported = json.loads(
        embercoach("rules", "KERNEL-", "Host-Pull", "--output-format", "json").out
    )
    chosen = [code for code in RULES if code.startswith(("HOST-PULL", "KERNEL-"))]
    assert [rule["code"] for rule in reported] == chosen
    assert "page" not in reported[0]
    ran = embercoach("rules", "--severity", "note", "--profile", "recommended")
    notes = [c for c, r in RULES.items() if r.severity_in("recommended", "default") == "note"]
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == notes
    ember = embercoach("rules", "--profile", "ember", "python-scalar").out
    assert {line.split()[2] for line in ember.splitlines()[1:]} == {"error"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion(embercoach: Cli, shell: str) -> None:
    ran = embercoach("completion", shell)
    assert ran.code == 0
    assert "_EMBERCOACH_COMPLETE" in ran.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.out, text=True, check=True, capture_output=True)


def completed(*words: str) -> list[str]:
    asked = {"COMP_WORDS": " ".join(["embercoach", *words]), "COMP_CWORD": str(len(words))}
    environment = {**os.environ, **asked, "_EMBERCOACH_COMPLETE": "bash_complete"}
    result = run_python("-m", "embercoach", cwd=ROOT, env=environment)
    return result.stdout.splitlines()


def words(*words: str) -> list[str]:
    lines = [line.split(",", 1) for line in completed(*words)]
    return [word for kind, word in lines if kind == "plain"]


def test_what_is_completed() -> None:
    assert words("ex") == ["explain"]
    assert words("check", "--out") == ["--output-format", "--output-file"]
    # The default command needs no name.
    assert words("--add") == ["--add-noqa"]
    assert words("--vers") == ["--version"]
    # Here the shell completes file names.
    assert completed("src/mo") == completed("check", "src/mo") == ["file,src/mo"]
    assert words("check", "--add") == ["--add-noqa"]
    assert words("check", "--select", "FFT-NORM-00") == [
        "FFT-NORM-001",
        "FFT-NORM-002",
        "FFT-NORM-003",
    ]
    assert words("check", "--select", "DTYPE,FFT-NORM-001")[0] == "DTYPE,FFT-NORM-001"
    assert words("explain", "complex-003") == ["COMPLEX-003"]
    assert words("check", "--profile", "e") == ["ember"]


def test_powershell_passes_words_in_lines_and_no_empty_variable() -> None:
    asked = {**os.environ, "_EMBERCOACH_COMPLETE": "powershell_complete"}
    lines = {"COMP_WORDS": "embercoach\ncheck\nmy folder\n--profile"}
    empty = run_python("-m", "embercoach", cwd=ROOT, env=asked | lines)
    assert empty.stdout == "plain,recommended\nplain,ember\n"
    typed = run_python("-m", "embercoach", cwd=ROOT, env=asked | lines | {"COMP_CWORD": "e"})
    assert typed.stdout == "plain,ember\n"


def run(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "embercoach", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        check=False,
        timeout=60,
        **options,
    )


LIGHT = """
import sys
from embercoach.cli.entry import start
code = start(sys.argv[1:])
heavy = {"libcst", "rich", "mlx", "numpy", "tree_sitter", "pathspec", "multiprocessing"}
print(code, sorted(heavy & sys.modules.keys()), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["check", "--help"], ["rules"], ["explain", "DTYPE-001"]],
)
def test_light_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LIGHT, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "FORCE_COLOR": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == "0 []\n"


REAL = "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return mx.full(2, mx.sum(x).item())\n"
REAL += "\n\nfor x in data:\n    f(x)\n"


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    """``embercoach check . | head -1`` ends in silence, with the run's code."""
    for number in range(40):
        (tmp_path / f"m{number}.py").write_text(REAL * 20)
    process = subprocess.Popen(
        [sys.executable, "-m", "embercoach", "check", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert "GRAPH-BREAK-001" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


def test_an_interrupt(tmp_path: Path) -> None:
    slow = (
        "import signal, sys, time\nfrom embercoach import checks\nfrom embercoach.cli import main\n"
        # A shell starts background jobs with the signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def wait(*_):\n    print('started', flush=True)\n    time.sleep(60)\n"
        "checks.check_source = wait\n"
        "sys.argv = ['embercoach', 'check', '.', '--jobs', '1']\nmain()\n"
    )
    (tmp_path / "a.py").write_text(REAL)
    process = subprocess.Popen(
        [sys.executable, "-c", slow],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err.strip()) == (130, "", "")


SLOW = """
import sys, time
from embercoach import checks
from embercoach.cli import main, progress
progress.PATIENCE = 0.1
check_source = checks.check_source
def slowly(*arguments):
    time.sleep(0.1)
    return check_source(*arguments)
checks.check_source = slowly
sys.argv = ["embercoach", "check", ".", "--jobs", "1", "--no-cache"]
main()
"""


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_progress_is_for_terminals_and_beside_the_report(terminal: bool, tmp_path: Path) -> None:
    """What is piped away is the report, whole, whether somebody watches or not."""
    for name in "abcd":
        (tmp_path / f"{name}.py").write_text(REAL)
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    assert process.stdout is not None
    report = process.stdout.read().decode()
    assert process.wait(timeout=60) == 1
    shown = b""
    with contextlib.suppress(OSError):  # a terminal tells the end so
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    assert report.endswith("Found 4 warnings; 4 files checked.\n")
    assert "\x1b" not in report
    assert (b"Checking" in shown and b"/4" in shown) == terminal
    assert bool(shown) == terminal


def test_a_module_run(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(REAL)
    result = run("a.py", "--output-format", "concise", "-q", cwd=tmp_path, capture_output=True)
    assert result.returncode == 1
    assert result.stdout.startswith("a.py:5:23: GRAPH-BREAK-001 warning ")
    assert result.stderr == ""


def test_a_terminal_gets_colors(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(REAL)
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "embercoach", "a.py"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # Linux tells the end so
    assert process.wait(timeout=60) == 1
    assert b"\x1b[1mGRAPH-BREAK-001\x1b[0m" in shown


class Terminal:
    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_is_shown_late_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    bar = ProgressBar()
    bar(1, 10)
    assert terminal.text == ""
    now += progress.PATIENCE + 0.01
    bar(4, 10)
    assert "4/10" in terminal.text
    bar(5, 10)
    assert "5/10" not in terminal.text  # too soon
    now += progress.INTERVAL
    bar(6, 10)
    assert "6/10" in terminal.text
    bar.close()
    assert terminal.text.endswith("\x1b[2K") or "\x1b[1A\x1b[2K" in terminal.text


@pytest.mark.parametrize("quiet", [True, False])
def test_no_progress_without_a_terminal(
    quiet: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if quiet:
        monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_of(quiet=quiet) as bar:
        assert bar is None
    assert getattr(sys.stderr, "text", "") == ""
    assert capfd.readouterr().err == ""
