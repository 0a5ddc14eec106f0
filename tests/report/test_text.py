"""The reports for people."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import unicodedata
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from embercoach.finding import Finding
from embercoach.fixes.source_file import LineIndex
from embercoach.report import statistics, text
from embercoach.report.excerpt import excerpt
from embercoach.report.styled import Line, plain, print_lines, wants_color, wrapped, wraps
from embercoach.report.text import positions_of, repeated
from tests.report.conftest import FINDINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from syrupy.assertion import SnapshotAssertion

    from embercoach.report.outcome import Outcome, SourceTexts


def printed(lines: Iterable[Line]) -> str:
    stream = io.StringIO()
    print_lines(lines, stream, color=False)
    return stream.getvalue()


def test_full(outcome: Outcome, sources: SourceTexts, snapshot: SnapshotAssertion) -> None:
    report = printed(text.full(outcome, sources, show_notes=True, width=100))
    assert report + printed(text.summary(outcome, show_notes=True)) == snapshot
    assert max(map(len, report.splitlines())) <= 120


def test_narrow(outcome: Outcome, sources: SourceTexts, snapshot: SnapshotAssertion) -> None:
    wide = replace(outcome, findings=FINDINGS[-1:])
    assert printed(text.full(wide, sources, show_notes=True, width=50)) == snapshot


def test_wrapped(outcome: Outcome, sources: SourceTexts, snapshot: SnapshotAssertion) -> None:
    long = replace(outcome, findings=FINDINGS[1:3])
    assert printed(text.full(long, sources, show_notes=True, width=60, wrap=True)) == snapshot


def test_notes_are_left_out_and_counted(outcome: Outcome, sources: SourceTexts) -> None:
    others = tuple(finding for finding in FINDINGS if finding.severity != "note")
    without = replace(outcome, findings=others)
    full = partial(text.full, sources=sources, width=100)
    for form in (full, text.concise, text.grouped):
        left_out = printed(form(outcome, show_notes=False))
        assert left_out == printed(form(without, show_notes=True)) != ""
    assert printed(text.summary(outcome, show_notes=False)) == (
        "Found 2 errors and 3 warnings; 3 files checked, 2 without MLX code skipped. "
        "1 note not shown (--show-notes); 1 suppressed.\n"
        "The run is incomplete: 2 problems.\n1 fixable with --fix.\n"
    )


@pytest.mark.parametrize("width", [40, 60, 100, 1000])
def test_wrapping_changes_nothing_but_spaces(
    outcome: Outcome, sources: SourceTexts, width: int
) -> None:
    plainly = printed(text.full(outcome, sources, show_notes=True, width=width))
    report = printed(text.full(outcome, sources, show_notes=True, width=width, wrap=True))
    assert report.split() == plainly.split()
    long = [line for line in report.splitlines() if len(line) > max(width, 50)]
    assert set(long) <= set(plainly.splitlines() if width > 100 else ())


HEAD: Line = [("a.py:1:1: ", "path"), ("one two three", ""), (" [loop]", "faint")]


@pytest.mark.parametrize(
    ("line", "width", "expected"),
    [
        (HEAD, 30, ["a.py:1:1: one two three [loop]"]),
        (HEAD, 29, ["a.py:1:1: one two three", "          [loop]"]),
        (HEAD, 20, ["a.py:1:1: one two", "          three", "          [loop]"]),
        (HEAD, 18, ["a.py:1:1: one two", "    three [loop]"]),
        (HEAD, 4, ["a.py:1:1:", "    one", "    two", "    three", "    [loop]"]),
        ([("", ""), ("\u6f22\u5b57 \u6f22\u5b57", "")], 8, ["\u6f22\u5b57", "\u6f22\u5b57"]),
        ([("- ", ""), ("a\x1b b", "")], 7, ["- a\\x1b", "  b"]),
        ([("- ", ""), ("a ::error::x", "")], 6, ["- a", "  \\x3a:error::x"]),
        ([("- ", ""), (f"a {'b' * 20} c", "")], 10, ["- a", f"  {'b' * 20}", "  c"]),
    ],
)
def test_continuation_is_indented_under_the_text(
    line: Line, width: int, expected: list[str]
) -> None:
    lines = printed(wrapped(line, 1, width)).splitlines()
    assert [one.rstrip() for one in lines] == expected


def test_a_word_of_several_spans_stays_whole() -> None:
    line = [("a bb ", ""), ("(", ""), ("`c d`", "code"), (").", "")]
    assert [plain(part) for part in wrapped(line, 0, 7)] == ["a bb", "(`c", "d`)."]


def test_wrapped_spans_keep_their_style() -> None:
    (_, second) = wrapped(HEAD, 1, 29)
    assert ("[loop]", "faint") in second


@pytest.mark.parametrize(
    ("terminal", "term", "expected"),
    [(True, "xterm", True), (False, "xterm", False), (True, "dumb", False)],
)
def test_terminals_alone_get_wrapped_lines(
    terminal: bool, term: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    assert wraps(Screen(terminal=terminal)) is expected


def test_concise(outcome: Outcome, snapshot: SnapshotAssertion) -> None:
    assert printed(text.concise(outcome, show_notes=True)) == snapshot


def test_grouped(outcome: Outcome, snapshot: SnapshotAssertion) -> None:
    assert printed(text.grouped(outcome, show_notes=True)) == snapshot


def test_grouped_has_each_file_once(outcome: Outcome) -> None:
    lines = printed(text.grouped(outcome, show_notes=True)).splitlines()
    files = [line[:-1] for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert files == list(dict.fromkeys(finding.path for finding in outcome.findings))
    assert sum(line.startswith("  ") for line in lines) == len(outcome.findings)


def test_statistics(outcome: Outcome, snapshot: SnapshotAssertion) -> None:
    assert printed(statistics.lines(outcome.findings)) == snapshot
    assert statistics.render(outcome.findings) == snapshot


def test_colors(outcome: Outcome, sources: SourceTexts, snapshot: SnapshotAssertion) -> None:
    some = replace(outcome, findings=FINDINGS[2:4])  # an excerpt of a part, and one of lines
    lines = list(text.full(some, sources, show_notes=True, width=100))
    lines += [*text.concise(outcome, show_notes=True), *text.summary(outcome, show_notes=True)]
    stream = io.StringIO()
    print_lines(lines, stream, color=True)
    assert stream.getvalue() == snapshot
    # Nothing but colors is added, and no link codes are among them.
    import re

    bare = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert bare == printed(lines)
    assert "\x1b]8" not in stream.getvalue()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "All clear; 1 file checked.\n"),
        ({"files_checked": 2, "suppressed": 3}, "All clear; 2 files checked. 3 suppressed.\n"),
        ({"files_skipped": 5}, "All clear; 1 file checked, 5 without MLX code skipped.\n"),
        (
            {"files_checked": 0, "files_skipped": 1},
            "Nothing to check in 1 file: no MLX code, `skip-file`, or a kernel's body alone.\n",
        ),
    ],
)
def test_the_summary_of_a_clean_run(clean: Outcome, change: dict[str, int], expected: str) -> None:
    assert printed(text.summary(replace(clean, **change), show_notes=False)) == expected


def test_the_summary_of_a_run_with_notes_only(clean: Outcome, outcome: Outcome) -> None:
    note = [f for f in outcome.findings if f.severity == "note"]
    notes = replace(clean, findings=(*note, *note))
    assert printed(text.summary(notes, show_notes=False)) == (
        "All clear; 1 file checked. 2 notes not shown (--show-notes).\n"
    )
    assert printed(text.summary(notes, show_notes=True)) == (
        "Found 2 notes; 1 file checked.\n2 fixable with --fix --unsafe-fixes.\n"
    )


def test_a_kernel_that_is_not_checked_is_not_clear(clean: Outcome, outcome: Outcome) -> None:
    (first, *_) = outcome.findings
    note = replace(first, code=text.UNCHECKED, severity="note", path="a.py", line=2, column=3)
    see = "see `embercoach explain KERNEL-SYNTAX-002`."
    for notes, unchecked in (
        ((note,), "1 kernel not checked (a.py:2:3)"),
        ((note, note), "2 kernels not checked (a.py:2:3, ...)"),
    ):
        run = replace(clean, findings=notes)
        summary = printed(text.summary(run, show_notes=False))
        assert summary.startswith("Nothing found; 1 file checked. ")
        assert summary.endswith(f"\n{unchecked}: {see}\n")


def test_the_summary_of_a_run_with_problems_only(clean: Outcome, outcome: Outcome) -> None:
    broken = replace(clean, problems=outcome.problems[:1])
    assert printed(text.summary(broken, show_notes=False)) == (
        "Nothing found; 1 file checked.\nThe run is incomplete: 1 problem.\n"
    )
    unread = replace(broken.problems[0], is_unchecked=True)
    broken = replace(broken, problems=(unread,), files_checked=0)
    assert printed(text.summary(broken, show_notes=False)).startswith("1 file not checked.\n")


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": ""}, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_who_wants_colors(
    terminal: bool, environment: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_color(Screen(terminal=terminal)) == expected


def test_plain_printing_needs_no_rich() -> None:
    code = (
        "import sys\nfrom embercoach.report.styled import print_lines\n"
        "print_lines([[('x', 'error')]], sys.stdout)\nprint('rich' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "FORCE_COLOR": ""},
    )
    assert result.stdout == "x\nFalse\n"


def shown(source: str, place: tuple[int, int, int, int], width: int = 60) -> str:
    finding = Finding("X-001", *place, "m", "", path="a.py", severity="error")
    return "\n".join(plain(line) for line in excerpt(finding, LineIndex(source), width))


@pytest.mark.parametrize(
    ("source", "place", "expected"),
    [
        ("x = y\n", (1, 5, 1, 6), "  |\n1 | x = y\n  |     ^"),
        # Tabs end at the next stop, wherever they stand.
        ("\tab\tc\n", (1, 5, 1, 6), "  |\n1 |     ab  c\n  |         ^"),
        # Wide characters take two columns, combining ones none.
        ("日本 = y\n", (1, 6, 1, 7), "  |\n1 | 日本 = y\n  |        ^"),
        ("e\u0301 = y\n", (1, 6, 1, 7), "  |\n1 | e\u0301 = y\n  |     ^"),
        # Nothing to underline, or past the end of the line: one mark.
        ("x = y\n", (1, 5, 1, 5), "  |\n1 | x = y\n  |     ^"),
        ("x\n", (1, 2, 1, 2), "  |\n1 | x\n  |  ^"),
        ("x\n", (1, 9, 1, 12), "  |\n1 | x\n  |  ^"),
        ("\n", (1, 1, 1, 1), "  |\n1 | \n  | ^"),
        # Ends at the start of the next line: all of this one.
        ("x = y\nz\n", (1, 5, 2, 1), "  |\n1 | x = y\n  |     ^"),
        # The line is gone, or there is no text.
        ("x\n", (7, 1, 7, 2), ""),
        ("", (2, 1, 2, 2), ""),
        # Several lines, to their end or to a place in the last.
        ("f(\n  x\n)\n", (1, 1, 3, 2), "  |\n1 | / f(\n2 | |   x\n3 | | )\n  | |_^"),
        ("f(\n  x)\n", (1, 1, 2, 5), "  |\n1 | / f(\n2 | |   x)\n  | |____^"),
        (
            "a = f(\n  x\n)\n",
            (1, 5, 3, 2),
            "  |\n1 |   a = f(\n  |  _____^\n2 | |   x\n3 | | )\n  | |_^",
        ),
        (
            "".join(f"{n}\n" for n in range(1, 12)),
            (2, 1, 10, 3),
            "   |\n 2 | / 2\n 3 | | 3\n 4 | | 4\n...| ...\n10 | | 10\n   | |__^".replace(
                "...| ...", "... | |"
            ),
        ),
    ],
)  # fmt: skip
def test_excerpts(source: str, place: tuple[int, int, int, int], expected: str) -> None:
    assert shown(source, place) == expected


TEXTS = st.text(
    alphabet=st.one_of(st.characters(codec=None), st.sampled_from("\t日\u0301ab \x1b\u202e\r")),
    min_size=1,
    max_size=120,
).filter(lambda t: "\n" not in t and "\r" not in t)


def columns(line: str) -> int:
    def size(c: str) -> int:
        if unicodedata.category(c) in ("Mn", "Me"):
            return 0
        return 2 if unicodedata.east_asian_width(c) in "WF" else 1

    return sum(map(size, line))


@given(TEXTS, st.data(), st.integers(46, 100))
def test_any_line_can_be_shown(line: str, data: st.DataObject, width: int) -> None:
    start = data.draw(st.integers(1, len(line)))
    end = data.draw(st.integers(start, len(line) + 1))
    _, first, second = shown(line, (1, start, 1, end), width).split("\n")
    assert columns(first) <= width
    assert second.strip("1| ").strip("^") == ""
    assert "^" in second
    assert not {unicodedata.category(c) for c in first} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    # The first mark stands under the first character of the place.
    if " " < line[start - 1] <= "~":
        under = second.index("^")
        cells = "".join(c * columns(c) for c in first)
        assert cells[under] == line[start - 1]


def test_a_mistake_that_a_file_repeats_is_shown_once() -> None:
    one = replace(FINDINGS[1], cell=None, fix=None, flow=(), related=())
    near = replace(one, code="GRAPH-BREAK-002", message="another read", line=one.line + 2)
    findings = (
        *(replace(one, line=line) for line in (one.line, 40, 41)),
        near,
        replace(near, line=99),
        replace(one, path="other.py"),
    )
    found = repeated(sorted(findings, key=lambda finding: finding.sort_key))
    assert [(group.first.line, group.others and positions_of(group.others)) for group in found] == [
        (one.line, []),
        (one.line, f"lines {near.line}, 40, 41"),
        (99, []),
    ]
