"""Statements that add arrays to a variable, an attribute, a list or a tree of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import libcst as cst

from embercoach.analysis.facts.call_effects import is_append, is_at_update
from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.scopes import by_parameter, display, scope_of
from embercoach.analysis.held_sources import returned_by
from embercoach.analysis.syntax.trees import dotted, names_below, walk
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import Dict, Sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

Kind = Literal["sum", "list", "tree", "concatenation"]
#: Functions that are followed for one result.
_MOST_CALLS = 3
#: Windows, casts and variables that are followed to a sum or a concatenation.
_MOST_WRAPPED = 6
_WRAPPING = frozenset(f"mlx.core.{name}" for name in ("stop_gradient", "clip", "contiguous"))
_CASTS = frozenset(("astype", "reshape"))
_ADDING = frozenset(
    f"mlx.core.{name}" for name in ("add", "subtract", "maximum", "minimum", "logaddexp")
)
_JOINING = frozenset(f"mlx.core.{name}" for name in ("concatenate", "concat"))
_BY_NAME: dict[str, Kind] = {
    "tree_map": "tree",
    "add": "sum",
    "maximum": "sum",
    "minimum": "sum",
    "concatenate": "concatenation",
    "concat": "concatenation",
}
#: Methods of ``x.at[i]``.
_AT = frozenset(("add", "subtract", "maximum", "minimum"))


class Accumulation(NamedTuple):
    """An addition to what a path holds: ``total``, ``self.total``, ``totals`` in ``totals[i]``.

    kind: a sum, a list, a tree of averages, or a concatenation.
    added: the expressions of what is added.
    node: the expression or the statement that adds.
    function: the one that adds, if it is called in a loop.
    in_place: what the path holds is a list or a dictionary that is changed.
    inner: where that function adds: an expression, and its statement.
    """

    path: str
    kind: Kind
    added: tuple[cst.BaseExpression, ...]
    node: cst.CSTNode
    function: FunctionInfo | None = None
    in_place: bool = False
    inner: tuple[cst.CSTNode, cst.CSTNode] | None = None


def accumulations(place: FactPlace, module: Module) -> Iterator[Accumulation]:
    """Yield what the statement of a place adds arrays to."""
    evaluation, statement = evaluation_of(module), place.statement
    if isinstance(statement, cst.AugAssign):
        fact, path = evaluation.operations.get(statement), path_of(statement.target)
        is_sum = fact is not None and fact.operator in ("+", "-") and fact.right.array is not None
        if path is not None and is_sum:
            in_place = isinstance(statement.target, cst.Subscript)
            yield Accumulation(path, "sum", (statement.value,), statement, None, in_place)
    elif isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        targets, values = display(target), display(statement.value)
        pairs: list[tuple[cst.CSTNode, cst.BaseExpression]] = [(target, statement.value)]
        if targets is not None and values is not None and len(targets) == len(values):
            pairs = [*zip(targets, values, strict=True)]
        for bound, value in pairs:
            path = path_of(bound)
            made = None if path is None else _unwrapped(value, place, module)
            found = None if path is None or made is None else added_to(path, made, module)
            if found is not None and path is not None:
                in_place = isinstance(bound, cst.Subscript)
                yield Accumulation(path, *found, value, None, in_place)
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        yield from _appended(statement.value, module)
        yield from _averaged(statement.value, place, module)


def _unwrapped(
    node: cst.BaseExpression, place: FactPlace, module: Module
) -> cst.BaseExpression | None:
    """The expression that a window, a cast, or a variable is of, if that is one."""
    calls, statement = evaluation_of(module).calls, place.statement
    for _ in range(_MOST_WRAPPED):
        if isinstance(node, cst.Name):
            bindings = scope_of(module, place.function).reaching.before(statement, node.value) or ()
            if len(bindings) != 1 or bindings[0].kind != "assigned" or bindings[0].value is None:
                return node
            node, statement = bindings[0].value, bindings[0].statement
            continue
        fact = calls.get(node)
        inner = _wrapped(node, None if fact is None else fact.symbol)
        if inner is None:
            return node
        node = inner
    return None


def _wrapped(node: cst.BaseExpression, symbol: str | None) -> cst.BaseExpression | None:
    """Return ``x`` of a window or a cast: ``x[-n:]``, ``x.astype(t)``, ``stop_gradient(x)``."""
    if isinstance(node, cst.Subscript):
        return node.value if any(isinstance(e.slice, cst.Slice) for e in node.slice) else None
    if not isinstance(node, cst.Call):
        return None
    if symbol in _WRAPPING:
        return node.args[0].value if node.args and node.args[0].keyword is None else None
    func = node.func
    is_cast = isinstance(func, cst.Attribute) and func.attr.value in _CASTS
    return cst.ensure_type(func, cst.Attribute).value if is_cast else None


def _appended(call: cst.Call, module: Module) -> Iterator[Accumulation]:
    """``losses.append(loss)``, ``rows.append((step, loss))``, ``rows.append({"loss": loss})``."""
    fact, func = evaluation_of(module).calls.get(call), call.func
    if fact is None or not isinstance(func, cst.Attribute) or func.attr.value != "append":
        return
    first, path = fact.positional(0), path_of(func.value)
    if first is None or path is None:
        return
    added = tuple(_unevaluated(first.node, first.value))
    if added:
        yield Accumulation(path, "list", added, call, None, True)


def _unevaluated(node: cst.BaseExpression, value: Value) -> Iterator[cst.BaseExpression]:
    """Yield the arrays that an expression is or a display holds, those that are not evaluated."""
    parts = display(node)
    if parts is not None and isinstance(value, Sequence) and value.items is not None:
        for part, item in zip(parts, value.items, strict=False):
            yield from _unevaluated(part, item)
    elif isinstance(node, cst.Dict) and isinstance(value, Dict):
        for element in node.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                held = value.get(str(element.key.evaluated_value))
                yield from () if held is None else _unevaluated(element.value, held)
    elif as_array(value) is not None:
        yield node


def _averaged(call: cst.Call, place: FactPlace, module: Module) -> Iterator[Accumulation]:
    """``teacher.update(tree_map(average, teacher.parameters(), model.parameters()))``."""
    tree = _unwrapped(call.args[0].value, place, module) if len(call.args) == 1 else None
    fact = None if tree is None else evaluation_of(module).calls.get(tree)
    if fact is not None and fact.symbol == "mlx.utils.tree_map":
        found = _average(call, fact.node)
        yield from () if found is None else (found,)


def _average(call: cst.Call, tree: cst.Call) -> Accumulation | None:
    """The average of weights that a module is updated with, for a call of ``tree_map``."""
    owner, _, method = (dotted(call.func) or "").rpartition(".")
    given = [argument.value for argument in tree.args[1:]]
    others = tuple(value for value in given if _module_of(value) != owner)
    if not owner or method != "update" or len(others) == len(given):
        return None
    return Accumulation(owner, "tree", others, call, None, True)


def _module_of(node: cst.BaseExpression) -> str | None:
    """The path of the module in ``module.parameters()``."""
    path = dotted(node.func) if isinstance(node, cst.Call) and not node.args else None
    owner, _, method = (path or "").rpartition(".")
    return owner if method in ("parameters", "trainable_parameters") else None


def added_to(
    path: str, node: cst.BaseExpression, module: Module, depth: int = 0
) -> tuple[Kind, tuple[cst.BaseExpression, ...]] | None:
    """Return how an expression adds arrays to what a path holds, and what it adds."""
    if isinstance(node, cst.IfExp):
        return added_to(path, node.body, module, depth) or added_to(
            path, node.orelse, module, depth
        )
    if isinstance(node, cst.BinaryOperation):
        return _added(path, node, module)
    if not isinstance(node, cst.Call) or any(argument.star for argument in node.args):
        return None
    fact = evaluation_of(module).calls.get(node)
    symbol = None if fact is None else fact.symbol
    values = [argument.value for argument in node.args]
    others = tuple(value for value in values if path_of(value) != path)
    if symbol == "mlx.utils.tree_map":
        return ("tree", others[1:]) if path in map(path_of, values[1:]) else None
    if symbol in _JOINING:
        joined = display(values[0]) or [] if values else []
        rest = tuple(part for part in joined if path_of(part) != path)
        return ("concatenation", rest) if rest and len(rest) < len(joined) else None
    if symbol in _ADDING:
        return ("sum", others) if 0 < len(others) < len(values) else None
    func = node.func
    if is_at_update(node) and isinstance(func, cst.Attribute) and func.attr.value in _AT:
        view = cst.ensure_type(func.value, cst.Subscript)
        same = path_of(cst.ensure_type(view.value, cst.Attribute).value) == path
        at = (e.slice.value for e in view.slice if isinstance(e.slice, cst.Index))
        return ("sum", (*values, *at)) if same else None
    return _through_call(path, node, others, module, depth)


def _added(
    path: str, node: cst.BinaryOperation, module: Module
) -> tuple[Kind, tuple[cst.BaseExpression, ...]] | None:
    fact = evaluation_of(module).operations.get(node)
    if fact is None or fact.operator not in ("+", "-"):
        return None
    for matches in (_is_scaled, _mentions):
        for known, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if matches(known.node, path):
                return ("sum", (other.node,)) if other.array is not None else None
    return None


def _through_call(
    path: str,
    node: cst.Call,
    others: tuple[cst.BaseExpression, ...],
    module: Module,
    depth: int,
) -> tuple[Kind, tuple[cst.BaseExpression, ...]] | None:
    """``total = add_trees(total, gradients)`` of a function of the file."""
    local = evaluation_of(module).local_call(node)
    if local is None or depth == _MOST_CALLS:
        return None
    pairs = [(a.keyword.value if a.keyword else None, a.value) for a in node.args]
    passed = by_parameter(local.function, pairs, is_bound=local.is_bound)
    names = [name for name, value in passed.items() if path_of(value) == path]
    if len(names) != 1:
        return None
    for result, _ in returned_by(local.function):  # another one may start it
        found = added_to(names[0], result, module, depth + 1)
        if found is not None:
            return found[0], others
    return None


def path_of(node: cst.CSTNode) -> str | None:
    """The path that an expression reads: ``totals`` for ``totals[name]`` and ``totals.get(n)``."""
    if isinstance(node, cst.Call):
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("get", "setdefault"):
            return None
        node = func.value
    while isinstance(node, cst.Subscript):
        node = node.value
    return dotted(node)


def _is_scaled(node: cst.BaseExpression, path: str) -> bool:
    """Test whether an expression is a path, or a number times it."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return _is_scaled(node.left, path) or _is_scaled(node.right, path)
    return path_of(node) == path


