"""Saved JSON reports, read back and checked against their published form."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypedDict, TypeVar, cast

import msgspec
from msgspec import Meta

from embercoach.finding import SEVERITIES, Severity
from embercoach.report.json_report import VERSION

#: Of all readers of JSON.
LARGEST_INTEGER = 2**53
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Ordinal = Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)]
#: JSON's 1e999 is infinite in Python.
Amount = Annotated[float, Meta(ge=0, le=LARGEST_INTEGER)]
SomeText = Annotated[str, Meta(min_length=1)]
Code = Annotated[str, Meta(pattern=r"\A[A-Z]+(-[A-Z]+)*-[0-9]{3}\Z")]

Form = TypeVar("Form")


class SavedReportError(ValueError):
    """An error in a saved report, with its place."""


def parse_saved(data: bytes, form: type[Form], *, version: int, command: str, again: str) -> Form:
    """Decode a report of a version.

    Args:
        data: the file's bytes.
        form: the type of the whole document; members that it doesn't name are left out.
        version: that it must have.
        command: what writes such reports, for messages.
        again: the remedy if the version differs.

    Raises:
        SavedReportError: it is not JSON, of another version, or not of the form.
    """
    document = _decoded(data)
    if not isinstance(document, dict):
        raise SavedReportError("is not a report: it must be an object")
    found = document.get("version")
    if found != version or isinstance(found, (bool, float)):
        said = json.dumps(found) if "version" in document else "none"
        raise SavedReportError(f"must have version {version}, got {said[:40]}; {again}")
    try:
        return msgspec.convert(document, form)
    except ValueError as error:  # halves of surrogate pairs are in no name, either
        said = str(error)
        raise SavedReportError(
            f"is not a report of `{command}`: {said[0].lower()}{said[1:]}"
        ) from error


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise SavedReportError(
            f"is not JSON: byte {error.start} is not {error.encoding}"
        ) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SavedReportError(f"is not JSON: {error.msg} ({place})") from error
    except SavedReportError:
        raise
    except ValueError as error:
        raise SavedReportError(f"is not JSON that can be read: {error}") from error
    except RecursionError as error:
        raise SavedReportError("is nested too deeply") from error


def _refuse_constant(name: str) -> Any:
    raise SavedReportError(f"is not JSON: invalid number {name}")


class _InCell(TypedDict, total=False):
    cell: Ordinal


class _Start(TypedDict):
    line: Ordinal
    column: Ordinal


class _Span(_Start):
    end_line: Ordinal
    end_column: Ordinal


class _Edit(_InCell):
    start: _Start
    end: _Start
    text: str


class _Fix(TypedDict):
    title: SomeText
    safe: bool
    edits: Annotated[list[_Edit], Meta(min_length=1)]


class _Step(_Span, _InCell):
    path: str
    message: SomeText


class _Explained(TypedDict, total=False):
    fingerprint: SomeText
    flow: Annotated[list[_Step], Meta(min_length=1)]
    related: Annotated[list[_Step], Meta(min_length=1)]


class _Finding(_Step, _Explained):
    code: Code
    severity: Severity
    help: str
    context: str
    fix: _Fix | None


class _Incomplete(TypedDict, total=False):
    unchecked: bool


class _Problem(_Start, _InCell, _Incomplete):
    path: str
    message: SomeText


class _Change(TypedDict):
    path: str
    code: Code
    known: Count
    fixed: Count


class _Changes(TypedDict, total=False):
    changes: list[_Change]


class _Baseline(_Changes):
    known: Count
    fixed: Count


class _Compared(TypedDict, total=False):
    baseline: _Baseline


class _Summary(_Compared):
    errors: Count
    warnings: Count
    notes: Count
    suppressed: Count
    fixable: Count
    fixable_unsafe: Count
    problems: Count
    files_checked: Count
    files_skipped: Count


class _Shard(TypedDict):
    number: Ordinal
    count: Ordinal
    files: Count
    all_files: Count


class _Run(TypedDict):
    version: SomeText
    program: SomeText
    shard: _Shard | None


class _Checkout(TypedDict):
    path: str
    files_checked: Count
    files_skipped: Count
    suppressed: Count


class _Origin(TypedDict, total=False):
    run: _Run
    checkouts: list[_Checkout]


class _Document(_Origin):
    """The form of ``findings.schema.json``."""

    version: Count
    findings: list[_Finding]
    problems: list[_Problem]
    summary: _Summary


def parse(data: bytes) -> dict[str, Any]:
    """Return the document that ``embercoach check --output-format json`` wrote.

    Raises:
        SavedReportError: it is not JSON, of another version, or not of the published form.
    """
    form = parse_saved(
        data, _Document, version=VERSION, command="check", again="run the check again"
    )
    document = cast("dict[str, Any]", form)
    _agree(document)
    return document


def _agree(document: dict[str, Any]) -> None:
    """Refuse a summary that says other than the findings: a file cut or put together by hand."""
    shard = document.get("run", {}).get("shard")
    if shard is not None and not (
        shard["number"] <= shard["count"] and shard["files"] <= shard["all_files"]
    ):
        raise SavedReportError("is not a report of `check`: run.shard must be a part of count")
    severities = [finding["severity"] for finding in document["findings"]]
    counted = {f"{severity}s": severities.count(severity) for severity in SEVERITIES}
    counted["problems"] = len(document["problems"])
    for name, count in counted.items():
        said = document["summary"][name]
        if said != count:
            raise SavedReportError(
                f"is not a report of `check`: {name} must be {count}, got {said}"
            )
