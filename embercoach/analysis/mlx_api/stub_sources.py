"""Reads an installed MLX's stubs and Python sources, by path and without importing them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from embercoach.analysis.mlx_api.modules import (
    Names,
    exports_of,
    public_homes,
    python_trees,
    resolve_names,
)
from embercoach.analysis.mlx_api.result_expressions import UNKNOWN, Result, union_of
from embercoach.analysis.mlx_api.stub_annotations import last_name, result_of
from embercoach.analysis.mlx_api.stub_signatures import (
    RawEntry,
    class_entries,
    merge_overloads,
    read_callable,
    self_assignments,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STUBS = ("__init__", "cuda", "distributed", "fast", "fft", "linalg", "metal", "random")
_LAYER_DUNDERS = frozenset({"__call__"})


@dataclass(slots=True)
class StubSources:
    """Declarations of MLX's files.

    `entries` by qualified name; `aliases` of stub modules (`mlx.core.acos` of `mlx.core.arccos`);
    `exports`: for each Python module, the names it has from elsewhere.
    """

    entries: dict[str, RawEntry] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    exports: Names = field(default_factory=dict)


def read_sources(root: Path) -> StubSources:
    """Read the package installed at `root`; raises `FileNotFoundError` where files are missing."""
    sources = StubSources()
    for stub in STUBS:
        module = "mlx.core" if stub == "__init__" else f"mlx.core.{stub}"
        tree = ast.parse((root / "core" / f"{stub}.pyi").read_text("utf-8"))
        _StubReader(sources, module, tree).read()
    trees = python_trees(root)
    names = resolve_names(trees)
    homes = public_homes(names)
    hidden = {
        f"{module}.{node.name}": node
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name.startswith("_")
    }
    for module, tree in trees.items():
        sources.entries[module] = RawEntry("module")
        _PythonReader(sources, module, names[module], homes, hidden).read(tree)
    sources.exports = exports_of(names, homes)
    return sources


class _StubReader:
    """Reads one `.pyi` module of `mlx.core`."""

    def __init__(self, sources: StubSources, module: str, tree: ast.Module) -> None:
        self.entries = sources.entries
        self.aliases = sources.aliases
        self.module = module
        self.tree = tree
        self.classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}

    def read(self) -> None:
        self.entries[self.module] = RawEntry("module")
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                entry = read_callable(node, self.resolve)
                known = self.entries.get(f"{self.module}.{node.name}")
                entry = merge_overloads(known, entry) if known else entry
                self.entries[f"{self.module}.{node.name}"] = entry
            elif isinstance(node, ast.ClassDef) and not _is_hidden(node):
                self.read_class(node)
            elif isinstance(node, ast.AnnAssign) and last_name(node.annotation) != "TypeAlias":
                result = result_of(node.annotation, self.resolve)
                kind = "dtype" if result == Result("dtype") else "constant"
                self.entries[f"{self.module}.{last_name(node.target)}"] = RawEntry(kind, result)
            elif isinstance(node, ast.Assign) and last_name(node.value):
                target = ast.unparse(node.value).replace("linalg.", "mlx.core.linalg.")
                target = target if target.startswith("mlx.") else f"{self.module}.{target}"
                self.aliases[f"{self.module}.{last_name(node.targets[0])}"] = target

    def resolve(self, name: str) -> str | None:
        """A stub's class name as a qualified name; those of `mlx.core` are known everywhere."""
        if name in self.classes:
            return f"{self.module}.{name}"
        return f"mlx.core.{name}" if f"mlx.core.{name}" in self.entries else None

    def read_class(self, node: ast.ClassDef) -> None:
        qualname = f"{self.module}.{node.name}"
        self.entries.update(class_entries(node, qualname, self.resolve))
        for member in node.body:  # an enum's members
            if isinstance(member, ast.Assign):
                constant = RawEntry("constant", Result("instance", target=qualname))
                self.entries[f"{qualname}.{last_name(member.targets[0])}"] = constant


class _PythonReader:
    """Reads one `.py` module of `mlx.nn`, `mlx.optimizers` or `mlx.utils`."""

    def __init__(
        self,
        sources: StubSources,
        module: str,
        names: dict[str, str],
        homes: dict[str, str],
        hidden: dict[str, ast.ClassDef],
    ) -> None:
        self.entries = sources.entries
        self.module = module
        self.names = names
        self.homes = homes
        self.hidden = hidden

    def read(self, tree: ast.Module) -> None:
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name[0] == "_":
                continue
            qualname = self.homes.get(f"{self.module}.{node.name}", f"{self.module}.{node.name}")
            if isinstance(node, ast.ClassDef):
                self.read_class(node, qualname)
            else:
                self.entries[qualname] = read_callable(node, self.resolve)

    def resolve(self, name: str) -> str | None:
        """A name of this module as the qualified name under which users find it."""
        target = self.names.get(name)
        return self.homes.get(target, target) if target else None

    def read_class(self, node: ast.ClassDef, qualname: str) -> None:
        public, hidden = self.split_bases(node)
        for parent in [node, *hidden]:  # what hidden bases define is the public class's own
            members = class_entries(parent, qualname, self.resolve, dunders=_LAYER_DUNDERS)
            for name, result in self.attributes(parent):
                members.setdefault(f"{qualname}.{name}", RawEntry("property", result))
            for name, entry in members.items():
                self.entries.setdefault(name, entry)
        self.entries[qualname].bases = public

    def split_bases(self, node: ast.ClassDef) -> tuple[list[str], list[ast.ClassDef]]:
        """The nearest public bases, and the hidden classes passed on the way to them."""
        public: list[str] = []
        hidden: list[ast.ClassDef] = []
        for base in node.bases:
            target = self.names.get(last_name(base), "")
            if target in self.hidden:
                further, deeper = self.split_bases(self.hidden[target])
                public += further
                hidden += [self.hidden[target], *deeper]
            elif target:
                public.append(self.homes.get(target, target))
        return public, hidden

    def attributes(self, node: ast.ClassDef) -> Iterator[tuple[str, Result]]:
        """Attributes whose type `__init__` shows: calls of MLX, typed parameters, constants."""
        found: dict[str, list[Result]] = {}
        for name, value, method in self_assignments(node):
            rebound = {node.id for node in ast.walk(method) if _is_stored(node)}
            args = [arg for arg in method.args.args if arg.arg not in rebound]
            types = {arg.arg: arg.annotation for arg in args}
            found.setdefault(name, []).append(self.value_of(value, types))
        for name, results in found.items():
            result = union_of(results)
            if result != UNKNOWN and not name.startswith("_"):
                yield name, result

    def value_of(self, value: ast.expr, types: dict[str, ast.expr | None]) -> Result:
        if isinstance(value, ast.IfExp):
            branches = (value.body, value.orelse)
            return union_of([self.value_of(branch, types) for branch in branches])
        if isinstance(value, ast.Name):
            return result_of(types.get(value.id), self.resolve)
        if isinstance(value, ast.Constant):
            kind = "None" if value.value is None else type(value.value).__name__
            return result_of(ast.Name(kind), self.resolve)
        if not isinstance(value, ast.Call):
            return UNKNOWN
        if isinstance(value.func, ast.Name):
            target = self.resolve(value.func.id)
            return Result("instance", target=target) if target else UNKNOWN
        name = ast.unparse(value.func)
        entry = self.entries.get(name.replace("mx.", "mlx.core.", 1))
        return entry.returns if entry else UNKNOWN


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_hidden(node: ast.ClassDef) -> bool:
    return any(last_name(base) == "Protocol" for base in node.bases)
