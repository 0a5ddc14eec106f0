"""``match``: patterns bind names, and any of the cases may be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.evaluate.dispatch import evaluate, execute
from embercoach.analysis.evaluate.narrowing import test
from embercoach.analysis.syntax.trees import children
from embercoach.analysis.values.lattice import UNKNOWN

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame, Snapshot


def execute_match(frame: Frame, node: cst.Match) -> bool:
    """``match``: patterns bind names to unknown values."""
    evaluate(frame, node.subject)
    if frame.must is None:
        return _match(frame, node)
    with frame.must.unsure():
        return _match(frame, node)


def _match(frame: Frame, node: cst.Match) -> bool:
    before = frame.fork()
    branches: list[Snapshot] = [before]
    for case in node.cases:
        frame.restore(before)
        for name in _pattern_names(case.pattern):
            frame.bind(name, UNKNOWN)
        if case.guard is not None:
            test(frame, case.guard, "guard")
        if execute(frame, case.body.body):
            branches.append(frame.fork())
    frame.restore(before)
    frame.merge(branches)
    return True


def _pattern_names(pattern: cst.CSTNode) -> list[str]:
    names = []
    if isinstance(pattern, (cst.MatchAs, cst.MatchStar)) and pattern.name is not None:
        names.append(pattern.name.value)
    if isinstance(pattern, cst.MatchMapping) and pattern.rest is not None:
        names.append(pattern.rest.value)
    if not isinstance(pattern, cst.MatchValue):
        for child in children(pattern):
            names.extend(_pattern_names(child))
    return names
