"""Which files the import statements of a file lead to, by their syntax alone."""

from __future__ import annotations

import ast
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from embercoach.analysis.imports import LIBRARIES
from embercoach.analysis.parse import outline_of
from embercoach.safe_read import MOST_NAMED_BYTES, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embercoach.analysis.project import Project

#: Characters of a module and all that it imports, directly or not, up to which it is read: the
#: largest of mlx-lm, mlx-vlm and mlx-audio have 2.6 million; transformers is one of 43 million.
MOST_REACHED = 4_000_000
#: Characters of sources whose outlines are kept for the tree that is likely to be made next.
KEPT_OUTLINES = 400_000

#: A file, and the folder that it must lie in to be read.
Node: TypeAlias = "tuple[Path, str]"


@dataclass(frozen=True, slots=True)
class Imports:
    """What the import statements of a file name.

    Attributes:
        characters: of its source.
        at_top: the files that its top level imports, in order.
        anywhere: these, and those that its functions and classes import.
        probed: the files whose presence decides which they are.
    """

    characters: int
    at_top: tuple[Path, ...]
    anywhere: tuple[Path, ...]
    probed: frozenset[Path]


@dataclass(frozen=True, slots=True)
class Reach:
    """A module and what it imports, directly or not.

    Attributes:
        files: all of them; or some that together exceed the limit.
        is_bounded: whether they stay within the limit.
    """

    files: tuple[Node, ...]
    is_bounded: bool


class ImportGraph:
    """The imports of a project's files, each read once.

    Whether a file reaches too much depends on the files alone, and not on which were read before.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._imports: dict[Node, Imports] = {}
        self._reaches: dict[Node, Reach] = {}
        self._outlines: OrderedDict[str, ast.Module] = OrderedDict()
        self._characters = 0

    def reach(self, start: Node) -> Reach:
        """What a module reaches, by breadth."""
        known = self._reaches.get(start)
        if known is None:
            known = self._reaches[start] = self._find_reach(start)
        return known

    def imports(self, node: Node) -> Imports:
        """What a file's import statements name; nothing for one that is absent or broken."""
        known = self._imports.get(node)
        if known is None:
            known = self._imports[node] = self._read(node)
        return known

    def take_outline(self, source: str) -> ast.Module | None:
        """The outline of a source, if it is kept from finding its imports."""
        outline = self._outlines.pop(source, None)
        if outline is not None:
            self._characters -= len(source)
        return outline

    def _find_reach(self, start: Node) -> Reach:
        seen = {start}
        pending = deque(seen)
        files: list[Node] = []
        characters = 0
        while pending:
            node = pending.popleft()
            known = self._reaches.get(node)
            if known is not None and not known.is_bounded:
                return Reach((*files, *known.files), is_bounded=False)
            imports = self.imports(node)
            files.append(node)
            characters += imports.characters
            if characters > MOST_REACHED:
                return Reach(tuple(files), is_bounded=False)
            root = self._project.boundaries(node[0].parent).imports
            for path in imports.anywhere:
                if (path, root) not in seen:
                    seen.add((path, root))
                    pending.append((path, root))
        return Reach(tuple(files), is_bounded=True)

    def _read(self, node: Node) -> Imports:
        path, root = node
        try:
            source = read_text(path, limit=MOST_NAMED_BYTES, root=root)
        except (OSError, ValueError):
            return Imports(0, (), (), frozenset())
        outline = outline_of(source)
        if outline is None:
            return Imports(len(source), (), (), frozenset())
        self._keep(source, outline)
        return _Statements(self._project, path, outline).imports(len(source))

    def _keep(self, source: str, outline: ast.Module) -> None:
        if source not in self._outlines:
            self._outlines[source] = outline
            self._characters += len(source)
        while self._characters > KEPT_OUTLINES and self._outlines:
            dropped, _ = self._outlines.popitem(last=False)
            self._characters -= len(dropped)


class _Statements:
    """The import statements of a file."""

    def __init__(self, project: Project, path: Path, outline: ast.Module) -> None:
        self._project = project
        self._path = path
        self._outline = outline
        self._probed: set[Path] = set()

    def imports(self, characters: int) -> Imports:
        """What they name."""
        at_top: dict[Path, None] = {}
        anywhere: dict[Path, None] = {}
        for statement, is_at_top in _import_statements(self._outline):
            for path in self._named(statement):
                anywhere[path] = None
                if is_at_top:
                    at_top[path] = None
        return Imports(characters, tuple(at_top), tuple(anywhere), frozenset(self._probed))

    def _named(self, statement: ast.Import | ast.ImportFrom) -> Iterator[Path]:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                # ``import a.b`` binds ``a``, and makes ``b`` a member of it.
                words = alias.name.split(".")
                first = len(words) if alias.asname else 1
                for count in range(first, len(words) + 1):
                    yield from self._files(".".join(words[:count]), 0)
            return
        source = statement.module or ""
        for package in self._files(source, statement.level):
            yield package
            if package.stem == "__init__":
                for alias in statement.names:
                    if self._project.holds_module(package.parent, alias.name):
                        whole = f"{source}.{alias.name}" if source else alias.name
                        yield from self._files(whole, statement.level)

    def _files(self, name: str, level: int) -> Iterator[Path]:
        if level == 0 and name.partition(".")[0] in LIBRARIES:
            return
        found = self._project.resolve(self._path, name, level, self._probed)
        if found is not None and found != self._path:
            yield found


def _import_statements(outline: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All of a file in order, each with whether it stands outside of functions and classes."""
    pending: list[tuple[ast.AST, bool]] = [(outline, True)]
    while pending:
        node, is_at_top = pending.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, is_at_top
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_at_top = False
        blocks = (
            getattr(node, name, ()) for name in ("body", "handlers", "cases", "orelse", "finalbody")
        )
        inner = [one for block in blocks if isinstance(block, list) for one in block]
        pending.extend((one, is_at_top) for one in reversed(inner))
