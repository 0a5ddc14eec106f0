"""The command that adds an extra names what the copy was installed from."""

from __future__ import annotations

import json
import shlex
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from embercoach import installation

if TYPE_CHECKING:
    from pathlib import Path

ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="quotes are those of a POSIX shell")


def command(monkeypatch: pytest.MonkeyPatch, noted: str | None) -> str:
    """The command for an installation with this note in its metadata."""
    copy = SimpleNamespace(read_text=lambda name: noted if name == "direct_url.json" else None)
    monkeypatch.setattr(installation, "distribution", lambda name: copy)
    return installation.install_command("server", "python3.12")


@ON_POSIX
@pytest.mark.parametrize("editable", [True, False])
def test_a_clone_is_named_as_it_was_installed(
    editable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a clone"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    noted = json.dumps({"url": folder.as_uri(), "dir_info": {"editable": editable}})
    words = shlex.split(command(monkeypatch, noted))
    assert words[:4] == ["python3.12", "-m", "pip", "install"]
    assert words[4:] == ["-e"] * editable + [f"{folder}[server]"]


NOTES = [
    None,
    "",
    "no JSON",
    "[]",
    '{"url": 1, "dir_info": {}}',
    '{"url": "file:///tmp/wheel.whl", "archive_info": {}}',
    '{"url": "https://example.org/embercoach", "dir_info": {}}',
    '{"url": "file:///no/such/folder", "dir_info": {"editable": true}}',
]


@ON_POSIX
@pytest.mark.parametrize("noted", NOTES)
def test_otherwise_the_package_is_named(noted: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command(monkeypatch, noted) == "python3.12 -m pip install 'embercoach[server]'"
