"""Whole numbers as a text writes them, of any length."""

from __future__ import annotations

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
