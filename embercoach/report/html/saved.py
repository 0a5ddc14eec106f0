"""A saved JSON report, read back and checked against what ``findings.schema.json`` promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from embercoach.finding import SEVERITIES
from embercoach.report.json_report import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[Any, str], None]


class SavedReportError(ValueError):
    """An error in a saved report, with its place."""


def parse(data: bytes) -> dict[str, Any]:
    """The document that ``embercoach check --output-format json`` wrote.

    Raises:
        SavedReportError: it is not JSON, of another version, or not of the published form.
    """
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
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
    if not isinstance(document, dict):
        raise SavedReportError("is not a report: it must be an object")
    version = document.get("version")
    if version != VERSION or isinstance(version, (bool, float)):
        said = json.dumps(version) if "version" in document else "none"
        raise SavedReportError(f"must have version {VERSION}, got {said[:40]}; run the check again")
    _DOCUMENT(document, "")
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


def _refuse_constant(name: str) -> Any:
    raise SavedReportError(f"is not JSON: invalid number {name}")


def _fail(path: str, wanted: str) -> SavedReportError:
    return SavedReportError(f"is not a report of `check`: {path or 'it'} must be {wanted}")


#: Of all readers of JSON.
LARGEST_INTEGER = 2**53


def _integer(least: int) -> Check:
    def check(value: Any, path: str) -> None:
        # A number such as 3.0 is an integer to JSON, and no line number to Python.
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not least <= value <= LARGEST_INTEGER:
            raise _fail(path, f"a whole number from {least}")

    return check


def _text(*, empty: bool) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or not (value or empty):
            raise _fail(path, "a text" if empty else "a text that is not empty")

    return check


def _boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise _fail(path, "true or false")


def _severity(value: Any, path: str) -> None:
    if value not in SEVERITIES:
        raise _fail(path, f"one of {', '.join(SEVERITIES)}")


def _code(value: Any, path: str) -> None:
    words = value.split("-") if isinstance(value, str) else []
    number = words[-1] if words else ""
    named = len(words) > 1 and all(
        word.isascii() and word.isalpha() and word.isupper() for word in words[:-1]
    )
    if not (named and len(number) == 3 and number.isascii() and number.isdecimal()):
        raise _fail(path, "a rule's code, such as DTYPE-001")


def _list(check_item: Check, least: int = 0) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise _fail(path, "a list that is not empty" if least else "a list")
        for index, item in enumerate(value):
            check_item(item, f"{path}[{index}]")

    return check


def _object(maybe: dict[str, Check] | None = None, /, **members: Check) -> Check:
    # A later release may add members within a version: unknown ones are ignored.
    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _fail(path, "an object")
        dot = "." if path else ""
        for name, check_member in members.items():
            if name not in value:
                raise SavedReportError(f"is not a report of `check`: {path or 'it'} lacks '{name}'")
            check_member(value[name], f"{path}{dot}{name}")
        for name, check_member in (maybe or {}).items():
            if name in value:
                check_member(value[name], f"{path}{dot}{name}")

    return check


def _optional(check_value: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if value is not None:
            check_value(value, path)

    return check


_COUNT, _POSITION, _ANY_TEXT, _TEXT = (
    _integer(0),
    _integer(1),
    _text(empty=True),
    _text(empty=False),
)
_PLACE = _object(line=_POSITION, column=_POSITION)
_EDIT = _object({"cell": _POSITION}, start=_PLACE, end=_PLACE, text=_ANY_TEXT)
_FIX = _object(title=_TEXT, safe=_boolean, edits=_list(_EDIT, least=1))
_STEPS = _list(
    _object(
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
_FINDING = _object(
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
    fix=_optional(_FIX),
)
_SHARD = _object(number=_POSITION, count=_POSITION, files=_COUNT, all_files=_COUNT)
_RUN = _object(version=_TEXT, program=_TEXT, shard=_optional(_SHARD))
_CHECKOUT = _object(path=_ANY_TEXT, files_checked=_COUNT, files_skipped=_COUNT, suppressed=_COUNT)
_PROBLEM = _object(
    {"cell": _POSITION}, path=_ANY_TEXT, line=_POSITION, column=_POSITION, message=_TEXT
)
_CHANGE = _object(path=_ANY_TEXT, code=_code, known=_COUNT, fixed=_COUNT)
_SUMMARY = _object(
    {"baseline": _object({"changes": _list(_CHANGE)}, known=_COUNT, fixed=_COUNT)},
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
_DOCUMENT = _object(
    {"run": _RUN, "checkouts": _list(_CHECKOUT)},
    version=_COUNT,
    findings=_list(_FINDING),
    problems=_list(_PROBLEM),
    summary=_SUMMARY,
)
