"""Which functions of a file may compute with arrays or sizes; others are not run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from embercoach.analysis.shapes.attributes import ARRAY_MEMBERS

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import SourceFile
    from embercoach.analysis.shapes.python_values import FunctionValue

#: A function of so few nodes is always run: it may compute a size.
SMALL = 80

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_known: WeakKeyDictionary[ast.Module, frozenset[ast.AST]] = WeakKeyDictionary()


def is_relevant(function: FunctionValue) -> bool:
    """Return whether a function, or what it names, computes with MLX, or is small."""
    file: SourceFile = function.frame.module
    found = _known.get(file.tree)
    if found is None:
        found = _known[file.tree] = _relevant(file.tree)
    return function.node in found or isinstance(function.node, ast.Lambda)


def _relevant(tree: ast.Module) -> frozenset[ast.AST]:
    words: dict[ast.AST, set[str]] = {}
    small: set[ast.AST] = set()
    names: set[str] = set(ARRAY_MEMBERS)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            words[node], size = _words(node)
            if size <= SMALL:
                small.add(node)
        elif isinstance(node, ast.Import):
            names.update(
                alias.asname or alias.name.partition(".")[0]
                for alias in node.names
                if alias.name.partition(".")[0] == "mlx"
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
            "mlx",
            "mlx_lm",
        ):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign) and _imports(node.value):
            names.update(one.id for one in node.targets if isinstance(one, ast.Name))
    found: set[ast.AST] = set()
    # What names a function that computes with MLX does so as well.
    classes = {
        member: node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for member in node.body
    }
    while True:
        more = {node for node, held in words.items() if node not in found and held & names}
        if not more:
            return frozenset(found | small)
        found |= more
        for node in more:
            assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            names.add(classes.get(node, node.name))
            if not node.name.startswith("__"):
                names.add(node.name)


def _imports(node: ast.expr) -> bool:
    """``pytest.importorskip("mlx.core")``."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in ("importorskip", "import_module")


def _words(function: ast.AST) -> tuple[set[str], int]:
    words: set[str] = set()
    size = 0
    for node in ast.walk(function):
        size += 1
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
    return words, size