def _mentions(node: cst.BaseExpression, path: str) -> bool:
    return path.rpartition(".")[2] in names_below(node)


def accumulation_by_text(statement: cst.CSTNode) -> Accumulation | None:
    """Return the addition of a statement of another file, of whose values nothing is known."""
    if isinstance(statement, cst.AugAssign):
        path = path_of(statement.target)
        is_sum = isinstance(statement.operator, (cst.AddAssign, cst.SubtractAssign))
        found = Accumulation(path or "", "sum", (statement.value,), statement)
        return found if path is not None and is_sum else None
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        return _call_by_text(statement.value)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    path, value = path_of(statement.targets[0].target), statement.value
    if path is None:
        return None
    if isinstance(value, cst.IfExp):  # ``x if total is None else total + x``
        value = value.body if path in map(path_of, walk(value.body)) else value.orelse
    while (inner := _wrapped(value, f"mlx.core.{_name(value)}")) is not None:
        value = inner
    if isinstance(value, cst.BinaryOperation) and isinstance(
        value.operator, (cst.Add, cst.Subtract)
    ):
        for known, other in ((value.left, value.right), (value.right, value.left)):
            if _is_scaled(known, path):
                return Accumulation(path, "sum", (other,), value)
    if isinstance(value, cst.Call):
        kind = _BY_NAME.get(_name(value))
        parts = [n for a in value.args for n in (display(a.value) or [a.value])]
        others = tuple(part for part in parts if path_of(part) != path)
        if kind is not None and len(others) < len(parts):
            return Accumulation(path, kind, others, value)
    return None


def _call_by_text(call: cst.Call) -> Accumulation | None:
    """The addition of ``losses.append(loss)``, or of an update of averaged weights."""
    added, func = tuple(argument.value for argument in call.args), call.func
    tree = added[0] if len(added) == 1 else None
    if isinstance(tree, cst.Call) and _name(tree) == "tree_map":
        return _average(call, tree)
    is_list = is_append(call) and isinstance(func, cst.Attribute)
    path = path_of(cst.ensure_type(func, cst.Attribute).value) if is_list else None
    return None if path is None else Accumulation(path, "list", added, call)


def _name(node: cst.BaseExpression) -> str:
    """The last part of the name of a function that is called."""
    return (dotted(node.func) or "").rpartition(".")[2] if isinstance(node, cst.Call) else ""
