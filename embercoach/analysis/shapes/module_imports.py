"""Imports: names of libraries, and modules of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import UNKNOWN
from embercoach.analysis.shapes.attributes import library_name
from embercoach.analysis.shapes.path_states import Frame
from embercoach.analysis.shapes.python_values import ModuleValue

if TYPE_CHECKING:
    import ast

    from embercoach.analysis.shapes.interpreter import Machine, SourceFile

#: Modules inside each other that are read.
DEEPEST_IMPORT = 6


def import_name(machine: Machine, frame: Frame, alias: ast.alias) -> None:
    """``import a.b as c``."""
    found = frame.module.find(alias.name, 0)
    if found is not None:
        module = load(machine, frame, found)
        if alias.asname is not None or "." not in alias.name:
            frame.names[alias.asname or alias.name] = UNKNOWN if module is None else module
        else:
            frame.names[alias.name.partition(".")[0]] = UNKNOWN
        return
    name = alias.name if alias.asname else alias.name.partition(".")[0]
    frame.names[alias.asname or name] = library_name(name)


def import_from(machine: Machine, frame: Frame, node: ast.ImportFrom) -> None:
    """``from a.b import c as d``."""
    found = frame.module.find(node.module or "", node.level)
    module = None if found is None else load(machine, frame, found)
    for alias in node.names:
        if alias.name == "*":
            if module is not None:
                frame.names.update(
                    (name, value)
                    for name, value in module.frame.names.items()
                    if not name.startswith("_")
                )
            continue
        frame.names[alias.asname or alias.name] = _imported(
            machine, frame, node, module, alias.name, is_ours=found is not None or node.level > 0
        )


def _imported(
    machine: Machine,
    frame: Frame,
    node: ast.ImportFrom,
    module: ModuleValue | None,
    name: str,
    *,
    is_ours: bool,
) -> Any:
    if module is not None and name in module.frame.names:
        return module.frame.names[name]
    inner = frame.module.find(f"{node.module}.{name}" if node.module else name, node.level)
    if inner is not None:
        loaded = load(machine, frame, inner)
        return UNKNOWN if loaded is None else loaded
    if is_ours:
        return UNKNOWN
    return library_name(f"{node.module}.{name}") if node.module else UNKNOWN


def load(machine: Machine, frame: Frame, file: SourceFile) -> ModuleValue | None:
    """The module of a file, run at top level; None while it is being imported in a circle."""
    if file.path in machine.modules:
        return machine.modules[file.path]
    if frame.depth >= DEEPEST_IMPORT:
        return None
    module = ModuleValue(Frame({"__name__": ""}, None, file, depth=frame.depth + 1))
    machine.modules[file.path] = module
    machine.trials += 1
    try:
        machine.execute(module.frame, file.tree.body)
    finally:
        machine.trials -= 1
    return module
