"""Requests to the process that runs kernels, and its answers, which a kernel may have written."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, convert

from embercoach.simulator.model import CODE_OF_KIND

#: In the order of the runtime's enumeration.
REASONS = (
    *("nothing", "exited", "elsewhere", "inactive lane", "partial", "device flag"),
    *("threadgroup flag", "index", "no buffer", "signal", "stack", "scratch", "simdgroup barrier"),
    *("other threadgroup", "variable", "shift", "range", "division", "element"),
)
#: Places from here on are threadgroup arrays.
FIRST_ARRAY = 64

_LARGEST = 2**63 - 1
_Natural = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Signed = Annotated[int, Meta(ge=-_LARGEST - 1, le=_LARGEST)]
#: Of 64 bits, without a sign.
_Address = Annotated[int, Meta(ge=0)]
_Coordinate = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_Position = tuple[_Coordinate, _Coordinate, _Coordinate]
_Seconds = Annotated[float, Meta(ge=0, le=1e18)]
_Hex = Annotated[str, Meta(max_length=4096, pattern=r"^(?:[0-9a-f]{2})*\Z")]
_Text = Annotated[str, Meta(max_length=96)]
_Kind = Annotated[int, Meta(ge=0, lt=len(CODE_OF_KIND))]
_Reason = Annotated[int, Meta(ge=0, lt=len(REASONS))]


class AskedBuffer(Struct, frozen=True, omit_defaults=True):
    """A buffer of a request; its data and its result are at offsets in the shared file."""

    slot: int
    role: int
    initialized: bool
    itemsize: int
    size: int
    offset: int
    data: int | None
    result: int | None = None


class Request(Struct, frozen=True):
    """A launch; spans and arrays are of the kernel's object, the body is in lines of its source."""

    object: str
    entry: int
    image: tuple[int, int]
    text: tuple[int, int]
    writable: tuple[int, int]
    arrays: tuple[tuple[int, int], ...]
    checked: bool
    profiled: bool
    seconds: float
    body: tuple[int, int]
    buffers: tuple[AskedBuffer, ...]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]


class FindingAnswer(Struct, frozen=True):
    """The runtime's ``ember_finding``."""

    kind: _Kind
    reason: _Reason
    pc: _Address
    other_pc: _Address
    barrier_pc: _Address
    address: _Address
    place: _Signed
    offset: _Signed
    size: _Natural
    access: _Natural
    other_access: _Natural
    has_thread: _Natural
    has_other: _Natural
    thread: _Position
    threadgroup: _Position
    other_thread: _Position
    other_threadgroup: _Position
    line: _Natural
    column: _Natural
    value: _Hex
    other_value: _Hex
    detail: tuple[_Signed, _Signed]
    text: _Text
    count: _Natural


class ComparisonAnswer(Struct, frozen=True):
    """The runtime's ``ember_comparison`` of an output, with the first value that differs."""

    slot: int
    different: _Natural
    unwritten: _Natural
    first_different: _Natural = 0
    first_unwritten: _Natural = 0
    rounded: _Natural = 0
    pc: _Address = 0
    before: _Hex = ""
    now: _Hex = ""


class DifferenceAnswer(ComparisonAnswer, frozen=True):
    """The difference between two orders, and between two patterns in memory without a value."""

    by_pattern: ComparisonAnswer | None = None


class SiteAnswer(Struct, frozen=True):
    """The runtime's ``ember_site``; `pc` counts from the start of the kernel's object."""

    pc: _Signed
    place: _Natural
    width: _Natural
    access: _Signed
    issued: _Natural
    lanes: _Natural
    sectors: _Natural
    lines64: _Natural
    lines128: _Natural
    bank_cycles: _Natural
    contention: _Natural
    first: _Signed


class ProfileAnswer(Struct, frozen=True):
    """The counts of a run.

    Attributes:
        simdgroups: how many ran.
        buffers: bytes read and written of each, and the same summed over threadgroups.
        sites: the accesses of each instruction.
        blocks: the number of each that ran, and how often, by simdgroups and by lanes.
    """

    simdgroups: _Natural
    buffers: tuple[tuple[_Natural, _Natural, _Natural, _Natural], ...]
    sites: Annotated[tuple[SiteAnswer, ...], Meta(max_length=1 << 14)]
    blocks: Annotated[tuple[tuple[_Natural, _Natural, _Natural], ...], Meta(max_length=1 << 20)]


class RunAnswer(Struct, frozen=True):
    """One run of all threads; `traffic` has the bytes read and written of each buffer."""

    seconds: _Seconds
    accesses: _Natural
    ended: bool
    cut: _Natural
    traffic: tuple[tuple[_Natural, _Natural], ...]
    findings: Annotated[tuple[FindingAnswer, ...], Meta(max_length=1024)]
    profile: ProfileAnswer | None = None


class RunningAnswer(Struct, frozen=True, tag_field="is", tag="running"):
    """A run begins."""


class RefusalAnswer(Struct, frozen=True, tag_field="is", tag="refusal"):
    """The request can't be served."""

    why: str


class LineQuestion(Struct, frozen=True, tag_field="is", tag="line"):
    """Asks for the source line of an instruction."""

    pc: _Address


class ResultAnswer(Struct, frozen=True, tag_field="is", tag="result"):
    """All runs of a launch."""

    lockstep: bool
    runs: Annotated[tuple[RunAnswer, ...], Meta(min_length=1, max_length=3)]
    differences: tuple[DifferenceAnswer, ...]


Answer: TypeAlias = RunningAnswer | RefusalAnswer | LineQuestion | ResultAnswer


class MalformedError(Exception):
    """A message that no unharmed child sends."""


def read_answer(message: Any, request: Request) -> Answer:
    """Return a message about a request as what it is.

    Raises:
        MalformedError: the message lacks a field, or one is not of its type or range.
    """
    try:
        answer: Answer = convert(message, Answer)
    except (ValueError, RecursionError) as error:  # also halves of surrogate pairs
        raise MalformedError(str(error)) from None
    if isinstance(answer, ResultAnswer) and not _answers(answer, request):
        raise MalformedError("a result about what was not asked")
    return answer


def _answers(result: ResultAnswer, request: Request) -> bool:
    """Return whether a result is about the request's buffers and arrays."""
    count, places = len(request.buffers), FIRST_ARRAY + len(request.arrays)
    slots = {buffer.slot for buffer in request.buffers if buffer.result is not None}
    profiles = [run.profile for run in result.runs if run.profile is not None]
    compared: list[ComparisonAnswer] = [*result.differences]
    compared += [one.by_pattern for one in result.differences if one.by_pattern is not None]
    return (
        (not request.profiled or result.runs[0].profile is not None)
        and all(len(profile.buffers) == count for profile in profiles)
        and all(site.place < places for profile in profiles for site in profile.sites)
        and all(len(run.traffic) == count for run in result.runs)
        and all(-1 <= one.place < places for run in result.runs for one in run.findings)
        and len(result.differences) <= count
        and all(one.slot in slots for one in compared)
    )
