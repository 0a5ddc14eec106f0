"""Imports run one way through the packages, and starting the command loads little."""

from __future__ import annotations

import ast
import functools
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "embercoach"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
KERNELS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "xlstm_kernels").rglob("*.py"))
}
BOTTOM = {"files", "finding", "kernel_builder", "rulebook", "terminal_text", "toml"}
RUN = {"engine", "checks", "fixes", "notebooks", "config", "plugins"}
#: What a part of `embercoach` may import besides itself. A new part needs an entry.
MAY_IMPORT: dict[str, set[str]] = {
    "files": set(),
    "installation": set(),
    "finding": {"terminal_text"},
    "kernel_builder": set(),
    "terminal_text": set(),
    "user_program": set(),
    "toml": set(),
    "rulebook": {"finding", "toml"},
    "metal": set(),
    "analysis": {"metal", "files", "finding", "kernel_builder", "terminal_text"},
    "api": set(),
    "plugins": {"api", "files", "rulebook"},
    "checks": {"analysis", "metal", "plugins", "api", "fixes"} | BOTTOM,
    "fixes": BOTTOM,
    "notebooks": {"fixes", "finding"},
    "report": {"fixes", "notebooks", "metal"} | BOTTOM,
    "config": {"plugins"} | BOTTOM,
    "engine": {"analysis", "metal"} | RUN | BOTTOM,
    "simulator": {"metal", "config", "installation", "user_program"} | BOTTOM,
    "cuda": {"simulator", "metal", "files", "installation", "terminal_text", "user_program"},
    "trace": {"terminal_text", "user_program"},
    "server": {"report"} | RUN | BOTTOM,
    "cli": {"analysis", "metal", "report", "simulator", "cuda", "server", "trace", "installation"}
    | RUN
    | BOTTOM,
    "testing": {"api", "checks", "finding", "plugins", "rulebook"},
    "__main__": {"cli"},
    "": set(),
}
#: The layers of a large package, from the bottom: a module imports its own and those below, at run
#: time. Modules beside the folders may be imported by all.
LAYERS: dict[str, tuple[set[str], ...]] = {
    "embercoach.analysis": (
        {"mlx_api", "syntax"},
        {"values"},
        {"evaluate", "calls", "dataflow"},
        {"project"},
        {"shapes"},
    ),
    "embercoach.checks": ({"programs"}, {"arrays", "launch", "kernels"}),
    "embercoach.metal": ({"program"}, {"execution"}, {"porting"}),
    "embercoach.simulator": (
        {"profile"},
        {"rewrite"},
        {"reporting"},
        {"build"},
        {"session"},
    ),
    "embercoach.cli": ({"trace"}, {"commands"}),
}
#: Modules that write other than through `report.styled`: JSON, the package's own texts, and single
#: lines that are sanitized where they are written, before `report` is imported.
WRITERS = {
    "embercoach.cli.commands.completion",
    *("embercoach.cli.commands.config", "embercoach.cli.commands.dev", "embercoach.cli.entry"),
    *("embercoach.cli.commands.explain", "embercoach.cli.place", "embercoach.cli.commands.rules"),
    "embercoach.cli.commands.shapes",
    *("embercoach.cuda.cuda_kernel", "embercoach.cuda.cuda_program"),
    *("embercoach.simulator.session.options", "embercoach.trace.trace_session"),
    "embercoach.user_program",
}


@functools.cache
def read(name: str) -> tuple[dict[str, bool], set[str]]:
    """The modules that a module imports, whether at run time, and the functions it calls."""
    path = (MODULES | KERNELS)[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports: dict[str, bool] = {}
    calls: set[str] = set()
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), True)]
    while todo:
        node, runs = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in imported(node, package):
                imports[target] = runs or imports.get(target, False)
        if isinstance(node, ast.Call):
            calls.add(ast.unparse(node.func))
        types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        todo += [(child, runs and not types_only) for child in ast.iter_child_nodes(node)]
    imports.pop(name, None)
    return imports, calls


def imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """Yield the names that a statement imports: modules of this repository, or as written."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    parts = package.split(".")
    start = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join(filter(None, (*start, node.module)))
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        yield inner if inner in MODULES or inner in KERNELS else base


def part(name: str) -> str:
    """The part of `embercoach` that a module belongs to; empty for the package itself."""
    return (*name.split("."), "")[1]


def test_imports_run_downward() -> None:
    assert len(MODULES) > 300
    wrong = [
        f"{name} imports {target}"
        for name in MODULES
        for target in read(name)[0]
        if target.split(".")[0] == "xlstm_kernels"
        or (
            target.split(".")[0] == "embercoach"
            and part(target) not in MAY_IMPORT[part(name)] | {part(name), ""}
        )
    ]
    assert wrong == []
    others = {name: targets - {name} for name, targets in MAY_IMPORT.items()}
    assert tuple(TopologicalSorter(others).static_order())


def test_no_modules_import_each_other() -> None:
    graph = {
        name: {target for target, runs in read(name)[0].items() if runs and target in MODULES}
        for name in MODULES
    }
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("package", LAYERS)
def test_packages_form_layers(package: str) -> None:
    level = {name: at for at, names in enumerate(LAYERS[package]) for name in names}
    folders = (ROOT / package.replace(".", "/")).glob("*/__init__.py")
    assert level.keys() == {folder.parent.name for folder in folders}

    def layer(name: str) -> int | None:
        inside = name.startswith(f"{package}.")
        return level.get(name.removeprefix(f"{package}.").partition(".")[0]) if inside else None

    upward = [
        f"{name} imports {target}"
        for name in MODULES
        if (own := layer(name)) is not None
        for target, runs in read(name)[0].items()
        if runs and (to := layer(target)) is not None and to > own
    ]
    assert upward == []


def test_no_file_name_is_used_twice() -> None:
    names = [path.name for path in MODULES.values() if path.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_texts_for_people_pass_the_sanitizer() -> None:
    """Files and kernels name themselves: a raw `echo` would give their names to the terminal."""
    writing = {"print", "click.echo", "click.secho", "echo", "secho"}
    assert {name for name in MODULES if read(name)[1] & writing} == WRITERS


#: Functions that walk trees of libcst. Checks ask `analysis.dataflow.contents` instead.
WALKS = {
    *("walk", "children", "names_below", "head_of", "around", "statements_below"),
    *("small_statements", "matchers.findall"),
}
#: Checks of arrays that walk: for comments in a text, and to join the trees of two parsers.
WALKERS = {
    "embercoach.checks.arrays.python_scalar",
    "embercoach.checks.arrays.shape_errors",
}


def test_checks_of_arrays_walk_no_trees() -> None:
    shared = {name for name in MODULES if name.rpartition(".")[0] == "embercoach.checks"}
    arrays = {name for name in MODULES if name.startswith("embercoach.checks.arrays.")}
    walking = {
        name
        for name in shared | arrays
        if any(call in WALKS or call.endswith(".visit") for call in read(name)[1])
    }
    assert walking == WALKERS


def test_the_kernel_pack_needs_no_analyzer() -> None:
    reaching = {
        name
        for name in KERNELS
        if any(target.split(".")[0] == "embercoach" for target in read(name)[0])
    }
    assert reaching <= {"xlstm_kernels.executors.cuda"}


#: Modules of `cli/trace` that pytest loads.
PLUGIN = {"embercoach.cli.trace.trace_plugin", "embercoach.cli.trace.pytest_trace"}
#: Distributions that are imported by another name.
IMPORTED = {"markdown-it-py": "markdown_it", "pyelftools": "elftools"}


def allowed_packages() -> dict[str, set[str]]:
    """What modules may import from outside, by the start of their name; the longest counts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def declared(lines: list[str]) -> set[str]:
        names = (Requirement(line).name for line in lines)
        return {IMPORTED.get(name, name.replace("-", "_")) for name in names}

    core = declared(project["dependencies"])
    extras = {name: core | declared(of) for name, of in project["optional-dependencies"].items()}
    kernels = extras["kernels"] | {"typing_extensions"}  # type checkers bring it
    # mlx-lm brings huggingface_hub, and that yaml.
    language_models = kernels | extras["lm"] | {"huggingface_hub", "yaml"}
    return {
        "embercoach": core,
        "embercoach.server": extras["server"],
        "embercoach.cli.watching": extras["watch"],
        "embercoach.cuda": extras["cuda"] | {"pytest"},
        "embercoach.trace": kernels,
        "embercoach.simulator": kernels | extras["simulator"] | {"pytest"},
        **dict.fromkeys(PLUGIN, core | {"pytest"}),
        "xlstm_kernels": kernels,
        "xlstm_kernels.generate": language_models,
        "xlstm_kernels.checkpoints.loading": language_models,
        "xlstm_kernels.mlx_lm": language_models,
        "xlstm_kernels.mps": kernels | extras["torch"],
    }


@pytest.mark.sampled(0)
def test_third_party_imports_are_declared() -> None:
    """The analyzer imports core dependencies only: no mlx to lint. Others have their extras."""
    packages = allowed_packages()
    ours = {"embercoach", "xlstm_kernels", "tomllib"} | sys.stdlib_module_names
    undeclared = []
    for name in MODULES | KERNELS:
        *_, start = sorted((one for one in packages if f"{name}.".startswith(f"{one}.")), key=len)
        tops = {target.split(".")[0] for target in read(name)[0]}
        undeclared += [f"{name} imports {top}" for top in tops - ours - packages[start]]
    assert undeclared == []
