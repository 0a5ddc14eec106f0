"""The extension for VS Code agrees with the package; `.ci/editors` runs its own tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

from embercoach import __version__

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text(encoding="utf-8"))


def test_the_version_is_that_of_the_package() -> None:
    assert MANIFEST["version"] == __version__


def test_the_readme_lists_all_settings() -> None:
    readme = (EXTENSION / "README.md").read_text(encoding="utf-8")
    settings = set(MANIFEST["contributes"]["configuration"]["properties"])
    assert set(re.findall(r"^\| `(embercoach\.[\w.]+)`", readme, re.MULTILINE)) == settings


def test_settings_that_name_programs_are_restricted() -> None:
    trust = MANIFEST["capabilities"]["untrustedWorkspaces"]
    assert trust["supported"] == "limited"
    programs = {"args", "importStrategy", "interpreter", "path"}
    assert set(trust["restrictedConfigurations"]) == {f"embercoach.{name}" for name in programs}
