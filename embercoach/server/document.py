"""A document of an editor, as jobs take it to a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (of a field)


@dataclass(frozen=True, slots=True)
class Document:
    """A text as the editor holds it, saved or not."""

    uri: str
    path: Path
    version: int | None
    text: str

    @property
    def newline(self) -> str:
        """The line end that the text uses most."""
        return "\r\n" if self.text.count("\r\n") * 2 > self.text.count("\n") else "\n"
