"""Diffs of fixed notebooks: of their cells, as the JSON is hard to read."""

from __future__ import annotations

from embercoach.fixes.unified_diff import unified
from embercoach.notebooks.cell_module import parse


def unified_cells(before: str, after: str, path: str) -> str:
    """A unified diff for each cell that differs; it is for people, not for ``patch``.

    Args:
        before: a notebook's file.
        after: the file with the same cells, edited.
        path: how the file is shown.
    """
    old, new = parse(before), parse(after)
    if old is None or new is None:
        return ""
    return "".join(
        unified(old.lines(number).text, new.lines(number).text, f"{path}:cell {number}")
        for number in old.table.numbers
    )
