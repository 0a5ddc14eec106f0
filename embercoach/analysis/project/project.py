"""Modules of the project: which file an import names, and each file parsed once a process."""

from __future__ import annotations

import gc
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst
from msgspec import Struct

from embercoach.analysis.evaluate import expressions, statements  # noqa: F401  (fill the tables)
from embercoach.analysis.project.import_graph import ImportGraph
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.parse import TooDeepError
from embercoach.analysis.syntax.source_tree import SourceTree, read_tree
from embercoach.analysis.values.memo import CallsInProgress, forget
from embercoach.files import MOST_NAMED_BYTES, PROJECT_FILES, boundary, read_text

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder

#: Source characters of parsed modules kept at most, besides those in use: a tree takes some
#: 100 bytes of memory a character.
KEPT_CHARACTERS = 6_000_000


class Boundaries(Struct, frozen=True):
    """The folders that what a file reads must lie in: the project's, if anything marks it.

    Attributes:
        texts: of files that it opens; else the folder that its package lies in.
        imports: of modules; else the last of the folders that imports start from.
    """

    texts: str
    imports: str


class Project:
    """The store of parsed files, for inference across them. One a process.

    A module can name any other module of the same package or next to itself; libraries elsewhere
    on the machine are never read, so that results don't depend on what is installed.

    A file that is checked and that others import is two modules on one tree: what checking it
    learns of it must not be seen by its importers, or results would depend on the order of files.

    A module that reaches more source than inference can follow is not read: what it defines is
    unknown.
    """

    def __init__(self, kernel_builders: tuple[KernelBuilder, ...] = ()) -> None:
        """Make an empty one for projects with these wrappers of ``metal_kernel``."""
        self.kernel_builders = kernel_builders
        self.graph = ImportGraph(self)
        self.calls = CallsInProgress()
        self._parsed: OrderedDict[Path, SourceTree] = OrderedDict()
        self._imported: dict[tuple[Path, str], Module | None] = {}
        self._characters = 0
        self._probes: dict[Path, bool] = {}
        #: By a folder and a dotted name: the file, and those that are probed for it.
        self._found: dict[tuple[Path, str], tuple[Path | None, set[str]]] = {}
        self._roots: dict[Path, tuple[Path, ...]] = {}
        self._boundaries: dict[Path, Boundaries] = {}

    def open(self, path: Path, source: str) -> Module:
        """Make a separate module of a file to be checked, from the source given.

        Raises:
            libcst.ParserSyntaxError: the source does not parse.
            TooDeepError: it nests more deeply than Python allows.
        """
        return self._module(path, source, is_shared=False)

    def load(self, path: Path, folder: Path) -> Module | None:
        """Return the module of a file that a file in a folder imports.

        None if it is absent, does not parse, is not to be read from there, or reaches too much.
        """
        # Two projects, one in the other, may import the same file, and one of them may not.
        key = path, self.boundaries(folder).imports
        if key in self._imported:
            if path in self._parsed:
                self._parsed.move_to_end(path)
            return self._imported[key]
        module: Module | None = None
        try:
            if not self.graph.reaches_too_much((str(path), key[1])):
                source = read_text(path, limit=MOST_NAMED_BYTES, root=key[1])
                module = self._module(path, source, is_shared=True)
        except (OSError, ValueError, cst.ParserSyntaxError, TooDeepError, RecursionError):
            module = None
        self._imported[key] = module
        return module

    def boundaries(self, folder: Path) -> Boundaries:
        """Return the folders that the files of a folder may read from."""
        known = self._boundaries.get(folder)
        if known is None:
            # The user may have named a link to the folder; its files read each other.
            package = _package_folder(folder).resolve()
            found = boundary(str(package))
            known = Boundaries(found or str(package), found or str(_top(package)))
            self._boundaries[folder] = known
        return known

    def release(self) -> None:
        """Forget files beyond the limit, those that have not been asked for longest first."""
        if self._characters <= KEPT_CHARACTERS:
            return
        while self._characters > KEPT_CHARACTERS * 3 // 4 and len(self._parsed) > 1:
            _, parsed = self._parsed.popitem(last=False)
            self._characters -= len(parsed.source)
        # Modules refer to each other: those that stay would keep those that go.
        self._imported.clear()
        forget()
        gc.collect()  # they refer to themselves, too

    def refresh(self) -> None:
        """Forget what is known of files on disk; trees of sources that did not change stay."""
        self._imported.clear()
        self._probes.clear()
        self._found.clear()
        self._roots.clear()
        self._boundaries.clear()
        self.graph = ImportGraph(self)
        forget()

    def _module(self, path: Path, source: str, *, is_shared: bool) -> Module:
        parsed = self._parsed.get(path)
        if parsed is None or parsed.source != source:
            self._characters += len(source) - (len(parsed.source) if parsed else 0)
            parsed = read_tree(source, self.graph.take_outline(source))
            self._parsed[path] = parsed
        self._parsed.move_to_end(path)
        return Module(path, parsed, self, is_shared=is_shared)

    def resolve(self, importer: Path, dotted: str, level: int, probed: set[str]) -> Path | None:
        """Return the file that ``import dotted`` or ``from ...dotted import`` names, if it is ours.

        Every file probed is added to those given: were it to appear, the importer's findings could
        change.
        """
        if level:
            start = importer.parent
            for _ in range(level - 1):
                start = start.parent
            return self._find(start, dotted, probed)
        if not dotted:
            return None
        for root in self._import_roots(importer.parent):
            if root.name in INSTALLATIONS and not _is_own(importer, root, dotted):
                continue
            found = self._find(root, dotted, probed)
            if found is not None:
                return found
        return None

    def _find(self, start: Path, dotted: str, probed: set[str]) -> Path | None:
        known = self._found.get((start, dotted))
        if known is None:
            tried: set[str] = set()
            known = self._found[start, dotted] = self._sought(start, dotted, tried), tried
        probed |= known[1]
        return known[0]

    def _sought(self, start: Path, dotted: str, probed: set[str]) -> Path | None:
        base = start.joinpath(*dotted.split(".")) if dotted else start
        candidates = [base / "__init__.py"]
        if dotted:
            candidates.append(base.with_name(base.name + ".py"))
            first = start / dotted.split(".", maxsplit=1)[0]
            if not self._exists(first) and not self._exists(first.with_name(first.name + ".py")):
                probed.add(str(first))
                return None
        for candidate in candidates:
            probed.add(str(candidate))
            if self._exists(candidate):
                return candidate
        return None

    def holds_module(self, folder: Path, name: str) -> bool:
        """Return whether a package's folder has a module or package of this name."""
        return bool(name) and (
            self._exists(folder / name / "__init__.py") or self._exists(folder / f"{name}.py")
        )

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
        there is none; tests and scripts import the packages in it, or in its ``src``.
        """
        roots = self._roots.get(folder)
        if roots is None:
            package = _package_folder(folder)
            found = [package, folder]
            above = (package, *package.parents)
            top = _top(package)
            for folder_above in above[: above.index(top) + 1]:
                found += [folder_above, folder_above / "src"]
            roots = self._roots[folder] = tuple(dict.fromkeys(found))
        return roots


#: Folders of installed packages: neighbours there are libraries, not parts of one project.
INSTALLATIONS = ("site-packages", "dist-packages")


def _package_folder(folder: Path) -> Path:
    """Return the folder that the outermost package of a folder's files lies in."""
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def _top(package: Path) -> Path:
    """Return the last folder that imports start from: the project's top, or two folders up.

    Folders of a package that have no ``__init__.py`` themselves lie deeper.
    """
    above = (package, *package.parents)
    top = next((p for p in above if any((p / name).exists() for name in PROJECT_FILES)), None)
    return _package_folder(above[min(2, len(above) - 1)]) if top is None else top


def _is_own(path: Path, root: Path, dotted: str) -> bool:
    """Return whether an import stays in the importing file's top-level package."""
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    return bool(parts) and parts[0] == dotted.partition(".")[0]
