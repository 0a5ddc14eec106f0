"""Imports: names of libraries, and modules of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.evaluate import missing_members
from embercoach.analysis.evaluate.members import library_member
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Argument, first_value
from embercoach.analysis.values.lattice import UNKNOWN, ModuleRef, Str, Symbol, Value

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame

#: Libraries that inference knows by name and that no file of the project replaces.
LIBRARIES = frozenset({"mlx", "numpy", "torch", "builtins", "typing", "functools", "math"})
#: Beginnings of modules of which a table has names that they lack.
_TABLED = ("mlx.", "mlx_lm.")


def execute_import(frame: Frame, node: cst.Import) -> bool:
    """``import a.b as c``."""
    for alias in node.names:
        name = dotted(alias.name)
        if name is None:
            continue
        if alias.asname is not None:
            if isinstance(alias.asname.name, cst.Name):
                frame.bind(alias.asname.name.value, _module(frame, name, 0))
        else:
            first = name.partition(".")[0]
            frame.bind(first, _module(frame, first, 0))
    return True


def execute_import_from(frame: Frame, node: cst.ImportFrom) -> bool:
    """``from a.b import c as d``, ``from . import c``."""
    level = len(node.relative)
    source = dotted(node.module) or "" if node.module is not None else ""
    if isinstance(node.names, cst.ImportStar):
        _import_star(frame, source, level)
        return True
    for alias in node.names:
        if isinstance(alias.name, cst.Name):
            name = alias.name.value
            value = _imported(frame, source, level, name)
            is_own = source.startswith("mlx_lm.") and type(value) is not Symbol
            if frame.record and level == 0 and source.startswith(_TABLED) and not is_own:
                missing_members.record_import(frame, alias, source, name)
            if value is UNKNOWN and frame.record:
                missing_members.record_unknown(
                    frame, node, alias.name, _module(frame, source, level)
                )
            frame.bind(_bound_by(alias), value)
    return True


def taken_from(frame: Frame, node: cst.ImportFrom, name: str) -> Value | None:
    """Return the value that ``from ... import`` binds to a name; None if none."""
    if isinstance(node.names, cst.ImportStar):
        return None
    source = dotted(node.module) or "" if node.module is not None else ""
    for alias in node.names:
        if isinstance(alias.name, cst.Name) and _bound_by(alias) == name:
            return _imported(frame, source, len(node.relative), alias.name.value)
    return None


def _bound_by(alias: cst.ImportAlias) -> str:
    """Return the name that a part of a ``from ... import`` binds."""
    given = alias.asname.name if alias.asname is not None else alias.name
    return given.value if isinstance(given, cst.Name) else ""


def _imported(frame: Frame, source: str, level: int, name: str) -> Value:
    if level == 0 and source.partition(".")[0] in LIBRARIES:
        return library_member(source, name)
    module = _module(frame, source, level)
    if isinstance(module, ModuleRef):
        value = module.module.member(name)
        if value is not UNKNOWN:
            return value  # type: ignore[no-any-return]
        holds_modules = module.module.path.stem == "__init__"
        whole = f"{source}.{name}" if source else name
        sub = _module(frame, whole, level) if holds_modules else None
        return sub if isinstance(sub, ModuleRef) else UNKNOWN
    if level:
        return UNKNOWN
    return Symbol(f"{source}.{name}")


def _module(frame: Frame, name: str, level: int) -> Value:
    if level == 0 and name.partition(".")[0] in LIBRARIES:
        return Symbol(name)
    found = frame.module.import_module(name, level)
    if found is not None:
        return ModuleRef(found)
    return UNKNOWN if level else Symbol(name)


def _import_star(frame: Frame, source: str, level: int) -> None:
    if level == 0 and source.partition(".")[0] in LIBRARIES:
        # What it shadows is not known here: ``from mlx.core import *`` replaces ``max``.
        frame.module.has_star_import = True
        return
    module = _module(frame, source, level)
    if not isinstance(module, ModuleRef):
        frame.module.has_star_import = True
        return
    module.module.run()
    for name, value in module.module.frame.names.items():
        if not name.startswith("_") and "." not in name:
            frame.bind(name, value)


def imported(frame: Frame, node: cst.Call, arguments: tuple[Argument, ...]) -> Value:
    """``importlib.import_module("mlx.core")``, ``pytest.importorskip("mlx.core")``."""
    name = first_value(arguments)
    text = name.text if isinstance(name, Str) else None
    return UNKNOWN if not text or text.startswith(".") else _module(frame, text, 0)
