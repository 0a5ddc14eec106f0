"""Operations whose result is undefined: texts for them, and whether the outputs show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


def lacks_use_of_undefined(differences: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the runs certainly agree for any undefined value.

    Each run puts its own pattern there. Without differences at all nothing was compared.
    """
    return bool(differences) and not any(
        difference["different"] and difference.get("by_pattern", difference)["different"]
        for difference in differences
    )
