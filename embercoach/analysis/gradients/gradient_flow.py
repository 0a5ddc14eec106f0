"""The pulls that detach a gradient: they read what is differentiated, and reach the result.

Each differentiated function is run once more with marks on its arguments, or on what modules
return, together with the functions, methods and modules that it calls. Nothing is recorded.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from embercoach.analysis.calls.functions import follow_gradient
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.gradients.gradient_roots import DifferentiatedResult, GradientRoot
from embercoach.analysis.gradients.gradient_run import GradientRun
from embercoach.analysis.values.gradient_marks import differentiated
from embercoach.analysis.values.lattice import UNKNOWN, Sequence, Value
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module


def differentiated_results(module: Module) -> tuple[DifferentiatedResult, ...]:
    """The results of the functions that a file differentiates, one for each way it does so."""
    found: dict[tuple[object, ...], DifferentiatedResult] = {}
    for root in module.gradient_roots:
        key = root.info, root.names, root.of_parameters, root.first_result
        if key not in found:
            run = GradientRun(module, root.of_parameters)
            result = _result(root, run)
            found[key] = DifferentiatedResult(root, result, run.is_complete, run.imported)
    return tuple(found.values())


def _result(root: GradientRoot, run: GradientRun) -> Value:
    """The part of a function's result that is differentiated, with its marks."""
    values = [
        differentiated(value) if parameter.name in root.names else value
        for parameter, value in zip(root.info.parameters, canonical_values(root.info), strict=True)
    ]
    result: Value = UNKNOWN
    with suppress(WorkExceededError):
        result = follow_gradient(root.info, tuple(values), run)
    if root.first_result and isinstance(result, Sequence) and result.items:
        return result.items[0]
    return result
