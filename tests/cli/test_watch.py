"""``check --watch``: real processes, that are waited for and never slept for."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from embercoach.cli import watching
from embercoach.engine import workers
from embercoach.installation import install_command
from tests.cli.conftest import Ran

Cli = Callable[..., Ran]
ROOT = Path(__file__).parents[2]
BAD = "import mlx.core as mx\n\n\ndef f(x: mx.array):\n    return mx.full(2, mx.sum(x).item())\n"
BAD += "\n\nfor x in data:\n    f(x)\n"
GOOD = "import mlx.core as mx\n\n\ndef f(x: mx.array) -> mx.array:\n    return mx.sum(x)\n"
PATIENCE = 60.0
IDLE = "Watching for changes"


@pytest.fixture(autouse=True)
def interrupts_arrive() -> Iterator[None]:
    """A shell lets what it runs in the background, and all processes of that, ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Watched:
    """A running ``check --watch``, and what it has written so far, both streams in one."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        terminal: bool = False,
        program: tuple[str, ...] = ("-m", "embercoach"),
    ) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
        ours, theirs = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, *program, "check", "--watch", *arguments],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._text = ""
        self._seen = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, stream: int) -> None:
        while True:
            try:
                data = os.read(stream, 65536)
            except OSError:
                data = b""  # a terminal tells the end so
            with self._news:
                self._text += data.decode()
                self._news.notify_all()
            if not data:
                os.close(stream)
                return

    def until(self, *words: str) -> str:
        """What was written since the last call, up to the first time that all the words stand."""
        deadline = time.monotonic() + PATIENCE
        with self._news:
            while True:
                new = self._text[self._seen :]
                at = -1
                for word in words:
                    at = new.find(word, at + 1)
                    if at < 0:
                        break
                if at >= 0:
                    end = at + len(words[-1])
                    self._seen += end
                    return new[:end]
                left = deadline - time.monotonic()
                assert left > 0, f"{words} did not come:\n{self._text}"
                assert self._reader.is_alive(), f"it ended:\n{self._text}"
                self._news.wait(left)

    def interrupt(self) -> int:
        """Press Ctrl-C, which all processes of a terminal hear."""
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join(PATIENCE)
        assert "Traceback" not in self._text
        assert code == 0, f"exit status {code}:\n{self._text}"
        return code


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    running = []

    def start(*arguments: str, folder: Path = tmp_path, **options: Any) -> Watched:
        running.append(Watched(folder, *arguments, **options))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


def test_changes_are_seen(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    source = tmp_path / "real"
    source.mkdir()
    # The system tells of real paths, and the user's are shown.
    (tmp_path / "src").symlink_to("real")
    (source / "a.py").write_text(GOOD)
    run = watched("src", "--output-format", "concise")
    assert "All clear; 1 file checked." in run.until(IDLE)
    # A file is changed, in place and as most editors do it.
    (source / "a.py").write_text(BAD)
    reported = run.until("src/a.py:5:23: GRAPH-BREAK-001", IDLE)
    assert "real/a.py changed; checking." in reported
    (source / "new").write_text(GOOD)
    (source / "new").replace(source / "a.py")
    run.until("All clear", IDLE)
    # A file comes, in a folder that comes.
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "b.py").write_text(BAD)
    (tmp_path / "made").rename(source / "deep")
    run.until("src/deep/b.py:5:23: GRAPH-BREAK-001", IDLE)
    # The folder goes.
    shutil.rmtree(source / "deep")
    run.until("All clear", IDLE)
    assert run.interrupt() == 0


def test_the_configuration_is_watched(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    source = tmp_path / "src"
    source.mkdir()
    (source / "a.py").write_text(BAD)
    run = watched("src/a.py", "--output-format", "concise")
    run.until("GRAPH-BREAK-001", IDLE)
    # It may come above what is checked.
    (tmp_path / "embercoach.toml").write_text('ignore = ["GRAPH-BREAK"]\n')
    assert "embercoach.toml changed" in run.until("All clear", IDLE)
    # A mistake is told, and waited out.
    (tmp_path / "embercoach.toml").write_text('ignore = ["GRAPH-BRAKE"]\n')
    run.until("ignore: unknown rule 'GRAPH-BRAKE'", IDLE)
    (tmp_path / "embercoach.toml").unlink()
    run.until("GRAPH-BREAK-001", IDLE)
    assert run.interrupt() == 0


@pytest.mark.exhaustive
def test_extended_configurations_are_watched(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("src", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "a.py").write_text(BAD)
    (tmp_path / "src" / "embercoach.toml").write_text('extend = "../shared/base.toml"\n')
    run = watched("src/a.py", "--output-format", "concise")
    run.until("extend must be an existing file", IDLE)
    base = tmp_path / "shared" / "base.toml"
    base.write_text('select = ["DTYPE"]\n')
    assert "base.toml changed" in run.until("All clear", IDLE)
    base.write_text('select = ["GRAPH-BREAK"]\n')
    run.until("GRAPH-BREAK-001", IDLE)
    base.write_text('select = ["GRAPH-BRAKE"]\n')
    run.until("select: unknown rule 'GRAPH-BRAKE'", IDLE)
    base.unlink()
    run.until("extend must be an existing file", IDLE)
    assert run.interrupt() == 0


def test_on_a_terminal_the_screen_is_cleared(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    (tmp_path / "a.py").write_text(BAD)
    run = watched(terminal=True)
    reported = run.until("\x1b[1mGRAPH-BREAK-001\x1b[0m", IDLE)
    assert reported.startswith("\x1b[2J")
    (tmp_path / "a.py").write_text(GOOD)
    assert "\x1b[2J" in run.until("All clear", IDLE)
    assert run.interrupt() == 0


def test_fixes_go_together_with_it(tmp_path: Path, watched: Callable[..., Watched]) -> None:
    (tmp_path / "a.py").write_text("import mlx.core as mx\nx = 1  # embercoach: ignore[DTYPE]\n")
    run = watched("--fix")
    run.until("Fixed 1 finding in 1 file.", IDLE)
    # What it has written itself is a change, too.
    run.until("a.py changed", "All clear", IDLE)
    assert (tmp_path / "a.py").read_text() == "import mlx.core as mx\nx = 1\n"
    assert run.interrupt() == 0


@pytest.mark.parametrize("wait", [pytest.param(0.0, marks=pytest.mark.exhaustive), 0.2])
def test_an_interrupt_while_checking(
    wait: float, tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    """Whether the check is about to start, imports, or is at it."""
    for number in range(30):
        (tmp_path / f"m{number}.py").write_text(BAD * 40)
    run = watched("--no-cache")
    run.until("Checking.")
    time.sleep(wait)
    assert run.interrupt() == 0


class Interrupted:
    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_in_a_callback_is_raised_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    workers.raise_dropped()
    Interrupted()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(PATIENCE)
    assert capfd.readouterr().err == ""


def test_an_interrupt_before_the_check_starts(
    embercoach: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is rarely when an interrupt comes: here always."""

    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "_uninterrupted", interrupted)
    (tmp_path / "a.py").write_text("")
    ran = embercoach("check", "--watch", str(tmp_path))
    assert ran.code == 0
    assert "Checking." in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-"], "--watch and standard input (-) exclude each other"),
        (["--stdin-filename", "a.py"], "--watch and standard input (-) exclude each other"),
        (["--diff"], "--watch and --diff exclude each other"),
        (["--add-noqa"], "--watch and --add-noqa exclude each other"),
        (["-o", "report.txt"], "--watch and --output-file exclude each other"),
        (["--show-files"], "--watch and --show-files exclude each other"),
        (["--output-format", "json"], "must be text, concise or grouped with --watch, got json"),
    ],
)
def test_what_does_not_go_together(embercoach: Cli, arguments: list[str], words: str) -> None:
    ran = embercoach("check", "--watch", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_what_is_to_be_installed_is_named(embercoach: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    ran = embercoach("check", "--watch")
    assert (ran.code, ran.out) == (2, "")
    assert install_command("watch") in ran.err


def test_nothing_of_the_watched_folder_is_imported(
    tmp_path: Path, watched: Callable[..., Watched]
) -> None:
    """Each check is a new interpreter, started in the folder that is linted."""
    if sys.version_info < (3, 11):
        pytest.skip("Python 3.10 has no switch for it")
    start = tmp_path / "bin" / "embercoach"
    start.parent.mkdir()
    start.write_text("from embercoach.cli import main\nif __name__ == '__main__':\n    main()\n")
    project = tmp_path / "project\x1b"
    project.mkdir()
    for name in ("multiprocessing", "click", "embercoach"):
        (project / f"{name}.py").write_text("open('owned', 'w')\n")
    run = watched(".", program=(str(start),), folder=project)
    assert "Nothing to check" in run.until(IDLE)
    (project / "a\x1b.py").write_text(BAD)
    assert "a\\x1b.py changed; checking." in run.until("GRAPH-BREAK-001", IDLE)
    assert not (project / "owned").exists()
    assert run.interrupt() == 0
