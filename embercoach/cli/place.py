"""``embercoach explain FILE:LINE``: what is found at a place, and the kernel that it is in."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from embercoach import rulebook
from embercoach.cli.entry import CLEAN, INCOMPLETE
from embercoach.config import ConfigError, Overrides, load
from embercoach.engine.check_run import RunResult, run
from embercoach.engine.languages import PYTHON, language_of
from embercoach.files import read_bytes
from embercoach.notebooks import is_notebook
from embercoach.report import json_report, text
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import Line, print_lines, width_of, wraps
from embercoach.terminal_text import json_text

if TYPE_CHECKING:
    from embercoach.checks.programs.generated_signatures import WrittenKernel
    from embercoach.engine.name_shapes import NameShape
    from embercoach.finding import Finding
    from embercoach.fixes.source_file import LineIndex
    from embercoach.kernel_builder import KernelBuilder

_PLACE = re.compile(
    r"(?P<file>.+?):(?:cell (?P<cell>[0-9]+):)?(?P<line>[0-9]+)(?::(?P<column>[0-9]+))?", re.DOTALL
)


class UserLocation(Struct, frozen=True):
    """A location in a file or a notebook's cell, as the user wrote it; all from 1."""

    file: str
    line: int
    column: int | None = None
    cell: int | None = None

    def __str__(self) -> str:
        end = "" if self.column is None else f":{self.column}"
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{self.file}:{cell}{self.line}{end}"


def place_of(word: str) -> UserLocation:
    """Parse a location.

    Raises:
        click.UsageError: the word is not a location.
    """
    match = _PLACE.fullmatch(word)
    if match is None:
        raise click.UsageError(f"invalid location '{word}': use FILE:LINE or FILE:LINE:COLUMN")
    column, cell = (
        None if match[name] is None else int(match[name]) for name in ("column", "cell")
    )
    if is_notebook(match["file"]) != (cell is not None):
        form = "'NOTEBOOK:cell N:LINE'" if cell is None else "FILE:LINE"
        raise click.UsageError(f"invalid location '{word}': use {form}")
    return UserLocation(match["file"], int(match["line"]), column, cell)


def explain(place: UserLocation, output_format: str) -> int:
    """Print the findings at a location; returns the exit code.

    Raises:
        click.UsageError: there is no such file, or it has no such line.
    """
    source = _source(place)
    try:
        (scope,) = load((place.file,), Overrides())
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    result = run((place.file,), scope.settings, cache=False)
    found = _at(place, result.findings)
    kernels = _kernels(place, source, found, scope.settings.kernel_builders)
    shapes = () if result.problems else _shapes(place, source, scope.settings.kernel_builders)
    sources = SourceTexts({place.file: source})
    if output_format == "json":
        document = _document(place, RunResult(found, result.problems), kernels, shapes, sources)
        click.echo(json_text(document))
    else:
        lines = _lines(place, RunResult(found, result.problems), kernels, sources)
        more = _shape_lines(shapes, source, is_apart=bool(kernels or not found))
        print_lines(chain(lines, more), sys.stdout, rules_url=scope.settings.rules_url)
    return INCOMPLETE if result.problems else CLEAN


def _source(place: UserLocation) -> str:
    from embercoach.fixes.source_file import DecodingError, LineIndex, decode

    try:
        source = decode(read_bytes(place.file)).text
    except OSError as error:
        message = f"{place.file} cannot be read: {error.strerror or error}"
        raise click.UsageError(message) from error
    except DecodingError as error:
        raise click.UsageError(f"{place.file}:{error}") from error
    if place.cell is None:
        lines, where = LineIndex(source), place.file
    else:
        lines, where = _cell(place.cell, source, place.file), f"cell {place.cell} of {place.file}"
    require_line(place.line, lines, where)
    return source


def require_line(line: int, lines: LineIndex, where: str) -> None:
    """Check that a file or a cell has a line.

    Raises:
        click.UsageError: it has none of that number.
    """
    if not 1 <= line <= lines.count:
        count = text.plural(lines.count, "line")
        raise click.UsageError(f"{where} has {count}, got line {line}")


def _cell(number: int, source: str, file: str) -> LineIndex:
    from embercoach.notebooks.cell_module import parse
    from embercoach.notebooks.notebook_document import NotebookError

    try:
        notebook = parse(source)
    except NotebookError as error:
        raise click.UsageError(f"{file}:{error}") from error
    if notebook is None or not notebook.holds(number):
        raise click.UsageError(f"{file} has no Python cell {number}")
    return notebook.lines(number)


