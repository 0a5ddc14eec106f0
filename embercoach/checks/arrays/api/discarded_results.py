"""API-010: calls of functions without effects whose results nothing uses."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import EVALUATING
from embercoach.analysis.dataflow.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import walk
from embercoach.analysis.values.lattice import ArrayAt, BoundMember, LibraryObject
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

_CORE = "mlx.core."
_INITIALIZERS = "mlx.nn.init."
#: Functions that return what they compute from gradients and parameters, and change nothing.
_OF_TREES = frozenset(
    ("mlx.optimizers.clip_grad_norm", "mlx.utils.tree_flatten", "mlx.utils.tree_unflatten")
)
_HELP = "Assign the result, or remove the call: MLX's functions change no argument"


@check("API-010", of=("mlx.", "."))
def discarded_result(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.astype(mx.float16)`` and ``counts.at[i].add(1)`` as statements."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Expr) or statement.value is not fact.node:
        return
    name = _pure(fact, module)
    if name is not None:
        yield from _report(fact, name, module)


@check("API-010")
def discarded_initialization(module: Module, facts: list[object]) -> Iterator[Report]:
    """``nn.init.he_normal()(self.weight)`` as a statement."""
    if "init" not in module.source:
        return
    for made in calls_of(module).values():
        statement = made.place.statement
        outer = statement.value if type(statement) is cst.Expr else None
        if not isinstance(outer, cst.Call) or outer.func is not made.node:
            continue
        if (made.symbol or "").startswith(_INITIALIZERS):
            name = (made.symbol or "").rpartition(".")[2]
            yield from _report(made, f"nn.init.{name}()(...)", module)


def _report(fact: CallFact, name: str, module: Module) -> Iterator[Report]:
    is_cell = fact.place.function is None and module.path.suffix == ".ipynb"
    if is_cell or fact.place.statement in _attempted(module):
        return
    yield Report.at(
        fact,
        "API-010",
        message=f"`{name}` has no effect: its result is discarded",
        help=_HELP,
    )


def _pure(fact: CallFact, module: Module) -> str | None:
    """The name of a function that only computes its result, None for others."""
    symbol, callee = fact.symbol, fact.callee
    if symbol is not None:
        if symbol in _OF_TREES or (symbol == "mlx.utils.tree_map" and _maps_purely(fact, module)):
            return f"{symbol.rpartition('.')[2]}()"
        short = symbol.removeprefix(_CORE)
        is_core = symbol.startswith(_CORE) and "." not in short
        is_pure = is_core and fact.entry is not None and fact.entry.returns == "array"
        return f"mx.{short}()" if is_pure else None
    if not isinstance(callee, BoundMember):
        return None
    if fact.array is not None:
        is_pure = fact.entry is not None and fact.entry.returns == "array"
        return f".{callee.name}()" if is_pure else None
    if isinstance(callee.owner, ArrayAt):
        return f".at[...].{callee.name}()"
    if callee.name == "apply_gradients" and isinstance(callee.owner, LibraryObject):
        return ".apply_gradients()"
    return None


def _maps_purely(fact: CallFact, module: Module) -> bool:
    """Return whether ``tree_map`` maps by arithmetic alone."""
    first = fact.positional(0)
    if first is None:
        return False
    function = resolve_name(Expression(first.node, scope_of(module, fact.place.function))).node
    if not isinstance(function, cst.Lambda):
        return False
    calls = [node for node in walk(function.body) if isinstance(node, cst.Call)]
    known = calls_of(module)
    names = [(known[c].symbol or "") if c in known else "" for c in calls]
    return all(name.startswith(_CORE) and name not in EVALUATING for name in names)


@lru_cache(maxsize=2)
def _attempted(module: Module) -> frozenset[cst.CSTNode]:
    """The statements of ``try`` blocks, and those that expect an error."""
    found: set[cst.CSTNode] = set()
    for node in walk(module.tree, (cst.BaseExpression,)):
        if isinstance(node, cst.Try):
            found.update(n for n in walk(node.body) if isinstance(n, cst.Expr))
        elif isinstance(node, cst.With):
            expects = any("aises" in module.parsed.code(item.item) for item in node.items)
            if expects or any("suppress" in module.parsed.code(i.item) for i in node.items):
                found.update(n for n in walk(node.body) if isinstance(n, cst.Expr))
    return frozenset(found)
