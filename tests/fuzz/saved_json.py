"""JSON that is read back: baselines, and reports for ``merge``, ``report`` and ``--against``."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from embercoach.checks import Project, check_source
from embercoach.cli.recovered import write
from embercoach.engine.check_run import RunResult
from embercoach.finding import Finding, Problem, Step
from embercoach.report import baseline_file, json_report
from embercoach.report.baseline_file import Baseline, BaselineError
from embercoach.report.html.changes import has_fingerprints
from embercoach.report.html.rendering import render
from embercoach.report.html.saved import SavedReportError, parse
from embercoach.report.merging import Saved, merge
from embercoach.report.outcome import (
    Checkout,
    Comparison,
    Portion,
    RuleChange,
    RunOrigin,
    SourceTexts,
)
from tests.fuzz import seeds
from tests.fuzz.mutation import json_mutation
from tests.fuzz.soundness import require_plain, sampled
from tests.fuzz.target import Target, require

FORMS = ("text", "concise", "grouped", "sarif", "github", "gitlab", "junit", "markdown")
WORDS = (
    *("findings", "problems", "summary", "version", "path", "code", "line", "column", "message"),
    *("end_line", "end_column", "severity", "error", "warning", "note", "help", "context", "fix"),
    *("fingerprint", "flow", "related", "cell", "edits", "run", "shard", "checkouts", "baseline"),
    *("known", "fixed", "changes", "kind", "embercoach-baseline", "DTYPE-001"),
    *("KERNEL-RACE-001", "a.py"),
)


@cache
def _reports() -> tuple[dict[str, Any], ...]:
    """Reports of programs, as `check` writes them: alone, of a shard, and beside a baseline."""
    reports = []
    for number, program in enumerate(seeds.python_programs()[:60:4]):
        raw = check_source(program, Path("/nowhere/a.py"), Project()).findings[:3]
        findings = tuple(_finding(one, number) for one in raw)
        problems = (Problem("b.py", 3, 1, "syntax error: invalid syntax", number % 2 or None),)
        result = RunResult(findings, problems[: number % 2], 3, 1, 2)
        checkouts = (Checkout(".", 3, 1, 2),)
        portion = Portion(number % 3 + 1, 3, 3, 9) if number % 3 else None
        changes = (RuleChange("a.py", "DTYPE-001", 2, 1),)
        document = json_report.document(
            result,
            SourceTexts({"a.py": program}),
            show_notes=True,
            comparison=Comparison(2, 1, changes) if number % 4 == 0 else None,
            marks=[f"{number}{n:031d}" for n in range(len(findings))],
            origin=RunOrigin("0.1.0", "f" * 32, checkouts, portion) if number % 2 else None,
        )
        reports.append(document)
    return tuple(reports)


def _finding(raw: Any, number: int) -> Finding:
    flow = tuple(Step(s.line, s.column, s.end_line, s.end_column, s.message) for s in raw.flow)
    return Finding(
        *(raw.code, raw.line, raw.column, raw.end_line, raw.end_column),
        *(raw.message, raw.help, raw.context, raw.fix, flow, ()),
        path="a.py" if number % 2 else "n.ipynb",
        severity="warning",
        cell=None if number % 2 else 1,
    )


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="embercoach-fuzz-")).resolve()
    os.chdir(folder)
    return folder


def _execute_report(data: bytes) -> None:
    _folder()
    try:
        document = parse(data)
    except SavedReportError as error:
        require(bool(str(error)), "an error without words")
        return
    other = _reports()[len(data) % len(_reports())]
    merged = merge([Saved("a.json", document), Saved("b.json", other)]).document
    if sampled(data, 4):  # what was put together can be read again
        parse(json_report.written(merged).encode())
    form = FORMS[len(data) % len(FORMS)]
    stream = StringIO()
    write(document, form, stream, statistics=False, show_notes=True)
    if form in ("sarif", "gitlab"):
        json.loads(stream.getvalue())
    else:
        require_plain(stream.getvalue(), form)
    write(
        document,
        "json" if sampled(data, 2) else "text",
        StringIO(),
        statistics=True,
        show_notes=True,
    )
    if sampled(data, 16):
        earlier = [("b.json", other)] if has_fingerprints(document) else []
        alike = ("baseline" in document["summary"]) == ("baseline" in other["summary"])
        render(document, readable=lambda _: True, saved_at=1.0, earlier=earlier if alike else [])


def _baselines() -> tuple[Any, ...]:
    entries = [
        {"path": f"a{number}.py", "code": "DTYPE-001", "fingerprint": f"{number:032d}"}
        for number in range(4)
    ]
    return tuple(
        {"kind": baseline_file.KIND, "version": baseline_file.VERSION, "findings": entries[:count]}
        for count in range(5)
    )


def _execute_baseline(data: bytes) -> None:
    file = _folder() / "known.json"
    file.write_bytes(data)
    try:
        known = baseline_file.read(file)
    except BaselineError as error:
        require("known.json" in str(error), "the error does not name the file")
        return
    for entry in known.entries:
        known.place(entry.path)
    if not sampled(data, 16):
        return
    again = _folder() / "again.json"
    baseline_file.write(Baseline(again, known.entries))
    require(baseline_file.read(again).entries == known.entries, "a baseline changes when written")


REPORT = Target(
    "saved-report",
    lambda: map(json_report.written, _reports()),
    json_mutation(_reports, WORDS),
    _execute_report,
)
BASELINE = Target(
    "baseline",
    lambda: (json.dumps(document, indent=2) for document in _baselines()),
    json_mutation(_baselines, WORDS),
    _execute_baseline,
)
