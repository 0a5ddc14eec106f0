"""Where a report goes, and what is told beside it."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, TextIO

import click

from embercoach.cli import codes
from embercoach.cli.entry import silence_stdout
from embercoach.report import text
from embercoach.report.outcome import listed
from embercoach.report.styled import print_diff, print_lines, print_text, width_of
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from embercoach.cli.flow import Answer, Request
    from embercoach.config import Settings
    from embercoach.engine.fixing import FixedFile
    from embercoach.engine.problem import Problem
    from embercoach.report.outcome import Sources
    from embercoach.report.styled import Line

FOR_PEOPLE = ("text", "concise")


def write_report(
    request: Request, answer: Answer, settings: Sequence[Settings], exit_code: int
) -> None:
    """Write the report to its file or to standard output."""
    if answer.fixed_stdin is not None:
        # Standard output belongs to the fixed source; a filter's report goes beside it.
        with surviving_closed_pipe():
            sys.stdout.buffer.write(answer.fixed_stdin)
            sys.stdout.buffer.flush()
        _write(request, answer, settings, exit_code, sys.stderr)
    else:
        deliver(partial(_write, request, answer, settings, exit_code), request.output_file)


def deliver(write: Callable[[TextIO], None], file: Path | None) -> None:
    """Let a report be written to a file, or to standard output where there is none.

    Raises:
        click.UsageError: the file can't be written.
    """
    if file is None:
        with surviving_closed_pipe():
            write(sys.stdout)
            sys.stdout.flush()
        return
    buffer = StringIO()
    write(buffer)
    try:
        file.write_text(buffer.getvalue(), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror or error}") from error


@contextlib.contextmanager
def surviving_closed_pipe() -> Iterator[None]:
    """Go on in silence when who reads standard output has gone (``| head``)."""
    try:
        yield
    except BrokenPipeError:
        silence_stdout()


def _write(
    request: Request,
    answer: Answer,
    settings: Sequence[Settings],
    exit_code: int,
    stream: TextIO,
) -> None:
    show_notes = any(one.show_notes for one in settings)
    result = answer.result
    sources = answer.sources(request.name)
    if request.output_format in FOR_PEOPLE:
        print_lines(_for_people(request, answer, sources, show_notes, stream), stream)
        return
    if request.statistics:
        from embercoach.report import statistics

        stream.write(statistics.render(result.findings))
        return
    if request.output_format == "sarif":
        from embercoach.report import sarif

        profile = settings[0].profile
        root = os.environ.get("GITHUB_WORKSPACE")
        log = sarif.render(
            result, sources, profile=profile, exit_code=exit_code, marks=answer.marks, root=root
        )
        stream.write(log)
        return
    stream.write(for_programs(request.output_format, answer, sources, show_notes))


def for_programs(form: str, answer: Answer, sources: Sources, show_notes: bool) -> str:
    """The report in a format that needs to know no more than what was found."""
    result, comparison = answer.result, answer.comparison
    if form == "json":
        from embercoach.report import json_report

        return json_report.render(
            result,
            sources,
            show_notes=show_notes,
            comparison=comparison,
            marks=answer.marks,
            origin=answer.origin,
        )
    if form == "github":
        from embercoach.report import github

        return github.render(result, sources, show_notes=show_notes)
    if form == "gitlab":
        from embercoach.report import gitlab

        root = os.environ.get("CI_PROJECT_DIR")
        return gitlab.render(result, sources, show_notes=show_notes, root=root, marks=answer.marks)
    if form == "junit":
        from embercoach.report import junit

        return junit.render(result, sources, show_notes=show_notes)
    from embercoach.report import markdown

    root, home = os.environ.get("GITHUB_WORKSPACE"), _home()
    return markdown.render(
        result,
        sources,
        show_notes=show_notes,
        root=root,
        home=home,
        comparison=comparison,
        checkouts=answer.origin.checkouts if answer.origin else (),
    )


def _home() -> str:
    """What addresses of files begin with on the forge that runs this; empty elsewhere."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (os.environ.get(name) for name in names)
    return f"{server}/{repository}/blob/{commit}/" if server and repository and commit else ""


def _for_people(
    request: Request,
    answer: Answer,
    sources: Sources,
    show_notes: bool,
    stream: TextIO,
) -> Iterator[Line]:
    result = answer.result
    if request.statistics:
        from embercoach.report import statistics

        yield from statistics.lines(listed(result, show_notes=show_notes))
        yield from text.problem_lines(result.problems)
    elif request.output_format == "concise":
        yield from text.concise(result, show_notes=show_notes)
    else:
        width = width_of(stream)
        yield from text.full(result, sources, show_notes=show_notes, width=width)
    if request.quiet:
        return
    if answer.summary is not None and answer.summary.fixes:
        fixes, files = answer.summary.fixes, answer.summary.files
        yield [(f"Fixed {text.plural(fixes, 'finding')} in {text.plural(files, 'file')}.", "good")]
    if answer.suppressed is not None:
        yield [(f"Suppressed {text.plural(answer.suppressed, 'finding')}.", "good")]
    if not (result.files_checked or result.files_skipped or result.problems):
        nothing = "There are no Python, notebook, Metal or Objective-C files under the given paths."
        yield [(nothing, "warning")]
        return
    yield from text.summary(result, show_notes=show_notes, comparison=answer.comparison)


def print_diffs(
    request: Request, files: Sequence[FixedFile], problems: list[Problem], *, held_back: int
) -> int:
    """Print what fixing would change, and how much more unsafe fixes would.

    Returns:
        The exit code: 1 if anything would change, 2 if something could not be checked.
    """
    from embercoach.engine.fixing import troubles
    from embercoach.fixes.unified_diff import unified
    from embercoach.notebooks import is_notebook
    from embercoach.notebooks.notebook_diff import unified_cells

    problems = [*problems, *troubles(files)]
    changed = [file for file in files if file.new != file.old]
    with surviving_closed_pipe():
        for file in changed:
            differences = unified_cells if is_notebook(file.shown) else unified
            print_diff(differences(file.old, file.new, escaped(file.shown)), sys.stdout)
        sys.stdout.flush()
    print_lines(text.problem_lines(problems), sys.stderr)
    if not request.quiet:
        fixes = sum(file.applied for file in changed)
        would = f"Would fix {text.plural(fixes, 'finding')} in {text.plural(len(changed), 'file')}."
        more = f" {held_back} more with --unsafe-fixes." if held_back else ""
        print_text(f"{would}{more}", sys.stderr)
    if problems:
        return codes.INCOMPLETE
    return codes.FOUND if changed and not request.exit_zero else codes.CLEAN
