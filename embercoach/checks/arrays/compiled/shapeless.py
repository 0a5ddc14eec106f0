"""COMPILE-009 and COMPILE-010: what ``mx.compile(f, shapeless=True)`` can't follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.reaching import Reaching
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.syntax.trees import DEFINITIONS, children, dotted, evaluated
from embercoach.analysis.values.lattice import BoundMember, as_array
from embercoach.checks.arrays.compiled.compilations import (
    STEPS_A_FUNCTION,
    imported_by,
    nodes_in,
    place_in,
    traced_by,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module

HELP = "Use `mx.mean`, `mx.flatten` or `-1` in `reshape`, or drop `shapeless=True`"
#: Functions of ``mlx.core`` that end in a primitive without ``output_shapes``.
UNSUPPORTED = frozenset(
    (
        *(f"mlx.core.{n}" for n in ("split", "pad", "roll", "topk", "diag", "diff", "median")),
        *(f"mlx.core.fft.{n}" for n in ("fft", "ifft", "rfft", "irfft", "fft2", "fftn")),
        "mlx.core.fast.rope",
    )
)
_METHODS = frozenset({"split"})
#: Statements in which a size is checked or shown only.
_HARMLESS = (cst.Assert, cst.Raise, cst.FormattedString)


def is_shapeless(fact: CompileFact) -> bool:
    """Return whether a function is compiled with ``shapeless=True``."""
    given = fact.option(3, "shapeless")
    return given is not None and isinstance(given.node, cst.Name) and given.node.value == "True"


@check("COMPILE-009")
def baked_shape(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x.sum() / x.shape[0]``: the size is that of the first call."""
    if not is_shapeless(fact):
        return
    for info in traced_by(fact, module):
        for node, statement in _sizes(info, _own_names(info, module)):
            yield Report.at(
                fact,
                "COMPILE-009",
                node=node,
                place=place_in(fact, info, statement),
                message="size is fixed by the first trace, and `shapeless=True` never traces again",
                help=HELP,
                context="compiled",
            )
    for info in imported_by(fact, module):
        module.work.left -= STEPS_A_FUNCTION
        if any(True for _ in _sizes(info, _bound_names(_reaching(info), info))):
            yield Report.at(
                fact,
                "COMPILE-009",
                message=f"`{info.name[:24]}` computes with a size, fixed by the first trace",
                help=HELP,
            )
            return


def _sizes(info: FunctionInfo, arrays: frozenset[str]) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The sizes of arrays that a function computes with, and their statements."""
    unpacked: set[str] = set()
    pending: list[tuple[cst.CSTNode, cst.CSTNode, bool]] = []
    body = info.node.body
    start = info.statement if isinstance(info.node, cst.Lambda) and info.statement else body
    pending.append((body, start, False))
    while pending:
        node, statement, is_used = pending.pop()
        if isinstance(node, (*DEFINITIONS, cst.Lambda, *_HARMLESS)):
            continue
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            statement = node
        if isinstance(node, cst.Assign) and _is_shape(node.value, arrays):
            unpacked |= _unpacked(node)
        elif isinstance(node, cst.Assign) and _is_size(node.value, arrays):
            unpacked |= {t.target.value for t in node.targets if isinstance(t.target, cst.Name)}
        elif is_used and (_is_size(node, arrays) or _is_named(node, unpacked)):
            yield node, statement
            continue
        used = is_used or isinstance(node, (cst.BinaryOperation, cst.Comparison, cst.Arg))
        if isinstance(node, (cst.Attribute, cst.Call)):
            used = False  # an argument is used, the function is not
        pending += [(child, statement, used) for child in reversed(children(node))]


def _own_names(info: FunctionInfo, module: Module) -> frozenset[str]:
    """The names that a function binds: what it computes from its arguments."""
    return _bound_names(scope_of(module, info).reaching, info)


def _reaching(info: FunctionInfo) -> Reaching:
    """The bindings of a function of another file, whose scopes are not kept."""
    return Reaching(info.node, has_walrus=":=" in info.module.source)


def _bound_names(reaching: Reaching, info: FunctionInfo) -> frozenset[str]:
    names = set(reaching.bindings)
    if info.is_method and info.parameters:
        names.discard(info.parameters[0].name)
    return frozenset(names)


def _is_shape(node: cst.CSTNode, arrays: frozenset[str]) -> bool:
    if not isinstance(node, cst.Attribute) or node.attr.value != "shape":
        return False
    return isinstance(node.value, cst.Name) and node.value.value in arrays


def _is_size(node: cst.CSTNode, arrays: frozenset[str]) -> bool:
    """``x.shape[0]`` or ``x.size``; the last axis is rarely the one that varies."""
    if isinstance(node, cst.Attribute) and node.attr.value == "size":
        return isinstance(node.value, cst.Name) and node.value.value in arrays
    if not isinstance(node, cst.Subscript) or not _is_shape(node.value, arrays):
        return False
    part = node.slice[0].slice
    if not isinstance(part, cst.Index):
        return False
    if isinstance(part.value, cst.Integer):
        return isinstance(evaluated(part.value), int)
    minus = isinstance(part.value, cst.UnaryOperation) and part.value.expression
    return isinstance(minus, cst.Integer) and evaluated(minus) != 1


def _is_named(node: cst.CSTNode, names: set[str]) -> bool:
    return isinstance(node, cst.Name) and node.value in names


def _unpacked(node: cst.Assign) -> set[str]:
    """``B`` and ``L`` of ``B, L, D = x.shape``, without the last axis."""
    target = node.targets[0].target
    elements = target.elements if isinstance(target, cst.Tuple) else ()
    return {
        e.value.value
        for e in elements[:-1]
        if isinstance(e.value, cst.Name) and e.value.value != "_"
    }


@check("COMPILE-010")
def shapeless_slice(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x[:, 1:]``, ``mx.split(x, 2)``: the first call raises."""
    if not is_shapeless(fact):
        return
    for info in traced_by(fact, module):
        names = _own_names(info, module)
        for call in module.facts_of(info):
            if type(call) is CallFact and _is_unsupported(call):
                yield Report.at(
                    call,
                    "COMPILE-010",
                    message="raises: MLX can't infer its shape with `shapeless=True`",
                    help="Drop `shapeless=True`",
                    context="compiled",
                )
        for node in nodes_in(info.node.body, module):
            if isinstance(node, cst.Subscript) and _cuts(node, names):
                yield Report.at(
                    fact,
                    "COMPILE-010",
                    node=node,
                    place=place_in(fact, info, info.statement or info.node),
                    message="slice raises: MLX can't infer its shape with `shapeless=True`",
                    help="Drop `shapeless=True`, or slice before the call",
                    context="compiled",
                )


def _is_unsupported(call: CallFact) -> bool:
    if isinstance(call.callee, BoundMember):
        array = as_array(call.callee.owner)
        return call.callee.name in _METHODS and array is not None and array.traced
    if call.symbol not in UNSUPPORTED:
        return False
    first = call.positional(0)
    array = None if first is None else as_array(first.value)
    return array is not None and array.traced


def _cuts(node: cst.Subscript, names: frozenset[str]) -> bool:
    """``x[:, 1:]`` of a name: with several axes, it can only be an array."""
    root = (dotted(node.value) or "").partition(".")[0]
    if root not in names or not isinstance(node.value, cst.Name) or len(node.slice) < 2:
        return False
    parts = [e.slice for e in node.slice]
    return any(isinstance(p, cst.Slice) and (p.lower or p.upper or p.step) for p in parts)
