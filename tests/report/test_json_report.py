"""The reports for programs: against their schemas, and as they are."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from msgspec.structs import replace
from sarif_pydantic import Sarif

from embercoach import rulebook
from embercoach.finding import Edit, Finding, Fix
from embercoach.fixes.application import apply
from embercoach.fixes.source_file import LineIndex
from embercoach.report import forges, json_report, sarif
from embercoach.report.outcome import SourceTexts

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from embercoach.report.outcome import Outcome

SARIF_SCHEMA = Path(__file__).parents[3] / "shared" / "schemas" / "sarif-2.1.0.json"


def schema() -> dict[str, Any]:
    text = files("embercoach.report").joinpath("findings.schema.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


def test_json(outcome: Outcome, sources: SourceTexts, snapshot: SnapshotAssertion) -> None:
    report = json_report.render(outcome, sources, show_notes=False)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(report))
    # Findings with a flow and related places, and with both kinds of fixes.
    some = replace(outcome, findings=outcome.findings[1:4])
    assert json_report.render(some, sources, show_notes=False) == snapshot


def test_the_published_schema_is_one_and_says_no(outcome: Outcome, sources: SourceTexts) -> None:
    published = schema()
    jsonschema.Draft202012Validator.check_schema(published)
    validator = jsonschema.Draft202012Validator(published)
    for damage in (
        lambda d: d.pop("problems"),
        lambda d: d.update(version=2),
        lambda d: d["findings"][0].update(extra=1),
        lambda d: d["findings"][0].update(severity="fatal"),
        lambda d: d["findings"][0].update(line=0),
        lambda d: d["findings"][2]["fix"].update(edits=[]),
        lambda d: d["summary"].pop("notes"),
    ):
        document = json.loads(json_report.render(outcome, sources, show_notes=False))
        damage(document)
        assert not validator.is_valid(document)


def test_notes_are_always_in_json_and_their_fixes_counted_when_listed(
    outcome: Outcome, sources: SourceTexts
) -> None:
    for show_notes, unsafe in ((False, 0), (True, 1)):
        document = json_report.document(outcome, sources, show_notes=show_notes)
        assert document["summary"]["notes"] == 1
        assert [f["severity"] for f in document["findings"]].count("note") == 1
        assert document["summary"]["fixable_unsafe"] == unsafe


def test_edits_in_json_lead_to_the_fixed_source(outcome: Outcome, sources: SourceTexts) -> None:
    """A program that knows lines and columns only gets what ``--fix`` writes."""
    document = json_report.document(outcome, sources, show_notes=True)
    for finding, reported in zip(outcome.findings, document["findings"], strict=True):
        if finding.fix is None:
            assert reported["fix"] is None
            continue
        index = sources.index(finding.path)
        lines = re.split(r"(?<=\n)", index.text)
        for edit in reversed(reported["fix"]["edits"]):
            first, last = edit["start"]["line"] - 1, edit["end"]["line"] - 1
            lines[first : last + 1] = [
                lines[first][: edit["start"]["column"] - 1]
                + edit["text"]
                + lines[last][edit["end"]["column"] - 1 :]
            ]
        assert "".join(lines) == apply(index.text, [finding.fix])[0]


def test_github(outcome: Outcome, snapshot: SnapshotAssertion) -> None:
    assert forges.github_annotations(outcome, SourceTexts(), show_notes=False) == snapshot
    with_notes = forges.github_annotations(outcome, SourceTexts(), show_notes=True)
    assert with_notes.count("\n") == 1 + forges.github_annotations(
        outcome, SourceTexts(), show_notes=False
    ).count("\n")
    assert "::notice " in with_notes


def test_github_escapes(clean: Outcome) -> None:
    message, advice = "50%\r\nmore: a, b", "10%\n::error::x"
    finding = Finding(
        "X-001", 1, 2, 1, 3, message, advice, "default", path="a,b:c%.py", severity="error"
    )
    assert forges.github_annotations(
        replace(clean, findings=(finding,)), SourceTexts(), show_notes=False
    ) == (
        "::error title=EmberCoach (X-001),file=a%2Cb%3Ac%25.py,line=1,col=2,endLine=1,endColumn=3"
        "::a,b:c%25.py:1:2: X-001 50%25\\r\\nmore: a, b%0A10%25%0A::error::x\n"
    )


@pytest.fixture
def log(outcome: Outcome, sources: SourceTexts) -> dict[str, Any]:
    text = sarif.render(outcome, sources, profile="recommended", exit_code=2)
    return json.loads(text)  # type: ignore[no-any-return]


def test_sarif_results(log: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    (run,) = log["runs"]
    run["results"] = run["results"][1:4:2]  # with a flow and related places, and with a fix
    del run["tool"]["driver"]["rules"]
    for result in run["results"]:
        del result["ruleIndex"]
    run["tool"]["driver"]["version"] = run["tool"]["driver"]["semanticVersion"] = "VERSION"
    assert log == snapshot


def test_sarif_by_the_standards_schema(log: dict[str, Any]) -> None:
    if not SARIF_SCHEMA.exists():
        pytest.skip(f"the SARIF 2.1.0 schema is not at {SARIF_SCHEMA}")
    standard = json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft7Validator(standard)
    validator.validate(log)
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(log)


def test_sarif_by_another_reader(log: dict[str, Any], outcome: Outcome) -> None:
    read = Sarif.model_validate(log)
    (run,) = read.runs
    assert run.results is not None
    assert [r.rule_id for r in run.results] == [f.code for f in outcome.findings]
    # What it knows of our report, it gives back as it was.
    again = json.loads(read.model_dump_json(by_alias=True, exclude_none=True))
    assert again["runs"][0]["results"][0]["locations"] == log["runs"][0]["results"][0]["locations"]


def test_sarif_rules_are_the_pages_of_the_findings(log: dict[str, Any], outcome: Outcome) -> None:
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({found.code for found in outcome.findings})
    for rule in rules:
        page = rulebook.rule(rule["id"])
        assert rule["help"]["markdown"] == page.page
        assert rule["defaultConfiguration"]["level"] == page.severity_in("recommended", "default")
    for result in log["runs"][0]["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_keeps_to_what_github_takes(log: dict[str, Any], outcome: Outcome) -> None:
    (run,) = log["runs"]
    assert run["automationDetails"]["id"] == "embercoach/"
    levels = {"error": "error", "warning": "warning", "note": "recommendation"}
    for rule in run["tool"]["driver"]["rules"]:
        reported = rule["properties"]
        assert reported["precision"] in ("very-high", "high", "medium", "low")
        assert reported["problem.severity"] == levels[rule["defaultConfiguration"]["level"]]
        # A severity of security would make a vulnerability of each alert.
        assert "security-severity" not in reported
        assert "security" not in reported["tags"]
        assert len(reported["tags"]) <= 10
        assert len(rule["name"]) <= 255
        assert len(rule["shortDescription"]["text"]) <= 1024
    for result, finding in zip(run["results"], outcome.findings, strict=True):
        assert sarif.LINE_HASH in result["partialFingerprints"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place["uriBaseId"] in run["originalUriBaseIds"]
        # Related places show where the message links to them, by their numbers.
        numbers = [one["id"] for one in result.get("relatedLocations", ())]
        assert numbers == list(range(1, len(finding.related) + 1))
        assert all(f"]({number})" in result["message"]["text"] for number in numbers)
        (*steps, last) = (
            result["codeFlows"][0]["threadFlows"][0]["locations"] if finding.flow else [None]
        )
        assert len(steps) == len(finding.flow)
        if last is not None:
            assert (
                last["location"]["physicalLocation"] == result["locations"][0]["physicalLocation"]
            )


def test_sarif_describes_rules_as_the_profile_has_them(
    outcome: Outcome, sources: SourceTexts
) -> None:
    complete = replace(outcome, problems=())
    document = sarif.document(complete, sources, profile="ember", exit_code=0)
    rules = {rule["id"]: rule for rule in document["runs"][0]["tool"]["driver"]["rules"]}
    assert rules["PYTHON-SCALAR-002"]["defaultConfiguration"]["level"] == "error"
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation == {
        "executionSuccessful": True,
        "exitCode": 0,
        "toolExecutionNotifications": [],
    }


def test_sarif_addresses(clean: Outcome) -> None:
    finding = Finding("DTYPE-001", 1, 1, 1, 2, "m", "", "default", path="", severity="error")
    paths = ["src/a b.py", "ü.py", "/abs/a b.py", "c#d?.py", os.fsdecode(b"\xff.py")]
    outcome = replace(clean, findings=tuple(replace(finding, path=path) for path in paths))
    document = sarif.document(outcome, SourceTexts(), profile="recommended", exit_code=1)
    assert [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in document["runs"][0]["results"]
    ] == ["src/a%20b.py", "%C3%BC.py", "file:///abs/a%20b.py", "c%23d%3F.py", "%FF.py"]


def fingerprints(source: str, *lines: int) -> list[str]:
    findings = tuple(
        Finding("DTYPE-001", line, 1, line, 2, "m", "", "default", path="a.py", severity="error")
        for line in lines
    )
    outcome = type("Run", (), {"findings": findings, "problems": ()})()
    document = sarif.document(
        outcome, SourceTexts({"a.py": source}), profile="recommended", exit_code=1
    )
    return [
        result["partialFingerprints"][sarif.FINGERPRINT]
        for result in document["runs"][0]["results"]
    ]


def test_fingerprints_survive_moved_lines_and_are_unique() -> None:
    before = fingerprints("x = f()\ny = 1\nx = f()\n", 1, 3)
    after = fingerprints("# new\n\nif a:\n    x = f()\n\n    x =  f()\ny = 1\n", 4, 6)
    assert before == after
    assert len(set(before)) == 2
    assert fingerprints("x = g()\n", 1) != before[:1]


def test_a_fix_in_sarif_is_a_deletion_and_an_insertion(clean: Outcome) -> None:
    fix = Fix("Do it", safe=False, edits=(Edit(4, 5, "z"), Edit(6, 6, "w\n")))
    finding = Finding(
        "DTYPE-001", 1, 5, 1, 6, "m", "", "default", fix, path="a.py", severity="error"
    )
    outcome = replace(clean, findings=(finding,))
    document = sarif.document(
        outcome, SourceTexts({"a.py": "x = y\nv\n"}), profile="recommended", exit_code=1
    )
    (reported,) = document["runs"][0]["results"][0]["fixes"]
    assert reported["description"]["text"] == "Do it (unsafe)"
    (change,) = reported["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 6},
            "insertedContent": {"text": "z"},
        },
        {
            "deletedRegion": {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 1},
            "insertedContent": {"text": "w\n"},
        },
    ]


def test_a_file_that_is_gone_is_reported_all_the_same(clean: Outcome, tmp_path: Path) -> None:
    sources = SourceTexts()
    assert sources.index(str(tmp_path / "gone.py")).text == ""
    (tmp_path / "bytes.py").write_bytes(b"\xff")
    assert sources.index(str(tmp_path / "bytes.py")).text == ""
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbfx\r\n")
    assert sources.index(str(tmp_path / "a.py")).text == LineIndex("x\r\n").text
