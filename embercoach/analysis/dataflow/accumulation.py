"""Additions to what names and attributes hold, by statements and by the functions that they call.

In the checked file the values are known; functions of other files are read by their text alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import derived_names
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of, is_append, is_at_update
from embercoach.analysis.dataflow.scopes import display, passed_with_owner, scope_of
from embercoach.analysis.dataflow.value_sources import returned_by
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Dict, Sequence, Value, as_array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_CALLS, MOST_STEPS

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

Kind = Literal["sum", "list", "tree", "concatenation"]
_WRAPPING = frozenset(f"mlx.core.{name}" for name in ("stop_gradient", "clip", "contiguous"))
_CASTS = frozenset(("astype", "reshape"))
_ADDING = frozenset(
    f"mlx.core.{name}" for name in ("add", "subtract", "maximum", "minimum", "logaddexp")
)
_JOINING = frozenset(f"mlx.core.{name}" for name in ("concatenate", "concat"))
_TREE_MAP = "mlx.utils.tree_map"
#: Methods of ``x.at[i]``.
_AT = frozenset(("add", "subtract", "maximum", "minimum"))


class Accumulation(NamedTuple):
    """An addition to what a path holds: ``total``, ``self.total``, ``totals`` in ``totals[i]``.

    kind: a sum, a list, a tree of averages, or a concatenation.
    added: the expressions of what is added.
    node: the expression or the statement that adds.
    function: the one that adds, if it is called in a loop.
    in_place: what the path holds is a list or a dictionary that is changed.
    inner: where that function adds, if it is one of the file: an expression, and its statement.
    """

    path: str
    kind: Kind
    added: tuple[cst.BaseExpression, ...]
    node: cst.CSTNode
    function: FunctionInfo | None = None
    in_place: bool = False
    inner: tuple[cst.CSTNode, cst.CSTNode] | None = None

    def adds_one_of(self, names: set[str]) -> bool:
        """Return whether what is added mentions one of some names."""
        return any(not names.isdisjoint(contents_of(node).names) for node in self.added)


class _Reader(NamedTuple):
    """The function whose statements are read, and the file that is checked if it is in that."""

    function: FunctionInfo | None
    module: Module | None

    def symbol(self, node: cst.CSTNode) -> str | None:
        """Get the library function that a call calls; by the last name where nothing is known."""
        if self.module is not None:
            fact = evaluation_of(self.module).calls.get(node)
            return None if fact is None else fact.symbol
        name = dotted(node.func) if isinstance(node, cst.Call) else None
        last = (name or "").rpartition(".")[2]
        return _TREE_MAP if last == "tree_map" else f"mlx.core.{last}"

    def terms(
        self, node: cst.BinaryOperation | cst.AugAssign
    ) -> list[tuple[cst.BaseExpression, bool]] | None:
        """Return the operands of a sum or a difference, and whether they are arrays."""
        if self.module is not None:
            fact = evaluation_of(self.module).operations.get(node)
            if fact is None or fact.operator not in ("+", "-"):
                return None
            return [(side.node, side.array is not None) for side in (fact.left, fact.right)]
        signs = (cst.Add, cst.Subtract, cst.AddAssign, cst.SubtractAssign)
        sides = (
            (node.left, node.right)
            if isinstance(node, cst.BinaryOperation)
            else (node.target, node.value)
        )
        if not isinstance(node.operator, signs):
            return None
        return [(side, not self._is_number(side)) for side in sides]

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Test for a number or a size, ``x.shape[0]``, and for a name that holds one."""
        if isinstance(node, cst.Name) and self.function is not None:
            values = contents_of(self.function.node.body).values_of({node.value})
            are_sizes = (isinstance(one, cst.Subscript) and self._is_number(one) for one in values)
            return bool(values) and all(are_sizes)
        if isinstance(node, cst.Subscript):
            return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
        return isinstance(node, (cst.Integer, cst.Float))

    def unwrapped(
        self, node: cst.BaseExpression, statement: cst.CSTNode
    ) -> cst.BaseExpression | None:
        """Return the expression that a window, a cast, or a variable is of, if that is one."""
        for _ in range(MOST_STEPS):
            inner = self._wrapped(node)
            if isinstance(node, cst.Name) and self.module is not None:
                reaching = scope_of(self.module, self.function).reaching
                bindings = reaching.before(statement, node.value) or ()
                if len(bindings) == 1 and bindings[0].kind == "assigned":
                    inner, statement = bindings[0].value, bindings[0].statement
            if inner is None:
                return node
            node = inner
        return None

    def _wrapped(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return ``x`` of a window or a cast: ``x[-n:]``, ``x.astype(t)``, ``stop_gradient(x)``."""
        if isinstance(node, cst.Subscript):
            return node.value if any(isinstance(e.slice, cst.Slice) for e in node.slice) else None
        if not isinstance(node, cst.Call):
            return None
        if self.symbol(node) in _WRAPPING:
            return node.args[0].value if node.args and node.args[0].keyword is None else None
        func = node.func
        is_cast = isinstance(func, cst.Attribute) and func.attr.value in _CASTS
        return cst.ensure_type(func, cst.Attribute).value if is_cast else None

    def added_to(
        self, path: str, given: cst.BaseExpression, statement: cst.CSTNode, depth: int = 0
    ) -> tuple[Kind, tuple[cst.BaseExpression, ...]] | None:
        """Return how an expression adds arrays to what a path holds, and what it adds."""
        node = self.unwrapped(given, statement)
        if isinstance(node, cst.IfExp):  # ``x if total is None else total + x``
            arms = (node.body, node.orelse) if depth < MOST_CALLS else ()
            found = (self.added_to(path, arm, statement, depth + 1) for arm in arms)
            return next(filter(None, found), None)
        if isinstance(node, cst.BinaryOperation):
            return self._added(path, node)
        if not isinstance(node, cst.Call) or any(argument.star for argument in node.args):
            return None
        symbol, func = self.symbol(node), node.func
        values = [argument.value for argument in node.args]
        others = tuple(value for value in values if path_of(value) != path)
        if symbol == _TREE_MAP:
            return ("tree", others[1:]) if path in map(path_of, values[1:]) else None
        if symbol in _JOINING:
            joined = display(values[0]) or [] if values else []
            rest = tuple(part for part in joined if path_of(part) != path)
            return ("concatenation", rest) if rest and len(rest) < len(joined) else None
        if symbol in _ADDING:
            return ("sum", others) if 0 < len(others) < len(values) else None
        if is_at_update(node) and isinstance(func, cst.Attribute) and func.attr.value in _AT:
            view = cst.ensure_type(func.value, cst.Subscript)
            same = path_of(cst.ensure_type(view.value, cst.Attribute).value) == path
            at = (e.slice.value for e in view.slice if isinstance(e.slice, cst.Index))
            return ("sum", (*values, *at)) if same else None
        return self._through_call(path, node, others, depth)

    def _added(
        self, path: str, node: cst.BinaryOperation
    ) -> tuple[Kind, tuple[cst.BaseExpression, ...]] | None:
        terms = self.terms(node)
        if terms is None:
            return None
        for matches in (_is_scaled, _mentions) if self.module is not None else (_is_scaled,):
            for (known, _), (other, is_array) in (terms, terms[::-1]):
                if matches(known, path):
                    return ("sum", (other,)) if is_array else None
        return None

    def _through_call(
        self, path: str, node: cst.Call, others: tuple[cst.BaseExpression, ...], depth: int
    ) -> tuple[Kind, tuple[cst.BaseExpression, ...]] | None:
        """``total = add_trees(total, gradients)`` of a function of the file."""
        local = None if self.module is None else evaluation_of(self.module).local_call(node)
        if local is None or depth >= MOST_CALLS:
            return None
        names = [n for n, value in passed_with_owner(local).items() if path_of(value) == path]
        inside = _Reader(local.function, self.module)
        for result, statement in returned_by(local.function) if len(names) == 1 else ():
            found = inside.added_to(names[0], result, statement, depth + 1)
            if found is not None:  # another result may start it
                return found[0], others
        return None

    def appended(self, call: cst.Call) -> tuple[cst.BaseExpression, ...]:
        """Get what ``losses.append(loss)`` adds: arrays that are not evaluated, of known values."""
        if self.module is None:
            return tuple(argument.value for argument in call.args)
        fact = evaluation_of(self.module).calls.get(call)
        first = None if fact is None else fact.positional(0)
        return () if first is None else tuple(_unevaluated(first.node, first.value))


def accumulations(
    statement: cst.CSTNode, function: FunctionInfo | None, module: Module | None
) -> Iterator[Accumulation]:
    """Yield what a statement adds arrays to.

    Args:
        statement: of the function, or of the module's top level.
        function: the one with the statement.
        module: the file that is checked; None for a function of another one, of whose values
            nothing is known.
    """
    reader = _Reader(function, module)
    if isinstance(statement, cst.AugAssign):
        terms, path = reader.terms(statement), path_of(statement.target)
        if path is not None and terms is not None and terms[1][1]:
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
            found = None if path is None else reader.added_to(path, value, statement)
            if found is not None and path is not None:
                in_place = isinstance(bound, cst.Subscript)
                yield Accumulation(path, *found, value, None, in_place)
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        call = statement.value
        path = path_of(call.func.value) if isinstance(call.func, cst.Attribute) else None
        added = reader.appended(call) if path is not None and is_append(call) else ()
        if path is not None and added:
            yield Accumulation(path, "list", added, call, None, True)
        tree = reader.unwrapped(call.args[0].value, statement) if len(call.args) == 1 else None
        if isinstance(tree, cst.Call) and reader.symbol(tree) == _TREE_MAP:
            yield from _average(call, tree)


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


def _average(call: cst.Call, tree: cst.Call) -> Iterator[Accumulation]:
    """Yield the average of weights that a module is updated with, for a call of ``tree_map``.

    ``teacher.update(tree_map(average, teacher.parameters(), model.parameters()))``
    """
    owner, _, method = (dotted(call.func) or "").rpartition(".")
    given = [argument.value for argument in tree.args[1:]]
    others = tuple(value for value in given if _module_of(value) != owner)
    if owner and method == "update" and len(others) < len(given):
        yield Accumulation(owner, "tree", others, call, None, True)


def _module_of(node: cst.BaseExpression) -> str | None:
    """Return the path of the module in ``module.parameters()``."""
    path = dotted(node.func) if isinstance(node, cst.Call) and not node.args else None
    owner, _, method = (path or "").rpartition(".")
    return owner if method in ("parameters", "trainable_parameters") else None


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
    return path.rpartition(".")[2] in contents_of(node).names


@kept_for_file
def accumulated(function: FunctionInfo, module: Module, depth: int = 0) -> list[Accumulation]:
    """Summarize what a function adds to its parameters, their attributes and outer variables.

    Args:
        function: of the file that is checked, with those that it calls there, or of another one.
        module: the file that is checked.
        depth: how many calls have been followed.
    """
    if isinstance(function.node, cst.Lambda) or function.name == "__init__":
        return []
    if function.cls is not None and is_layer(function.cls):
        return []
    is_here = function.module is module
    own = {parameter.name for parameter in function.parameters}
    outer = {*function.nonlocal_names, *function.global_names} if is_here else set()
    found = [*_additions(function, module, is_here=is_here)]
    for fact in module.facts_of(function) if is_here and depth < MOST_CALLS else ():
        if isinstance(fact, LocalCall):
            found += by_caller(fact, accumulated(fact.function, module, depth + 1))
    return [
        item
        for item in found
        if (item.path.partition(".")[0] in own and (item.in_place or "." in item.path))
        or item.path in outer
        or (item.kind == "list" and is_here and _is_outer(item.path, function, module))
    ][:MOST_CALLERS]


def _additions(function: FunctionInfo, module: Module, *, is_here: bool) -> Iterator[Accumulation]:
    """Yield the additions of a function's own statements.

    Of the file that is checked, those of keywords by their text too: ``self.rows.append(row)`` of
    ``**row``, of whose values nothing is known.
    """
    keywords = {parameter.name for parameter in function.parameters if parameter.star == "**"}
    derived = derived_names(function.node.body, keywords) if keywords and is_here else set()
    for statement in contents_of(function.node.body).statements:
        for item in accumulations(statement, function, module if is_here else None):
            yield item._replace(inner=(item.node, statement) if is_here else None)
        for item in accumulations(statement, function, None) if derived else ():
            if item.adds_one_of(derived):
                yield item._replace(inner=(item.node, statement))


def _is_outer(path: str, function: FunctionInfo, module: Module) -> bool:
    """Test whether a list is one of a scope around."""
    if function.outer is None or "." in path:
        return False
    return not scope_of(module, function).binds(path)


def by_caller(call: LocalCall | ProjectCall, accumulated: list[Accumulation]) -> list[Accumulation]:
    """Return the additions of the function that a call calls, by the paths of the caller."""
    function, passed = call.function, passed_with_owner(call)
    own = {parameter.name for parameter in function.parameters}
    given = [argument.value for argument in call.node.args]
    found: list[Accumulation] = []
    for inner in accumulated:
        root, _, rest = inner.path.partition(".")
        path: str | None = inner.path
        if root in own:
            path = _path_in_caller(passed.get(root), rest)
        if path is not None:
            added = tuple(node for node in given if path_of(node) != path)
            found.append(inner._replace(path=path, added=added, node=call.node, function=function))
    return found


def _path_in_caller(owner: cst.BaseExpression | None, rest: str) -> str | None:
    """Get the path of ``self.REST`` where a method is called; for ``totals[name]``, ``totals``."""
    if owner is None:
        return None
    path = dotted(owner)
    return path_of(owner) if path is None or not rest else f"{path}.{rest}"
