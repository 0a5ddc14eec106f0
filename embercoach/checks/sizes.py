"""Sizes as the source writes them: integer expressions, compared through the names they have.

Inference knows values, and a size is seldom a known value. Whether one size is another divided by
a third is a question about expressions: names are followed to the one assignment that binds them,
sums are compared term by term, and small functions such as ``ceildiv`` are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.dotted_paths import dotted
from embercoach.analysis.syntax.trees import children, target_names
from embercoach.analysis.values.lattice import Number
from embercoach.metal.numerals import whole_number

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, Visit
    from embercoach.analysis.project.module import Module

Key = Hashable
#: A sum: how often each term is in it; the constant stands under None.
Sum = dict[Key, int]
MAX_DEPTH = 8
#: Characters of an integer that is computed with. Python refuses to convert thousands of digits.
_LONGEST_NUMBER = 100


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """An expression, or a function, and the scope that its names belong to."""

    node: cst.CSTNode
    scope: Scope


class Scope:
    """What the names of a function or module are bound to, where one assignment binds them."""

    def __init__(self, outer: Scope | None, module: Module) -> None:
        self.outer = outer
        self.module = module
        self.bindings: dict[str, Size | None] = {}

    def bind(self, name: str, node: cst.CSTNode | None) -> None:
        """Note an assignment; a second one, or one of something unknown, hides the first."""
        known = node is not None and name not in self.bindings
        self.bindings[name] = Size(node, self) if known and node is not None else None

    def find(self, name: str) -> tuple[Scope, Size | None] | None:
        """The scope that binds a name, and to what, if that is one expression."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope, scope.bindings[name]
            scope = scope.outer
        return None


@lru_cache(maxsize=4)
def scope_of(module: Module, function: FunctionInfo | None) -> Scope:
    """The scope of a function's body, within those around it."""
    if function is None:
        scope = Scope(None, module)
        _bind_all(scope, module.tree)
        return scope
    scope = Scope(scope_of(module, function.outer), module)
    for parameter in function.parameters:
        scope.bind(parameter.name, None)
    _bind_all(scope, function.node.body)
    return scope


def bound_in(function: FunctionInfo) -> frozenset[str]:
    """The names that a function's body binds, parameters that it binds anew among them."""
    scope = Scope(None, function.module)
    _bind_all(scope, function.node.body)
    return frozenset(scope.bindings)


def scope_at(fact: CallFact, module: Module) -> Scope:
    """The scope of a call's arguments; for one visit of a function, what that passes is known."""
    if fact.visit is None:
        return scope_of(module, fact.place.function)
    return _visited(fact.visit, module)


@lru_cache(maxsize=32)
def _visited(visit: Visit, module: Module) -> Scope:
    """The scope of a function's body in one call of it."""
    info, outer = visit.function, visit.outer
    beside = outer is not None and outer.function is info.outer
    around = _visited(outer, module) if outer and beside else scope_of(module, info.outer)
    caller = _visited(outer, module) if outer else scope_of(module, visit.place.function)
    scope = Scope(around, module)
    _bind_all(scope, info.node.body)
    passed = passed_by(visit)
    for parameter in info.parameters:
        name, node = parameter.name, passed.get(parameter.name)
        if name in scope.bindings or parameter.star:
            scope.bindings[name] = None
        elif node is not None:
            scope.bindings[name] = Size(node, caller)
        else:
            default = parameter.default
            scope.bindings[name] = None if default is None else Size(default, around)
    return scope


def passed_by(visit: Visit) -> dict[str, cst.CSTNode]:
    """The expressions that a call passes for parameters, by their names."""
    names = [p.name for p in visit.function.parameters if not p.star and not p.keyword_only]
    if visit.bound is not None:
        names = names[1:]
    placed = [a.node for a in visit.arguments if a.keyword is None]
    found: dict[str, cst.CSTNode] = dict(zip(names, placed, strict=False))
    for argument in visit.arguments:
        if argument.keyword is not None:
            found[argument.keyword] = argument.node
    return found


