"""A saved JSON report, read back and checked against what ``findings.schema.json`` promises."""

from __future__ import annotations

from typing import Any

from embercoach.finding import SEVERITIES
from embercoach.report.html import saved_json
from embercoach.report.html.saved_json import (
    SavedReportError,
    boolean,
    integer,
    items,
    must_be,
    optional,
    record,
    text,
)
from embercoach.report.json_report import VERSION


def parse(data: bytes) -> dict[str, Any]:
    """The document that ``embercoach check --output-format json`` wrote.

    Raises:
        SavedReportError: it is not JSON, of another version, or not of the published form.
    """
    document = saved_json.parse(
        data, _DOCUMENT, version=VERSION, command="check", again="run the check again"
    )
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


def _severity(value: Any, path: str) -> None:
    if value not in SEVERITIES:
        raise must_be(path, f"one of {', '.join(SEVERITIES)}")


def _code(value: Any, path: str) -> None:
    words = value.split("-") if isinstance(value, str) else []
    number = words[-1] if words else ""
    named = len(words) > 1 and all(
        word.isascii() and word.isalpha() and word.isupper() for word in words[:-1]
    )
    if not (named and len(number) == 3 and number.isascii() and number.isdecimal()):
        raise must_be(path, "a rule's code, such as DTYPE-001")


_COUNT, _POSITION, _ANY_TEXT, _TEXT = (
    integer(0),
    integer(1),
    text(empty=True),
    text(empty=False),
)
_PLACE = record(line=_POSITION, column=_POSITION)
_EDIT = record({"cell": _POSITION}, start=_PLACE, end=_PLACE, text=_ANY_TEXT)
_FIX = record(title=_TEXT, safe=boolean, edits=items(_EDIT, least=1))
_STEPS = items(
    record(
        {"cell": _POSITION},
        path=_ANY_TEXT,
        line=_POSITION,
        column=_POSITION,
        end_line=_POSITION,
        end_column=_POSITION,
        message=_TEXT,
    ),
    least=1,
)
_FINDING = record(
    {"cell": _POSITION, "fingerprint": _TEXT, "flow": _STEPS, "related": _STEPS},
    path=_ANY_TEXT,
    line=_POSITION,
    column=_POSITION,
    end_line=_POSITION,
    end_column=_POSITION,
    code=_code,
    severity=_severity,
    message=_TEXT,
    help=_ANY_TEXT,
    context=_ANY_TEXT,
    fix=optional(_FIX),
)
_SHARD = record(number=_POSITION, count=_POSITION, files=_COUNT, all_files=_COUNT)
_RUN = record(version=_TEXT, program=_TEXT, shard=optional(_SHARD))
_CHECKOUT = record(path=_ANY_TEXT, files_checked=_COUNT, files_skipped=_COUNT, suppressed=_COUNT)
_PROBLEM = record(
    {"cell": _POSITION, "unchecked": boolean},
    path=_ANY_TEXT,
    line=_POSITION,
    column=_POSITION,
    message=_TEXT,
)
_CHANGE = record(path=_ANY_TEXT, code=_code, known=_COUNT, fixed=_COUNT)
_SUMMARY = record(
    {"baseline": record({"changes": items(_CHANGE)}, known=_COUNT, fixed=_COUNT)},
    errors=_COUNT,
    warnings=_COUNT,
    notes=_COUNT,
    suppressed=_COUNT,
    fixable=_COUNT,
    fixable_unsafe=_COUNT,
    problems=_COUNT,
    files_checked=_COUNT,
    files_skipped=_COUNT,
)
_DOCUMENT = record(
    {"run": _RUN, "checkouts": items(_CHECKOUT)},
    version=_COUNT,
    findings=items(_FINDING),
    problems=items(_PROBLEM),
    summary=_SUMMARY,
)
