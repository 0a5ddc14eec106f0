"""Whatever a name, a message or a source holds: no report controls a terminal or commands CI."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from io import StringIO
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embercoach.finding import SEVERITIES, Finding, Fix, Step
from embercoach.report import forges, json_report, junit, markdown, sarif, statistics, text
from embercoach.report.html.rendering import render
from embercoach.report.outcome import Comparison, SourceTexts
from embercoach.report.styled import harmless, plain, print_diff, print_lines
from embercoach.terminal_text import escaped, is_deceptive, json_text, log_line
from tests.report.conftest import Outcome, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What a terminal, a log or a reader of a format would act on.
ATTACKS = (
    *("\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\x7f", "\r", "\n", "\x85", "\u2028", "\0", "\t"),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\ud800", "\udcff", "\ufffe", "\U000e0041"),
    *(
        "/",
        "//example.org",
        "::error::x",
        "\n::stop-commands::x",
        " \xa0::add-mask::x",
        "##[error]x",
        "###[group]",
    ),
    *("##vso[task.setvariable variable=x]y", ":", "#", "[", "%0A::error::x", ",file=a"),
    *("</script><script>", "<!--", "]]>", "<img src=x>", "&lt;", "'\"", "`", "|", "@me", "\\"),
)
HOSTILE = st.lists(
    st.sampled_from(ATTACKS) | st.text(st.characters(codec=None), max_size=4), max_size=5
).map("".join)
FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
#: What styles a line on a terminal: ours.
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Reported:
    """Texts that a hostile project puts into a report."""

    path: str
    message: str
    advice: str
    source: str

    def outcome(self) -> Outcome:
        steps = (Step(1, 1, 1, 2, self.message),)
        fix = Fix(self.message, safe=True, edits=())
        codes = ("DTYPE-001", "KERNEL-SIG-005", "GRAPH-BREAK-001")
        findings = tuple(
            Finding(
                *(code, line, 1, line + 1, 2, self.message, self.advice, "avoidable"),
                *(fix, steps, steps),
                path=self.path,
                severity=severity,
            )
            for line, (code, severity) in enumerate(zip(codes, SEVERITIES, strict=True), 1)
        )
        return Outcome(findings, (Problem(self.path, 1, 1, self.message),))

    def sources(self) -> SourceTexts:
        return SourceTexts({self.path: f"{self.source}\n" * 5})


REPORTED = st.builds(Reported, HOSTILE.map(lambda path: path or "a"), HOSTILE, HOSTILE, HOSTILE)


def people(reported: Reported, form: str, *, color: bool) -> str:
    outcome, stream = reported.outcome(), StringIO()
    if form == "concise":
        lines = text.concise(outcome, show_notes=True)
    elif form == "grouped":
        lines = text.grouped(outcome, show_notes=True)
    elif form == "full":
        lines = text.full(outcome, reported.sources(), show_notes=True, width=80)
    else:
        lines = statistics.lines(outcome.findings)
    print_lines(lines, stream, color=color)
    print_lines(text.summary(outcome, show_notes=True), stream, color=color)
    return STYLE.sub("", stream.getvalue()) if color else stream.getvalue()


RENDERED: dict[str, Callable[[Reported], str]] = {
    **{
        f"{form}-{'color' if color else 'plain'}": partial(people, form=form, color=color)
        for form in ("full", "concise", "grouped", "statistics")
        for color in (False, True)
    },
    "json": lambda reported: json_report.render(
        reported.outcome(), reported.sources(), show_notes=True
    ),
    "gitlab": lambda reported: forges.gitlab_report(
        reported.outcome(), reported.sources(), show_notes=True
    ),
    "sarif": lambda reported: sarif.render(
        reported.outcome(), reported.sources(), profile="ember", exit_code=1
    ),
    "junit": lambda reported: junit.render(reported.outcome(), reported.sources(), show_notes=True),
    "markdown": lambda reported: markdown.render(
        reported.outcome(), reported.sources(), show_notes=True, comparison=Comparison(1, 1)
    ),
}


def visible_lines(report: str) -> Iterator[str]:
    """The lines of a report, of which each character is seen as what it is."""
    report.encode()
    for line in report.split("\n"):
        assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        yield line


def assert_inert(report: str) -> None:
    for line in visible_lines(report):
        assert not line.lstrip().startswith("::")
        assert not re.search(r"##\w*\[", line)


@pytest.mark.parametrize("form", RENDERED)
def test_no_report_controls_a_terminal_or_commands_ci(form: str) -> None:
    @FEW
    @given(REPORTED)
    def check(reported: Reported) -> None:
        report = RENDERED[form](reported)
        assert_inert(report)
        if form in ("json", "gitlab", "sarif"):
            paths = json.dumps(json.loads(report))
            assert json.dumps(reported.message)[1:-1] in paths or form == "sarif"
        if form == "junit":
            assert len(ET.fromstring(report).findall(".//testcase")) == 4
        if form == "concise-plain":
            assert report.count("\n") == 4 + len(
                [*text.summary(reported.outcome(), show_notes=True)]
            )

    check()


@FEW
@given(REPORTED)
def test_github_gets_one_command_for_each_finding(reported: Reported) -> None:
    report = forges.github_annotations(reported.outcome(), reported.sources(), show_notes=True)
    *commands, end = visible_lines(report)
    assert end == ""
    assert len(commands) == 4
    for command in commands:
        head = r"::(error|warning|notice) title=EmberCoach[^,:]*,file=[^,:]*,(\w+=\d+,?)*::"
        assert re.match(head, command)


class Tags(HTMLParser):
    """The tags of a page, and the text of its script of data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.data = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self._inside = ("id", "data") in attrs

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data += data
            self._inside = False