def _bind_all(scope: Scope, root: cst.CSTNode) -> None:
    """Bind every name that is assigned below a node, definitions' own names left out."""
    elsewhere: set[str] = set()
    # Expressions bind names by ``:=`` alone, and walking them all takes its time.
    parts = children if ":=" in scope.module.source else _statements_in
    pending: list[cst.CSTNode] = [root]
    while pending:
        node = pending.pop()
        if type(node) is cst.Global or type(node) is cst.Nonlocal:
            elsewhere.update(item.name.value for item in node.names)
        elif type(node) is cst.FunctionDef:
            scope.bind(node.name.value, node)
            continue
        elif type(node) is cst.ClassDef:
            scope.bind(node.name.value, None)
            continue
        elif type(node) in _SCOPES:
            continue
        else:
            for name, value in _bound_by(node):
                scope.bind(name, value)
        pending.extend(reversed(parts(node)))
    for name in elsewhere:
        scope.bindings.pop(name, None)


#: Expressions with names of their own.
_SCOPES = frozenset((cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp))


def _statements_in(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """What a node holds, expressions left out."""
    if isinstance(node, cst.MatchPattern):
        return children(node)
    found: list[cst.CSTNode] = []
    for field in _FIELDS:
        held = getattr(node, field, ())
        found.extend((held,) if isinstance(held, cst.CSTNode) else held or ())
    return [n for n in found if not isinstance(n, cst.BaseExpression)]


_FIELDS = (
    *("items", "names", "asname", "name", "body"),
    *("handlers", "cases", "pattern", "orelse", "finalbody"),
)


_BINDERS = frozenset(
    (
        *(cst.Assign, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For, cst.CompFor),
        *(cst.AsName, cst.ImportAlias, cst.MatchAs, cst.MatchStar),
    )
)


def _bound_by(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode | None]]:
    """The names that one node binds, and to which expression, None for anything else."""
    if type(node) not in _BINDERS:
        return
    if isinstance(node, cst.Assign):
        for target in node.targets:
            yield from _assigned(target.target, node.value)
    elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
        if node.value is not None:
            yield from _assigned(node.target, node.value)
    elif isinstance(node, (cst.AugAssign, cst.For, cst.CompFor)):
        yield from _assigned(node.target, None)
    elif isinstance(node, cst.AsName):
        yield from _assigned(node.name, None)
    elif isinstance(node, cst.ImportAlias) and node.asname is None:
        name = dotted(node.name)
        if name is not None:
            yield name.partition(".")[0], None
    elif isinstance(node, (cst.MatchAs, cst.MatchStar)) and node.name is not None:
        yield node.name.value, None


def _assigned(
    target: cst.CSTNode, value: cst.CSTNode | None
) -> Iterator[tuple[str, cst.CSTNode | None]]:
    if isinstance(target, cst.Name):
        yield target.value, value
    elif isinstance(target, (cst.Tuple, cst.List)):
        parts = display(value)
        if parts is not None and len(parts) == len(target.elements):
            for element, part in zip(target.elements, parts, strict=True):
                yield from _assigned(element.value, part)
        elif value is None or any(isinstance(e, cst.StarredElement) for e in target.elements):
            yield from ((name, None) for name in target_names(target))
        else:
            # ``rows, columns = x.shape`` binds x.shape[0] and x.shape[1].
            for index, element in enumerate(target.elements):
                yield from _assigned(element.value, _item(value, index))


def _item(value: cst.CSTNode, index: int) -> cst.Subscript:
    assert isinstance(value, cst.BaseExpression)
    at = cst.SubscriptElement(cst.Index(cst.Integer(str(index))))
    return cst.Subscript(value=value, slice=[at])


def display(node: cst.CSTNode | None) -> list[cst.BaseExpression] | None:
    """The items of a list or tuple as written, None for anything else."""
    if not isinstance(node, (cst.Tuple, cst.List)):
        return None
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        return None
    return [element.value for element in node.elements]


def resolve_name(size: Size) -> Size:
    """The expression behind names."""
    for _ in range(MAX_DEPTH):
        if not isinstance(size.node, cst.Name):
            break
        found = size.scope.find(size.node.value)
        if found is None or found[1] is None:
            break
        size = found[1]
    return size


def resolve(size: Size) -> Size:
    """The expression behind names and ``int(...)``."""
    for _ in range(MAX_DEPTH):
        size = resolve_name(size)
        node = size.node
        if not (isinstance(node, cst.Call) and called(node, size) == "int"):
            break
        if len(node.args) != 1:
            break
        size = Size(node.args[0].value, size.scope)
    return size


