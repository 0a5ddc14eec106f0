"""The HTML report: its structure, as a browser's parser reads it, and what it holds."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser

from embercoach.finding import SEVERITIES, Finding
from embercoach.report import json_report
from embercoach.report.html import sources as html_sources
from embercoach.report.html.rendering import render
from embercoach.report.outcome import SourceTexts
from tests.report.conftest import FINDINGS, MODEL, ODD, PROBLEMS, WIDE, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>&amp;\u2028\u2029"
ELEMENTS = {"script": 2, "style": 1, "img": 0, "iframe": 0, "object": 0, "form": 1}


def everything(_: str) -> bool:
    return True


def data_of(tree: LexborHTMLParser) -> dict[str, Any]:
    (node,) = tree.css("script#data")
    data: dict[str, Any] = json.loads(node.text())
    return data


def counts_in(tree: LexborHTMLParser, chart: str) -> dict[str, list[int]]:
    """The numbers of a chart by what they count: errors, warnings, notes."""
    return {
        row.css_first("a").text(): [int(cell.text()) for cell in row.css(".number")]
        for row in tree.css(f"#by-{chart} tbody tr")
    }


def document_of(*findings: Finding, marks: Sequence[str] | None = None) -> dict[str, Any]:
    return json_report.document(Outcome(findings), SourceTexts(), show_notes=True, marks=marks)


@pytest.fixture
def document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome, sources: SourceTexts
) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "wide.py").write_text(WIDE, encoding="utf-8")
    # Within its line, as a run finds it: what lies outside is taken for another file's.
    found = tuple(replace(f, end_column=28) if f is FINDINGS[1] else f for f in FINDINGS)
    outcome = replace(outcome, findings=found)
    odd = ODD.replace("\ud800", "?").encode()
    (tmp_path / "src/odd, name%.py").write_bytes(odd)
    return json_report.document(outcome, sources, show_notes=True)


def test_landmarks_and_names(document: dict[str, Any]) -> None:
    tree = LexborHTMLParser(render(document, readable=everything))
    assert tree.css_first("html").attributes["lang"] == "en"
    assert [len(tree.css(tag)) for tag in ("body > header", "main", "body > footer")] == [1, 1, 1]
    assert tree.css_first("a.skip").attributes["href"] == "#main"
    assert all(nav.attributes["aria-label"] for nav in tree.css("nav"))
    ids = [node.attributes["id"] for node in tree.css("[id]")]
    assert len(ids) == len(set(ids))
    for node in tree.css("[aria-labelledby]"):
        assert node.attributes["aria-labelledby"] in ids
    for field in tree.css("input:not([type=checkbox]), select"):
        assert tree.css(f'label[for="{field.attributes["id"]}"]')
    for button in tree.css("button"):
        assert button.text(strip=True)
    assert tree.css('[role="status"]')


def test_it_needs_no_network_and_says_so(document: dict[str, Any]) -> None:
    tree = LexborHTMLParser(render(document, readable=everything))
    (meta,) = tree.css('meta[http-equiv="Content-Security-Policy"]')
    rules = dict(
        rule.strip().split(" ", 1) for rule in (meta.attributes["content"] or "").split(";")
    )
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for name, selector in (("script-src", "script:not([type])"), ("style-src", "style")):
        (node,) = tree.css(selector)
        digest = base64.b64encode(sha256(node.text().encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert not [node.html for node in tree.css("[src], [style], link[rel=stylesheet], a[ping]")]
    handlers = [a for node in tree.css("*") for a in node.attributes if a.startswith("on")]
    assert handlers == []


def test_counts_are_those_of_the_json(document: dict[str, Any]) -> None:
    tree = LexborHTMLParser(render(document, readable=everything))
    for severity in SEVERITIES:
        shown = tree.css_first(f'[data-total="{severity}"]').text()
        assert int(shown) == document["summary"][f"{severity}s"]
    for chart, key in (("rules", "code"), ("files", "path")):
        counted: dict[str, Counter[str]] = {}
        for finding in document["findings"]:
            counted.setdefault(finding[key], Counter())[finding["severity"]] += 1
        expected = {name: [one[s] for s in SEVERITIES] for name, one in counted.items()}
        assert counts_in(tree, chart) == expected
    families = counts_in(tree, "families").values()
    assert sum(map(sum, families)) == len(document["findings"])


def test_notes_do_not_dwarf_errors_in_charts() -> None:
    error, note = (replace(one, fix=None) for one in (FINDINGS[0], FINDINGS[2]))
    tree = LexborHTMLParser(render(document_of(error, *[note] * 500), readable=everything))
    assert counts_in(tree, "rules") == {
        "KERNEL-SIG-005": [1, 0, 0],
        "PYTHON-SCALAR-002": [0, 0, 500],
    }
    bars = [
        (bar.attributes["class"], bar.attributes["width"]) for bar in tree.css("#by-rules rect")
    ]
    assert bars == [("error", "100.0%")]
    assert tree.css_first("#by-rules summary").text() == "1 more, with notes alone"
    assert tree.css("#by-rules details tbody tr")
    tree = LexborHTMLParser(render(document_of(note), readable=everything))
    assert [bar.attributes["class"] for bar in tree.css("#by-rules rect")] == ["note"]
    assert not tree.css("#by-rules details")


def test_the_baseline_is_counted_where_there_was_one(document: dict[str, Any]) -> None:
    plain = LexborHTMLParser(render(document, readable=everything))
    assert not plain.css('[data-total="known"], [data-total="fixed"]')
    document["summary"]["baseline"] = {"known": 4711, "fixed": 3}
    tree = LexborHTMLParser(render(document, readable=everything))
    assert tree.css_first('[data-total="known"]').text() == "4,711"
    assert tree.css_first('[data-total="fixed"]').text() == "3"


def test_the_data_is_the_json(document: dict[str, Any]) -> None:
    data = data_of(LexborHTMLParser(render(document, readable=everything)))
    assert len(data["findings"]) == len(document["findings"])
    for row, finding in zip(data["findings"], document["findings"], strict=True):
        assert data["files"][row[0]]["path"] == finding["path"]
        assert row[1:5] == [finding[name] for name in ("line", "column", "end_line", "end_column")]
        assert data["rules"][row[5]]["code"] == finding["code"]
        assert data["severities"][row[6]] == finding["severity"]
        texts = [data["texts"][number] for number in row[7:10]]
        assert texts == [finding["message"], finding["help"], finding["context"]]
        assert row[11] == (finding["fix"] and finding["fix"]["safe"])


def test_what_deceives_the_eye_is_replaced(document: dict[str, Any]) -> None:
    page = render(document, readable=everything)
    assert not set(page) & set("\x0c\x1b\u202e\u200b\u2028\u2029\x00")
    data = data_of(LexborHTMLParser(page))
    source = {file["path"]: file["source"] for file in data["files"]}["src/odd, name%.py"]
    assert source["parts"][0][1][0].startswith("import mlx␌; x␛[31m = '\ufffd\ufffdé")


def test_problems_are_listed(document: dict[str, Any]) -> None:
    tree = LexborHTMLParser(render(document, readable=everything))
    listed = [item.text() for item in tree.css(".problems li")]
    assert listed == [f"{p.path}:{p.line}:{p.column} {p.message}" for p in PROBLEMS]


def test_rule_pages_are_in_templates_with_lower_headings(document: dict[str, Any]) -> None:
    page = render(document, readable=everything)
    codes = {finding.code for finding in FINDINGS}
    tree = LexborHTMLParser(page)
    assert {node.attributes["id"] for node in tree.css("template")} == {f"rule-{c}" for c in codes}
    inner = page.partition('<template id="rule-DTYPE-001"')[2].partition("</template>")[0]
    shown = LexborHTMLParser(f"<main{inner}</main>")
    assert shown.css("h3")
    assert not shown.css("h1, h2")
    assert shown.css_first("pre code").text().startswith("import mlx.core as mx")


def test_an_unknown_rule_has_a_word_instead_of_a_page() -> None:
    finding = replace(FINDINGS[0], code="FUTURE-001", path="gone.py")
    page = render(document_of(finding), readable=everything)
    assert "has no page of this rule" in page
    assert data_of(LexborHTMLParser(page))["rules"][0]["family"] == "unknown"


def test_nothing_found(clean: Outcome) -> None:
    document = json_report.document(clean, SourceTexts(), show_notes=True)
    tree = LexborHTMLParser(render(document, readable=everything))
    assert "Nothing found." in tree.css_first("#overview").text()
    assert data_of(tree)["findings"] == []


@pytest.mark.parametrize(
    "hostile",
    [
        HOSTILE,
        "<!--<script>",
        "]]>",
        "{{ 7*7 }}{% raw %}",
        "'\"><svg onload=alert(1)>",
        "\ud800\x00",
    ],
)
def test_nothing_can_inject(
    hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    monkeypatch.chdir(tmp_path)
    text = f"import mlx\nx = '''{hostile}'''\n"
    (tmp_path / "hostile.py").write_text(text, encoding="utf-8", errors="replace")
    named = replace(FINDINGS[1], path=hostile, message=hostile, help=hostile)
    placed = replace(FINDINGS[1], path="hostile.py", line=2, column=1, end_line=2, end_column=2)
    fault = replace(PROBLEMS[0], path=hostile, message=hostile)
    found = replace(outcome, findings=(named, placed), problems=(fault,))
    document = json_report.document(found, SourceTexts(), show_notes=True)
    page = render(document, readable=everything)
    page.encode("utf-8")
    tree = LexborHTMLParser(page)
    assert {tag: len(tree.css(tag)) for tag in ELEMENTS} == ELEMENTS
    assert len(tree.css("svg")) == len(tree.css("svg.bar"))
    (raw,) = (part for part in page.split("\n") if part.startswith('<script id="data"'))
    inner = raw.partition(">")[2].removesuffix("</script>")
    assert not set(inner) & set("<>&\u2028\u2029")
    assert inner.isascii()
    data = data_of(tree)
    source = {file["path"]: file["source"] for file in data["files"]}["hostile.py"]
    if "\0" in hostile:
        assert source is None
    else:
        assert source["count"] == text.count("\n")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"line": 3, "end_line": 3}, "import mlx\n"),
        ({"line": 1, "end_line": 1, "column": 40, "end_column": 41}, "import mlx\n"),
        ({"end_line": 9}, "import mlx\n"),
        ({}, None),
    ],
)
def test_a_source_that_cannot_be_the_checked_one_is_left_out(
    change: dict[str, int], text: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    at = {"line": 1, "column": 1, "end_line": 1, "end_column": 2}
    finding = replace(FINDINGS[1], path=str(path), **(at | change))
    data = data_of(LexborHTMLParser(render(document_of(finding), readable=everything)))
    assert data["files"][0]["source"] is None


def test_only_readable_files_are_read(document: dict[str, Any]) -> None:
    page = render(document, readable=lambda path: path == "wide.py")
    data = data_of(LexborHTMLParser(page))
    shown = {file["path"] for file in data["files"] if file["source"]}
    assert shown == {"wide.py"}
    assert "total += row.sum().item()" not in page


@pytest.mark.parametrize("ahead", [-60.0, 60.0])
def test_a_file_newer_than_the_findings_is_told(ahead: float, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    finding = replace(FINDINGS[1], path=str(path), end_column=28)
    saved_at = path.stat().st_mtime + ahead
    page = render(document_of(finding), readable=everything, saved_at=saved_at)
    source = data_of(LexborHTMLParser(page))["files"][0]["source"]
    assert source["changed"] == (ahead < 0)


def test_sources_above_the_budget_come_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_sources, "MOST_CHARACTERS", 800)
    path = tmp_path / "long.py"
    path.write_text("".join(f"x{n} = 1\n" for n in range(1, 501)), encoding="utf-8")
    found = [
        replace(FINDINGS[1], path=str(path), line=n, column=1, end_line=n, end_column=3)
        for n in (5, 30, 300)
    ]
    page = render(document_of(*found), readable=everything)
    source = data_of(LexborHTMLParser(page))["files"][0]["source"]
    parts = [(first, len(lines)) for first, lines in source["parts"]]
    # Around them 25 lines would be more than 800 characters, 15 are fewer.
    assert parts == [(1, 45), (285, 31)]
    assert source["parts"][1][1][15] == "x300 = 1"
    assert source["count"] == 500


def test_a_source_is_told_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html_sources, "MOST_CHARACTERS", 2500)
    path = tmp_path / "long.py"
    path.write_text("x = 1234\n" * 500, encoding="utf-8")
    found = replace(FINDINGS[1], path=str(path), line=250, column=1, end_line=250, end_column=3)
    page = render(document_of(found), readable=everything)
    ((first, lines),) = data_of(LexborHTMLParser(page))["files"][0]["source"]["parts"]
    assert (first, len(lines)) == (150, 201)


def test_very_long_lines_are_cut_behind_their_findings(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text(f"x = '{'a' * 3000}'; y.item()  # {'b' * 900_000}\n", encoding="utf-8")
    finding = replace(FINDINGS[1], path=str(path), line=1, column=3010, end_line=1, end_column=3018)
    page = render(document_of(finding), readable=everything)
    assert len(page) < 150_000
    ((_, (line,)),) = data_of(LexborHTMLParser(page))["files"][0]["source"]["parts"]
    assert "; y.item()" in line
    assert line.endswith("…")


@pytest.mark.sampled(0)
def test_twenty_thousand_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(200):
        (tmp_path / f"m{number:03}.py").write_text("x.item()\n" * 100, encoding="utf-8")
    findings = tuple(
        replace(
            FINDINGS[n % len(FINDINGS)],
            path=f"m{n // 100:03}.py", line=n % 100 + 1, column=1, end_line=n % 100 + 1,
            end_column=9, message=f"message {n % 50}", fix=None,
        )
        for n in range(20_000)
    )  # fmt: skip
    document = document_of(*findings)
    start = time.perf_counter()
    page = render(document, readable=everything)
    record_property("seconds", time.perf_counter() - start)
    tree = LexborHTMLParser(page)
    assert len(data_of(tree)["findings"]) == 20_000
    assert len(page) < 5_000_000
    # The script draws a part of the list at a time; the charts are all that stands here.
    assert len(tree.css("*")) < 10_000
