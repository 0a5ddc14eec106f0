"""The documentation's site: it builds without a warning, holds everything, and loads nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from runpy import run_path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from embercoach import rulebook
from embercoach.config.schema import json_schema as settings_schema
from tests.docs.documents import DOCUMENTS
from tests.examples.programs import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mkdocs", reason="needs the extra `dev`")
HOOKS: dict[str, Any] = run_path(str(ROOT / ".ci" / "documentation.py"))
LANDING: dict[str, Any] = run_path(str(ROOT / ".ci" / "landing.py"))
#: Where the pages of the repository's files are in the site.
pytestmark = [pytest.mark.docs, pytest.mark.xdist_group("site")]
PAGES = {
    path: HOOKS["BORROWED"].get(path.name, path.name).removesuffix(".md") for path in DOCUMENTS
} | {ROOT / "CHANGELOG.md": "changelog", ROOT / "SECURITY.md": "security"}
RULES = {code: f"rules/{code}" for code in rulebook.codes()}


def build(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["-m", "mkdocs", "build", "--strict", "-f", ".mkdocs.yml", "-d", str(site)]
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build(folder)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    return folder


def page(site: Path, name: str) -> LexborHTMLParser:
    path = site / "index.html" if name == "index" else site / name / "index.html"
    return LexborHTMLParser(path.read_text(encoding="utf-8"))


# --- what is in it -----------------------------------------------------------------------------


def test_every_rule_has_a_page(site: Path) -> None:
    for rule in rulebook.rules().values():
        page_of_rule = page(site, RULES[rule.code])
        (title,) = page_of_rule.css("article h1")
        assert f"{rule.name} ({rule.code})" in title.text()
        names = [heading.text().rstrip("¶") for heading in page_of_rule.css("h2")]
        assert (names[0], names[-1]) == ("Bad", "Severities")


def test_the_table_of_rules_is_whole(site: Path) -> None:
    rows = [
        [cell.text(strip=True) for cell in row.css("td")]
        for row in page(site, "rules").css("article table tr")
    ]
    listed = {row[0]: row[2:] for row in rows if row and row[0] in rulebook.codes()}
    assert set(listed) == rulebook.codes()
    assert listed["GRAPH-BREAK-001"] == [
        "warning (error in compiled, differentiated; note in minor, test, benchmark)",
        "error (note in test, benchmark)",
        "none",
    ]


def test_every_setting_is_described(site: Path) -> None:
    article = page(site, "configuration").css_first("article")
    assert article is not None
    headings = {heading.text().rstrip("¶") for heading in article.css("h3")}
    properties = settings_schema()["properties"]
    assert properties
    assert headings >= set(properties)
    assert "simulator.timeout" in headings
    for about in properties.values():
        assert "".join(about["description"].split()).replace("`", "") in "".join(
            article.text().split()
        )


@pytest.mark.parametrize("name", HOOKS["GENERATED"])
def test_a_page_has_its_generated_part_as_it_is_today(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == HOOKS["with_table"](name), "run `python -m tests.regenerate tables`"


# --- what it is made of ------------------------------------------------------------------------


def shape(elements: list[str]) -> dict[str, int]:
    return {name: elements.count(name) for name in ("h2", "li", "pre", "table", "blockquote")}


@pytest.mark.parametrize("source", sorted({*PAGES, *(ROOT / "rules").glob("*.md")}), ids=str)
def test_a_page_is_what_a_forge_shows(source: Path, site: Path) -> None:
    """Python-Markdown reads some lists and blocks otherwise than GitHub does."""
    text = source.read_text(encoding="utf-8")
    name = RULES.get(source.stem) or PAGES[source]
    if source.stem in RULES:
        text = HOOKS["rule_page"](rulebook.rule(source.stem))
    for marker, made in LANDING["PARTS"].items():
        text = text.replace(f"<!-- generated: {marker} -->", made())
    tokens = MarkdownIt().enable("table").parse(text)
    names = {"list_item_open": "li", "fence": "pre", "code_block": "pre"}
    wanted = [names.get(token.type, token.tag) for token in tokens if token.nesting >= 0]
    article = page(site, name).css_first("article")
    assert article is not None
    found = [node.tag for node in article.traverse(include_text=False)]
    assert shape([tag for tag in found if tag]) == shape(wanted)


def addresses(html: LexborHTMLParser) -> set[str]:
    """What a browser loads for a page without being asked."""
    tags = "script[src], img[src], iframe[src], source[src], video[src], audio[src]"
    loaded = {node.attributes["src"] or "" for node in html.css(tags)}
    links = html.css(
        "link[rel~=stylesheet], link[rel~=icon], link[rel~=preload], link[rel~=preconnect]"
    )
    return loaded | {node.attributes["href"] or "" for node in links}


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(RULES)
    foreign = {
        address
        for path in pages
        for address in addresses(LexborHTMLParser(path.read_text(encoding="utf-8")))
        if urlsplit(address).scheme not in ("", "data") or urlsplit(address).netloc
    }
    assert foreign == set()
    # Material's script asks GitHub for the stars of what this attribute marks.
    assert not [path for path in pages if 'component="source"' in path.read_text(encoding="utf-8")]
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", text), style


# --- links -------------------------------------------------------------------------------------


@pytest.fixture
def links() -> Any:
    links = HOOKS["RepositoryLinks"]()
    links.repository = "https://forge/me/it/"
    links.pages = {
        "README.md": "index.md",
        "docs/reports.md": "reports.md",
        "rules/A-001.md": "rules/A-001.md",
    }
    return links


@pytest.mark.parametrize(
    ("source", "uri", "link", "expected"),
    [
        ("README.md", "index.md", "docs/reports.md#baseline", "reports.md#baseline"),
        ("README.md", "index.md", "rules/A-001.md", "rules/A-001.md"),
        ("docs/a.md", "a.md", "../rules/A-001.md", "rules/A-001.md"),
        ("docs/a.md", "a.md", "../README.md#limits", "index.md#limits"),
        ("rules/A-001.md", "rules/A-001.md", "../docs/reports.md", "../reports.md"),
        ("README.md", "index.md", "LICENSE", "https://forge/me/it/blob/main/LICENSE"),
        ("docs/a.md", "a.md", "../tests/accuracy", "https://forge/me/it/tree/main/tests/accuracy"),
        ("docs/a.md", "a.md", "https://elsewhere/x", "https://elsewhere/x"),
        ("docs/a.md", "a.md", "#here", "#here"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(
    source: str, uri: str, link: str, expected: str, links: Any, caplog: pytest.LogCaptureFixture
) -> None:
    links.source, links.uri = source, uri
    assert links.resolve(link) == expected
    assert caplog.records == []
