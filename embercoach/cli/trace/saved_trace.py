"""A saved JSON report of ``embercoach trace``, read back for a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from embercoach.cli.trace.traced import VERSION
from embercoach.report.html.saved_json import boolean, integer, items, number, parse, record, text

#: Bytes of a report. A site takes 500, so that this is far more than any program has lines.
MOST_BYTES = 32_000_000


@dataclass(frozen=True, slots=True)
class SavedSite:
    """The events of one kind at one line; members as of ``trace.schema.json``."""

    path: str
    line: int
    function: str
    kind: str
    operation: str
    text: str
    waits: bool
    count: int
    seconds: float
    bytes: int
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedSummary:
    """The totals of a run; members as of ``trace.schema.json``."""

    program: str
    exit_code: int
    seconds: float
    waited_seconds: float
    events: int
    device: str
    mlx: str
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class SavedTrace:
    """A report of one run."""

    sites: tuple[SavedSite, ...]
    summary: SavedSummary


def saved_trace(data: bytes) -> SavedTrace:
    """The report in the bytes of a file.

    Raises:
        SavedReportError: they are not a report of this version.
    """
    document = parse(
        data,
        _DOCUMENT,
        version=VERSION,
        command="trace --output-format json",
        again="trace the program again",
    )
    sites = tuple(
        SavedSite(**{**_members(site, SavedSite), "details": tuple(site["details"])})
        for site in document["sites"]
    )
    return SavedTrace(sites, SavedSummary(**_members(document["summary"], SavedSummary)))


def _members(data: dict[str, Any], form: type) -> dict[str, Any]:
    return {name: data[name] for name in form.__dataclass_fields__}  # type: ignore[attr-defined]


_COUNT, _TEXT = integer(0), text(empty=True)
_SITE = record(
    path=_TEXT,
    line=_COUNT,
    function=_TEXT,
    kind=_TEXT,
    operation=_TEXT,
    text=_TEXT,
    waits=boolean,
    count=integer(1),
    seconds=number,
    bytes=_COUNT,
    details=items(_TEXT),
)
_SUMMARY = record(
    program=_TEXT,
    # A signal gives a negative one.
    exit_code=integer(-(2**31)),
    seconds=number,
    waited_seconds=number,
    events=_COUNT,
    device=_TEXT,
    mlx=_TEXT,
    peak_bytes=_COUNT,
)
_DOCUMENT = record(version=_COUNT, sites=items(_SITE), summary=_SUMMARY)
