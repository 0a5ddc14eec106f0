"""Imports run one way through the house, and starting the command loads little."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from tests.rows import each_row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "embercoach"

BOTTOM = {
    "finding",
    "kernel_builder",
    "project_files",
    "quoting",
    "rule_links",
    "rulebook",
    "relative_paths",
    "safe_read",
    "terminal_text",
    "toml",
}
# What each room may import besides itself. A new room needs a place here, chosen on purpose.
MAY_IMPORT: dict[str, set[str]] = {
    "finding": {"quoting"},
    "kernel_builder": set(),
    "project_files": set(),
    "quoting": {"terminal_text"},
    "relative_paths": set(),
    "safe_read": set(),
    "terminal_text": set(),
    "user_program": set(),
    "toml": set(),
    "rule_links": {"rulebook"},
    "rulebook": {"finding", "toml"},
    "metal": set(),
    "analysis": {"metal", "kernel_builder", "project_files", "quoting", "safe_read"},
    "api": set(),
    "plugins": {"api", "rulebook", "safe_read"},
    "checks": {"analysis", "metal", "plugins", "api"} | BOTTOM,
    "fixes": BOTTOM,
    "notebooks": {"fixes", "finding"},
    "report": {"fixes", "notebooks", "metal"} | BOTTOM,
    "config": {"plugins"} | BOTTOM,
    "engine": {"checks", "analysis", "metal", "fixes", "notebooks", "config", "plugins"} | BOTTOM,
    "simulator": {"metal", "config", "user_program"} | BOTTOM,
    "trace": {"terminal_text", "user_program"},
    "server": {"engine", "checks", "fixes", "notebooks", "config", "report", "plugins"} | BOTTOM,
    "cli": {
        "engine",
        "checks",
        "analysis",
        "metal",
        "fixes",
        "notebooks",
        "config",
        "plugins",
        "report",
        "simulator",
        "server",
        "trace",
    }
    | BOTTOM,
    "testing": {"api", "checks", "finding", "plugins", "rulebook"},
    "__main__": {"cli"},
    "__init__": set(),
}
# The floors of ``metal``, from the ground up; each may import those below it.
FLOORS = ("", "program", "written", "execution", "inspections", "porting")
MODULES = sorted(PACKAGE.rglob("*.py"))
# The house stands: with fewer modules these tests would look at nothing.
FEWEST_MODULES = 20


def dotted(path: Path) -> str:
    """``embercoach/engine/run.py`` -> ``embercoach.engine.run``, a package by its own name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports_and_calls(path: Path) -> tuple[list[ast.Import | ast.ImportFrom], set[str]]:
    """The import statements of a file, and the names of functions that it calls."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = {node.id for node in called if isinstance(node, ast.Name)} | {
        f"{node.value.id}.{node.attr}"
        for node in called
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return imports, names


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and absolute name of every import of a file, those inside functions included."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for node in imports_and_calls(path)[0]:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join(base) if node.level else ""
            name = ".".join(filter(None, (start, node.module)))
            yield from ((node.lineno, f"{name}.{alias.name}") for alias in node.names)


def room(name: str) -> str:
    """The room of a dotted module name: the part after ``embercoach``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def trespasses(path: Path) -> list[str]:
    """The imports of a file that its room may not make."""
    own = room(dotted(path))
    allowed = MAY_IMPORT[own] | {own}
    found = []
    for line, name in imported_modules(path):
        top = name.split(".")[0]
        if top == "xlstm_kernels" or (top == "embercoach" and not room_allows(name, allowed)):
            found.append(f"{path.relative_to(ROOT)}:{line}: {own} must not import {name}")
    return found


def climbs(path: Path) -> list[str]:
    """The imports of a module of ``metal`` that run up its floors."""
    own = floor(dotted(path))
    return [
        f"{path.relative_to(ROOT)}:{line}: must not import {name}"
        for line, name in imported_modules(path)
        if name.startswith("embercoach.metal.") and floor(name) > own
    ]


