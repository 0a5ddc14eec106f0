"""The completion scripts in the shells themselves: somebody types, and presses Tab."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(embercoach completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -U compinit; compinit -u -D; eval "$(embercoach completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "embercoach completion fish | source"),
}
TAB, CLEAR_LINE, BELL = "\t", "\x15", "\a"


class Shell:
    """An interactive shell on a terminal of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        program = folder / "bin" / "embercoach"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m embercoach "$@"\n')
        program.chmod(0o755)
        command, setup = SHELLS[name]
        self._terminal, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={
                "PATH": f"{program.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "HOME": str(folder),
                "TERM": "dumb",
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            # Fish wants the terminal to be its own.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(theirs)
        self._text = ""
        # A word that is in what is answered, and not in what is typed.
        self.type(f"{setup}; printf 'ready%s' 42\n")
        self.wait_for("ready42")

    def type(self, keys: str) -> None:
        """Type on the keyboard."""
        os.write(self._terminal, keys.encode())

    def wait_for(self, words: str) -> None:
        """Wait until the shell has written something since the last time."""
        deadline = time.monotonic() + PATIENCE
        while words not in self._text:
            left = deadline - time.monotonic()
            assert left > 0, f"no {words!r} in {self._text!r}"
            if select.select([self._terminal], [], [], left)[0]:
                self._text += (
                    os.read(self._terminal, 4096).decode(errors="replace").replace(BELL, "")
                )
        self._text = self._text.partition(words)[2]

    def end(self) -> None:
        """End the shell."""
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    if request.param == "bash" and _version_of_bash() < (4, 4):
        pytest.skip("bash is older than the script asks for")
    (tmp_path / "folder_of_mine").mkdir()
    one = Shell(request.param, tmp_path)
    yield one
    with contextlib.suppress(OSError):
        one.end()


def _version_of_bash() -> tuple[int, ...]:
    asked = ["bash", "-c", "echo ${BASH_VERSINFO[0]} ${BASH_VERSINFO[1]}"]
    reported = subprocess.run(asked, capture_output=True, text=True, check=True)
    return tuple(map(int, reported.stdout.split()))


CASES = (
    ("embercoach simul", "simulate"),
    ("embercoach check --add-n", "--add-noqa"),
    ("embercoach check --profile rec", "recommended"),
    ("embercoach check --output-format sari", "sarif"),
    ("embercoach check --select FFT-NO", "FFT-NORM"),
    ("embercoach rules --family host-pu", "host-pull"),
    ("embercoach config folder_of", "folder_of_mine"),
    ("embercoach folder_of", "folder_of_mine"),
    ("embercoach explain folder_of", "folder_of_mine"),
)


def test_a_shell_completes(shell: Shell) -> None:
    for number, (typed, completed) in enumerate(CASES):
        shell.type(f"{typed}{TAB}")
        shell.wait_for(completed)
        shell.type(f"{CLEAR_LINE}printf 'done%s' {number}\n")
        shell.wait_for(f"done{number}")
