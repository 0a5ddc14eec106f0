"""JUnit's XML: a suite for each file, a failed test for each finding."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from embercoach.report.locations import place_of, start_in_file
from embercoach.report.outcome import listed
from embercoach.terminal_text import log_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.finding import Finding, Problem
    from embercoach.report.locations import Placed
    from embercoach.report.outcome import Outcome, SourceTexts

NAME = "embercoach"
#: The counts of a suite, and the elements that they count; each test is one.
COUNTED = {"tests": None, "failures": "failure", "errors": "error", "skipped": "skipped"}


def render(outcome: Outcome, sources: SourceTexts, *, show_notes: bool) -> str:
    """Return the report as XML text. Listed notes are skipped tests, as they fail nothing."""
    cases = [
        (finding.path, _finding(finding, sources))
        for finding in listed(outcome, show_notes=show_notes)
    ]
    cases += [(problem.path, _problem(problem, sources)) for problem in outcome.problems]
    cases.sort(key=lambda case: case[0])
    if not cases:
        # Readers such as Jenkins take a report without tests for a broken one.
        cases = [(NAME, ET.Element("testcase", name="check", classname=NAME, time="0"))]
    root = ET.Element("testsuites", name=NAME)
    root.extend(_suites(cases))
    totals = {
        name: sum(int(suite.attrib[name]) for suite in root)
        for name in ("tests", "failures", "errors")
    }
    root.attrib.update({name: str(total) for name, total in totals.items()}, time="0")
    ET.indent(root)
    # In ASCII it is valid in every encoding: standard output need not be UTF-8.
    text = ET.tostring(root, encoding="us-ascii", xml_declaration=False).decode("ascii")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{text}\n"


def _suites(cases: list[tuple[str, ET.Element]]) -> Iterator[ET.Element]:
    for path, group in groupby(cases, key=lambda case: case[0]):
        suite = ET.Element("testsuite", name=log_line(path))
        suite.extend(case for _, case in group)
        for name, tag in COUNTED.items():
            counted = (
                len(suite) if tag is None else sum(case.find(tag) is not None for case in suite)
            )
            suite.set(name, str(counted))
        suite.set("time", "0")
        yield suite


def _finding(finding: Finding, sources: SourceTexts) -> ET.Element:
    case = _case(finding, finding.code, sources)
    headline = f"{place_of(finding)}: {finding.code} {finding.severity} {finding.message}"
    outcome = ET.SubElement(case, "skipped" if finding.severity == "note" else "failure")
    if finding.severity != "note":
        outcome.set("type", finding.severity)
    outcome.set("message", log_line(finding.message))
    outcome.text = "\n".join(map(log_line, [headline, *finding.help.split("\n")])).rstrip("\n")
    return case


def _problem(problem: Problem, sources: SourceTexts) -> ET.Element:
    case = _case(problem, "incomplete", sources)
    outcome = ET.SubElement(case, "error", type="incomplete", message=log_line(problem.message))
    outcome.text = log_line(f"{place_of(problem)}: {problem.message}")
    return case


def _case(one: Placed, name: str, sources: SourceTexts) -> ET.Element:
    """Get a test named by the place that people read; its line is the file's own, to be opened."""
    place = place_of(one).removeprefix(f"{one.path}:")
    attributes = {"name": f"{name} at {place}", "classname": one.path, "file": one.path}
    attributes |= {"line": str(start_in_file(one, sources)[0]), "time": "0"}
    return ET.Element("testcase", {key: log_line(value) for key, value in attributes.items()})
