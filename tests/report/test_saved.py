"""Saved reports are read back, and nothing else is."""

from __future__ import annotations

import contextlib
import copy
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.report import json_report
from embercoach.report.html.saved import SavedReportError, parse
from embercoach.report.outcome import SourceTexts
from tests.report.conftest import FINDINGS, MODEL, ODD, PROBLEMS, WIDE, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = json.loads(files("embercoach.report").joinpath("findings.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SOURCES = SourceTexts({"src/model.py": MODEL, "wide.py": WIDE, "src/odd, name%.py": ODD})
DOCUMENT = json_report.document(Outcome(FINDINGS, PROBLEMS), SOURCES, show_notes=True)


def encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def test_what_check_wrote_is_read() -> None:
    assert parse(encoded(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON: Expecting value (line 1, column 1)"),
        (b'{"version": 1,\n}', "(line 2, column 1)"),
        (b"\xff\xfe\xfd", "is not JSON"),
        (b'{"version": NaN}', "invalid number NaN"),
        (b'{"version": ' + b"9" * 5000 + b"}", "is not JSON that can be read"),
        (b"[" * 100_000, "is nested too deep"),
        (b"[]", "must be an object"),
        (b"{}", "must have version 1, got none; run the check again"),
        (b'{"version": 2}', "must have version 1, got 2"),
        (b'{"version": true}', "must have version 1, got true"),
        (b'{"version": 1}', "object missing required field `findings`"),
        (
            encoded(DOCUMENT | {"summary": DOCUMENT["summary"] | {"baseline": {"known": 1}}}),
            "object missing required field `fixed` - at `$.summary.baseline`",
        ),
        (
            encoded(DOCUMENT | {"findings": [{**DOCUMENT["findings"][0], "severity": "\ud800"}]}),
            "surrogates not allowed",
        ),
        (b'{"version": 1, "findings": 3}', "expected `array`, got `int` - at `$.findings`"),
    ],
)
def test_what_is_wrong_is_told(data: bytes, message: str) -> None:
    with pytest.raises(SavedReportError) as caught:
        parse(data)
    assert message in str(caught.value)


def test_what_a_later_release_adds_is_passed_over() -> None:
    assert parse(encoded(DOCUMENT | {"weather": "fine"})) == DOCUMENT


def test_a_summary_that_disagrees_is_refused() -> None:
    changed = copy.deepcopy(DOCUMENT)
    del changed["findings"][0]
    with pytest.raises(SavedReportError, match="errors must be 1, got 2"):
        parse(encoded(changed))


def spots(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values within a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*way, key)
        if isinstance(inner, (dict, list)):
            yield from spots(inner, (*way, key))


TEXT = st.text(max_size=5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)


@given(way=st.sampled_from(sorted(spots(DOCUMENT), key=str)), value=ANYTHING | st.just("delete"))
def test_what_the_schema_refuses_is_refused(way: tuple[Any, ...], value: Any) -> None:
    changed = copy.deepcopy(DOCUMENT)
    parent: Any = changed
    for key in way[:-1]:
        parent = parent[key]
    if value == "delete":
        del parent[way[-1]]
    else:
        parent[way[-1]] = value
    if VALIDATOR.is_valid(changed):
        with contextlib.suppress(SavedReportError):  # the numbers must agree as well
            assert parse(encoded(changed)) == changed
    else:
        with pytest.raises(SavedReportError, match=r"is not|must have version"):
            parse(encoded(changed))


@given(st.binary(max_size=40) | ANYTHING.map(encoded))
def test_any_file_is_refused_or_read(data: bytes) -> None:
    with pytest.raises(SavedReportError):
        parse(data)
