"""Quantities as text."""

from __future__ import annotations


def size_of(count: int) -> str:
    """Three digits, in bytes or powers of 1,024 of them."""
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
