"""Cheap guesses, from syntax alone, of how likely an expression is to hold an MLX array.

They only balance the sample between likely and unlikely sites; no label rests on them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

# `direct`: calls into mlx; `assigned`: names assigned from such; `reduced`: calls a reducing
# method; `passed`: names handed to mlx elsewhere; `pulled`: passes a pull; `meta`: shapes and such.
HINTS = ("direct", "assigned", "passed", "reduced", "pulled", "none", "meta")

CASTS = frozenset({"float", "int", "bool", "complex"})
METADATA = frozenset({"shape", "ndim", "size", "dtype", "nbytes", "itemsize"})
HOST_QUESTIONS = frozenset(
    {
        "len",
        "is_available",
        "default_device",
        "rank",
        "init",
        "device_info",
        "get_active_memory",
        "get_peak_memory",
        "get_cache_memory",
        "hasattr",
        "isinstance",
    }
)
REDUCTIONS = frozenset(
    {"all", "any", "allclose", "array_equal", "max", "min", "sum", "mean", "isnan", "abs", "norm"}
)


@dataclass(slots=True)
class Names:
    """What the imports of a file call MLX, NumPy and PyTorch."""

    mlx: set[str] = field(default_factory=set)
    numpy: set[str] = field(default_factory=set)
    torch: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tree: ast.AST) -> Names:
        """Collect the names that any import statement of `tree` binds."""
        names = cls()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    names._add(alias.name, alias.asname or alias.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    names._add(node.module, alias.asname or alias.name)
        return names

    def _add(self, module: str, bound: str) -> None:
        root = module.partition(".")[0]
        if root in ("mlx", "numpy", "torch"):
            getattr(self, root).add(bound)


def rooted(node: ast.AST) -> str | None:
    """Return the name at the root of a dotted expression, `mx` for `mx.random.normal`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def mentioned(node: ast.AST) -> set[str]:
    """Return every plain or dotted name in `node`, `self.scale` as well as `self`."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute) and rooted(inner):
            found.add(ast.unparse(inner))
    return found


def calls_into(node: ast.AST, roots: set[str]) -> bool:
    """Tell whether `node` holds a call of something that lives under one of `roots`."""
    return any(
        isinstance(inner, ast.Call) and rooted(inner.func) in roots for inner in ast.walk(node)
    )


def called_name(call: ast.Call) -> str:
    """Return the last name of what `call` calls, `item` for `x.sum().item()`, else nothing."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


class Scope:
    """The likely arrays of one function or module body."""

    def __init__(self, body: ast.AST, names: Names) -> None:
        self.names = names
        self.assigned: set[str] = set()
        self.passed: set[str] = set()
        self._annotations(body)
        # Twice, so that a name assigned from a later likely array counts too.
        for _ in range(2):
            self._assignments(body)
        self._arguments(body)

    def _annotations(self, body: ast.AST) -> None:
        if isinstance(body, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for argument in (*body.args.posonlyargs, *body.args.args, *body.args.kwonlyargs):
                if argument.annotation and "array" in ast.unparse(argument.annotation):
                    self.assigned.add(argument.arg)

    def _assignments(self, body: ast.AST) -> None:
        for node in ast.walk(body):
            if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) or not node.value:
                continue
            if self.hint(node.value) in ("direct", "assigned"):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._bind(target)

    def _bind(self, target: ast.AST) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for inner in target.elts:
                self._bind(inner)
        elif isinstance(target, (ast.Name, ast.Attribute)):
            self.assigned.add(ast.unparse(target))

    def _arguments(self, body: ast.AST) -> None:
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and rooted(node.func) in self.names.mlx:
                for argument in node.args:
                    if isinstance(argument, (ast.Name, ast.Attribute)):
                        self.passed.add(ast.unparse(argument))

    def hint(self, node: ast.AST) -> str:
        """Return the one of `HINTS` that fits `node`."""
        called = {called_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
        metadata = any(
            isinstance(inner, ast.Attribute) and inner.attr in METADATA for inner in ast.walk(node)
        )
        if metadata or called & HOST_QUESTIONS:
            return "meta"
        if called & (CASTS | {"item", "tolist"}) or calls_into(node, self.names.numpy):
            return "pulled"
        if calls_into(node, self.names.mlx):
            return "direct"
        held = mentioned(node)
        if held & self.assigned:
            return "assigned"
        if _reduces(node):
            return "reduced"
        return "passed" if held & self.passed else "none"


def _reduces(node: ast.AST) -> bool:
    # A builtin max(...) says nothing; a method x.max() is an array's, whosever array it is.
    return any(
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr in REDUCTIONS
        for inner in ast.walk(node)
    )
