"""The files of a project as the inference of shapes reads them, and what it finds in one."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis.evaluate.imports import LIBRARIES
from embercoach.analysis.shapes.interpreter import Machine, SourceFile
from embercoach.analysis.shapes.program import analysed

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: Libraries whose values have methods of arrays, with other parameters.
OTHER_ARRAYS = frozenset(("torch", "jax", "tensorflow"))


def source_file(module: Module) -> SourceFile | None:
    """A module as the inference of shapes reads it; None where Python can't parse it."""
    if module.parsed.outline is None:
        return None
    if module.shape_source is None:
        found = _SourceFiles(module)
        module.shape_source = SourceFile(
            module.path,
            module.parsed.outline,
            found.find,
            has_other_arrays=_imports_other_arrays(module.parsed.outline.body),
            source=module.source,
        )
    return module.shape_source


def _imports_other_arrays(body: list[ast.stmt]) -> bool:
    """Return whether statements import such a library outside functions."""
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names.append(getattr(node, "module", None) or "")
            if any(name.partition(".")[0] in OTHER_ARRAYS for name in names):
                return True
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            parts = [node.body, getattr(node, "orelse", [])]
            parts += [one.body for one in getattr(node, "handlers", [])]
            if any(map(_imports_other_arrays, parts)):
                return True
    return False


class _SourceFiles:
    """The files that a module imports."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: dict[tuple[str, int], SourceFile | None] = {}

    def find(self, name: str, level: int) -> SourceFile | None:
        """The file that ``import name`` reads, None for one that is not the project's."""
        key = (name, level)
        if key not in self.found:
            self.found[key] = self._find(name, level)
        return self.found[key]

    def _find(self, name: str, level: int) -> SourceFile | None:
        module = self.module
        if level == 0 and name.partition(".")[0] in LIBRARIES:
            return None
        path = module.project.resolve(module.path, name, level, set())
        if path is None:
            return None
        if path == module.path:
            return source_file(module)
        found = module.project.load(path, module.path.parent)
        return None if found is None else source_file(found)


@lru_cache(maxsize=2)
def shapes_of(module: Module, *, records: bool = False) -> Machine | None:
    """Run the inference of shapes on a module; None where there is nothing to infer."""
    file = source_file(module)
    if file is None or "mlx" not in module.source:
        return None
    # Where there are kernels, their checks ask for the values of launches.
    keeps_values = not records and "metal_kernel" in module.source
    return analysed(file, len(module.source), records=records, keeps_values=keeps_values)
