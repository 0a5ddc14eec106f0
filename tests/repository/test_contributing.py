"""CONTRIBUTING.md and the page on the architecture are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from embercoach.rulebook import FRONT_MATTER, parse_page
from tests.examples.readme import blocks

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = sorted(path for path in (ROOT / "rules").glob("*.md") if path.stem != "README")
SECTIONS = re.findall(r"`## (.+?)`", TEXT)


def test_the_example_is_a_rule_page() -> None:
    (front_matter,) = (one.text.strip() for one in blocks(TEXT) if FRONT_MATTER in one.text)
    code = re.findall(r'^code = "(.+)"$', front_matter, re.MULTILINE)[0]
    rule = parse_page(f"{front_matter}\n\n# title\n", ROOT / "rules" / f"{code}.md")
    assert rule.severity_in("recommended", "loop") == "warning"
    assert rule.severity_in("recommended", "script") == "note"
    assert f"`# {rule.name} ({rule.code})`" in TEXT


def test_there_are_pages() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_have_the_sections_in_order(page: Path) -> None:
    sections = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert SECTIONS[-1] == "References"
    assert sections in (SECTIONS, SECTIONS[:-1])


def test_every_package_is_named() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `embercoach/([a-z_]+)` \|", page, re.MULTILINE))
    packages = {path.name for path in (ROOT / "embercoach").iterdir() if path.is_dir()}
    assert named == {name for name in packages if not name.startswith("__")}
