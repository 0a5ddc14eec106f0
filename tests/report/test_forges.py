"""The reports that GitLab, test dashboards and GitHub's step summaries show."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from embercoach.finding import Finding
from embercoach.report import forges, junit, markdown, sarif
from embercoach.report.locations import in_repository
from embercoach.report.outcome import SourceTexts
from embercoach.terminal_text import escaped, log_line

if TYPE_CHECKING:
    from markdown_it.token import Token
    from syrupy.assertion import SnapshotAssertion

    from embercoach.report.outcome import Outcome

#: What GitLab documents of a code quality report.
CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!\./)."},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
ANYTHING = st.text(st.characters(), max_size=30)
PATHS = st.text(max_size=20) | st.binary(max_size=20).map(os.fsdecode)


def finding(**changes: Any) -> Finding:
    plain = Finding("DTYPE-001", 1, 1, 1, 2, "m", "", "default", path="a.py", severity="error")
    return replace(plain, **changes)


# --- GitLab ------------------------------------------------------------------------------------


@pytest.mark.parametrize("show_notes", [False, True])
def test_gitlab(
    outcome: Outcome, sources: SourceTexts, show_notes: bool, snapshot: SnapshotAssertion
) -> None:
    text = forges.gitlab_report(outcome, sources, show_notes=show_notes)
    entries = json.loads(text)
    jsonschema.Draft202012Validator(CODE_QUALITY).validate(entries)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    assert len(entries) == len(outcome.findings) + len(outcome.problems) - (not show_notes)
    some = replace(outcome, findings=outcome.findings[:2], problems=outcome.problems[:1])
    if not show_notes:
        assert forges.gitlab_report(some, sources, show_notes=False) == snapshot


def test_gitlab_and_sarif_have_the_same_fingerprints(
    outcome: Outcome, sources: SourceTexts
) -> None:
    log = sarif.document(outcome, sources, profile="recommended", exit_code=1)
    entries = forges.document(outcome, sources, show_notes=True)
    marks = [r["partialFingerprints"][sarif.FINGERPRINT] for r in log["runs"][0]["results"]]
    assert [entry["fingerprint"] for entry in entries][: len(marks)] == marks


def test_a_fingerprint_does_not_depend_on_what_is_listed(clean: Outcome) -> None:
    """Notes that are left out still count among the equals of a line."""
    found = (finding(severity="note"), finding(column=5))
    outcome = replace(clean, findings=found)
    sources = SourceTexts({"a.py": "x = y\n"})
    (_, both) = forges.document(outcome, sources, show_notes=True)
    (one,) = forges.document(outcome, sources, show_notes=False)
    assert one == both


def test_a_clean_run_for_gitlab(clean: Outcome) -> None:
    assert forges.gitlab_report(clean, SourceTexts(), show_notes=True) == "[]\n"


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("src/a.py", None, "src/a.py"),
        ("./src/../a.py", None, "a.py"),
        ("src/a.py", ".", "src/a.py"),
        ("a.py", "..", "here/a.py"),
        ("../a.py", "..", "a.py"),
        ("a.py", "sub", "a.py"),  # outside of what is said to be the repository
        ("..a.py", None, "..a.py"),
    ],
)
def test_paths_start_at_the_repository(
    path: str, root: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert in_repository(path, root) == expected
    assert in_repository(str(tmp_path / "here" / path), root or str(tmp_path / "here")).endswith(
        expected
    )


# --- JUnit -------------------------------------------------------------------------------------


def suites_of(text: str) -> ET.Element:
    """Parse a report, and check what readers of JUnit's XML go by."""
    root = ET.fromstring(text)
    assert root.tag == "testsuites"
    totals: Counter[str] = Counter()
    for suite in root:
        assert suite.tag == "testsuite"
        assert suite.attrib["name"]
        counts = Counter(outcome.tag for case in suite for outcome in case)
        assert int(suite.attrib["tests"]) == len(suite) > 0
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == counts[tag]
            totals[name] += counts[tag]
        totals["tests"] += len(suite)
        for case in suite:
            assert case.tag == "testcase"
            assert len(case) <= 1
            assert {"name", "classname", "time"} <= case.attrib.keys()
    for name in ("tests", "failures", "errors"):
        assert int(root.attrib[name]) == totals[name]
    return root


@pytest.mark.parametrize("show_notes", [False, True])
def test_junit(outcome: Outcome, show_notes: bool, snapshot: SnapshotAssertion) -> None:
    text = junit.render(outcome, SourceTexts(), show_notes=show_notes)
    root = suites_of(text)
    assert (root.attrib["failures"], root.attrib["errors"]) == ("5", "2")
    assert len(root.findall(".//skipped")) == show_notes
    names = [suite.attrib["name"] for suite in root]
    assert names == sorted(set(names))
    if show_notes:
        assert text == snapshot


def test_a_clean_run_is_a_test_that_passes(clean: Outcome) -> None:
    root = suites_of(junit.render(clean, SourceTexts(), show_notes=True))
    assert (root.attrib["tests"], root.attrib["failures"]) == ("1", "0")
    assert root.find("testsuite/testcase") is not None


