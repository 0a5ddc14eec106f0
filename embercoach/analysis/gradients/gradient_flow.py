"""The pulls that detach a gradient: they read what is differentiated, and reach the result.

Each differentiated function is run once more with marks on its arguments, or on what modules
return, together with the functions, methods and modules that it calls. Nothing is recorded.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.functions import follow_gradient
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.gradients.gradient_roots import (
    DifferentiatedResult,
    GradientRoot,
    UnreachedLayer,
)
from embercoach.analysis.gradients.gradient_run import FILE_WORK, GradientRun
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.gradient_marks import (
    DISCRETE,
    GRADIENT,
    GradientMark,
    differentiated,
    marks_of,
    unreached_layers,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import UNKNOWN, Sequence, Value
from embercoach.analysis.work import WorkExceededError

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module


def differentiated_results(module: Module) -> tuple[DifferentiatedResult, ...]:
    """The results of the functions that a file differentiates, one for each way it does so.

    Raises:
        WorkExceededError: these functions together take more work than they may.
    """
    found: dict[tuple[object, ...], DifferentiatedResult] = {}
    left = FILE_WORK + len(module.source) // 2
    for root in module.gradient_roots:
        key = root.info, root.names, root.of_parameters, root.first_result
        if key not in found:
            run = GradientRun(module, root.of_parameters)
            result = _result(root, run)
            unreached = _unreached(root, result, run)
            left -= run.spent
            if left < 0:
                raise WorkExceededError
            found[key] = DifferentiatedResult(
                root, result, run.is_complete, run.imported, unreached
            )
    return tuple(found.values())


def _unreached(root: GradientRoot, result: Value, run: GradientRun) -> tuple[UnreachedLayer, ...]:
    """The layers that get no gradient though others do: by a second run that distinguishes them.

    The operation that has none is in a layer: what a loss makes of its labels is left aside.
    """
    marks = [mark for mark in marks_of(result) if isinstance(mark, GradientMark)]
    is_partial = GRADIENT in marks and any(mark.zero_by in DISCRETE for mark in marks)
    if not (root.of_parameters and run.is_complete and is_partial):
        return ()
    second = GradientRun(run.module, of_parameters=True, by_layer=True)
    layers = unreached_layers(_result(root, second))
    run.work.left -= second.spent
    found = [
        UnreachedLayer(layer, operation, method)
        for layer, operation in layers.items()
        if operation in DISCRETE and (method := _method_with(operation, second)) is not None
    ]
    return tuple(found)


def _method_with(operation: str, run: GradientRun) -> FunctionInfo | None:
    """The method of a layer that calls an operation."""
    for info, _ in run.results:
        if info.cls is not None and is_layer(info.cls):
            calls = (node for node in walk(info.node.body) if isinstance(node, cst.Call))
            if any((dotted(call.func) or "").rpartition(".")[2] == operation for call in calls):
                return info
    return None


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