def _at(place: UserLocation, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings that begin on the line, or else those that include it."""
    findings = tuple(finding for finding in findings if finding.cell == place.cell)
    if place.column is not None:
        at = (place.line, place.column)
        return tuple(f for f in findings if (f.line, f.column) <= at < (f.end_line, f.end_column))
    first = tuple(f for f in findings if f.line == place.line)
    return first or tuple(f for f in findings if f.line < place.line <= f.end_line)


def _kernels(
    place: UserLocation,
    source: str,
    found: tuple[Finding, ...],
    builders: tuple[KernelBuilder, ...],
) -> list[WrittenKernel]:
    """Return the kernels that the place belongs to; none unless a finding there is about one."""
    if Path(place.file).suffix not in (".py", ".pyi", ""):
        return []
    from embercoach import checks
    from embercoach.checks.programs.generated_signatures import mentions_kernels, written_kernels

    is_kernel = any(f.code.startswith("KERNEL-") for f in found)
    if not is_kernel and not mentions_kernels(source, builders):
        return []
    try:
        written = written_kernels(source, Path(place.file).absolute(), checks.Project(builders))
    except checks.SyntaxProblem:
        return []  # the run reports it as a problem
    return [kernel for kernel in written if kernel.covers(place.line)]


def _shapes(
    place: UserLocation, source: str, builders: tuple[KernelBuilder, ...]
) -> tuple[NameShape, ...]:
    """Return the arrays that are assigned at the place."""
    if language_of(place.file) != PYTHON:
        return ()
    from embercoach.cli.python_file import analysed
    from embercoach.engine.name_shapes import name_shapes_if_sound

    found = analysed(source, place.file, builders, name_shapes_if_sound)
    at = place.column
    return tuple(
        one
        for one in found
        if one.line == place.line and (at is None or one.column <= at < one.end_column)
    )


def _lines(
    place: UserLocation, result: RunResult, kernels: list[WrittenKernel], sources: SourceTexts
) -> Iterator[Line]:
    for finding in result.findings:
        one = RunResult((finding,))
        width, wrap = width_of(sys.stdout), wraps(sys.stdout)
        yield from text.full(one, sources, show_notes=True, width=width, wrap=wrap)
        rule = rulebook.rule(finding.code)
        yield [(finding.code, "code"), (f" ({rule.name}): ", "code"), (f"{rule.summary}.", "")]
        yield [(f"See `embercoach explain {finding.code}`.", "faint")]
        yield []
    yield from text.problem_lines(result.problems)
    if not result.findings and not result.problems:
        yield [(f"No findings at {place}.", "good")]
        if kernels:
            yield []
    for number, kernel in enumerate(kernels):
        if number:
            yield []
        yield from _kernel_lines(kernel)


def _shape_lines(shapes: tuple[NameShape, ...], source: str, *, is_apart: bool) -> Iterator[Line]:
    if not shapes:
        return
    from embercoach.cli.array_shapes import maker_lines
    from embercoach.fixes.source_file import LineIndex

    if is_apart:
        yield []
    yield [("Shapes of the arrays that the line assigns or returns:", "head")]
    yield from ([("    ", ""), *line] for line in maker_lines(shapes, LineIndex(source)))


def _kernel_lines(kernel: WrittenKernel) -> Iterator[Line]:
    from embercoach.checks.programs.generated_signatures import MALFORMED

    for caption, head in kernel.captions():
        yield [(caption, "head")]
        yield from ([(f"    {line}", "")] for line in head.split("\n"))
        yield [("    { source }", "faint")]
    if kernel.malformed:
        yield [(MALFORMED, "warning")]


def _document(
    place: UserLocation,
    result: RunResult,
    kernels: list[WrittenKernel],
    shapes: tuple[NameShape, ...],
    sources: SourceTexts,
) -> dict[str, Any]:
    from embercoach.cli.array_shapes import document

    report = json_report.document(result, sources, show_notes=True)
    for finding in report["findings"]:
        finding["rule"] = rulebook.described(rulebook.rule(finding["code"]), page=False)
    return {
        "path": place.file,
        **({} if place.cell is None else {"cell": place.cell}),
        "line": place.line,
        "column": place.column,
        "findings": report["findings"],
        "problems": report["problems"],
        "kernels": [
            {
                "name": kernel.name,
                "signatures": [
                    {"text": head, "launches": list(launches)} for head, launches in kernel.heads
                ],
                "malformed": kernel.malformed,
            }
            for kernel in kernels
        ],
        "shapes": [document(one) for one in shapes],
    }