def called(node: cst.Call, size: Size) -> str | None:
    """The name of what is called, if no assignment of the file stands for it."""
    name = dotted(node.func)
    if name is None:
        return None
    found = size.scope.find(name.partition(".")[0])
    return name if found is None or found[1] is None else None


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are surely equal."""
    return key(a) == key(b)


def constant(size: Size) -> int | None:
    """The number that a size is, None if it is not known."""
    terms = linear(size)
    return terms.get(None, 0) if terms.keys() <= {None} else None


def key(size: Size, depth: int = MAX_DEPTH) -> Key:
    """Equal keys mean equal sizes."""
    terms = linear(size, depth)
    if len(terms) == 1:
        ((term, times),) = terms.items()
        if term is not None and times == 1:
            return term
    return ("sum", frozenset(terms.items()))


def linear(size: Size, depth: int = MAX_DEPTH) -> Sum:
    """A size as a sum of terms."""
    size = resolve(size)
    node, scope = size.node, size.scope
    if depth == 0:
        return {("node", id(node)): 1}
    if isinstance(node, cst.Integer) and len(node.value) <= _LONGEST_NUMBER:
        return _without_zeros({None: int(node.value, 0)})
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return _scaled(linear(Size(node.expression, scope), depth - 1), -1)
    if isinstance(node, cst.BinaryOperation) and type(node.operator) in _TERMWISE:
        left = linear(Size(node.left, scope), depth - 1)
        right = linear(Size(node.right, scope), depth - 1)
        return _TERMWISE[type(node.operator)](left, right)
    known = _known_number(size)
    if known is not None:
        return _without_zeros({None: known})
    return {_term(size, depth - 1): 1}


def _known_number(size: Size) -> int | None:
    """The constant that an imported name, or one of the module, is known to hold."""
    if not isinstance(size.node, cst.Name):
        return None
    found = size.scope.find(size.node.value)
    if found is None or found[0].outer is not None:
        return None
    value = size.scope.module.frame.names.get(size.node.value)
    if isinstance(value, Number) and type(value.const) is int:
        return value.const
    return None


def multiplied(left: Sum, right: Sum) -> Sum:
    """The product of two sums; of two that are no numbers it is one term."""
    for number, other in ((left, right), (right, left)):
        if number.keys() <= {None}:
            return _scaled(other, number.get(None, 0))
    factors = sorted(repr(sorted(map(repr, s.items()))) for s in (left, right))
    return {("product", *factors): 1}


_TERMWISE: dict[type, Callable[[Sum, Sum], Sum]] = {
    cst.Add: lambda left, right: added(left, right, 1),
    cst.Subtract: lambda left, right: added(left, right, -1),
    cst.Multiply: multiplied,
}


def _scaled(terms: Sum, times: int) -> Sum:
    return _without_zeros({term: n * times for term, n in terms.items()})


def added(left: Sum, right: Sum, sign: int) -> Sum:
    """The sum of two sums, or with ``sign`` -1 their difference."""
    total = dict(left)
    for term, times in right.items():
        total[term] = total.get(term, 0) + sign * times
    return _without_zeros(total)


def _without_zeros(terms: Sum) -> Sum:
    return {term: times for term, times in terms.items() if times}


def _term(size: Size, depth: int) -> Key:
    """A key for an expression that is no sum."""
    node, scope = size.node, size.scope
    if isinstance(node, cst.Name):
        found = scope.find(node.value)
        return ("name", node.value, None if found is None else id(found[0]))
    if isinstance(node, cst.Attribute):
        return ("attribute", key(Size(node.value, scope), depth), node.attr.value)
    if isinstance(node, cst.BinaryOperation):
        sides = (key(Size(node.left, scope), depth), key(Size(node.right, scope), depth))
        return ("operation", type(node.operator).__name__, *sides)
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if isinstance(index, cst.Index):
            return (
                "item",
                key(Size(node.value, scope), depth),
                key(Size(index.value, scope), depth),
            )
    if isinstance(node, cst.Call) and not any(a.star for a in node.args):
        arguments = tuple(
            (a.keyword.value if a.keyword else "", key(Size(a.value, scope), depth))
            for a in node.args
        )
        return ("call", key(Size(node.func, scope), depth), arguments)
    return ("node", id(node))


def number(text: str) -> int | None:
    """The value of an integer literal of Metal, such as ``32u``; None for other text."""
    digits = text.strip().strip("()").rstrip("uUlL")
    return whole_number(digits) if digits.isascii() and digits.isdecimal() else None
