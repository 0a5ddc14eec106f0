"""Reads of vectors that clang split into reads of their components."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOAD = re.compile(r"load (?:volatile )?(?:<(\d+) x )?([a-z]+\d*)>?, .* align (\d+)")
_BYTES = {"i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8}
_WIDEST = 16


def vector_parts(
    found: Iterable[tuple[Any, str]], line_of: Callable[[str], int]
) -> dict[tuple[int, int], int]:
    """Bytes of the vectors of a block, by line and bytes of a part.

    The first part has the alignment of its vector, which no scalar has.

    Args:
        found: instructions with their printed texts.
        line_of: from a printed instruction to its line.
    """
    vectors: dict[tuple[int, int], int] = {}
    for instruction, text in found:
        loaded = _LOAD.match(text) if instruction.opcode == "load" else None
        if loaded is None or loaded[2] not in _BYTES:
            continue
        size = int(loaded[1] or 1) * _BYTES[loaded[2]]
        alignment = min(int(loaded[3]), _WIDEST)
        if alignment > size:
            key = line_of(text), size
            vectors[key] = max(alignment, vectors.get(key, 0))
    return vectors
