"""Saved reports in the formats of ``check``, with or without their sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

from msgspec import Struct, convert

from embercoach.cli.entry import UserError
from embercoach.cli.flow import Answer, exit_code
from embercoach.cli.output import render
from embercoach.config.load import load
from embercoach.engine.check_run import RunResult
from embercoach.files import MOST_BYTES, boundary, read_bytes
from embercoach.finding import Finding, Fix, Problem, Step
from embercoach.report.html.saved import SavedReportError
from embercoach.report.outcome import Checkout, Comparison, RunOrigin, SourceTexts

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


def read_saved(file: Path, parse: Callable[[bytes], T], limit: int = MOST_BYTES) -> T:
    """Read a saved report.

    Raises:
        UserError: it cannot be read, or is not such a report.
    """
    try:
        return parse(read_bytes(file, limit=limit))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror or error}") from error
    except SavedReportError as error:
        raise UserError(f"{file} {error}") from error


def write(
    document: dict[str, Any], form: str, stream: TextIO, *, statistics: bool, show_notes: bool
) -> None:
    """Write a saved report in a format other than its own, or count its findings by rule.

    Fixes are listed and counted without their edits, which are places in the sources.
    """
    answer = _answer(document, fixes=form != "sarif")
    render(
        answer,
        form,
        stream,
        statistics=statistics,
        show_notes=show_notes,
        exit_code=exit_code(answer.result),
        rules_url=current_rules_url(),
    )


def current_rules_url() -> str:
    """Return the setting ``rules-url`` of the current folder: a saved report has none.

    Raises:
        ConfigError: the configuration has an error.
    """
    (scope,) = load(["."])
    return scope.settings.rules_url


def quoted_root() -> str:
    """Return the folder whose files are quoted: a saved report may name any file."""
    here = str(Path.cwd())
    return boundary(here) or here


def _answer(document: dict[str, Any], *, fixes: bool) -> Answer:
    summary, saved = document["summary"], document["findings"]
    marks, origin, comparison = None, None, None
    if all("fingerprint" in one for one in saved):
        marks = tuple(one["fingerprint"] for one in saved)
    if "run" in document and "checkouts" in document:
        checkouts = convert(document["checkouts"], tuple[Checkout, ...])
        origin = _built(RunOrigin, document["run"], checkouts=checkouts)
    if "baseline" in summary:
        comparison = _built(Comparison, summary["baseline"], changes=())
    problems = tuple(
        _built(Problem, one, is_unchecked=one.get("unchecked", False))
        for one in document["problems"]
    )
    findings = tuple(_finding(one, fixes=fixes) for one in saved)
    return Answer(
        result=_built(RunResult, summary, findings=findings, problems=problems),
        sources=SourceTexts(root=quoted_root()),
        comparison=comparison,
        marks=marks,
        origin=origin,
    )


def _finding(saved: dict[str, Any], *, fixes: bool) -> Finding:
    fix = saved["fix"] if fixes else None
    steps = {
        name: tuple(_built(Step, step) for step in saved.get(name, ()))
        for name in ("flow", "related")
    }
    return _built(Finding, saved, fix=fix and Fix(fix["title"], fix["safe"], ()), **steps)


def _built(form: type[S], saved: dict[str, Any], **others: Any) -> S:
    """Return a structure of the members of its names, and of others that are not as saved."""
    return form(**{name: saved[name] for name in form.__struct_fields__ if name in saved} | others)