@given(message=ANYTHING, path=PATHS, advice=ANYTHING)
def test_junit_holds_any_text(message: str, path: str, advice: str) -> None:
    found = finding(message=message, path=path or "a", help=advice)
    outcome = type("Run", (), {"findings": (found,), "problems": ()})()
    text = junit.render(outcome, SourceTexts(), show_notes=True)
    root = suites_of(text.encode(errors="strict").decode())
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"] == log_line(message)
    assert failure.text is not None
    assert failure.text.startswith(log_line(f"{path or 'a'}:1:1: DTYPE-001 error {message}"))


# --- Markdown ----------------------------------------------------------------------------------


def tokens_of(text: str) -> list[Token]:
    """All tokens of a document by another reader, those inside lines too."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    flat = []
    for token in reader.parse(text):
        flat += [token, *(token.children or ())]
    return flat


@pytest.mark.parametrize("show_notes", [False, True])
def test_markdown(outcome: Outcome, show_notes: bool, snapshot: SnapshotAssertion) -> None:
    text = markdown.render(
        outcome,
        SourceTexts(),
        show_notes=show_notes,
        link_prefix="https://example.org/me/it/blob/abc/",
    )
    tokens = tokens_of(text)
    links = [token.attrs["href"] for token in tokens if token.type == "link_open"]
    assert len(links) == len(outcome.findings) + len(outcome.problems) - (not show_notes)
    assert links[0] == "https://example.org/me/it/blob/abc/src/model.py#L3"
    assert "https://example.org/me/it/blob/abc/src/odd%2C%20name%25.py#L1" in links
    rows = sum(token.type == "tr_open" for token in tokens)
    assert rows == 1 + len({f.code for f in outcome.findings if show_notes or f.severity != "note"})
    if show_notes:
        assert text == snapshot


def test_markdown_of_a_clean_run(clean: Outcome) -> None:
    assert markdown.render(clean, SourceTexts(), show_notes=False) == (
        "## EmberCoach\n\nAll clear; 1 file checked.\n"
    )


def test_markdown_tells_the_worst_and_counts_the_rest(clean: Outcome) -> None:
    many = [finding(line=n, severity="warning") for n in range(1, 2 * markdown.MOST)]
    outcome = replace(clean, findings=(*many, finding(path="z.py")))
    text = markdown.render(outcome, SourceTexts(), show_notes=False)
    listed = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(listed) == markdown.MOST
    assert listed[0].startswith("- [z.py:1](z.py#L1) **DTYPE-001** error: m")
    assert f"And {markdown.MOST} more." in text
    assert re.search(rf"\| DTYPE-001 \| .* \| error \| {2 * markdown.MOST} \|", text)


@given(message=ANYTHING | st.text("`|*_<>[]()\\!&#~$@:/ab -\n", max_size=20), path=PATHS)
def test_no_message_and_no_path_is_markup(message: str, path: str) -> None:
    """Another reader gets the words back, one link and one rule in bold, and no HTML."""
    found = finding(message=message, path=path or "a")
    address = partial(markdown._address, SourceTexts(), None, "")
    tokens = tokens_of(f"{markdown._finding(found, address)}\n")
    kinds = Counter(token.type for token in tokens)
    inert = {"text", "code_inline", "text_special", "inline", "paragraph_open", "paragraph_close"}
    comments = [token.content for token in tokens if token.type == "html_inline"]
    assert set(comments) <= {"<!-- -->"}
    expected = {"bullet_list_open", "list_item_open", "link_open", "strong_open"}
    opened = {kind for kind in kinds if not kind.endswith("_close")} - inert - {"html_inline"}
    assert opened == expected
    assert all(kinds[kind] == 1 for kind in expected)
    (link,) = (token for token in tokens if token.type == "link_open")
    target = unquote(str(link.attrs["href"]), errors="surrogateescape")
    assert target.endswith("#L1")
    said = "".join(token.content for token in tokens if token.type not in ("inline", "html_inline"))
    shown = escaped(f"{path or 'a'}:1")
    words = f"{shown} DTYPE-001 error: {escaped(message)}"
    assert letters(said) == letters(words)


@pytest.mark.parametrize(
    "message",
    ["@everyone", "me/it#12", "https://example.org/x", "www.example.org", "a@example.org"],
)
def test_forges_link_nothing_in_a_message(message: str, clean: Outcome) -> None:
    """A comment that nobody sees parts what would notify people or lead elsewhere."""
    outcome = replace(clean, findings=(finding(message=f"see {message}"),))
    text = markdown.render(outcome, SourceTexts(), show_notes=False)
    assert message not in text
    assert message in text.replace("<!-- -->", "")


def test_a_path_names_no_host() -> None:
    address = markdown._address(SourceTexts(), None, "", finding(path="//example.org/a.py"))
    assert address == "/example.org/a.py#L1"


def test_a_message_of_sarif_holds_no_link(clean: Outcome) -> None:
    outcome = replace(clean, findings=(finding(message="[x](https://example.org)"),))
    (run,) = sarif.document(outcome, SourceTexts(), profile="recommended", exit_code=1)["runs"]
    assert run["results"][0]["message"]["text"] == "[x\\](https://example.org)"


def letters(words: str) -> str:
    """Without spacing, which Markdown joins, and the marks of code."""
    return "".join(words.replace("`", "").split())
