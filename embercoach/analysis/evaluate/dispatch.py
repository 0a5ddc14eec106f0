"""The evaluation of an expression by its node type. The table is filled by ``expressions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis.values.lattice import UNKNOWN, Value
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from collections.abc import Callable as Fn

    from embercoach.analysis.evaluate.frame import Frame

EVALUATORS: dict[type, Fn[[Frame, Any], Value]] = {}


def evaluate(frame: Frame, node: cst.CSTNode) -> Value:
    """The value of an expression; facts are recorded on the way.

    Raises:
        WorkExceededError: the file has taken all the work that it may.
    """
    kind = type(node)
    if kind is cst.Name:  # half of all expressions
        value = frame.names.get(node.value)  # type: ignore[attr-defined]
        if value is not None:
            return value
    handler = EVALUATORS.get(kind)
    if handler is None:
        return UNKNOWN
    work = frame.work
    work.left -= 1
    if work.left < 0:
        raise WorkExceededError
    return handler(frame, node)
