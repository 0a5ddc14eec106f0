"""Saved JSON reports, read back and checked against their published form."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from embercoach.finding import SEVERITIES
from embercoach.report.json_report import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes a value and its path in the document; raises `FormError`.
    Form = Callable[[Any, str], None]


class SavedReportError(ValueError):
    """An error in a saved report, with its place."""


class FormError(ValueError):
    """A value that differs from its form, with its path."""


def parse_saved(
    data: bytes, form: Form, *, version: int, command: str, again: str
) -> dict[str, Any]:
    """Decode a report of a version and check its form.

    Args:
        data: the file's bytes.
        form: of the whole document.
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
        form(document, "")
    except FormError as error:
        raise SavedReportError(f"is not a report of `{command}`: {error}") from error
    return document


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


def must_be(path: str, wanted: str) -> FormError:
    """The error of a value at a path of the document."""
    return FormError(f"{path or 'it'} must be {wanted}")


#: Of all readers of JSON.
LARGEST_INTEGER = 2**53


def integer(least: int) -> Form:
    """A whole number from ``least``, that all readers of JSON know."""

    def check(value: Any, path: str) -> None:
        # A number such as 3.0 is an integer to JSON, and no line number to Python.
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not least <= value <= LARGEST_INTEGER:
            raise must_be(path, f"a whole number from {least}")

    return check


def text(*, empty: bool) -> Form:
    """A text, which may be empty or not."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or not (value or empty):
            raise must_be(path, "a text" if empty else "a text that is not empty")

    return check


def boolean(value: Any, path: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise must_be(path, "true or false")


def number(value: Any, path: str) -> None:
    """A finite number from 0."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # JSON's 1e999 is infinite in Python.
    if not is_number or not 0 <= value <= LARGEST_INTEGER or not math.isfinite(value):
        raise must_be(path, "a number from 0")


def items(form: Form, least: int = 0) -> Form:
    """A list of ``least`` values or more of one form."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise must_be(path, "a list that is not empty" if least else "a list")
        for index, item in enumerate(value):
            form(item, f"{path}[{index}]")

    return check


def record(maybe: dict[str, Form] | None = None, /, **members: Form) -> Form:
    """An object with members, and with some that may be absent."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise must_be(path, "an object")
        dot = "." if path else ""
        for name, form in members.items():
            if name not in value:
                raise FormError(f"{path or 'it'} lacks '{name}'")
            form(value[name], f"{path}{dot}{name}")
        for name, form in (maybe or {}).items():
            if name in value:
                form(value[name], f"{path}{dot}{name}")

    return check


def optional(form: Form) -> Form:
    """A value of a form, or null."""

    def check(value: Any, path: str) -> None:
        if value is not None:
            form(value, path)

    return check


def parse(data: bytes) -> dict[str, Any]:
    """The document that ``embercoach check --output-format json`` wrote.

    Raises:
        SavedReportError: it is not JSON, of another version, or not of the published form.
    """
    document = parse_saved(
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
