"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from embercoach import __version__, rulebook
from embercoach.report.baseline_file import fingerprints
from embercoach.report.locations import (
    file_url,
    fix_in_file,
    in_repository,
    quoted,
    region_in_file,
    start_in_file,
    within_cell,
)
from embercoach.rulebook import RULES_URL, SITE, Rule, rule_url
from embercoach.terminal_text import json_renderer

if TYPE_CHECKING:
    from embercoach.finding import Finding, Fix, Problem, Step
    from embercoach.report.outcome import Outcome, SourceTexts

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "embercoachFinding/v1"
#: What GitHub knows an alert again by; its upload action computes the same where it is missing.
LINE_HASH = "primaryLocationLineHash"
#: Where relative addresses start; GitHub takes it for the top of the repository.
ROOT = "%SRCROOT%"
#: The levels by which GitHub orders the alerts of rules that are not of security.
LEVELS = {"error": "error", "warning": "warning", "note": "recommendation"}

#: Of the hash that GitHub computes of a line: characters, multiplier, and the end of the text.
WINDOW = 100
FACTOR = 37
END = "\uffff"
_BLANKS = str.maketrans("", "", " \t")


def document(
    outcome: Outcome,
    sources: SourceTexts,
    *,
    profile: str,
    exit_code: int,
    marks: Sequence[str] | None = None,
    root: str | None = None,
    rules_url: str = RULES_URL,
) -> dict[str, Any]:
    """Return the report as plain data: the findings, and the rules that they are of.

    Suppressed findings are left out, as GitHub would show them.

    Args:
        outcome: the run's result.
        sources: the reported files' texts.
        profile: whose severities the rules are described with.
        exit_code: of this run.
        marks: the findings' fingerprints, where they are known already.
        root: the repository's folder; the current one by default.
        rules_url: the setting; empty for no links.
    """
    found = {finding.code for finding in outcome.findings}
    rules = {code: rule for code, rule in rulebook.rules().items() if code in found}
    numbers = {code: number for number, code in enumerate(rules)}
    marks = fingerprints(outcome.findings, sources) if marks is None else marks
    places = _Places(sources, root, outcome.findings)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "EmberCoach",
                        "version": __version__,
                        "semanticVersion": __version__,
                        **({"informationUri": SITE} if rulebook.PUBLISHED else {}),
                        "rules": [_rule(rule, profile, rules_url) for rule in rules.values()],
                    }
                },
                "automationDetails": {"id": "embercoach/"},
                "originalUriBaseIds": {
                    ROOT: {"description": {"text": "The top of the repository."}}
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": not outcome.problems,
                        "exitCode": exit_code,
                        "toolExecutionNotifications": [
                            _problem(problem, places) for problem in outcome.problems
                        ],
                    }
                ],
                "results": [
                    _result(finding, numbers.get(finding.code), places, mark)
                    for finding, mark in zip(outcome.findings, marks, strict=True)
                ],
            }
        ],
    }


render = json_renderer(document)


class _Places:
    """Addresses in the files of one report."""

    def __init__(self, sources: SourceTexts, root: str | None, findings: Sequence[Finding]) -> None:
        self.sources = sources
        self._root = root
        self._artifacts: dict[str, dict[str, str]] = {}
        self._lines: dict[str, set[int]] = {}
        self._hashes: dict[str, dict[int, str]] = {}
        for finding in findings:
            line, _ = start_in_file(finding, sources)
            self._lines.setdefault(finding.path, set()).add(line)

    def artifact(self, path: str) -> dict[str, str]:
        """Return a file's address: from the top of the repository, where it lies in it."""
        known = self._artifacts.get(path)
        if known is None:
            inside = in_repository(path, self._root)
            known = {"uri": quoted(inside), "uriBaseId": ROOT}
            if os.path.isabs(inside):  # noqa: PTH117
                known = {"uri": file_url(inside)}
            self._artifacts[path] = known
        return known

    def location(self, path: str, one: Finding | Step) -> dict[str, Any]:
        """Return the location of a finding, or of a step of one."""
        region = _region(*region_in_file(path, one, self.sources))
        place = {"artifactLocation": self.artifact(path), "region": region}
        return {"physicalLocation": place, **_cell(one)}

    def line_hash(self, finding: Finding) -> dict[str, str]:
        """GitHub's own fingerprint; none if the file is not there any more."""
        known = self._hashes.get(finding.path)
        if known is None:
            text = self.sources.index(finding.path).text
            known = line_hashes(text, self._lines[finding.path]) if text else {}
            self._hashes[finding.path] = known
        line, _ = start_in_file(finding, self.sources)
        return {LINE_HASH: known[line]} if line in known else {}


