"""Caches keyed by values and functions, which hold on to modules: who lets modules go clears them.

A cache of few entries makes functions that call each other take exponential time: each is asked
for again after the others have taken its place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")
_clear: list[Callable[[], None]] = []
_clear_for_file: list[Callable[[], None]] = []


def remembered(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache a function of values, until ``forget`` is called."""
    cached = lru_cache(maxsize=None)(function)
    _clear.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def kept_for_file(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache a function for the file that is checked, until ``forget_file`` is called."""
    cached = lru_cache(maxsize=None)(function)
    _clear_for_file.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def forget_file() -> None:
    """Clear the caches of one file: another one is checked next."""
    for clear in _clear_for_file:
        clear()


def forget() -> None:
    """Clear the caches, and so let go of the modules that their values belong to."""
    forget_file()
    for clear in _clear:
        clear()
