"""Numbers of a kernel's text: as they are written, and C++'s operators on them."""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: No type of Metal's holds a number of as many digits; Python refuses to read some thousands.
MAX_DIGITS = 512


def whole_number(digits: str, base: int = 10) -> int | None:
    """The number that digits write, None for other text and for one that nothing holds.

    Args:
        digits: without separators and suffixes.
        base: as ``int`` takes it; 0 to read it from the prefix.
    """
    if len(digits) > MAX_DIGITS:
        return None
    try:
        return int(digits, base)
    except ValueError:
        return None


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