def _rule(rule: Rule, profile: str, rules_url: str) -> dict[str, Any]:
    level = rule.severity_in(profile, "default")
    url = rule_url(rule.code, rules_url)
    properties = {
        "tags": [rule.family, "mlx"],
        "precision": "high",
        "problem.severity": LEVELS[level],
        "since": rule.since,
        "fix": rule.fix,
    }
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": level},
        "properties": properties,
        **({} if url is None else {"helpUri": url}),
    }


def _result(finding: Finding, number: int | None, places: _Places, mark: str) -> dict[str, Any]:
    texts = [_plain(finding.message), _plain(finding.help)]
    # GitHub shows related places where the message links to them.
    texts += [f"See [{_label(s.message)}]({n})." for n, s in enumerate(finding.related, 1)]
    text = within_cell(finding, "\n".join(filter(None, texts)))
    result: dict[str, Any] = {
        "ruleId": finding.code,
        **({} if number is None else {"ruleIndex": number}),  # a later release's, in a saved report
        "level": finding.severity,
        "message": {"text": text},
        "locations": [places.location(finding.path, finding)],
        "partialFingerprints": {FINGERPRINT: mark, **places.line_hash(finding)},
        "properties": {"context": finding.context},
    }
    if finding.flow:
        way: tuple[Finding | Step, ...] = (*finding.flow, finding)
        steps = [{"location": _step(finding.path, step, places)} for step in way]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.related:
        result["relatedLocations"] = [
            {"id": n, **_step(finding.path, step, places)}
            for n, step in enumerate(finding.related, 1)
        ]
    fix = finding.fix and fix_in_file(finding.fix, finding.path, places.sources)
    if fix:
        result["fixes"] = [_fix(fix, finding.path, places)]
    return result


def _step(path: str, one: Finding | Step, places: _Places) -> dict[str, Any]:
    message = {"text": within_cell(one, _plain(one.message))}
    return {**places.location(path, one), "message": message}


def _plain(text: str) -> str:
    """Return a text for a message, in which viewers take ``[text](address)`` for a link."""
    return text.replace("](", "\\](")


def _label(text: str) -> str:
    """Return the text of a link in a message."""
    for character in ("\\", "[", "]"):
        text = text.replace(character, f"\\{character}")
    return text


def _region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }


def _cell(one: Finding | Problem | Step) -> dict[str, Any]:
    """The cell of a notebook; regions are the file's own, as readers take them for no others."""
    if one.cell is None:
        return {}
    place = {"cell": one.cell, "line": one.line, "column": one.column}
    return {"logicalLocations": [{"name": f"cell {one.cell}", "kind": "cell", "properties": place}]}


def _fix(fix: Fix, path: str, places: _Places) -> dict[str, Any]:
    index = places.sources.index(path)
    replacements = []
    for edit in fix.edits:
        region = _region(*index.place(edit.start), *index.place(edit.end))
        replacements.append({"deletedRegion": region, "insertedContent": {"text": edit.text}})
    return {
        "description": {"text": fix.title if fix.safe else f"{fix.title} (unsafe)"},
        "artifactChanges": [
            {"artifactLocation": places.artifact(path), "replacements": replacements}
        ],
    }


def _problem(problem: Problem, places: _Places) -> dict[str, Any]:
    line, column = start_in_file(problem, places.sources)
    return {
        "level": "error",
        "message": {"text": within_cell(problem, _plain(problem.message))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": places.artifact(problem.path),
                    "region": {"startLine": line, "startColumn": column},
                },
                **_cell(problem),
            }
        ],
    }


def line_hashes(text: str, wanted: AbstractSet[int]) -> dict[int, str]:
    """The hashes of some lines of a file, by their numbers; lines that it hasn't are left out."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").translate(_BLANKS) + END
    data = lines.encode("utf-16-le", "surrogatepass")
    newline = "\n".encode("utf-16-le")
    found: dict[int, str] = {}
    seen: Counter[bytes] = Counter()
    start, number = 0, 1
    last = max(wanted, default=0)
    while number <= last:
        window = data[start : start + 2 * WINDOW]
        seen[window] += 1
        if number in wanted:
            found[number] = f"{_hash(window):x}:{seen[window]}"
        start = _after(data, newline, start)
        if not start:
            break
        number += 1
    return found


def _after(data: bytes, newline: bytes, start: int) -> int:
    """Return where the next line starts, 0 if there is none."""
    at = data.find(newline, start)
    while at % 2 and at > 0:  # halves of two neighbours that look like it
        at = data.find(newline, at + 1)
    return at + 2 if at >= 0 else 0


def _hash(window: bytes) -> int:
    count = len(window) // 2
    value = 0
    for unit in struct.unpack(f"<{count}H", window):
        value = value * FACTOR + unit
    return int(value * FACTOR ** (WINDOW - count) % (1 << 64))
