"""Where MLX's packages define each name: imports, star imports, re-exports."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Names = dict[str, dict[str, str]]  # module -> name in it -> where that is defined

_HOMES = ("mlx.nn", "mlx.optimizers")  # users find here what these packages define deeper
_STAR_DEPTH = 4  # star imports reach through fewer modules than this


def python_trees(root: Path) -> dict[str, ast.Module]:
    """The parsed modules of `mlx.nn`, `mlx.optimizers` and `mlx.utils` by module name."""
    paths = [*root.glob("nn/**/*.py"), *root.glob("optimizers/*.py"), root / "utils.py"]
    trees = {}
    for path in sorted(paths):
        parts = path.relative_to(root).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        trees[".".join(("mlx", *parts))] = ast.parse(path.read_text("utf-8"))
    return trees


def resolve_names(trees: dict[str, ast.Module]) -> Names:
    """Every name of every module that is defined in one of them, or is one of them."""
    names = {module: dict(_definitions(module, tree)) for module, tree in trees.items()}
    for _ in range(_STAR_DEPTH):
        for module, tree in trees.items():
            names[module].update(_imports(module, tree, names))
    return names


def public_homes(names: Names) -> dict[str, str]:
    """`mlx.nn.layers.linear.Linear` -> `mlx.nn.Linear`, for all that is re-exported upwards."""
    return {
        target: f"{home}.{name}"
        for home in _HOMES
        for name, target in names[home].items()
        if target.startswith(f"{home}.") and target not in names
    }


def exports_of(names: Names, homes: dict[str, str]) -> Names:
    """Return each module's public names that are defined elsewhere, and where."""
    exports: Names = {}
    for module, known in names.items():
        for name, target in known.items():
            home = homes.get(target, target)
            if not name.startswith("_") and home != f"{module}.{name}":
                exports.setdefault(module, {})[name] = home
    return exports


def _definitions(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, f"{module}.{node.name}"


def _imports(module: str, tree: ast.Module, names: Names) -> dict[str, str]:
    prefix = f"{module}."
    children = [name for name in names if name.startswith(prefix)]
    found = {name[len(prefix) :]: name for name in children if "." not in name[len(prefix) :]}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.update(
                {i.asname: i.name for i in node.names if i.asname and i.name[:4] == "mlx."}
            )
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(node, module, is_package=bool(children))
            for item in node.names:
                found.update(_imported(origin, item, names))
    return found


def _imported(origin: str, item: ast.alias, names: Names) -> dict[str, str]:
    known = names.get(origin, {})
    if item.name == "*":
        return {name: target for name, target in known.items() if not name.startswith("_")}
    submodule = f"{origin}.{item.name}"
    target = submodule if submodule in names else known.get(item.name)
    return {item.asname or item.name: target} if target else {}


def _origin(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])
