"""Print the section of the changelog for a release: `python .ci/release_notes.py [TAG]`.

The release workflow calls this. The version is in `pyproject.toml`. A TAG is refused unless it is
that version, the section has a date, and nothing is left under `[Unreleased]`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from markdown_it import MarkdownIt

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = ROOT / "CHANGELOG.md"
PROJECT = ROOT / "pyproject.toml"
UNRELEASED = "Unreleased"


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the changelog: what follows the version in its heading, and its text."""

    day: str
    text: str


def sections(changelog: str) -> dict[str, Section]:
    """Return the sections of a changelog by their version."""
    lines = changelog.splitlines()
    tokens = MarkdownIt().parse(changelog)
    headings = [
        (token.map, tokens[number + 1].content)
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2" and token.map is not None
    ]
    found = {}
    end = len(lines)
    for (first, start), heading in reversed(headings):
        version, _, day = heading.removeprefix("[").partition("]")
        found[version] = Section(day.removeprefix(" - "), "\n".join(lines[start:end]).strip())
        end = first
    return found


def problem(found: dict[str, Section], version: str, tag: str) -> str | None:
    """Return why a tag must not be released, or None."""
    if tag != f"v{version}":
        return f"tag must be v{version}, got {tag} (pyproject.toml)"
    try:
        date.fromisoformat(found[version].day)
    except ValueError:
        return f"date of [{version}] must be YYYY-MM-DD, got {found[version].day!r} (CHANGELOG.md)"
    if UNRELEASED in found and found[UNRELEASED].text:
        return f"[{UNRELEASED}] must be empty: move its entries to [{version}] (CHANGELOG.md)"
    return None


def main(arguments: list[str]) -> int:
    """Print the section; return 1 with a line on stderr if the tag must not be released."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tag", nargs="?", metavar="TAG", help="the release's tag, such as v0.1.0")
    tag = parser.parse_args(arguments).tag
    version = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
    found = sections(CHANGELOG.read_text(encoding="utf-8"))
    if not found.get(version, Section("", "")).text:
        print(f"CHANGELOG.md must have a section [{version}]", file=sys.stderr)
        return 1
    if tag is not None and (refused := problem(found, version, tag)):
        print(refused, file=sys.stderr)
        return 1
    print(found[version].text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
