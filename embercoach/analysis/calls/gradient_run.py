"""The state of a run that follows a gradient."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from embercoach.analysis.work import Work

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.values.lattice import Value

#: Evaluations of expressions for one differentiated function and all that it calls.
_WORK = 20_000


@dataclass(slots=True, eq=False)
class GradientRun:
    """A differentiated function's run with marks on what the gradient is taken for.

    of_parameters: the gradient is taken for the parameters of modules, whose results are marked.
    results: of the calls so far, by function and arguments.
    is_complete: no call was of something unknown, whose result may depend on the arguments.
    """

    of_parameters: bool
    is_complete: bool = True
    work: Work = field(default_factory=lambda: Work(_WORK))
    results: dict[tuple[FunctionInfo, tuple[Value, ...]], Value] = field(default_factory=dict)
