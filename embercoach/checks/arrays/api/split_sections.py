"""API-009: ``mx.split`` into another number of parts than the code expects."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.scopes import Expression, fixed_attribute, resolve_name, scope_of
from embercoach.analysis.facts.facts import CallFact, calls_by_function
from embercoach.analysis.syntax.trees import dotted, evaluated, names_below, small_statements, walk
from embercoach.analysis.values.lattice import as_number
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument
    from embercoach.analysis.project.module import Module

#: Parts of the names of sizes.
_SIZES = frozenset(
    ("size", "dim", "dims", "width", "channels", "features", "hidden", "len", "length", "rank")
)
#: Callers of a function that returns the parts, which are looked at.
_MOST_CALLERS = 8


@check("API-009", of=("mlx.core.split", ".split"))
def wrong_sections(fact: CallFact, module: Module) -> Iterator[Report]:
    """``q, k, v = mx.split(qkv, dims, axis=-1)``, as ``torch.split`` takes the size of a part."""
    is_method = fact.symbol is None
    if any(a.star for a in fact.arguments) or (is_method and fact.array is None):
        return
    sections = fact.argument(0 if is_method else 1, "indices_or_sections")
    if sections is None:
        return
    problem = _unpacked(fact, sections, module)
    if problem is None or is_expected(module, fact.place.statement, REFUSED, broadly=True):
        return
    yield Report.at(
        fact,
        "API-009",
        message=problem,
        help="Pass the number of equal parts, or a list of the indices to split at",
    )


def _constant(argument: Argument) -> int | None:
    number = as_number(argument.value)
    return number.const if number is not None and type(number.const) is int else None


def _unpacked(fact: CallFact, sections: Argument, module: Module) -> str | None:
    """Compare the number of parts with that of the names that they are unpacked to."""
    names = _names(fact, module)
    if names is None:
        return None
    parts = _constant(sections)
    if isinstance(sections.node, (cst.List, cst.Tuple)) and not any(
        isinstance(element, cst.StarredElement) for element in sections.node.elements
    ):
        parts = len(sections.node.elements) + 1
    if parts is not None:
        return None if parts == names else f"`split()` returns {parts} arrays, not {names}"
    if as_number(sections.value) is None and not _is_plain(sections.node):
        return None
    if not _is_size(sections.node, names, fact, module):
        return None
    return f"`split()` takes the number of parts, {names} here, not their size"


def _is_plain(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Name, cst.Attribute, cst.BinaryOperation, cst.Subscript))


def _names(fact: CallFact, module: Module) -> int | None:
    """The number of names that the parts are unpacked to, here or by each caller."""
    statement = fact.place.statement
    direct = _unpacking(statement, fact.node)
    if direct is not None:
        return direct
    if isinstance(statement, cst.Assign) and statement.value is fact.node:
        target = statement.targets[0].target
        function = fact.place.function
        if not isinstance(target, cst.Name) or function is None:
            return None
        counts = _uses(function.node.body)[target.value] - _uses(statement)[target.value]
        return next(iter(counts)) if len(counts) == 1 else None
    if not isinstance(statement, cst.Return) or statement.value is not fact.node:
        return None
    return _names_of_callers(fact.place.function, module)


@lru_cache(maxsize=8)
def _uses(body: cst.CSTNode) -> defaultdict[str, Counter[int | None]]:
    """How often statements use each name, by the number of names that they unpack it to."""
    found: defaultdict[str, Counter[int | None]] = defaultdict(Counter)
    for statement in small_statements(body) if hasattr(body, "body") else (body,):
        for node in walk(statement):
            if isinstance(node, cst.Name):
                found[node.value][_unpacking(statement, node)] += 1
    return found


def _names_of_callers(function: FunctionInfo | None, module: Module) -> int | None:
    calls = () if function is None else calls_by_function(module).get(function, ())
    found = {_unpacking(call.place.statement, call.node) for call in calls[:_MOST_CALLERS]}
    return next(iter(found)) if len(found) == 1 and len(calls) <= _MOST_CALLERS else None


def _unpacking(statement: cst.CSTNode, made: cst.CSTNode) -> int | None:
    """``a, b = made`` and ``a, b = (f(x) for x in made)``."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0].target, statement.value
    if not isinstance(target, (cst.Tuple, cst.List)):
        return None
    if any(isinstance(element, cst.StarredElement) for element in target.elements):
        return None
    if isinstance(value, (cst.GeneratorExp, cst.ListComp)):
        clause = value.for_in
        if clause.ifs or clause.inner_for_in is not None:
            return None
        value = clause.iter
    elif isinstance(value, cst.Call) and dotted(value.func) == "map" and len(value.args) == 2:
        value = value.args[1].value
    return len(target.elements) if value is made else None


def _is_size(node: cst.BaseExpression, names: int, fact: CallFact, module: Module) -> bool:
    """Return whether an expression is the size of a part: by its origin, its use or its name."""
    function = fact.place.function
    if isinstance(node, cst.Attribute):
        made = fixed_attribute(node, function, module)
        if made is not None and _is_quotient(made, names):
            return True
        return _is_named_so(node.attr.value) or (
            isinstance(made, cst.Name) and _sizes_layer(made.value, function, module)
        )
    resolved = resolve_name(Expression(node, scope_of(module, function))).node
    if _is_quotient(resolved, names):
        return True
    is_name = isinstance(resolved, cst.Name) and isinstance(node, cst.Name)
    return is_name and isinstance(node, cst.Name) and _is_named_so(node.value)


def _is_quotient(node: cst.CSTNode, names: int) -> bool:
    """``x.shape[-1] // 2`` of two parts; a quotient of two sizes may be the number of parts."""
    return any(
        isinstance(inner, cst.BinaryOperation)
        and isinstance(inner.operator, cst.FloorDivide)
        and isinstance(inner.right, cst.Integer)
        and evaluated(inner.right) == names
        for inner in walk(node)
    )


def _is_named_so(name: str) -> bool:
    return not _SIZES.isdisjoint(name.lower().strip("_").split("_"))


def _sizes_layer(name: str, function: FunctionInfo | None, module: Module) -> bool:
    """Return whether ``__init__`` of the class passes a parameter to a layer as well."""
    cls = None if function is None else function.cls
    init = None if cls is None else cls.methods.get("__init__")
    if init is None:
        return False
    return any(
        isinstance(fact, CallFact)
        and (fact.symbol or "").startswith("mlx.nn.")
        and name in {n for argument in fact.arguments for n in names_below(argument.node)}
        for fact in module.facts_of(init)
    )
