"""Caches keyed by values. Values hold on to modules, so who lets modules go must clear them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")
_clear: list[Callable[[], None]] = []


def remembered(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Cache a function of values, until ``forget`` is called."""
    cached = lru_cache(maxsize=None)(function)
    _clear.append(cached.cache_clear)
    return cached  # type: ignore[return-value]


def forget() -> None:
    """Clear the caches, and so let go of the modules that their values belong to."""
    for clear in _clear:
        clear()
