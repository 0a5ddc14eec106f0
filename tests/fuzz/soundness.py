"""What checking a file may come to: sound findings, sound reports and fixes, or a clear problem."""

from __future__ import annotations

import ast
import json
import unicodedata
import xml.etree.ElementTree as ET
from functools import cache
from io import StringIO
from pathlib import Path
from zlib import crc32

from embercoach.config import Settings
from embercoach.engine.check_run import RunResult, joined, reported
from embercoach.engine.file_discovery import SourceFile
from embercoach.engine.fixing import FixedFile, Fixer
from embercoach.engine.inspection import Inspection, Inspector
from embercoach.engine.languages import NOTEBOOK, PYTHON, language_of
from embercoach.engine.noqa_writing import annotated
from embercoach.engine.verdict import Judge
from embercoach.fixes.source_file import LineIndex, decode
from embercoach.report import forges, json_report, junit, markdown, sarif, text
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import print_lines
from tests.fuzz.target import FaultError, require

FOLDER = Path("/nowhere")
#: Categories of controls, formats, halves of surrogate pairs, and separators of lines.
DECEPTIVE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


@cache
def settings() -> Settings:
    """Every rule, notes among the findings, fixes of all of them."""
    return Settings(FOLDER, profile="ember", show_notes=True)


@cache
def _inspector() -> Inspector:
    return Inspector(debug=True)


def sampled(data: bytes, one_in: int) -> bool:
    """Whether an input is one of those that get a costly look."""
    return crc32(data) % one_in == 0


def examine(data: bytes, name: str) -> None:
    """Check a file's bytes, and all that comes of it."""
    path = FOLDER / name
    inspection = _inspector().inspect(data, path)
    if inspection.kind == "failed":
        assert inspection.problem is not None
        raise FaultError(inspection.problem.message)
    if sampled(data, 8):
        again = Inspector(debug=True).inspect(data, path)
        require(again == inspection, "a second inspection differs")
    result = _judged(inspection, path)
    if inspection.kind != "checked":
        require(all(problem.message for problem in result.problems), "a problem without words")
    else:
        source = decode(data).text
        _require_places(result, SourceTexts({str(path): source}), source)
        if any(finding.fix for finding in result.findings):
            _require_fixes(data, path)
        if result.findings and language_of(name) != NOTEBOOK and sampled(data, 4):
            _require_suppressions(source, path, result)
    if sampled(data, 4):
        source = "" if inspection.kind == "broken" else decode(data).text
        require_reports(result, SourceTexts({str(path): source}))


def _judged(inspection: Inspection, path: Path) -> RunResult:
    result = joined([reported(Judge(settings()), SourceFile(path, str(path)), inspection)])
    internal = [p.message for p in result.problems if "internal error" in p.message]
    require(not internal, f"internal error: {internal}")
    return result


def _require_places(result: RunResult, sources: SourceTexts, source: str) -> None:
    for finding in result.findings:
        index = sources.index(finding.path, finding.cell)
        require(bool(finding.message), f"{finding.code} has no message")
        for step in (finding, *finding.flow, *finding.related):
            where = sources.index(finding.path, step.cell)
            start, end = (step.line, step.column), (step.end_line, step.end_column)
            require(_holds(where, *start), f"{finding.code} begins outside of the text: {start}")
            require(_holds(where, *end), f"{finding.code} ends outside of the text: {end}")
            require(start <= end, f"{finding.code} ends before it begins: {start} {end}")
        if finding.cell is None:
            edits = finding.fix.edits if finding.fix else ()
            require(all(0 <= e.start <= e.end <= len(source) for e in edits), "an edit outside")
            require(index.offset(finding.line, finding.column) <= len(source), "outside")


def _holds(index: LineIndex, line: int, column: int) -> bool:
    if not 1 <= line <= len(index.starts):
        return False
    ends = [*index.starts[1:], len(index.text)]
    # The end of a place that takes in its line's end is the next line's start, or behind it.
    return 1 <= column <= ends[line - 1] - index.starts[line - 1] + 1


def _require_fixes(data: bytes, path: Path) -> None:
    fixer = Fixer(settings(), unsafe=True, debug=True, inspector=_inspector())
    fixed = fixer((str(path), data))
    _require_no_trouble(fixed)
    again = fixer((str(path), fixed.data))
    _require_no_trouble(again)
    require(not again.applied, "fixing twice changes more")
    require(decode(fixed.data).text == fixed.new, "a fixed file is not its fixed text")
    if language_of(path.name) == PYTHON and _parses(fixed.old):
        require(_parses(fixed.new), "a fix broke the program")


def _require_no_trouble(fixed: FixedFile) -> None:
    # An encoding need not hold what a fix writes.
    require(fixed.trouble is None or "cannot hold" in fixed.trouble, str(fixed.trouble))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _require_suppressions(source: str, path: Path, result: RunResult) -> None:
    """A comment for each finding suppresses it."""
    language = language_of(path.name)
    with_comments = annotated(source, result.findings, "\n", language)
    data = with_comments.encode("utf-8", "surrogatepass")
    inspection = _inspector().inspect(data, path)
    require(inspection.kind == "checked", f"comments broke the file: {inspection.problem}")
    left = _judged(inspection, path).findings
    require(len(left) <= len(result.findings), "comments led to more findings")


def require_reports(result: RunResult, sources: SourceTexts) -> None:
    """Every format can be written, and read by what it is for."""
    for render in (json_report.render, forges.gitlab_report):
        json.loads(render(result, sources, show_notes=True))
    json.loads(sarif.render(result, sources, profile="ember", exit_code=1))
    junit_text = junit.render(result, sources, show_notes=True)
    ET.fromstring(junit_text)
    workflow_commands = forges.github_annotations(result, sources, show_notes=True)
    require_plain(workflow_commands, "github")
    lines = workflow_commands.split("\n")[:-1]
    require(all(line.startswith("::") for line in lines), "a line that is no workflow command")
    require_plain(junit_text, "junit")
    require_plain(markdown.render(result, sources, show_notes=True), "markdown")
    for color in (False, True):
        stream = StringIO()
        print_lines(text.full(result, sources, show_notes=True, width=80), stream, color=color)
        print_lines(text.concise(result, show_notes=True), stream, color=color)
        if not color:
            require_plain(stream.getvalue(), "text")


def require_plain(report: str, form: str) -> None:
    """No character controls a terminal, or hides or reorders what is shown."""
    odd = {char for char in report if char != "\n" and unicodedata.category(char) in DECEPTIVE}
    require(not odd, f"{form} holds {sorted(odd)!a}")
