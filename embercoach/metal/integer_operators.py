"""The operators of C++ on numbers."""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }
)
BITWISE: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {"&": operator.and_, "|": operator.or_, "^": operator.xor}
)
