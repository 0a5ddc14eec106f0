"""Functions that a call runs in another thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import Fact

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import FunctionInfo


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ThreadStart(Fact):
    """``threading.Thread(target=f, args=(x,))`` or ``executor.submit(f, x)``.

    passed: the keywords and expressions of the arguments that are known; of ``map``, whole.
    has_result: the caller gets what the function returns.
    """

    node: cst.Call
    function: FunctionInfo
    is_bound: bool
    passed: tuple[tuple[str | None, cst.BaseExpression], ...]
    has_result: bool
