"""Fixes of the module as fixes of the notebook's file, and their diffs by cell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

from embercoach.finding import Edit, Fix
from embercoach.fixes.application import unified
from embercoach.fixes.source_file import newline_of
from embercoach.notebooks.cell_module import ModuleCell, Notebook, parse


def unified_cells(before: str, after: str, path: str) -> str:
    """Return a unified diff for each cell that differs; it is for people, not for ``patch``.

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


def fix_in_file(fix: Fix, notebook: Notebook) -> Fix | None:
    """Return a fix whose offsets are the file's and whose texts are JSON.

    None where it can't be: it would go from one cell into another, change what is IPython's own,
    or let a magic run over several lines.
    """
    edits = []
    behind = 0
    for edit in sorted(fix.edits, key=lambda edit: (edit.start, edit.end)):
        translated = _edit(edit, notebook)
        if translated is None or translated.start < behind:
            return None
        edits.append(translated)
        behind = translated.end
    return Fix(fix.title, fix.safe, tuple(edits))


def fixes_in_file(fixes: Iterable[Fix], notebook: Notebook) -> list[Fix]:
    """Return the fixes that can be made in the file, as `fix_in_file` does."""
    return [fix for fix in (fix_in_file(one, notebook) for one in fixes) if fix]


def _edit(edit: Edit, notebook: Notebook) -> Edit | None:
    part = notebook.part_at(edit.start)
    within = _within(edit, part)
    if within is None or not part.cell.pieces or not _leaves_magics(within, part):
        return None
    start = notebook.offset_in_file(part, within.start)
    if not within.text and within.end == len(part.text):
        # No empty string is left where the last ones are removed.
        pairs = pairwise(part.cell.pieces)
        start = next((one.end for one, piece in pairs if piece.start == start), start)
    end = notebook.offset_in_file(part, within.end)
    return Edit(start, end, _written(within, part, notebook))


def _within(edit: Edit, part: ModuleCell) -> Edit | None:
    """Get an edit in the cell's own text, without the line end that it has in the module alone."""
    start, end, text = edit.start - part.start, edit.end - part.start, edit.text
    size = len(part.text)
    if not 0 <= start <= size:
        return None  # between cells, in what the module alone has
    if end <= size:
        return Edit(start, end, text)
    if end > size + 1 or (text and not text.endswith("\n")):
        return None
    if text:
        return Edit(start, size, text.removesuffix("\n"))
    # The last line is removed with the line end before it.
    before = part.text[:start]
    start = len(before.removesuffix("\n").removesuffix("\r"))
    return Edit(start, size, "")


def _leaves_magics(edit: Edit, part: ModuleCell) -> bool:
    removed = part.text[edit.start : edit.end]
    breaks = "\n" in edit.text or "\n" in removed
    for magic in part.magics:
        if magic.opens and edit.start <= magic.end:
            return False
        if edit.start < magic.stop and edit.end > magic.start:
            return False
        is_behind = magic.stop <= edit.start <= magic.end
        if is_behind and (breaks or magic.stop == magic.end):
            return False
        if edit.end <= magic.start and _is_first(part.text[: magic.start]):
            rest = part.text[edit.end : magic.start]
            if not _is_first(part.text[: edit.start] + edit.text + rest):
                return False
    return True


def _is_first(text: str) -> bool:
    """Return whether the last line of a text is empty."""
    return not text[text.rfind("\n") + 1 :].strip()


def _written(edit: Edit, part: ModuleCell, notebook: Notebook) -> str:
    """Return an edit's text as JSON: with a string for every line, if the cell has one for each."""
    *lines, last = edit.text.split("\n")
    newline = newline_of(part.text)
    written = [_escaped(f"{line}{newline}", notebook.escapes) for line in lines]
    end = _escaped(last, notebook.escapes)
    separator = part.cell.separator
    if separator is None:
        return "".join([*written, end])
    between = f'"{separator}"'
    closes = edit.end == len(part.text) and not last
    return between.join(written) if closes else between.join([*written, end])


def _escaped(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]
