"""Which files the import statements of a file lead to, by their syntax alone."""

from __future__ import annotations

import ast
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from embercoach.analysis.evaluate.imports import LIBRARIES
from embercoach.analysis.syntax.parse import outline_of
from embercoach.files import MOST_NAMED_BYTES, read_text

if TYPE_CHECKING:
    from embercoach.analysis.project.project import Project

#: Characters of a module and all that it imports, directly or not, up to which it is read: the
#: largest of mlx-lm, mlx-vlm and mlx-audio have 2.6 million; transformers is one of 43 million.
MOST_REACHED = 4_000_000
#: Characters of sources whose outlines are kept for the tree that is likely to be made next.
KEPT_OUTLINES = 400_000

#: A file, and the folder that it must lie in to be read. (Paths would be slow as keys.)
Node: TypeAlias = "tuple[str, str]"


class Imports(Struct, frozen=True):
    """Files that the import statements of a file name.

    Attributes:
        characters: of its source.
        at_top: the files that its top level imports, in order.
        anywhere: these, and those that its functions and classes import.
        decisive: the file itself, and those whose presence decides which it imports.
    """

    characters: int
    at_top: tuple[Path, ...]
    anywhere: tuple[Node, ...]
    decisive: frozenset[str]


class ImportGraph:
    """The imports of a project's files, each read once.

    Whether a file reaches too much depends on the files alone, and not on which were read before.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._imports: dict[Node, Imports] = {}
        #: Characters that a module reaches, or more than these, where they are within the limit.
        self._at_most: dict[Node, int] = {}
        #: Files that show that a module reaches too much.
        self._proofs: dict[Node, tuple[Node, ...]] = {}
        self._outlines: OrderedDict[str, ast.Module] = OrderedDict()
        self._characters = 0

    def reaches_too_much(self, start: Node) -> bool:
        """Return whether a module and all that it imports exceed ``MOST_REACHED``."""
        if start not in self._at_most and start not in self._proofs:
            self._measure(start)
        return start in self._proofs

    def decisive(self, nodes: Iterable[Node]) -> set[str]:
        """The files, present or absent, that decide what these modules and their imports are."""
        seen = set(nodes)
        pending = list(seen)
        found: set[str] = set()
        while pending:
            node = pending.pop()
            if self.reaches_too_much(node):
                for proof in self._proof(node):
                    found |= self.imports(proof).decisive
                continue
            imports = self.imports(node)
            found |= imports.decisive
            pending += [one for one in imports.anywhere if one not in seen]
            seen.update(imports.anywhere)
        return found

    def imports(self, node: Node) -> Imports:
        """Return the imports of a file; none for one that is absent or broken."""
        known = self._imports.get(node)
        if known is None:
            known = self._imports[node] = self._read(node)
        return known

    def take_outline(self, source: str) -> ast.Module | None:
        """Return the outline of a source, if it is kept from finding its imports."""
        outline = self._outlines.pop(source, None)
        if outline is not None:
            self._characters -= len(source)
        return outline

    def _proof(self, node: Node) -> Iterator[Node]:
        """Files that together exceed the limit: a proof may end with a file that has its own."""
        used: set[Node] = set()
        while node in self._proofs and node not in used:
            used.add(node)
            *files, last = self._proofs[node]
            yield from files
            node = last
        yield node

    def _measure(self, start: Node) -> None:
        """Add up what a module reaches, by breadth."""
        imports = self.imports(start)
        parts = [self._at_most.get(one) for one in imports.anywhere]
        if None not in parts:
            most = imports.characters + sum(part for part in parts if part is not None)
            if most <= MOST_REACHED:
                self._at_most[start] = most
                return
        seen = {start}
        pending = deque(seen)
        files: list[Node] = []
        characters = 0
        while pending:
            node = pending.popleft()
            if node in self._proofs:
                self._proofs[start] = (*files, node)
                return
            imports = self.imports(node)
            files.append(node)
            characters += imports.characters
            if characters > MOST_REACHED:
                self._proofs[start] = tuple(files)
                return
            pending += [one for one in imports.anywhere if one not in seen]
            seen.update(imports.anywhere)
        self._at_most.update(dict.fromkeys(files, characters))

    def _read(self, node: Node) -> Imports:
        path = Path(node[0])
        try:
            source = read_text(path, limit=MOST_NAMED_BYTES, root=node[1])
        except (OSError, ValueError):
            return Imports(0, (), (), frozenset((node[0],)))
        outline = outline_of(source)
        if outline is None:
            return Imports(len(source), (), (), frozenset((node[0],)))
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
        self._probed: set[str] = {str(path)}

    def imports(self, characters: int) -> Imports:
        """Return the imports of the statements."""
        at_top: dict[Path, None] = {}
        anywhere: dict[Path, None] = {}
        for statement, is_at_top in _import_statements(self._outline):
            for path in self._named(statement):
                anywhere[path] = None
                if is_at_top:
                    at_top[path] = None
        root = self._project.boundaries(self._path.parent).imports
        nodes = tuple((str(path), root) for path in anywhere)
        return Imports(characters, tuple(at_top), nodes, frozenset(self._probed))

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
        is_own = self._path.stem == "__init__" and statement.level == 1 and not source
        for package in (self._path,) if is_own else self._files(source, statement.level):
            if not is_own:
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
