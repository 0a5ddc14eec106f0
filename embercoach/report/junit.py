"""JUnit's XML: a suite for each file, a failed test for each finding."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from embercoach.report.outcome import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.finding import Finding
    from embercoach.report.outcome import Outcome, Problem

NAME = "embercoach"
#: What XML 1.0 cannot hold, not even escaped.
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: The counts of a suite, and the elements that they count; each test is one.
COUNTED = {"tests": None, "failures": "failure", "errors": "error", "skipped": "skipped"}


def render(outcome: Outcome, *, show_notes: bool) -> str:
    """The report as XML text. Listed notes are skipped tests, as they fail nothing."""
    cases = [
        (finding.path, _finding(finding)) for finding in listed(outcome, show_notes=show_notes)
    ]
    cases += [(problem.path, _problem(problem)) for problem in outcome.problems]
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
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _suites(cases: list[tuple[str, ET.Element]]) -> Iterator[ET.Element]:
    for path, group in groupby(cases, key=lambda case: case[0]):
        suite = ET.Element("testsuite", name=_legal(path))
        suite.extend(case for _, case in group)
        for name, tag in COUNTED.items():
            counted = (
                len(suite) if tag is None else sum(case.find(tag) is not None for case in suite)
            )
            suite.set(name, str(counted))
        suite.set("time", "0")
        yield suite


def _finding(finding: Finding) -> ET.Element:
    case = _case(finding.path, finding.line, finding.column, finding.code)
    place = f"{finding.path}:{finding.line}:{finding.column}"
    told = f"{place}: {finding.code} {finding.severity} {finding.message}"
    outcome = ET.SubElement(case, "skipped" if finding.severity == "note" else "failure")
    if finding.severity != "note":
        outcome.set("type", finding.severity)
    outcome.set("message", _legal(finding.message))
    outcome.text = _legal("\n".join(filter(None, (told, finding.help))))
    return case


def _problem(problem: Problem) -> ET.Element:
    case = _case(problem.path, problem.line, problem.column, "incomplete")
    outcome = ET.SubElement(case, "error", type="incomplete", message=_legal(problem.message))
    outcome.text = _legal(f"{problem.path}:{problem.line}:{problem.column}: {problem.message}")
    return case


def _case(path: str, line: int, column: int, name: str) -> ET.Element:
    attributes = {"name": f"{name} at {line}:{column}", "classname": path, "file": path}
    attributes |= {"line": str(line), "time": "0"}
    return ET.Element("testcase", {key: _legal(value) for key, value in attributes.items()})


def _legal(text: str) -> str:
    return ILLEGAL.sub("\ufffd", text)
