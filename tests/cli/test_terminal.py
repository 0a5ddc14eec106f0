"""A terminal gets messages that fit its width; a pipe gets every message in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":
    pytest.skip("Windows has no pseudo-terminals", allow_module_level=True)

SOURCE = "import mlx.core as mx\n\n\ndef f(x: mx.array) -> float:\n    return x.item() + 1\n"
SOURCE += "\n\nfor x in data:\n    f(x)\n"
COLUMNS = 50


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return kept | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "xterm"}


def test_a_terminal_wraps_what_a_pipe_does_not(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    command = [sys.executable, "-m", "embercoach", "check", "--isolated", "--no-cache", "a.py"]
    piped = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    ).stdout
    mine, theirs = os.openpty()
    subprocess.run(command, cwd=tmp_path, env=environment(), stdout=theirs, check=False)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(mine, 4096):
            shown += part
    except OSError:  # Linux ends a closed terminal so
        pass
    os.close(mine)
    lines = shown.decode().splitlines()
    assert piped.splitlines()[0].startswith("a.py:5:12: GRAPH-BREAK-001 warning ")
    assert len(piped.splitlines()[0]) > COLUMNS
    assert max(map(len, lines)) <= COLUMNS
    assert " ".join(lines).split() == piped.split()
