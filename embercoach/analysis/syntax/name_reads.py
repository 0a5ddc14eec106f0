"""The names that a file reads, each with the binding before it, in the order of the text."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict

from msgspec import Struct, field

#: A line from 1 and a column from 0, in UTF-8 bytes as ``ast`` counts.
Place = tuple[int, int]


class NameRead(Struct, frozen=True):
    """A name that is read: its place, the column after it, and the place where it is bound."""

    place: Place
    end_column: int
    binding: Place


class _Scope(Struct):
    """A function, a class, a module, or a comprehension, which sees its function's names.

    ``bound`` has, by name, where each of its bindings takes effect, and the place of the binding.
    """

    outer: _Scope | None = None
    bound: dict[str, list[tuple[Place, Place]]] = field(default_factory=lambda: defaultdict(list))
    foreign: set[str] = field(default_factory=set)

    def binding(self, name: str, place: Place) -> Place | None:
        """Return the place of a name's last binding before a place; None without one."""
        if name in self.foreign:
            return None
        if name not in self.bound:
            return None if self.outer is None else self.outer.binding(name, place)
        known = self.bound[name]
        at = bisect_right(known, place, key=lambda one: one[0])
        return known[at - 1][1] if at else None


_Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIMPLE = (
    ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Expr, ast.Return, ast.Raise,
    ast.Assert, ast.Import, ast.ImportFrom,
)  # fmt: skip


class _Names:
    """The names of a file, collected without recursion: an expression may nest deeply."""

    def __init__(self) -> None:
        self.reads: list[tuple[ast.Name, _Scope]] = []
        #: Nodes to look at: their scope, and where what they bind takes effect.
        self._todo: list[tuple[ast.AST, _Scope, Place]] = []

    def collect(self, tree: ast.Module) -> None:
        scope = _Scope()
        self._todo.append((tree, scope, (0, 0)))
        scopes = [scope]
        while self._todo:
            node, scope, effect = self._todo.pop()
            if isinstance(node, _BLOCKS):
                scopes.append(self._block(node, scope, effect))
            elif isinstance(node, _COMPREHENSIONS):
                scopes.append(inner := _Scope(outer=scope))
                first = node.generators[0]  # what it iterates over is outside
                self._todo.append((first.iter, scope, effect))
                self._todo.append((first.target, inner, (0, 0)))
                parts = [*ast.iter_child_nodes(node), *first.ifs]
                self._todo.extend((one, inner, effect) for one in parts if one is not first)
            else:
                self._visit(node, scope, effect)
        for scope in scopes:
            for places in scope.bound.values():
                places.sort()

    def _block(self, node: _Block, scope: _Scope, effect: Place) -> _Scope:
        """Return a function or a class: decorators and defaults belong to the scope around it."""
        inner = _Scope()
        start = _start(node)
        if not isinstance(node, ast.Lambda):
            _bind(scope, node.name, start, start)
        body = (
            {id(node.args), id(node.body)}
            if isinstance(node, ast.Lambda)
            else {*map(id, node.body)}
        )
        for child in ast.iter_child_nodes(node):
            self._todo.append((child, inner if id(child) in body else scope, effect))
        if not isinstance(node, ast.ClassDef):
            arguments = node.args
            given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            for one in (*given, arguments.vararg, arguments.kwarg):
                if one is not None:
                    _bind(inner, one.arg, start, _start(one))
        return inner

    def _visit(self, node: ast.AST, scope: _Scope, effect: Place) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self.reads.append((node, scope))
            else:
                _bind(scope, node.id, effect, _start(node))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            scope.foreign.update(node.names)
        elif isinstance(node, ast.alias):
            _bind(scope, (node.asname or node.name).partition(".")[0], effect, _start(node))
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            _bind(scope, node.name, _start(node), _start(node))
        elif isinstance(node, ast.MatchMapping) and node.rest:
            _bind(scope, node.rest, _start(node), _start(node))
        self._children(node, scope, effect)

    def _children(self, node: ast.AST, scope: _Scope, effect: Place) -> None:
        """Go on with the parts of a node; a target is bound after what is assigned to it."""
        if isinstance(node, ast.NamedExpr):
            function = scope
            while function.outer is not None:
                function = function.outer
            self._todo.append((node.target, function, _end(node)))
            self._todo.append((node.value, scope, effect))
            return
        if isinstance(node, _SIMPLE):
            effect = _end(node)
        elif isinstance(node, ast.For | ast.AsyncFor):
            effect = _end(node.iter)
        elif isinstance(node, ast.withitem):
            effect = _end(node.context_expr)
        elif isinstance(node, ast.comprehension):
            effect = (0, 0)
        self._add(node, scope, effect)

    def _add(self, node: ast.AST, scope: _Scope, effect: Place) -> None:
        self._todo.extend((child, scope, effect) for child in ast.iter_child_nodes(node))


def name_reads(tree: ast.Module) -> list[NameRead]:
    """Return the reads of a file's names that the same function binds before, by their places."""
    names = _Names()
    names.collect(tree)
    found = []
    for node, scope in names.reads:
        place = _start(node)
        binding = scope.binding(node.id, place)
        if binding is not None:
            found.append(NameRead(place, node.end_col_offset or 0, binding))
    return sorted(found, key=lambda one: one.place)


def _bind(scope: _Scope, name: str, effect: Place, place: Place) -> None:
    scope.bound[name].append((effect, place))


def _start(node: ast.AST) -> Place:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _end(node: ast.stmt | ast.expr) -> Place:
    return node.end_lineno or 0, node.end_col_offset or 0
