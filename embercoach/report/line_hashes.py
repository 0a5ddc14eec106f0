"""Hashes of lines as GitHub's upload action computes them, to know a finding again by.

The hash of a line is that of the hundred characters from its start, spaces and tabs aside, as a
polynomial over UTF-16 code units; equal ones are numbered in the order of the file.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

WINDOW = 100
FACTOR = 37
END = "\uffff"
_BLANKS = str.maketrans("", "", " \t")


def line_hashes(text: str, wanted: AbstractSet[int]) -> dict[int, str]:
    """The hashes of some lines of a file, by their numbers; lines that it hasn't are left out."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").translate(_BLANKS) + END
    data = lines.encode("utf-16-le", "surrogatepass")
    newline = "\n".encode("utf-16-le")
    found: dict[int, str] = {}
    seen: Counter[bytes] = Counter()
    start, number = 0, 1
    last = max(wanted, default=0)
    while number <= last:
        window = data[start : start + 2 * WINDOW]
        seen[window] += 1
        if number in wanted:
            found[number] = f"{_hash(window):x}:{seen[window]}"
        start = _after(data, newline, start)
        if not start:
            break
        number += 1
    return found


def _after(data: bytes, newline: bytes, start: int) -> int:
    """Where the next line starts, 0 if there is none."""
    at = data.find(newline, start)
    while at % 2 and at > 0:  # halves of two neighbours that look like it
        at = data.find(newline, at + 1)
    return at + 2 if at >= 0 else 0


def _hash(window: bytes) -> int:
    count = len(window) // 2
    value = 0
    for unit in struct.unpack(f"<{count}H", window):
        value = value * FACTOR + unit
    return int(value * FACTOR ** (WINDOW - count) % (1 << 64))