def floor(name: str) -> int:
    """The floor that a module of ``metal``, or a name in one, is on."""
    part = (*name.split("."), "", "", "")[2]
    return FLOORS.index(part) if part in FLOORS else 0


def room_allows(name: str, allowed: set[str]) -> bool:
    # `from embercoach import __version__` names an attribute of the package, not a room.
    target = room(name)
    return target in allowed or target.startswith("__")


def test_the_house_stands() -> None:
    assert len(MODULES) >= FEWEST_MODULES


def test_every_room_has_a_place() -> None:
    assert {room(dotted(path)) for path in MODULES} <= set(MAY_IMPORT)


def test_the_rules_themselves_run_one_way() -> None:
    """No two rooms may import each other, not even by a detour."""
    remaining = {name: set(targets) for name, targets in MAY_IMPORT.items()}
    while remaining:
        free = {name for name, targets in remaining.items() if not targets & remaining.keys()}
        assert free, f"a circle among {sorted(remaining)}"
        remaining = {name: targets for name, targets in remaining.items() if name not in free}


@each_row("path", MODULES, ids=dotted)
def test_imports_run_downward(path: Path) -> None:
    assert trespasses(path) == []


@each_row("path", [p for p in MODULES if "metal" in p.parts], ids=dotted)
def test_metal_stands_on_its_floors(path: Path) -> None:
    assert climbs(path) == []


