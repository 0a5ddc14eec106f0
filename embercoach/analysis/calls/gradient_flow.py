"""The pulls that detach a gradient: they read what is differentiated, and reach the result.

Each differentiated function is run once more with marks on its arguments, or on what modules
return, together with the functions, methods and modules that it calls. Nothing is recorded.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from embercoach.analysis.calls.functions import follow_gradient
from embercoach.analysis.calls.gradient_run import GradientRun
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.values.gradient_marks import detached_at, differentiated
from embercoach.analysis.values.lattice import UNKNOWN, Sequence, Value
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.gradient_roots import GradientRoot
    from embercoach.analysis.project.module import Module


def detaching_pulls(module: Module) -> dict[cst.CSTNode, GradientRoot]:
    """The pulls that detach a gradient, each with the first function that it does so for."""
    found: dict[cst.CSTNode, GradientRoot] = {}
    seen = set()
    for root in module.gradient_roots:
        key = root.info, root.names, root.of_parameters, root.first_result
        if key in seen:
            continue
        seen.add(key)
        for node in detached_at(differentiated_result(root)):
            found.setdefault(node, root)
    return found


def differentiated_result(root: GradientRoot) -> Value:
    """The part of a function's result that is differentiated, with its marks."""
    values = [
        differentiated(value) if parameter.name in root.names else value
        for parameter, value in zip(root.info.parameters, canonical_values(root.info), strict=True)
    ]
    result: Value = UNKNOWN
    with suppress(WorkExceededError):
        result = follow_gradient(root.info, tuple(values), GradientRun(root.of_parameters))
    if root.first_result and isinstance(result, Sequence) and result.items:
        return result.items[0]
    return result
