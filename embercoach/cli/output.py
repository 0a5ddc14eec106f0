"""Write reports to files and standard output."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from embercoach.cli.entry import CLEAN, FOUND, INCOMPLETE, UserError, silence_stdout
from embercoach.files import write_file
from embercoach.report import text
from embercoach.report.outcome import listed
from embercoach.report.styled import Line, print_diff, print_lines, print_text, width_of, wraps
from embercoach.rulebook import RULES_URL
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from embercoach.cli.flow import Answer, CheckRequest
    from embercoach.config import Settings
    from embercoach.engine.fixing import FixedFile
    from embercoach.finding import Problem


FOR_PEOPLE = ("text", "full", "concise", "grouped")


def write_report(
    request: CheckRequest, answer: Answer, settings: Sequence[Settings], exit_code: int
) -> None:
    """Write the report to its file or to standard output."""
    write = partial(
        render,
        answer,
        request.output_format,
        statistics=request.statistics,
        show_notes=any(one.show_notes for one in settings),
        quiet=request.quiet,
        profile=settings[0].profile,
        exit_code=exit_code,
        rules_url=settings[0].rules_url,
    )
    if answer.fixed_stdin is not None:
        # Standard output is for the fixed source, as in a filter.
        with surviving_closed_pipe():
            sys.stdout.buffer.write(answer.fixed_stdin)
            sys.stdout.buffer.flush()
        write(sys.stderr)
    else:
        deliver(write, request.output_file)


def deliver(write: Callable[[TextIO], None], file: Path | None) -> None:
    """Write a report to a file, or to standard output without one.

    Raises:
        UserError: the file can't be written.
    """
    if file is None:
        with surviving_closed_pipe():
            write(sys.stdout)
            sys.stdout.flush()
        return
    buffer = StringIO()
    write(buffer)
    # As in a text file: with the line ends of the system.
    text = buffer.getvalue().replace("\n", os.linesep)
    save(text.encode("utf-8", "backslashreplace"), file)


def save(data: bytes, file: Path) -> None:
    """Write to the file that an option names.

    Raises:
        UserError: the file can't be written.
    """
    sys.stdout.flush()  # the file may be standard output
    try:
        write_file(file, data)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UserError(f"cannot write {file}: {reason}") from error


@contextlib.contextmanager
def surviving_closed_pipe() -> Iterator[None]:
    """Continue silently when the reader of standard output has gone (``| head``)."""
    try:
        yield
    except BrokenPipeError:
        silence_stdout()


def render(  # noqa: PLR0913 (one keyword for each option)
    answer: Answer,
    form: str,
    stream: TextIO,
    *,
    statistics: bool,
    show_notes: bool,
    exit_code: int,
    quiet: bool = False,
    profile: str = "recommended",
    rules_url: str = RULES_URL,
) -> None:
    """Write a report in one of the formats of `check`."""
    if form in FOR_PEOPLE:
        lines = _findings(answer, form, stream, statistics, show_notes)
        if not quiet:
            lines += _summary(answer, show_notes)
        print_lines(lines, stream, rules_url=rules_url)
    elif statistics:
        from embercoach.report import statistics as by_rule

        stream.write(by_rule.render(answer.result.findings))
    elif form == "sarif":
        from embercoach.report import sarif

        log = sarif.render(
            answer.result,
            answer.sources,
            profile=profile,
            exit_code=exit_code,
            marks=answer.marks,
            root=os.environ.get("GITHUB_WORKSPACE"),
            rules_url=rules_url,
        )
        stream.write(log)
    else:
        stream.write(_for_programs(form, answer, show_notes))


def _for_programs(form: str, answer: Answer, show_notes: bool) -> str:
    """Return the report in a format that depends on the findings alone."""
    result, sources, comparison = answer.result, answer.sources, answer.comparison
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
        from embercoach.report import forges

        return forges.github_annotations(result, sources, show_notes=show_notes)
    if form == "gitlab":
        from embercoach.report import forges

        root = os.environ.get("CI_PROJECT_DIR")
        return forges.gitlab_report(
            result, sources, show_notes=show_notes, root=root, marks=answer.marks
        )
    if form == "junit":
        from embercoach.report import junit

        return junit.render(result, sources, show_notes=show_notes)
    from embercoach.report import markdown

    root = os.environ.get("GITHUB_WORKSPACE")
    return markdown.render(
        result,
        sources,
        show_notes=show_notes,
        root=root,
        link_prefix=_link_prefix(),
        comparison=comparison,
        checkouts=answer.origin.checkouts if answer.origin else (),
    )


def _link_prefix() -> str:
    """Return the address of files on the forge that runs this; empty elsewhere."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (os.environ.get(name) for name in names)
    return f"{server}/{repository}/blob/{commit}/" if server and repository and commit else ""


def _findings(
    answer: Answer, form: str, stream: TextIO, statistics: bool, show_notes: bool
) -> list[Line]:
    result = answer.result
    if statistics:
        from embercoach.report import statistics as by_rule

        counts = by_rule.lines(listed(result, show_notes=show_notes))
        return [*counts, *text.problem_lines(result.problems)]
    if form == "concise":
        return [*text.concise(result, show_notes=show_notes)]
    if form == "grouped":
        return [*text.grouped(result, show_notes=show_notes)]
    width, wrap = width_of(stream), wraps(stream)
    return [*text.full(result, answer.sources, show_notes=show_notes, width=width, wrap=wrap)]


def _summary(answer: Answer, show_notes: bool) -> list[Line]:
    result = answer.result
    done: list[Line] = [[(answer.done, "good")]] if answer.done else []
    if not (result.files_checked or result.files_skipped or result.problems):
        return [*done, [("No Python, notebook, Metal or Objective-C files found.", "warning")]]
    return [*done, *text.summary(result, show_notes=show_notes, comparison=answer.comparison)]


def print_diffs(
    request: CheckRequest, files: Sequence[FixedFile], problems: list[Problem], *, held_back: int
) -> int:
    """Print the diffs of fixes, and the number of unsafe fixes that are left.

    Returns:
        The exit code: 1 if anything would change, 2 if something could not be checked.
    """
    from embercoach.engine.fixing import troubles
    from embercoach.fixes.application import unified
    from embercoach.notebooks import is_notebook
    from embercoach.notebooks.editing import unified_cells

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
        return INCOMPLETE
    return FOUND if changed and not request.exit_zero else CLEAN
