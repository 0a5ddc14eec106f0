"""TORCH-JIT: control flow that ``torch.jit.trace`` freezes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import CallFact, TensorTruthFact
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import SCOPES, walk
from embercoach.analysis.values.inheritance import traced_function
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module

_SCRIPT = "Compile the function with `torch.jit.script`"
_BRANCH = "Choose with `torch.where`, or compile the function with `torch.jit.script`"
_LOOP = "Compute without the loop, or compile the function with `torch.jit.script`"


class _Traced(NamedTuple):
    """A place in a function that is traced, for reports."""

    node: cst.CSTNode
    place: FactPlace


@check("TORCH-JIT-001")
def frozen_control_flow(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Branches and loops of traced functions that depend on tensors or their shapes."""
    traces = [f for f in facts if isinstance(f, CallFact) and f.symbol == "torch.jit.trace"]
    roots = [traced_function(f.arguments[0].value) for f in traces if f.arguments]
    functions = _reached([root for root in roots if root is not None], module)
    if not functions:
        return
    for fact in facts:
        is_traced = isinstance(fact, TensorTruthFact) and fact.place.function in functions
        if is_traced and not _only_raises(fact.place.statement):
            assert isinstance(fact, TensorTruthFact)
            yield _report(fact, "the branch of the example: the test reads a tensor", _BRANCH)
    for function in functions:
        place = traces[0].place._replace(function=function)
        yield from _by_shapes(function, place)


def _reached(roots: list[FunctionInfo], module: Module) -> dict[FunctionInfo, None]:
    """The functions of the file that a trace runs."""
    found: dict[FunctionInfo, None] = {}
    pending = list(roots)
    while pending:
        function = pending.pop()
        if function not in found and function.module is module:
            found[function] = None
            pending += function.calls
    return found


def _by_shapes(function: FunctionInfo, place: FactPlace) -> Iterator[Report]:
    """Tests and loops of a function that depend on the shape of a tensor."""
    sizes = _size_names(function)
    layout = layout_of(function.module, function)
    for node in walk(function.node.body, SCOPES):
        if isinstance(node, (cst.If, cst.While)) and not _only_raises(node):
            where: cst.CSTNode = node.test
            what, remedy = "the branch of the example: the test reads a shape", _SCRIPT
        elif isinstance(node, cst.For) and _is_range(node.iter):
            where, what, remedy = node.iter, "as many iterations as the example has", _LOOP
        else:
            continue
        if _reads_size(where, sizes) and any(True for _ in layout.outward(node)):
            traced = _Traced(where, place._replace(statement=node))
            yield _report(traced, what, remedy)


def _report(where: _Traced | TensorTruthFact, what: str, remedy: str) -> Report:
    return Report.at(
        where,
        "TORCH-JIT-001",
        message=f"`torch.jit.trace` records {what}",
        help=remedy,
    )


def _is_range(node: cst.BaseExpression) -> bool:
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and node.func.value == "range"
    )


def _size_names(function: FunctionInfo) -> frozenset[str]:
    """Names that hold sizes of tensors: ``b, t = x.shape``."""
    found: set[str] = set()
    for node in walk(function.node.body, SCOPES):
        if isinstance(node, cst.Assign) and _reads_size(node.value, frozenset()):
            for target in node.targets:
                found.update(n.value for n in walk(target.target) if isinstance(n, cst.Name))
    return frozenset(found)


def _reads_size(node: cst.CSTNode, names: frozenset[str]) -> bool:
    """Return whether an expression reads the size of an axis."""
    for inner in walk(node):
        if isinstance(inner, cst.Attribute) and inner.attr.value == "is_tracing":
            return False
        if isinstance(inner, cst.Subscript) and _is_shape(inner.value):
            return True
        if isinstance(inner, cst.Name) and inner.value in names:
            return True
        if _is_size_call(inner):
            return True
    return isinstance(node, cst.Attribute) and _is_shape(node)


def _is_shape(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "shape"


def _is_size_call(node: cst.CSTNode) -> bool:
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in ("size", "numel")


def _only_raises(statement: cst.CSTNode) -> bool:
    """Return whether a statement checks its input: ``assert``, or ``if ...: raise``."""
    if isinstance(statement, cst.Assert):
        return True
    if not isinstance(statement, cst.If) or not isinstance(statement.body, cst.IndentedBlock):
        return False
    last = statement.body.body[-1]
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Raise)
