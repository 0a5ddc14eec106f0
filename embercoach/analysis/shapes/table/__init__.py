"""Results of MLX's functions for given shapes and dtypes, and what they refuse.

Each module registers transfer functions (see ``transfers``) for one kind of operation. They are
tested against MLX itself: tests/analysis/shapes draws calls and compares.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def load() -> None:
    """Import the modules of the table, which registers their functions."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