@pytest.mark.parametrize(
    ("place", "source", "forbidden"),
    [
        ("metal/source.py", "from embercoach.metal.program.nodes import Block", True),
        ("metal/program/nodes.py", "from ..inspections import races", True),
        ("metal/execution/follow.py", "import embercoach.metal.inspections.races", True),
        (
            "metal/inspections/races.py",
            "from embercoach.metal.execution.events import Trace",
            False,
        ),
        ("metal/program/lower_calls.py", "from embercoach.metal.program import types", False),
        ("metal/program/lower_calls.py", "from embercoach.metal.text_facts import Place", False),
    ],
)
def test_a_climb_is_seen(
    place: str, source: str, forbidden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "embercoach" / place
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert bool(climbs(path)) == forbidden


@pytest.mark.parametrize(
    ("place", "source", "forbidden"),
    [
        ("analysis/evaluate/names.py", "from embercoach.checks.arrays import dtype", True),
        ("analysis/evaluate/names.py", "from embercoach import checks", True),
        ("analysis/evaluate/names.py", "import embercoach.checks.arrays.dtype", True),
        ("analysis/evaluate/names.py", "from ...checks import dtype", True),
        ("analysis/evaluate/names.py", "from ... import checks", True),
        ("analysis/evaluate/names.py", "def f():\n    from embercoach.engine import run", True),
        ("analysis/__init__.py", "from ..engine import run", True),
        ("metal/written/body.py", "from embercoach.finding import Finding", True),
        ("engine/run.py", "from embercoach.report import text", True),
        ("engine/run.py", "import xlstm_kernels", True),
        ("analysis/evaluate/names.py", "from . import values", False),
        ("analysis/__init__.py", "from .names import Name", False),
        ("analysis/evaluate/names.py", "from embercoach.metal import contract", False),
        ("analysis/evaluate/names.py", "import ast\nfrom libcst import Module", False),
        ("cli/commands/check.py", "from embercoach import __version__", False),
    ],
)
def test_a_trespass_is_seen(
    place: str, source: str, forbidden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "embercoach" / place
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    assert bool(trespasses(path)) == forbidden


#: What writes other than through ``report.styled``: JSON, the package's own texts, and single
#: lines that are sanitized where they are written, before ``report`` is imported.
WRITERS = {
    "analysis/mlx_api/generate.py",
    "cli/commands/completion.py",
    "cli/commands/config.py",
    "cli/commands/dev.py",
    "cli/entry.py",
    "cli/commands/explain.py",
    "cli/place.py",
    "cli/commands/rules.py",
    "simulator/session/runner.py",
    "trace/trace_runner.py",
    "user_program.py",
}


def test_texts_for_people_pass_the_sanitizer() -> None:
    """What is linted names files and kernels: a raw ``echo`` would hand them to the terminal."""
    writing = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        if imports_and_calls(path)[1] & {"print", "click.echo", "click.secho", "echo", "secho"}
    }
    assert writing == WRITERS


KERNELS = sorted((ROOT / "xlstm_kernels").rglob("*.py"))


def test_the_kernel_pack_stands_alone() -> None:
    """The pack runs without the analyzer; only the simulated executor may reach for it."""
    assert KERNELS
    reaching = {
        path.relative_to(ROOT).as_posix()
        for path in KERNELS
        for _, name in imported_modules(path)
        if name.split(".")[0] == "embercoach"
    }
    assert reaching <= {"xlstm_kernels/executors/simulated.py"}


#: Modules of `cli/trace` that pytest loads.
PLUGIN = ("trace_plugin.py", "pytest_trace.py")
#: Distributions that are imported by another name.
IMPORTED = {"markdown-it-py": "markdown_it", "pyelftools": "elftools"}


def declared(lines: list[str]) -> set[str]:
    names = (Requirement(line).name for line in lines)
    return {IMPORTED.get(name, name.replace("-", "_")) for name in names}


@pytest.mark.sampled(0)
def test_third_party_imports_are_declared() -> None:
    """The analyzer imports core dependencies only: no mlx to lint. Others have their extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = declared(project["dependencies"])
    kernels = core | declared(project["optional-dependencies"]["kernels"])
    kernels |= {"typing_extensions"}  # under TYPE_CHECKING: type checkers bring it
    # mlx-lm brings huggingface_hub, and that yaml.
    language_models = kernels | declared(project["optional-dependencies"]["lm"])
    language_models |= {"huggingface_hub", "yaml"}
    # The pytest plugins run only where pytest has loaded them.
    simulator = kernels | declared(project["optional-dependencies"]["simulator"]) | {"pytest"}
    server = core | declared(project["optional-dependencies"]["server"])
    watch = core | declared(project["optional-dependencies"]["watch"])
    torch = kernels | declared(project["optional-dependencies"]["torch"])
    ours = {"embercoach", "xlstm_kernels"}

    def allowed(path: Path) -> set[str]:
        if path.parent == ROOT / "xlstm_kernels" / "mps":
            return torch
        if path in KERNELS:
            uses_mlx_lm = {path.name, path.parent.name} & {"generate.py", "loading.py", "mlx_lm"}
            return language_models if uses_mlx_lm else kernels
        if PACKAGE / "server" in path.parents:
            return server
        if path == PACKAGE / "cli" / "watching.py":
            return watch
        if PACKAGE / "trace" in path.parents:
            return kernels
        if path.parent == PACKAGE / "cli" / "trace" and path.name in PLUGIN:
            return core | {"pytest"}
        return simulator if PACKAGE / "simulator" in path.parents else core

    undeclared = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in MODULES + KERNELS
        for line, name in imported_modules(path)
        if name.split(".")[0] not in ours | sys.stdlib_module_names | {"tomllib"} | allowed(path)
    ]
    assert undeclared == []


@pytest.mark.parametrize(
    "start", ["import embercoach.cli", "import sys; sys.argv[1:] = ['--version']; start()"]
)
def test_starting_loads_nothing_heavy(start: str) -> None:
    code = (
        "import os, sys\n"
        "heavy = {'libcst', 'rich', 'mlx', 'numpy', 'tree_sitter', 'pathspec'}\n"
        "heavy |= {'jinja2', 'markdown_it'}\n"
        "leave, found = os._exit, lambda: sorted(heavy & sys.modules.keys())\n"
        "os._exit = lambda code: (print(found(), file=sys.stderr, flush=True), leave(0))\n"
        f"from embercoach.cli import main as start\n{start}\nos._exit(0)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == "[]"
