"""The join of traces with static findings, on records that are written by hand."""

from __future__ import annotations

import io
from typing import get_args

import pytest
from msgspec.structs import replace

from embercoach import rulebook
from embercoach.cli.trace.static_check import CheckedFile, CheckedTrace, Join, join
from embercoach.cli.trace.traced import Traced, finding_summary, render
from embercoach.engine.suppressions import read_directives, read_lines
from embercoach.engine.verdict import CoveredLines
from embercoach.finding import Finding
from embercoach.report.html.trace_page import excerpts, render_trace
from embercoach.trace.trace_record import Kind, Site, TraceRecord, from_text, merged, to_text

SOURCE = """\
first = x.item()
found = {
    "a": x.item(),
    "b":
        y.item(),
    "c": getter(z),
}
if x > 3: print(y.item())
w.item()  # noqa: GRAPH-BREAK-001
mx.eval(x)
"""


def finding(code: str, line: int, end_line: int | None = None) -> Finding:
    return Finding(code, line, 1, end_line or line, 9, f"message {line}", "help", path="a.py")


def site(kind: Kind, line: int, count: int = 1, seconds: float = 1.0) -> Site:
    return Site("a.py", line, "f", kind, f"op {kind}", count, seconds, seconds, 4 * count)


def joined(sites: list[Site], findings: list[Finding], baselined: tuple[Finding, ...] = ()) -> Join:
    statements = tuple(sorted(read_lines(SOURCE).logical))
    suppressions = CoveredLines(read_directives(SOURCE))
    file = CheckedFile(tuple(findings), baselined, statements, suppressions)
    return join({"/p/a.py": sites}, {"/p/a.py": file})


@pytest.mark.parametrize(
    ("sites", "findings", "expected"),
    [
        ([site("item", 1, 3)], [finding("GRAPH-BREAK-001", 1)], [3]),
        # Another kind of event confirms nothing.
        ([site("tolist", 1)], [finding("GRAPH-BREAK-001", 1)], [0]),
        # Each line of a statement is confirmed by its own events.
        (
            [site("item", 3, 2), site("item", 5, 5)],
            [finding("GRAPH-BREAK-001", 3), finding("GRAPH-BREAK-001", 5)],
            [2, 5],
        ),
        # Python may name another line of the statement.
        ([site("item", 4, 7)], [finding("GRAPH-BREAK-001", 5)], [7]),
        ([site("item", 2, 7)], [finding("GRAPH-BREAK-001", 5)], [7]),
        # Line 6 is not that of a finding that has its own event.
        ([site("item", 3), site("item", 6)], [finding("GRAPH-BREAK-001", 3)], [1]),
        # Another statement is not.
        ([site("item", 1)], [finding("GRAPH-BREAK-001", 3)], [0]),
        # Two findings at a line share its events; their kinds differ here.
        (
            [site("truth", 8, 4), site("item", 8, 2)],
            [finding("GRAPH-BREAK-003", 8), finding("GRAPH-BREAK-001", 8)],
            [4, 2],
        ),
        # Several events confirm one finding.
        ([site("number", 1, 2), site("text", 1, 3)], [finding("GRAPH-BREAK-008", 1)], [5]),
        # Rules without events are not part of the join.
        ([site("item", 1)], [finding("DTYPE-007", 1)], []),
    ],
)
def test_events_confirm_findings_of_their_kind_and_statement(
    sites: list[Site], findings: list[Finding], expected: list[int]
) -> None:
    found = {id(one.finding): one.count for one in joined(sites, findings).findings}
    assert [found[id(one)] for one in findings if id(one) in found] == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (site("item", 1), "found"),
        (site("tolist", 1), "not-found"),
        (site("eval", 10), "explicit"),
        (site("retrace", 1), None),
        (site("item", 9), "suppressed"),
        # The comment suppresses `.item()` alone.
        (site("tolist", 9), "not-found"),
        (site("truth", 8), "suppressed"),
    ],
)
def test_the_state_of_a_line(one: Site, expected: str | None) -> None:
    baselined = (finding("GRAPH-BREAK-003", 8),)
    made = joined([one], [finding("GRAPH-BREAK-001", 1)], baselined)
    assert made.states.get(one) == expected
    assert made.codes.get(one) == (("GRAPH-BREAK-001",) if expected == "found" else None)


def test_sites_of_other_files_have_no_state() -> None:
    assert join({"/p/b.py": [site("item", 1)]}, {}).states == {}


def test_the_events_of_rules_exist() -> None:
    events = {event for rule in rulebook.rules().values() for event in rule.events}
    assert "item" in events
    assert events <= set(get_args(Kind))


def traced() -> Traced:
    sites = [
        site("item", 1, 4, 0.5),
        site("tolist", 6, 1, 0.25),
        Site(
            "a.py", 8, "f", "retrace", "mx.compile of f", 1, 0.1, 0.1, 0, ("argument 0: 1, then 2",)
        ),
    ]
    made = joined(sites, [finding("GRAPH-BREAK-001", 1), finding("GRAPH-BREAK-003", 8)])
    record = TraceRecord(tuple(sites), 2.0, "Device(gpu, 0)", "0.31.2", 1 << 20)
    checked = CheckedTrace(made, (), frozenset())
    return Traced(record, "train.py", 20, 0, checked)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (None, ["confirmed", "no-event", "no-event"]),
        ({}, ["confirmed", "not-reached", "not-reached"]),
        # Python may name any line of a statement.
        ({"/p/a.py": {2}}, ["confirmed", "no-event", "not-reached"]),
        ({"/p/a.py": {5, 8}}, ["confirmed", "no-event", "no-event"]),
        ({"/p/b.py": {5, 8}}, ["confirmed", "not-reached", "not-reached"]),
    ],
)
def test_a_finding_whose_lines_did_not_run_is_not_reached(
    lines: dict[str, set[int]] | None, expected: list[str]
) -> None:
    statements = tuple(sorted(read_lines(SOURCE).logical))
    findings = [finding("GRAPH-BREAK-001", line) for line in (1, 5, 8)]
    file = CheckedFile(tuple(findings), (), statements, None)
    made = join({"/p/a.py": [site("item", 1)]}, {"/p/a.py": file}, lines)
    by_line = {one.finding.line: one.state for one in made.findings}
    assert [by_line[line] for line in (1, 5, 8)] == expected


