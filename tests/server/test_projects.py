"""The configuration of documents, read again when one of its files changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.server.projects import Projects

if TYPE_CHECKING:
    from pathlib import Path


def test_a_change_of_an_extended_file_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    base, own = tmp_path / "base.toml", tmp_path / "embercoach.toml"
    base.write_text("profile = 'ember'\n")
    own.write_text("extend = 'base.toml'\n")
    projects, document = Projects([tmp_path]), tmp_path / "a.py"
    first = projects.of(document)
    assert first.settings is not None
    assert first.settings.profile == "ember"
    assert projects.of(document) is first
    base.write_text("profile = 'embr'\n")
    broken = projects.of(document)
    assert broken.error is not None
    assert broken.error.path == base
    assert broken.settings == first.settings
    assert projects.of(document) is broken
    base.write_text("profile = 'recommended'\n")
    fixed = projects.of(document)
    assert fixed.error is None
    assert fixed.settings is not None
    assert fixed.settings.profile == "recommended"


def test_a_base_that_appears_later_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "embercoach.toml").write_text("extend = 'base.toml'\n")
    projects, document = Projects([tmp_path]), tmp_path / "a.py"
    assert projects.of(document).error is not None
    (tmp_path / "base.toml").write_text("profile = 'ember'\n")
    found = projects.of(document)
    assert found.settings is not None
    assert found.settings.profile == "ember"
