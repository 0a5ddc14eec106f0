"""The context of a finding: it fails there, it costs time repeatedly, or once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.call_effects import is_pull
from embercoach.analysis.facts.construction import runs_once
from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.hot_functions import is_forward, is_hot
from embercoach.analysis.facts.layout import LEAVING, layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import keyed_path, walk
from embercoach.analysis.values.joins import any_item, as_array, options
from embercoach.analysis.values.lattice import Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: The end of the message about a read of an array by the host, in contexts of errors.
EFFECTS = {
    "compiled": "raises inside mx.compile or mx.vmap",
    "differentiated": "detaches the gradient",
}


def context_of(place: FactPlace, module: Module, *, by_calls: bool = False) -> str:
    """The context of a finding about cost: one of ``embercoach.rulebook.CONTEXTS``.

    Args:
        place: of the finding.
        module: its module.
        by_calls: each call of a function costs as much as an iteration.
    """
    if module.purpose is not None:
        return module.purpose
    if recurrence_of(place, module) is not None:
        return "avoidable"
    function = place.function
    if not by_calls or function is None or place.periodic or runs_once(place, function):
        return "minor"
    return "minor" if function.name == "main" and function.outer is None else "avoidable"


def error_of(place: FactPlace, value: Value | None, pull: cst.CSTNode | None = None) -> str | None:
    """The context in which reading an array raises, or detaches a gradient; None elsewhere.

    Args:
        place: of the read.
        value: the array; only one that depends on the function's arguments is traced.
        pull: the node that reads it, to be followed into a differentiated result.
    """
    function = place.function
    if function is None:
        return None
    if (function.compiled or function.vmapped) and (value is None or is_traced(value)):
        return "compiled"
    if pull is not None and pull in function.module.detaching:
        return "differentiated"
    return None


def recurrence_of(place: FactPlace, module: Module) -> str | None:
    """Say what runs a place again and again; None for what runs once."""
    function = place.function
    if place.periodic or (function is not None and runs_once(place, function)):
        return None
    if place.loops:
        return "iteration" if _goes_on(place, module) else None
    if is_forward(function):
        return "forward pass"
    return "iteration" if function is not None and is_hot(function) else None


def _goes_on(place: FactPlace, module: Module) -> bool:
    """Test whether a loop goes on after a statement: no ``return`` or ``break`` must follow it."""
    loops, left = 0, isinstance(place.statement, cst.Return)
    for level in layout_of(module, place.function).outward(place.statement):
        rest = level.statements[level.position + 1 :]
        last = rest[-1] if rest else None
        if isinstance(last, LEAVING) and not any(
            isinstance(node, cst.Continue) for statement in rest for node in walk(statement)
        ):
            left = True
            if not isinstance(last, cst.Break):
                return False
        if isinstance(level.owner, (cst.For, cst.While)) and level.arm == "body":
            if not left:
                return True
            loops += 1
            left = isinstance(place.statement, cst.Return)
    return place.loops > loops  # in a comprehension


def is_traced(value: Value) -> bool:
    """Return whether a value depends on the arguments of its function."""
    array = as_array(value)
    if array is not None:
        return array.traced
    if isinstance(value, Sequence):
        return any(map(is_traced, value.items if value.items is not None else (any_item(value),)))
    return any(getattr(o, "traced", False) for o in options(value))


#: Methods whose result of an evaluated array is a view, or a copy by one small kernel.
_VIEWS = frozenset(("reshape", "squeeze", "flatten", "transpose", "swapaxes", "astype"))


def is_evaluated_before(place: FactPlace, subject: cst.CSTNode, module: Module) -> bool:
    """Test whether ``mx.eval`` of an array comes before its read, in the same pass of a body."""
    paths = {path for node in _viewed(subject) if (path := keyed_path(node)) is not None}
    layout, reaching = layout_of(module, place.function), scope_of(module, place.function).reaching
    for level in layout.outward(place.statement) if paths else ():
        for statement in level.statements[: level.position]:
            for path in paths & evaluated_by(statement, module):
                name = path.partition(".")[0]
                if reaching.before(statement, name) == reaching.before(place.statement, name):
                    return True
        if level.owner is place.loop:
            break
    return False


def evaluated_by(statement: cst.CSTNode, module: Module) -> frozenset[str]:
    """The paths that a statement ``mx.eval(x, [y, z])`` or ``n = x.item()`` evaluates."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    fact = evaluation_of(module).calls.get(call) if isinstance(call, cst.Call) else None
    if fact is None or fact.symbol != "mlx.core.eval":
        owners = (
            n.func.value
            for n in (walk(statement) if isinstance(statement, cst.BaseSmallStatement) else ())
            if isinstance(n, cst.Call) and isinstance(n.func, cst.Attribute) and is_pull(n)
        )
        return frozenset(path for owner in owners if (path := keyed_path(owner)) is not None)
    nodes: list[cst.CSTNode] = [argument.node for argument in fact.arguments]
    for node in tuple(nodes):
        if isinstance(node, (cst.List, cst.Tuple)):
            nodes += [element.value for element in node.elements]
    return frozenset(path for node in nodes if (path := keyed_path(node)) is not None)


def _viewed(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield an expression, and the arrays that it is a part or a view of."""
    while True:
        yield node
        if isinstance(node, cst.Subscript):
            node = node.value
        elif (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in _VIEWS
        ):
            node = node.func.value
        else:
            return