def test_records_of_processes_are_added_up() -> None:
    one = TraceRecord(
        (site("item", 1, 2, 1.0), site("eval", 9)),
        2.0,
        "Device(cpu, 0)",
        "0.32.4",
        10,
        files=("a.py",),
        reached={"a.py": (1, 2)},
    )
    two = replace(one, sites=(site("item", 1, 3, 4.0),), peak_bytes=30, reached={"a.py": (2, 9)})
    both = merged([one, two])
    assert both.sites == (replace(site("item", 1, 5, 5.0), most_seconds=4.0), site("eval", 9))
    assert (both.seconds, both.peak_bytes, both.reached) == (4.0, 30, {"a.py": (1, 2, 9)})
    assert merged([one, replace(two, reached=None)]).reached is None
    assert from_text(to_text(both)) == both


def test_text_lists_confirmed_findings_and_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    stream = io.StringIO()
    render(traced(), "text", stream)
    out = stream.getvalue()
    rows = [line.split() for line in out[out.index(" finding") :].splitlines()]
    assert rows[2:5] == [
        ["GRAPH-BREAK-001", "confirmed", "4", "500", "ms", "16", "bytes", "a.py:1", "message", "1"],
        ["GRAPH-BREAK-003", "no", "event", "a.py:8", "message", "8"],
        ["not", "found", "1", "250", "ms", "4", "bytes", "a.py:6", "op", "tolist"],
    ]
    assert "1 of 2 findings confirmed, 1 without an event; 1 wait not found by check." in out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["file", "terminal"])
def test_numbers_and_places_are_whole_at_any_width(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name = "compile of main.step " + "long" * 9
    long = replace(site("item", 1, 3), operation=name.replace(".step", ".<locals>.step"))
    render(Traced(TraceRecord((long,), 2.0, "gpu", "0.32.4", 10), "p.py", 9, 0), "text", stream)
    lines = stream.getvalue().splitlines()
    (row,) = [line for line in lines if line.rstrip().endswith("a.py:1")]
    assert row.split()[:2] == ["1", "s"]
    assert name in row or len(row) <= 60
    assert (name in row) != stream.isatty()


def test_nothing_is_said_of_nothing() -> None:
    assert finding_summary(CheckedTrace(join({}, {}), (), frozenset())) == ""


def test_nothing_of_a_trace_gets_raw_into_the_page() -> None:
    from embercoach.fixes.source_file import LineIndex
    from embercoach.report.excerpt import visible

    evil = "<script>alert(1)</script>\x1b[31m\u202e"
    one = {
        **dict.fromkeys(("path", "function", "operation", "label", "text"), evil),
        "line": 1,
        "kind": "retrace",
        "operations": 2,
        "waits": True,
        "count": 1,
        "seconds": 1.0,
        "bytes": 0,
        "most_seconds": 1.0,
        "details": [evil],
        "codes": [evil],
        "check": "found",
    }
    found = {
        **dict.fromkeys(("path", "code", "message", "help"), evil),
        "line": 1,
        "confirmed": True,
        "state": "confirmed",
        "count": 1,
        "seconds": 1.0,
        "bytes": 0,
    }
    summary = {
        "program": evil,
        "device": evil,
        "mlx": evil,
        "exit_code": 0,
        "seconds": 0.0,
        "waited_seconds": 1.0,
        "events": 1,
        "peak_bytes": 0,
        "findings": 1,
        "confirmed": 1,
        "not_found": 0,
    }
    document = {
        "version": 1,
        "sites": [one],
        "findings": [found],
        "summary": summary,
        "problems": [{"path": evil, "line": 1, "column": 1, "message": evil}],
    }
    page = render_trace(document, sources={evil: LineIndex(f"x = 1 # {evil}")}, shown=visible)
    assert page.count("<script>") == 1
    assert "alert(1)" in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_excerpts_have_lines_around_waits_and_gaps() -> None:
    from embercoach.fixes.source_file import LineIndex

    text = "".join(f"x{n} = 1\n" for n in range(1, 31))
    sites = [
        {**dict.fromkeys(("operation", "label"), "op"), "path": "a.py", "line": line, "count": 2}
        | {"seconds": 0.5, "waits": True}
        for line in (2, 20)
    ]
    document = {"sites": sites, "summary": {"seconds": 1.0}}
    rows = excerpts(document, {"a.py": LineIndex(text)})["a.py"]
    assert [row.line for row in rows] == [1, 2, 3, 4, 5, 0, *range(17, 24)]
    marked = {row.line: (row.events, row.seconds, row.shade) for row in rows if row.events}
    assert marked == {2: ("op (2)", 0.5, 6), 20: ("op (2)", 0.5, 6)}
    assert rows[1].parts == (("", "x2 = "), ("n", "1"), ("", ""))


def test_events_of_a_page_are_a_list_of_texts() -> None:
    page = rulebook.page_path("GRAPH-BREAK-001")
    text = page.read_text(encoding="utf-8")
    assert rulebook.parse_page(text, page).events == ("item",)
    with pytest.raises(rulebook.RulePageError, match="events must be a list of kinds of events"):
        rulebook.parse_page(text.replace('events = ["item"]', 'events = "item"'), page)
