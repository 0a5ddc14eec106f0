"""CONTRIBUTING.md and the page on the architecture are up to date."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embercoach.rulebook import FRONT_MATTER, parse_page
from tests.examples.readme import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def test_modules_and_names_of_the_architecture_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[a-z_/]+\.py`.*?) \| (`.+?`) \| .+ \|$", page, re.MULTILINE)
    assert len(rows) > 40
    for modules, names in rows:
        paths = [ROOT / "embercoach" / name for name in re.findall(r"`(.+?)`", modules)]
        assert [path for path in paths if not path.is_file()] == []
        defined = {name for path in paths for name in names_in(path)}
        assert set(re.findall(r"`(.+?)`", names)) <= defined, modules
    for folder, module in re.findall(r"`((?:[a-z_]+/)+)([a-z_]+\.py)?`", page):
        assert (ROOT / "embercoach" / folder / module).exists() or (ROOT / folder / module).exists()


def names_in(module: Path) -> Iterator[str]:
    """The functions and classes of a module, and the methods as ``Class.method``."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{one.name}" for one in node.body if hasattr(one, "name"))