def page_of(reported: Reported) -> Tags:
    document = json_report.document(reported.outcome(), reported.sources(), show_notes=True)
    page = render(document, readable=lambda _: False, earlier=())
    assert [*visible_lines(page.replace("\t", " "))]  # HTML takes a tab for a space
    return Tags(page)


@settings(FEW, max_examples=4)
@given(REPORTED)
def test_html_holds_no_element_of_a_text(reported: Reported) -> None:
    page, expected = page_of(reported), page_of(Reported("a.py", "m", "h", "x"))
    assert page.tags == expected.tags
    assert len(json.loads(page.data)["findings"]) == 3


@FEW
@given(st.lists(st.tuples(HOSTILE, st.sampled_from(["", "error", "path"])), max_size=5))
def test_spans_are_together_what_their_line_is(line: list[tuple[str, str]]) -> None:
    assert plain(harmless(line)) == log_line(plain(line))
    assert_inert(plain(harmless(line)))


@FEW
@given(HOSTILE)
def test_harmless_text_stays_as_it_is(reported: str) -> None:
    shown = log_line(reported)
    assert log_line(shown) == shown
    # JSON takes two halves of a character in a row for the whole one.
    assert json.loads(json_text([reported])) == json.loads(json.dumps([reported]))
    if not any(map(is_deceptive, reported)):
        assert escaped(reported) == reported


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        ("Zoë 日本語 👍 é́\xa0x", "Zoë 日本語 👍 é́\xa0x"),
        ("\x1b[31m\x7f\x9b", "\\x1b[31m\\x7f\\x9b"),
        ("a\r\n\tb", "a\\r\\n\\tb"),
        ("\u202e\u2067\u2029\ufeff", "\\u202e\\u2067\\u2029\\ufeff"),
        ("\udcff", "\\udcff"),
        ("\U000e0041\ufffe", "\\U000e0041\\ufffe"),
        ("::error::x", "\\x3a:error::x"),
        ("  ::error::x", "  \\x3a:error::x"),
        ("a ::error::x", "a ::error::x"),
        (": x", ": x"),
        ("a ##[error]x", "a #\\x23[error]x"),
        ("####vso[x]", "###\\x23vso[x]"),
        ("## [x]", "## [x]"),
    ],
)
def test_what_is_shown(reported: str, shown: str) -> None:
    assert log_line(reported) == shown


def test_a_diff_keeps_tabs_and_line_ends() -> None:
    stream = StringIO(newline="")
    print_diff("--- a\n+++ a\n@@ -1 +1 @@\n-\tx\x1b\r\n+\ty\r\n ::error::z\n", stream)
    assert stream.getvalue() == (
        "--- a\n+++ a\n@@ -1 +1 @@\n-\tx\\x1b\r\n+\ty\r\n \\x3a:error::z\n"
    )
