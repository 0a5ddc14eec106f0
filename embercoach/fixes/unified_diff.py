"""Unified diffs of fixed files."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from embercoach.fixes.source_file import LineIndex

if TYPE_CHECKING:
    from collections.abc import Iterator


def unified(before: str, after: str, path: str) -> str:
    """A unified diff that ``patch`` and ``git apply`` accept; empty for equal texts."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(list(_lines(before)), list(_lines(after)), path, path)
    )


def _lines(text: str) -> Iterator[str]:
    # A diff tool's lines end at "\n" alone; a "\r" before it belongs to the line.
    starts = [s for s in LineIndex(text).starts if s == 0 or text[s - 1] == "\n"]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        if start < end:
            yield text[start:end]
