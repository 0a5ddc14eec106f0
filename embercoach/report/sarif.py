"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embercoach import __version__, rulebook
from embercoach.report.address import quoted
from embercoach.report.fingerprints import fingerprints
from embercoach.report.places import fix_in_file, region_in_file, start_in_file, within_cell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from embercoach.finding import Finding, Fix
    from embercoach.fixes.source import LineIndex
    from embercoach.report.outcome import Outcome, Problem, Sources
    from embercoach.rulebook import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
HOME = "https://pypi.org/project/embercoach/"
FINGERPRINT = "embercoachFinding/v1"


def render(
    outcome: Outcome,
    sources: Sources,
    *,
    profile: str,
    exit_code: int,
    codes: AbstractSet[str] | None = None,
    marks: Sequence[str] | None = None,
) -> str:
    """The report as JSON text. Suppressed findings are left out, as GitHub would show them.

    Args:
        outcome: the run's result.
        sources: the reported files' texts.
        profile: whose severities the rules are described with.
        exit_code: of this run.
        codes: of the rules that this run could report; those of the checks by default.
        marks: the findings' fingerprints, where they are known already.
    """
    data = document(
        outcome, sources, profile=profile, exit_code=exit_code, codes=codes, marks=marks
    )
    return json.dumps(data, indent=2)


def document(
    outcome: Outcome,
    sources: Sources,
    *,
    profile: str,
    exit_code: int,
    codes: AbstractSet[str] | None = None,
    marks: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The report as plain data."""
    known = rulebook.static_codes() if codes is None else codes
    rules = {code: rule for code, rule in rulebook.rules().items() if code in known}
    numbers = {code: number for number, code in enumerate(rules)}
    marks = fingerprints(outcome.findings, sources) if marks is None else marks
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
                        "informationUri": HOME,
                        "rules": [_rule(rule, profile) for rule in rules.values()],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": not outcome.problems,
                        "exitCode": exit_code,
                        "toolExecutionNotifications": [
                            _problem(problem, sources) for problem in outcome.problems
                        ],
                    }
                ],
                "results": [
                    _result(finding, numbers[finding.code], sources, mark)
                    for finding, mark in zip(outcome.findings, marks, strict=True)
                ],
            }
        ],
    }


def _rule(rule: Rule, profile: str) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"level": rule.severity_in(profile, "default")},
        "properties": {"tags": [rule.family, "mlx"], "since": rule.since, "fix": rule.fix},
    }


def _result(finding: Finding, number: int, sources: Sources, mark: str) -> dict[str, Any]:
    text = within_cell(finding, "\n".join(filter(None, (finding.message, finding.help))))
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(finding.path),
                    "region": _region(*region_in_file(finding, sources)),
                },
                **_cell(finding),
            }
        ],
        "partialFingerprints": {FINGERPRINT: mark},
        "properties": {"context": finding.context},
    }
    fix = finding.fix and fix_in_file(finding.fix, finding.path, sources)
    if fix:
        result["fixes"] = [_fix(fix, finding.path, sources.index(finding.path))]
    return result


def _region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }


def _cell(one: Finding | Problem) -> dict[str, Any]:
    """The cell of a notebook; regions are the file's own, as readers take them for no others."""
    if one.cell is None:
        return {}
    place = {"cell": one.cell, "line": one.line, "column": one.column}
    return {"logicalLocations": [{"name": f"cell {one.cell}", "kind": "cell", "properties": place}]}


def _fix(fix: Fix, path: str, index: LineIndex) -> dict[str, Any]:
    replacements = []
    for edit in fix.edits:
        region = _region(*index.place(edit.start), *index.place(edit.end))
        replacements.append({"deletedRegion": region, "insertedContent": {"text": edit.text}})
    return {
        "description": {"text": fix.title if fix.safe else f"{fix.title} (unsafe)"},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _problem(problem: Problem, sources: Sources) -> dict[str, Any]:
    line, column = start_in_file(problem, sources)
    return {
        "level": "error",
        "message": {"text": within_cell(problem, problem.message)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(problem.path),
                    "region": {"startLine": line, "startColumn": column},
                },
                **_cell(problem),
            }
        ],
    }


def _artifact(path: str) -> dict[str, str]:
    if os.path.isabs(path):  # noqa: PTH117
        return {"uri": Path(path).as_uri()}
    return {"uri": quoted(path)}
