"""The evaluation of an expression by its node type. The table is filled by ``expressions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.values import UNKNOWN, Value

if TYPE_CHECKING:
    from collections.abc import Callable as Fn

    import libcst as cst

    from embercoach.analysis.frame import Frame

EVALUATORS: dict[type, Fn[[Frame, Any], Value]] = {}


def evaluate(frame: Frame, node: cst.CSTNode) -> Value:
    """The value of an expression; facts are recorded on the way."""
    handler = EVALUATORS.get(type(node))
    return UNKNOWN if handler is None else handler(frame, node)
