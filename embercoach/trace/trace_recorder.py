"""Collects events by the line of the program that caused them."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType

from msgspec import Struct, field

from embercoach.trace.trace_record import Event, Kind, Site

_PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_STANDARD = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")} | {"<frozen", "<string>"}
)
_STRING = "<string>"
_SITE = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
_OF_PYTEST = ("_pytest", "pluggy", "pytest", "xdist")
#: Packages whose frames are not the program's: events in them belong to the line that called them.
_PACKAGES = ("mlx", "numpy", *_OF_PYTEST)
_MOST_DETAILS = 8
#: Code objects whose file is remembered; a program may make any number of them.
_MOST_CODES = 1 << 16
#: Events that a timeline keeps: about 10 MB.
_MOST_EVENTS = 100_000


class Events(Struct):
    """The events of one kind at one line so far."""

    index: int
    begun: int = 0
    count: int = 0
    seconds: float = 0.0
    most: float = 0.0
    first: float = 0.0
    bytes: int = 0
    operations: int = 0
    cache: int = 0
    details: dict[str, None] = field(default_factory=dict)


class Recorder:
    """The events so far. Any thread may add some; an event within another is part of it.

    Args:
        memory: gives the bytes of MLX's arrays, and those of its cache.
        timeline: whether to keep single events.
    """

    def __init__(
        self, memory: Callable[[], tuple[int, int]] = lambda: (0, 0), *, timeline: bool = False
    ) -> None:
        self._memory = memory
        self._timeline = timeline
        self._lock = threading.Lock()
        self._events: dict[tuple[str, int, str, Kind, str], Events] = {}
        self._single: list[Event] = []
        self._left_out = 0
        self._cache = 0  # the most so far
        self._last: Events | None = None
        self._begin = clock()
        self._is_own: dict[CodeType, bool] = {}
        self._thread = threading.local()

    def begin(self, kind: Kind, operation: str) -> Events | None:
        """Enter an event at the nearest line of the program; None inside of another one."""
        if getattr(self._thread, "inside", False):
            return None
        events = self._at(kind, operation)
        if events is not None:
            self._thread.inside = True
            events.begun += 1
            # Memory that was freed since the last event had its values from that.
            self._grow(self._last or events, self._memory()[1])
        return events

    def end(self, events: Events, begin: float, copied: int = 0, detail: str = "") -> None:
        """Leave an event that `begin` has entered, and count it."""
        seconds = clock() - begin
        self._thread.inside = False
        self._count(events, begin, seconds, copied, detail)

    def add(
        self, kind: Kind, operation: str, seconds: float, copied: int = 0, detail: str = ""
    ) -> None:
        """Count an event that has just ended at the nearest line of the program."""
        events = self._at(kind, operation)
        if events is not None:
            self._count(events, clock() - seconds, seconds, copied, detail)

    def sites(self) -> tuple[Site, ...]:
        """Return the events by place and kind, the longest waits first."""
        with self._lock:
            found = [site for site, _ in self._sorted()]
        return tuple(found)

    def timeline(self) -> tuple[tuple[Event, ...], int]:
        """Return the single events, and how many more there were."""
        with self._lock:
            places = {events.index: place for place, (_, events) in enumerate(self._sorted())}
            single = tuple(event._replace(site=places[event.site]) for event in self._single)
            return single, self._left_out

    def _sorted(self) -> list[tuple[Site, Events]]:
        found = [
            (
                Site(
                    *key,
                    count=e.count,
                    seconds=e.seconds,
                    most_seconds=e.most,
                    first_seconds=e.first,
                    bytes=e.bytes,
                    operations=e.operations,
                    cache_bytes=e.cache,
                    details=tuple(e.details),
                ),
                e,
            )
            for key, e in self._events.items()
            if e.count
        ]
        return sorted(found, key=lambda pair: (-pair[0].seconds, pair[0].path, pair[0].line))

    def _at(self, kind: Kind, operation: str) -> Events | None:
        frame = self._frame(kind)
        if frame is None:
            return None
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        key = (code.co_filename, frame.f_lineno, name, kind, operation)
        with self._lock:
            events = self._events.get(key)
            if events is None:
                events = self._events[key] = Events(len(self._events))
            return events

    def _count(
        self, events: Events, begin: float, seconds: float, copied: int, detail: str
    ) -> None:
        active, cache = self._memory()
        with self._lock:
            if not events.count:
                events.first = seconds
            events.count += 1
            events.seconds += seconds
            events.most = max(events.most, seconds)
            events.bytes += copied
            self._grow(events, cache)
            self._last = events
            if detail and len(events.details) < _MOST_DETAILS:
                events.details[detail] = None
            if not self._timeline:
                return
            if len(self._single) >= _MOST_EVENTS:
                self._left_out += 1
                return
            thread = threading.get_native_id()
            after = begin - self._begin
            self._single.append(Event(events.index, after, seconds, thread, active, cache))

    def _grow(self, events: Events, cache: int) -> None:
        if cache > self._cache:
            events.cache += cache - self._cache
            self._cache = cache

    def _frame(self, kind: Kind) -> FrameType | None:
        """Return the nearest frame of the program's files.

        Without one, the nearest of code in a string, such as of ``python -c``, or else of the
        standard library, such as of a thread's start. None for text that pytest shows of a failure.
        """
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  (it costs no traceback)
        in_string = in_library = None
        while frame is not None:
            code = frame.f_code
            own = self._is_own.get(code)
            if own is None:
                if len(self._is_own) >= _MOST_CODES:
                    self._is_own.clear()
                own = self._is_own[code] = is_of_program(code.co_filename)
            if own and code.co_filename != _STRING:
                return frame
            if kind == "text" and code.co_filename.startswith(_folders_of(*_OF_PYTEST)):
                return None
            if own:
                in_string = in_string or frame
            elif in_library is None and not code.co_filename.startswith(_library()):
                in_library = frame
            frame = frame.f_back
        return in_string or in_library


@functools.cache
def _folders_of(*packages: str) -> tuple[str, ...]:
    """Return the folders of packages that are installed, which need not be in site-packages."""
    specs = (find_spec(name) for name in packages)
    found = (spec.submodule_search_locations or () for spec in specs if spec is not None)
    return tuple(f"{folder}{os.sep}" for folders in found for folder in folders)


@functools.cache
def _library() -> tuple[str, ...]:
    return (_PACKAGE, *_folders_of(*_PACKAGES))


def is_of_program(file: str) -> bool:
    """Return whether a file is the program's or a package's that it uses: not MLX's or ours."""
    if file.startswith(_library()):
        return False
    return file.startswith(_SITE) or not file.startswith(_STANDARD) or file == _STRING


def is_of_project(file: str) -> bool:
    """Return whether a file may be the user's own: of the program, and not installed."""
    return is_of_program(file) and not file.startswith((*_SITE, "<"))


clock = time.perf_counter
