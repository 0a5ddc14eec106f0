"""A trace of this process, from its start to its record."""

from __future__ import annotations

import sys
from importlib import metadata

from embercoach.trace.instruments import Instruments
from embercoach.trace.reached_lines import ReachedLines
from embercoach.trace.trace_record import TraceRecord
from embercoach.trace.trace_recorder import Recorder, clock, is_of_project


class TraceSession:
    """Instruments MLX and NumPy, and collects what the program does with them.

    Events are added up if it is started again after a stop.

    Args:
        timeline: whether to keep single events.
    """

    def __init__(self, *, timeline: bool = False) -> None:
        self._recorder = Recorder(_memory, timeline=timeline)
        self._instruments = Instruments(self._recorder)
        self._reached = ReachedLines()
        self._begin = 0.0

    def start(self) -> None:
        """Begin, before the program imports MLX.

        Raises:
            ImportError: MLX or NumPy is missing.
        """
        self._instruments.install()
        self._reached.start()
        self._begin = clock()

    def stop(self) -> TraceRecord:
        """Put everything back, and return the record."""
        import mlx.core as mx

        seconds = clock() - self._begin
        reached = self._reached.stop()
        self._instruments.remove()
        events, left_out = self._recorder.timeline()
        return TraceRecord(
            sites=self._recorder.sites(),
            seconds=seconds,
            device=str(mx.default_device()),
            mlx=metadata.version("mlx"),
            peak_bytes=mx.get_peak_memory(),
            cache_bytes=mx.get_cache_memory(),
            events=events,
            events_left_out=left_out,
            files=tuple(sorted({*_imported(), *(reached or ())})),
            reached=reached,
        )


def _imported() -> set[str]:
    """The files of the project's modules."""
    modules = [*sys.modules.values()]
    files = (getattr(module, "__file__", None) for module in modules)
    return {file for file in files if isinstance(file, str) and is_of_project(file)}


def _memory() -> tuple[int, int]:
    mx = sys.modules["mlx.core"]
    return mx.get_active_memory(), mx.get_cache_memory()
