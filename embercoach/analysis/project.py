"""Modules of the project: which file an import names, and each file parsed once a process."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import expressions  # noqa: F401  (fills the table of evaluators)
from embercoach.analysis.module import Module
from embercoach.analysis.parse import TooDeepError

if TYPE_CHECKING:
    from pathlib import Path

#: Source characters of parsed modules kept at most, besides those in use: a tree takes some
#: 100 bytes of memory a character.
KEPT_CHARACTERS = 6_000_000


class Project:
    """The store of parsed modules, for inference across files. One a process.

    A module can name any other module of its own package or next to itself; libraries elsewhere
    on the machine are never read, so that results don't depend on what is installed.
    """

    def __init__(self) -> None:
        self._modules: OrderedDict[Path, Module | None] = OrderedDict()
        self._characters = 0
        self._probes: dict[Path, bool] = {}
        self._roots: dict[Path, tuple[Path, ...]] = {}

    def open(self, path: Path, source: str) -> Module:
        """The module of a file that is about to be checked, from the source given.

        Raises:
            libcst.ParserSyntaxError: the source does not parse.
        """
        known = self._modules.get(path)
        if known is not None and known.source == source:
            return known
        module = Module(path, source, self)
        self._keep(path, module)
        return module

    def load(self, path: Path) -> Module | None:
        """The module of another file; None if it is absent or does not parse."""
        if path in self._modules:
            self._modules.move_to_end(path)
            return self._modules[path]
        module: Module | None = None
        try:
            source = path.read_text(encoding="utf-8")
            module = Module(path, source, self)
        except (OSError, UnicodeDecodeError, cst.ParserSyntaxError, TooDeepError, RecursionError):
            module = None
        self._keep(path, module)
        return module

    def release(self) -> None:
        """Forget modules beyond the limit, oldest first."""
        while self._characters > KEPT_CHARACTERS and len(self._modules) > 1:
            _, module = self._modules.popitem(last=False)
            self._characters -= len(module.source) if module else 0

    def _keep(self, path: Path, module: Module | None) -> None:
        old = self._modules.pop(path, None)
        self._characters -= len(old.source) if old else 0
        self._modules[path] = module
        self._characters += len(module.source) if module else 0

    def resolve(self, importer: Module, dotted: str, level: int) -> Path | None:
        """The file that ``import dotted`` or ``from ...dotted import`` names, if it is ours.

        Every file probed is noted as a dependency of the importer: were it to appear, the
        importer's findings could change.
        """
        if level:
            start = importer.path.parent
            for _ in range(level - 1):
                start = start.parent
            return self._find(importer, start, dotted)
        if not dotted:
            return None
        for root in self._import_roots(importer.path.parent):
            found = self._find(importer, root, dotted)
            if found is not None:
                return found
        return None

    def _find(self, importer: Module, start: Path, dotted: str) -> Path | None:
        base = start.joinpath(*dotted.split(".")) if dotted else start
        candidates = [base / "__init__.py"]
        if dotted:
            candidates.append(base.with_name(base.name + ".py"))
            first = start / dotted.split(".", maxsplit=1)[0]
            if not self._exists(first) and not self._exists(first.with_name(first.name + ".py")):
                importer.dependencies.add(first)
                return None
        for candidate in candidates:
            importer.dependencies.add(candidate)
            if self._exists(candidate):
                return candidate
        return None

    def _exists(self, path: Path) -> bool:
        known = self._probes.get(path)
        if known is None:
            try:
                known = path.exists()
            except OSError:  # a name that no file can have
                known = False
            self._probes[path] = known
        return known

    def _import_roots(self, folder: Path) -> tuple[Path, ...]:
        """Where imports start from: next to the package, next to the file, and the project's top.

        The project's top is the nearest folder up with a project file, or two folders up where
        there is none; tests and scripts import the packages that stand there, or in its ``src``.
        """
        roots = self._roots.get(folder)
        if roots is None:
            package = folder
            while (package / "__init__.py").exists() and package.parent != package:
                package = package.parent
            found = [package, folder]
            above = (package, *package.parents)
            top = next((p for p in above if _is_project(p)), above[min(2, len(above) - 1)])
            for folder_above in above[: above.index(top) + 1]:
                found += [folder_above, folder_above / "src"]
            roots = self._roots[folder] = tuple(dict.fromkeys(found))
        return roots


PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "PKG-INFO")


def _is_project(folder: Path) -> bool:
    return any((folder / name).exists() for name in PROJECT_FILES)
