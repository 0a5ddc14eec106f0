"""Calls that MLX's transforms refuse: exceptions, `async_eval` (COMPILE-012, GRAD-009), models."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import derived_names
from embercoach.analysis.dataflow.layout import Level, layout_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import SCOPES, dotted
from embercoach.analysis.values.facts import CallFact, CompileFact
from embercoach.analysis.values.inheritance import is_forward, is_layer, lineage
from embercoach.analysis.values.lattice import (
    Instance,
    LibraryObject,
    Transformed,
    Value,
    as_array,
    holds_arrays,
    is_traced,
)
from embercoach.checks.arrays.compilations import root_of, traced_by
from embercoach.checks.fallbacks import REFUSED
from embercoach.checks.registry import Report, check


@check("COMPILE-012")
def captured_after_exception(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``raise ValueError`` for a bad argument, in a function with ``inputs=mx.random.state``."""
    given = fact.option(1, "inputs")
    root = root_of(fact.function)
    if given is None or root is None or dotted(given.node) == "None":
        return
    traced = traced_by(fact, module)
    if any(info.differentiated for info in traced):
        return  # a training step: nothing goes on after its exceptions
    reached = (info for info in traced if info.cls is None or not is_layer(info.cls))
    for info in sorted(reached, key=lambda info: (info is not root, info.qualified_name)):
        found = next(_refusals(info), None)
        if found is not None:
            yield Report.at(
                fact,
                message="an exception in this compiled function makes its captured state unusable",
                help="Check the arguments in a function around it that is not compiled",
                context="compiled",
                related=(Stop(found, found, "raises while tracing"),),
            )
            return


def _refusals(info: FunctionInfo) -> Iterator[cst.CSTNode]:
    """Yield the statements that refuse an argument of a function, but for those in a `try`."""
    if isinstance(info.node, cst.Lambda):
        return
    contents = contents_of(info.node.body, SCOPES)
    statements: list[cst.Raise | cst.Assert] = contents.of(cst.Raise, cst.Assert)
    if not statements:
        return
    names = derived_names(info.node.body, {p.name for p in info.parameters[info.is_method :]})
    layout = layout_of(info.module, info)
    for statement in statements:
        tests = [statement.test] if isinstance(statement, cst.Assert) else []
        for level in layout.outward(statement):
            if isinstance(level.owner, (cst.Try, cst.TryStar)):
                break
            if isinstance(level.owner, cst.If):
                tests.append(level.owner.test)
        else:
            if any(not names.isdisjoint(contents_of(test).names) for test in tests):
                yield statement


@check("GRAD-009", of=("mlx.core.async_eval",))
def scheduled_in_transform(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.async_eval(y)`` in a loss, in a layer, or of what an operation returns."""
    function, statement = fact.place.function, fact.place.statement
    if function is None or isinstance(function.node, cst.Lambda) or module.is_test:
        return
    levels = [*layout_of(module, function).outward(statement)]
    if any(isinstance(level.owner, (cst.If, cst.Try, cst.TryStar)) for level in levels):
        return  # it may be switched off where a gradient is taken
    is_array = any(is_traced(a.value) and holds_arrays(a.value) for a in fact.arguments)
    if function.compiled or function.vmapped:
        return  # HOST-PULL-011
    if function.differentiated and is_array:
        message = "`mx.async_eval()` raises in a differentiated function"
    elif (is_forward(function) and is_array) or _schedules_result(fact, function, levels[0]):
        message = "`mx.async_eval()` here raises under mx.grad, mx.compile and mx.vmap"
    else:
        return
    yield Report.at(
        fact,
        message=message,
        help="Schedule the evaluation in the loop that generates, or catch the ValueError here",
        context="differentiated" if function.differentiated else "compiled",
    )


def _schedules_result(fact: CallFact, function: FunctionInfo, level: Level) -> bool:
    """Return whether an operation on arrays schedules what it returns, in its last statement.

    Its parameters are arrays by their annotations or what callers pass, and it calls none of them:
    such a function is a part of models, and no step of a loop that generates.
    """
    rest = level.statements[level.position + 1 :]
    last = rest[0] if len(rest) == 1 else None
    if function.cls is not None or function.outer is not None or not isinstance(last, cst.Return):
        return False
    arrays = [value for value in canonical_values(function) if as_array(value) is not None]
    if len(arrays) < _LEAST_ARRAYS or last.value is None:
        return False
    given = {p.name for p in function.parameters}
    if any(dotted(call.func) in given for call in contents_of(function.node.body).calls):
        return False
    scheduled = {dotted(argument.node) for argument in fact.arguments}
    return scheduled == set(contents_of(last.value).names) and None not in scheduled


#: Parameters of an operation, of which a step of a loop has one: the tokens.
_LEAST_ARRAYS = 3


#: Layers whose strides, padding or kernel sizes are tuples of ints.
_WITH_TUPLES = frozenset(
    f"mlx.nn.{name}{dimensions}d"
    for name, least in (("Conv", 2), ("ConvTranspose", 2), ("AvgPool", 1), ("MaxPool", 1))
    for dimensions in range(least, 4)
)
#: Layers in layers that are followed.
_MOST_NESTED = 8


@check("API-003", unless=REFUSED)
def refused_model(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.value_and_grad(loss_fn)(model, x)`` of a model with convolutions."""
    callee, first = fact.callee, fact.positional(0)
    if not isinstance(callee, Transformed) or callee.transform not in ("grad", "value_and_grad"):
        return
    # ``argnums`` and ``argnames`` choose other arguments.
    if first is None or "argn" in module.source:
        return
    name = _layer_with_tuple(first.value, _MOST_NESTED)
    if name:
        yield Report.at(
            fact,
            node=first.node,
            message=f"`mx.{callee.transform}` raises a ValueError for a model with `nn.{name}`",
            help="Differentiate its parameters: `nn.value_and_grad(model, loss_fn)`",
        )


def _layer_with_tuple(value: Value, depth: int) -> str:
    """Return the name of a layer of a model that holds a tuple of ints, empty if none is seen."""
    if isinstance(value, LibraryObject) and value.cls in _WITH_TUPLES:
        return value.cls.rpartition(".")[2]
    if not isinstance(value, Instance) or not is_layer(value.info) or not depth:
        return ""
    held = (v for cls in lineage(value.info) for v in cls.attributes.values())
    return next(filter(None, (_layer_with_tuple(v, depth - 1) for v in held)), "")
