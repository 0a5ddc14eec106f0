"""Reports that were saved as JSON: decoded, and checked against a form.

A form is a function that raises for a value that differs from it; `record` and `items` combine
forms. Members that a form does not name are ignored: a later release may add them.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    #: Takes a value and its path in the document; raises `FormError`.
    Form = Callable[[Any, str], None]


class SavedReportError(ValueError):
    """An error in a saved report, with its place."""


class FormError(ValueError):
    """A value that differs from its form, with its path."""


def parse(data: bytes, form: Form, *, version: int, command: str, again: str) -> dict[str, Any]:
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
