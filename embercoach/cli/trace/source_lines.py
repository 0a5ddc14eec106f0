"""The lines of source code that a report of ``embercoach trace`` shows."""

from __future__ import annotations

import os

from embercoach.engine.languages import is_python_source
from embercoach.report.outcome import SourceTexts


class SourceLines:
    """Lines of Python files, read when first needed.

    Code names its file itself, as in ``compile(code, "/etc/passwd", "exec")``: other files than
    Python's are not read.
    """

    def __init__(self) -> None:
        self._sources = SourceTexts()
        self._real: dict[str, str | None] = {}

    def line(self, path: str, number: int) -> str:
        """A line, stripped; empty if it is unknown."""
        if path not in self._real:
            found = real_path(path)
            self._real[path] = found if found is not None and is_python_source(found) else None
        real = self._real[path]
        return "" if real is None else self._sources.index(real).line(number).strip()


def real_path(path: str) -> str | None:
    """The real path of a file that a program names; None if the path is invalid."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # with a null byte
        return None
