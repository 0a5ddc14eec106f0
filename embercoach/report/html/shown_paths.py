"""Paths as the report shows them: relative, also where the run was given absolute ones."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from embercoach.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable


def shown_paths(document: dict[str, Any], folder: str) -> Callable[[str], str]:
    """Return a function from a path of a document to the text that the report shows.

    Paths are relative to the folder if they are inside it, else to the nearest folder above all
    absolute checkouts outside of it. Without such a folder they stay absolute.

    Args:
        document: the JSON report.
        folder: of the run, absolute.
    """
    tops = [
        PurePath(one["path"])
        for one in document.get("checkouts", ())
        if PurePath(one["path"]).is_absolute() and not PurePath(one["path"]).is_relative_to(folder)
    ]
    bases = [PurePath(folder), *_above(tops)]

    def shown(path: str) -> str:
        pure = PurePath(path)
        for base in bases:
            if pure.is_absolute() and pure.is_relative_to(base):
                return visible(str(pure.relative_to(base)))
        return visible(path)

    return shown


def _above(tops: list[PurePath]) -> list[PurePath]:
    """The nearest folder above all tops; none if that is the root."""
    try:
        above = PurePath(os.path.commonpath([top.parent for top in tops]))
    except ValueError:  # no tops, or tops on several drives
        return []
    return [above] if above != above.parent else []
