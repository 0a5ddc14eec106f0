"""Imports at run time: no cycles, and packages in layers."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "embercoach").rglob("*.py")
}
#: The packages of a large package, from the bottom: a module imports its own layer and those below.
#: Modules beside the packages may be imported by all, but for those named at the top.
LAYERS: dict[str, tuple[set[str], ...]] = {
    "embercoach.analysis": (
        {"mlx_api", "syntax"},
        {"values"},
        {"facts"},
        {"sizes"},
        {"evaluate", "calls", "gradients"},
        {"project"},
    ),
    "embercoach.checks": ({"programs"}, {"arrays", "launch", "contract", "body", "torch"}),
    "embercoach.metal": (
        {"preprocessor"},
        {"program"},
        {"written"},
        {"execution"},
        {"inspections"},
        {"porting"},
    ),
    "embercoach.simulator": (
        {"profile"},
        {"rewrite"},
        {"reporting"},
        {"build"},
        {"process"},
        {"session"},
    ),
    "embercoach.cli": ({"simulate", "trace"}, {"commands"}),
}


def runtime_imports(tree: ast.AST, within: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the imports that are executed, and whether a function holds them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from runtime_imports(other, within)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield node, within
        else:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from runtime_imports(node, within or function)


def modules_named(node: ast.stmt) -> Iterator[str]:
    """Yield the modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in FILES)
    elif isinstance(node, ast.ImportFrom) and node.module in FILES:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in FILES else node.module


@cache
def graph() -> dict[str, set[str]]:
    """Return which modules each module imports, in functions too."""
    return {
        name: {
            target
            for node, _ in runtime_imports(ast.parse(path.read_text(encoding="utf-8")))
            for target in modules_named(node)
        }
        - {name}
        for name, path in FILES.items()
    }


def upward(package: str) -> list[str]:
    """Return the imports within a package that lead to a higher layer."""
    level = {name: at for at, names in enumerate(LAYERS[package]) for name in names}
    found = []
    for name, targets in graph().items():
        own = level.get(layer_of(name, package))
        for target in targets:
            to = level.get(layer_of(target, package))
            if own is not None and to is not None and to > own:
                found.append(f"{name} imports {target}")
    return sorted(found)


def layer_of(name: str, package: str) -> str:
    """Return the part of a module's name after the package's, empty outside it."""
    return name.removeprefix(f"{package}.").partition(".")[0] if name.startswith(package) else ""


def test_no_modules_import_each_other() -> None:
    assert len(FILES) > 300
    try:
        tuple(TopologicalSorter(graph()).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", LAYERS)
def test_packages_form_layers(package: str) -> None:
    named = {name for names in LAYERS[package] for name in names}
    assert named == {
        folder.parent.name for folder in (ROOT / package.replace(".", "/")).glob("*/__init__.py")
    }
    assert upward(package) == []


def test_no_file_name_is_used_twice() -> None:
    names = [path.name for path in FILES.values() if path.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_folder_holds_more_than_twenty_modules() -> None:
    folders = {path.parent for path in FILES.values()}
    counts = {
        folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) for folder in folders
    }
    assert {folder: count for folder, count in counts.items() if count > 21} == {}
