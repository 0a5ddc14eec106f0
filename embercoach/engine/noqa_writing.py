"""Writing suppressions into files: ``--add-noqa``.

The form is ``# embercoach: ignore[CODE]``, or ``// embercoach: ...`` in Metal and Objective-C. ruff
warns of ``# noqa`` with codes like ours, and flake8 takes such a comment for a bare one and goes
silent on the whole line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from embercoach.engine.languages import MARKERS, NOTEBOOK, PYTHON, Language, language_of
from embercoach.engine.suppressions import Directive, PhysicalLines, lines_of, read_directives
from embercoach.files import read_bytes
from embercoach.finding import Edit, Finding, Fix, PlacedError, Problem
from embercoach.fixes.application import apply
from embercoach.fixes.source_file import LineIndex, decode, encode
from embercoach.fixes.writing import distinct, replace_file


def annotated(
    text: str, findings: Iterable[Finding], newline: str = "\n", language: Language = PYTHON
) -> str:
    """Return a source with a suppression for each finding, merged with those that are there.

    Raises:
        NotebookError: it is to be a notebook, and is none.
    """
    if language == NOTEBOOK:
        fixes = _fixes_of_notebook(text, findings)
    else:
        fixes = _fixes(text, [(finding.line, finding.code) for finding in findings], language)
    return apply(text, fixes, newline)[0]


def _fixes(text: str, places: Iterable[tuple[int, str]], language: Language) -> list[Fix]:
    """Return a comment for each line with codes in it."""
    index = LineIndex(text)
    lines = lines_of(text, language)
    known = read_directives(text, language)
    present = {d.line: d for d in known if d.kind == "ignore" and d.items}
    wanted: dict[int, set[str]] = {}
    for line, code in places:
        wanted.setdefault(_row(line, lines), set()).add(code)
    marker = MARKERS[language]
    return [_fix(row, codes, present.get(row), index, marker) for row, codes in wanted.items()]


def _fixes_of_notebook(text: str, findings: Iterable[Finding]) -> list[Fix]:
    from embercoach.notebooks.cell_module import parse
    from embercoach.notebooks.editing import fixes_in_file

    notebook = parse(text)
    if notebook is None:
        return []
    places = [
        (notebook.table.line_of(finding.cell, finding.line), finding.code)
        for finding in findings
        if finding.cell is not None
    ]
    return fixes_in_file(_fixes(notebook.source, places, PYTHON), notebook)


def annotate_files(findings: Iterable[Finding]) -> tuple[int, list[Problem]]:
    """Suppress findings in their files.

    Returns:
        How many findings were suppressed, and the files that could not be written.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.path, []).append(finding)
    done = 0
    problems = []
    for shown in distinct(by_file):
        of_file = by_file[shown]
        path = Path(shown)
        try:
            source = decode(read_bytes(path))
            text = annotated(source.text, of_file, source.newline, language_of(path.name))
            replace_file(path, encode(text, source))
            done += len(of_file)
        except (OSError, PlacedError) as error:
            problems.append(Problem(shown, 1, 1, f"cannot be written: {error}"))
    return done, problems


def _row(line: int, lines: PhysicalLines) -> int:
    """Get the line whose end takes the comment: none fits inside a string or before a backslash."""
    if line in lines.open_ended:
        return line
    for first, last in lines.strings:
        if first <= line <= last and last in lines.open_ended:
            return last
    return next((last for first, last in lines.logical if first <= line <= last), line)


def _fix(
    row: int, codes: set[str], present: Directive | None, index: LineIndex, marker: str
) -> Fix:
    names = ", ".join(sorted(codes))
    if present is not None:
        end = present.items[-1].end
        return Fix("suppress", safe=True, edits=(Edit(end, end, f", {names}"),))
    line = index.line(row)
    start = index.offset(row, len(line.rstrip()) + 1)
    end = index.offset(row, len(line) + 1)
    comment = f"  {marker} embercoach: ignore[{names}]"
    return Fix("suppress", safe=True, edits=(Edit(start, end, comment),))
