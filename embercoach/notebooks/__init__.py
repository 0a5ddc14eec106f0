"""Jupyter notebooks: their cells as one Python module, and the way back into the file."""

from __future__ import annotations

SUFFIX = ".ipynb"


def is_notebook(path: str) -> bool:
    """Return whether a file is a notebook, by its suffix."""
    return path.endswith(SUFFIX)
