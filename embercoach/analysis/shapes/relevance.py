"""Which functions of a file may compute with arrays or sizes; others are not run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from embercoach.analysis.shapes.attributes import ARRAY_MEMBERS

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import SourceFile
    from embercoach.analysis.shapes.python_values import FunctionValue

#: A function of so few nodes is always run: it may compute a size.
SMALL = 80

_known: WeakKeyDictionary[ast.Module, frozenset[ast.AST]] = WeakKeyDictionary()


def is_relevant(function: FunctionValue) -> bool:
    """Return whether a function, or what it names, computes with MLX, or is a layer's or small."""
    if function.name == "__call__" and function.cls is not None:
        return True
    file: SourceFile = function.frame.module
    found = _known.get(file.tree)
    if found is None:
        found = _known[file.tree] = _relevant(file.tree)
    return function.node in found or isinstance(function.node, ast.Lambda)


class _Scope(Struct, eq=False):
    """A function or class: the names and attributes in it, and the number of its nodes."""

    node: ast.AST
    outer: _Scope | None
    words: set[str] = field(default_factory=set)
    size: int = 0


def _relevant(tree: ast.Module) -> frozenset[ast.AST]:
    scopes, names = _scopes(tree)
    names |= ARRAY_MEMBERS
    functions = [one for one in scopes if not isinstance(one.node, ast.ClassDef)]
    found = {one.node for one in functions if one.size <= SMALL}
    left = functions
    # What names a function that computes with MLX does so as well.
    while True:
        more = [one for one in left if not names.isdisjoint(one.words)]
        if not more:
            return frozenset(found)
        left = [one for one in left if names.isdisjoint(one.words)]
        for one in more:
            found.add(one.node)
            assert isinstance(one.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if one.outer is not None and isinstance(one.outer.node, ast.ClassDef):
                names.add(one.outer.node.name)
                if one.node.name.startswith("__"):
                    continue
            names.add(one.node.name)


def _scopes(tree: ast.Module) -> tuple[list[_Scope], set[str]]:
    """The functions and classes of a file, and the names that it imports from MLX."""
    whole = _Scope(tree, None)
    scopes: list[_Scope] = []
    imported: set[str] = set()
    pending: list[tuple[ast.AST, _Scope]] = [(tree, whole)]
    while pending:
        node, scope = pending.pop()
        scope.size += 1
        kind = type(node)
        if kind is ast.Name:
            scope.words.add(node.id)  # type: ignore[attr-defined]
            continue
        if kind is ast.Constant:
            continue
        if kind is ast.Attribute:
            scope.words.add(node.attr)  # type: ignore[attr-defined]
            pending.append((node.value, scope))  # type: ignore[attr-defined]
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign)):
            imported.update(_imported(node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = _Scope(node, scope)
            scopes.append(scope)
        for value in vars(node).values():
            if type(value) is list:
                pending += [(one, scope) for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                pending.append((value, scope))
    for one in reversed(scopes):
        if one.outer is not None:
            one.outer.words |= one.words
            one.outer.size += one.size
    return scopes, imported


def _imported(node: ast.Import | ast.ImportFrom | ast.Assign) -> list[str]:
    """The names that an import binds to modules or names of MLX, or an assignment to modules."""
    if isinstance(node, ast.Assign):
        targets = node.targets if _imports(node.value) else []
        return [one.id for one in targets if isinstance(one, ast.Name)]
    if isinstance(node, ast.ImportFrom):
        is_mlx = (node.module or "").partition(".")[0] in ("mlx", "mlx_lm")
        return [alias.asname or alias.name for alias in node.names] if is_mlx else []
    parts = [(alias.name.partition(".")[0], alias.asname) for alias in node.names]
    return [name or first for first, name in parts if first == "mlx"]


def _imports(node: ast.expr) -> bool:
    """``pytest.importorskip("mlx.core")``."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in ("importorskip", "import_module")
