from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from embercoach.cli.entry import start
from tests.engine.planted import planted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["planted"]

#: What a terminal or a forge that runs the tests would change in reports.
ELSEWHERE = (
    "NO_COLOR",
    "FORCE_COLOR",
    "CI_PROJECT_DIR",
    "GITHUB_SERVER_URL",
    "GITHUB_REPOSITORY",
    "GITHUB_SHA",
    "GITHUB_WORKSPACE",
)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def embercoach(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Run a command line in this process; ``stdin`` is what standard input holds."""

    def call(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = start(arguments)
        return Ran(code, *capfd.readouterr())

    return call
