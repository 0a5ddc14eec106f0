"""TOML's reader: the standard library's, or before Python 3.11 the one that it was made of."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

__all__ = ["TOMLDecodeError", "loads"]

TOMLDecodeError = tomllib.TOMLDecodeError
#: The reader keeps all prefixes of a dotted key: memory grows with the square of its parts. A line
#: has one key at most, but for tables within it; strings and numbers hold dots, too.
MOST_DOTS_SQUARED = 10_000_000


def loads(text: str) -> dict[str, Any]:
    """The tables of a document.

    Raises:
        TOMLDecodeError: it is not valid, or its keys have too many parts.
        RecursionError: it nests too deeply.
        ValueError: a date or number that cannot be read.
    """
    if sum(line.count(".") ** 2 for line in text.split("\n")) > MOST_DOTS_SQUARED:
        raise TOMLDecodeError("keys have too many parts")
    return tomllib.loads(text)
