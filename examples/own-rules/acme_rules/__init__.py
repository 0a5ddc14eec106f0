"""Acme's own rules for EmberCoach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.api import Report, RuleSet, on_operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.api import Expression, Operation


@on_operation("ACME-NORM-001")
def written_rms_norm(operation: Operation) -> Iterator[Report]:
    """Report ``x * mx.rsqrt(mx.mean(mx.square(x), -1, keepdims=True) + eps)``."""
    if operation.operator != "*":
        return
    for x, scale in (
        (operation.left, operation.right),
        (operation.right, operation.left),
    ):
        if x.is_array and _is_inverse_rms(scale, x.source):
            yield Report(
                operation,
                "RMS norm written as separate operations",
                "Use `acme.nn.rms_norm(x, eps)`, which runs one kernel",
            )


def _is_inverse_rms(scale: Expression, x: str) -> bool:
    root = scale.call
    if root is None or root.name != "mlx.core.rsqrt" or not root.arguments:
        return False
    total = root.arguments[0].operation
    if total is None or total.operator != "+":
        return False
    mean = total.left.call or total.right.call
    if mean is None or mean.name not in ("mlx.core.mean", ".mean"):
        return False
    squares = mean.receiver or (mean.arguments[0] if mean.arguments else None)
    return squares is not None and _is_square(squares, x)


def _is_square(squares: Expression, x: str) -> bool:
    call, operation = squares.call, squares.operation
    if call is not None:
        takes_x = [argument.source for argument in call.arguments] == [x]
        return takes_x and call.name == "mlx.core.square"
    if operation is None or operation.left.source != x:
        return False
    if operation.operator == "**":
        return operation.right.constant == 2
    return operation.operator == "*" and operation.right.source == x


RULES = RuleSet(
    prefix="ACME",
    pages=Path(__file__).parent / "pages",
    checks=(written_rms_norm,),
)
