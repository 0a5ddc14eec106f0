"""Collects events by the line of the program that caused them."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.trace.trace_record import Site

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from embercoach.trace.trace_record import Kind

_PACKAGE = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_STANDARD = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")} | {"<frozen", "<string>"}
)
_SITE = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
#: Packages whose frames are not the program's.
_LIBRARIES = tuple(
    f"{folder}{os.sep}{name}{os.sep}" for folder in _SITE for name in ("mlx", "numpy")
)
_MOST_DETAILS = 8
#: Code objects whose file is remembered; a program may make any number of them.
_MOST_CODES = 1 << 16


@dataclass(slots=True)
class _Events:
    count: int = 0
    seconds: float = 0.0
    most: float = 0.0
    bytes: int = 0
    details: dict[str, None] = field(default_factory=dict)


class Recorder:
    """The events so far. Any thread may add some; an event within another is part of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[tuple[str, int, str, Kind, str], _Events] = {}
        self._is_own: dict[CodeType, bool] = {}
        self._thread = threading.local()

    def begin(self) -> bool:
        """Enter an event; False inside of another one of this thread."""
        if getattr(self._thread, "inside", False):
            return False
        self._thread.inside = True
        return True

    def end(self) -> None:
        """Leave an event that `begin` has entered."""
        self._thread.inside = False

    def add(
        self, kind: Kind, operation: str, seconds: float, copied: int = 0, detail: str = ""
    ) -> None:
        """Count an event at the nearest line of the program."""
        frame = self._frame()
        if frame is None:
            return
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        key = (code.co_filename, frame.f_lineno, name, kind, operation)
        with self._lock:
            events = self._events.setdefault(key, _Events())
            events.count += 1
            events.seconds += seconds
            events.most = max(events.most, seconds)
            events.bytes += copied
            if detail and len(events.details) < _MOST_DETAILS:
                events.details[detail] = None

    def sites(self) -> tuple[Site, ...]:
        """The events by place and kind, the longest waits first."""
        with self._lock:
            found = [
                Site(*key, e.count, e.seconds, e.most, e.bytes, tuple(e.details))
                for key, e in self._events.items()
            ]
        return tuple(sorted(found, key=lambda site: (-site.seconds, site.path, site.line)))

    def _frame(self) -> FrameType | None:
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  (it costs no traceback)
        while frame is not None:
            code = frame.f_code
            own = self._is_own.get(code)
            if own is None:
                if len(self._is_own) >= _MOST_CODES:
                    self._is_own.clear()
                own = self._is_own[code] = is_of_program(code.co_filename)
            if own:
                return frame
            frame = frame.f_back
        return None


def is_of_program(file: str) -> bool:
    """Return whether a file is the program's or a package's that it uses: not MLX's or ours."""
    if file.startswith((_PACKAGE, *_LIBRARIES)):
        return False
    return file.startswith(_SITE) or not file.startswith(_STANDARD) or file == "<string>"


clock = time.perf_counter
