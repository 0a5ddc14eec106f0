"""Texts for operations whose result is undefined, as the compiler's checks record them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def undefined_operation(reason: str, detail: Sequence[int], kind: str) -> str:
    """Return a phrase for an operation.

    Args:
        reason: as in ``runtime_findings.REASONS``.
        detail: the two numbers that the runtime recorded.
        kind: the type of the operand, or that of the result of a conversion.
    """
    if reason == "division":
        return "integer division by zero"
    if reason == "shift":
        return f"shift of `{kind}` by {detail[0]}"
    return f"the value does not fit `{kind}`"
