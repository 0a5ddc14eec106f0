"""A release: its workflow, its notes, its metadata, and the repository's owner."""

from __future__ import annotations

import subprocess
from email.message import Message
from email.parser import HeaderParser
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zipfile import ZipFile

import pytest
import yaml
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

from tests.examples.programs import ROOT, imported
from tests.examples.readme import blocks
from tests.repository.test_package import PROJECT, SETTINGS, build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from markdown_it.token import Token

notes = imported(".ci/release_notes.py")
ownership = imported(".ci/owner.py")
WORKFLOWS = ROOT / ".github" / "workflows"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2030-01-31

### Added

- `## [9.0.0]`, a heading only in code:

  ```text
  ## [8.0.0] - 2030-01-01
  ```

## [0.1.0] - 2029-12-24

- First.
"""


def jobs(name: str) -> dict[str, Any]:
    workflow = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    found = workflow["jobs"]
    assert isinstance(found, dict)
    return found


# --- the workflow ------------------------------------------------------------------------------


def test_only_a_tag_publishes_and_only_what_passed_all_tests() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "release.yml").read_text(encoding="utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}
    release = workflow["jobs"]
    assert set(release) == {"build", "test", "publish", "announce"}
    assert release["test"]["uses"] == "./.github/workflows/ci.yml"
    assert release["publish"]["needs"] == ["build", "test"]
    assert release["publish"]["if"] == "github.event_name == 'push'"
    assert release["publish"]["environment"]["name"] == "pypi"
    assert release["publish"]["steps"][-1]["with"] == {"attestations": True}
    assert release["announce"]["needs"] == "publish"


def test_what_is_published_was_rehearsed() -> None:
    lines = [step.get("run", "") for step in jobs("release.yml")["build"]["steps"]]
    order = ["release_notes.py", "hatchling build", ".ci/rehearsal.py --dist dist"]
    places = [next(n for n, line in enumerate(lines) if part in line) for part in order]
    assert places == sorted(places)


def test_the_release_builds_with_what_the_package_requires() -> None:
    extras = PROJECT["optional-dependencies"]
    requires = SETTINGS["build-system"]["requires"]
    assert set(requires) <= set(extras["release"])
    assert set(requires) <= set(extras["test"])
    (twine,) = (line for line in extras["release"] if Requirement(line).name == "twine")
    assert [pin.operator for pin in Requirement(twine).specifier] == ["=="]


# --- the notes ---------------------------------------------------------------------------------


def test_sections_of_a_changelog() -> None:
    found = notes.sections(CHANGELOG)
    assert set(found) == {"Unreleased", "0.2.0", "0.1.0"}
    assert found["Unreleased"].text == ""
    assert found["0.2.0"].text.startswith("### Added\n\n- `## [9.0.0]`")
    assert found["0.1.0"] == notes.Section("2029-12-24", "- First.")


@pytest.mark.parametrize(
    ("old", "new", "tag", "refused"),
    [
        ("", "", "v0.2.0", None),
        ("", "", "v0.1.0", "tag must be v0.2.0, got v0.1.0 (pyproject.toml)"),
        ("", "", "0.2.0", "tag must be v0.2.0, got 0.2.0 (pyproject.toml)"),
        (
            "2030-01-31",
            "unreleased",
            "v0.2.0",
            "date of [0.2.0] must be YYYY-MM-DD, got 'unreleased' (CHANGELOG.md)",
        ),
        (
            "[Unreleased]\n",
            "[Unreleased]\n\n- More.\n",
            "v0.2.0",
            "[Unreleased] must be empty: move its entries to [0.2.0] (CHANGELOG.md)",
        ),
    ],
    ids=["released", "another version", "no v", "no date", "unreleased entries"],
)
def test_tags_that_are_refused(old: str, new: str, tag: str, refused: str | None) -> None:
    found = notes.sections(CHANGELOG.replace(old, new) if old else CHANGELOG)
    assert notes.problem(found, "0.2.0", tag) == refused


def test_a_version_without_a_section_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n", encoding="utf-8")
    monkeypatch.setattr(notes, "CHANGELOG", changelog)
    assert notes.main([]) == 1
    assert capsys.readouterr().err == (f"CHANGELOG.md must have a section [{PROJECT['version']}]\n")


# --- the metadata ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """The metadata of the wheel; its payload is what PyPI shows."""
    wheel = build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))
    with ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def tokens(markdown: str) -> Iterator[Token]:
    for token in MarkdownIt().enable("table").parse(markdown):
        yield token
        yield from token.children or []


def links(markdown: str) -> list[str]:
    found = (token.attrGet("href") or token.attrGet("src") for token in tokens(markdown))
    return [str(link) for link in found if link]


def test_the_index_shows_readme_with_absolute_links(metadata: Message) -> None:
    shown = metadata.get_payload()
    assert isinstance(shown, str)

    def absolute(link: str) -> str:
        if urlsplit(link).scheme:
            return link
        form = "raw" if link.endswith((".svg", ".png")) else "blob"
        return f"{PROJECT['urls']['Repository']}/{form}/v{PROJECT['version']}/{link}"

    assert links(shown) == [*map(absolute, links(README))]
    assert [block.text for block in blocks(shown)] == [block.text for block in blocks(README)]


def test_relative_links_of_readme_exist() -> None:
    relative = [urlsplit(link).path for link in links(README) if not urlsplit(link).scheme]
    assert relative
    assert [path for path in relative if not (ROOT / path).exists()] == []


def test_the_citation_agrees_with_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    urls = PROJECT["urls"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["keywords"] == PROJECT["keywords"]
    assert citation["authors"] == PROJECT["authors"]
    assert (citation["repository-code"], citation["url"]) == (
        urls["Repository"],
        urls["Documentation"],
    )


# --- the owner ---------------------------------------------------------------------------------


def test_every_mention_of_the_owner_is_replaced() -> None:
    old = ownership.owner(ROOT)
    listed = subprocess.run(
        ["git", "grep", "-lzIF", f"{old}/embercoach"], cwd=ROOT, capture_output=True, check=True
    )
    names = listed.stdout.decode().rstrip("\0").split("\0")
    assert {"README.md", "SECURITY.md", "CITATION.cff", "pyproject.toml"} <= set(names)
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert f"{old}/embercoach" not in ownership.replaced(text, old, "another"), name


def test_the_owner_is_replaced_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "pyproject.toml": '[project.urls]\nRepository = "https://github.com/me/embercoach"\n',
        "a.md": "https://me.github.io/embercoach/ and `uses: me/embercoach@v1`\n",
        "same.md": "https://github.com/me/other, https://github.com/notme/embercoach\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    assert ownership.main(["you"]) == 0
    assert capsys.readouterr().out.split() == ["a.md", "pyproject.toml"]
    assert ownership.owner(tmp_path) == "you"
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == (
        "https://you.github.io/embercoach/ and `uses: you/embercoach@v1`\n"
    )
    assert (tmp_path / "same.md").read_text(encoding="utf-8") == texts["same.md"]
