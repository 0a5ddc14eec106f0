"""A file of the project: parsed once, run at top level on demand, analysed when it is checked."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.definitions import ClassInfo, FunctionInfo, parameters_of
from embercoach.analysis.frame import Frame
from embercoach.analysis.mutation import forget_lists, grown_by_functions
from embercoach.analysis.values import UNKNOWN, Class, FilePath, Function, Value
from embercoach.analysis.work import Work, note_reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embercoach.analysis.facts import CallFact, Fact
    from embercoach.analysis.import_graph import Node
    from embercoach.analysis.project import Project
    from embercoach.analysis.scopes import Scope
    from embercoach.analysis.source_tree import SourceTree

#: Libraries whose values have array methods too; a mere mention is enough to be careful.
OTHER_ARRAYS = (
    "numpy",
    "torch",
    "jax",
    "tensorflow",
    "pandas",
    "polars",
    "cupy",
    "keras",
    "xarray",
    "scipy",
    "sklearn",
    "h5py",
    "cv2",
    "librosa",
    "soundfile",
    "pyarrow",
    "return_tensors",
)
TEST_FOLDERS = frozenset({"test", "tests"})


class Module:
    """One file: its tree, its top-level names, its functions and classes, and the facts found.

    A shared module is the one that all importers of the file see; none of them may change it.
    """

    def __init__(
        self, path: Path, parsed: SourceTree, project: Project, *, is_shared: bool
    ) -> None:
        self.path = path
        self.parsed = parsed
        self.source = source = parsed.source
        self.tree = parsed.tree
        self.project = project
        self.is_shared = is_shared
        self.work = Work.of(source, is_shared=is_shared)
        note_reading(source)
        self.dependencies: set[str] = set()  # files that its own imports probed
        self.named: set[Node] = set()  # files that it imports, whether they are read or not
        self.imported: set[Module] = set()
        self.has_star_import = False
        self.arrays_are_mlx = not any(library in source for library in OTHER_ARRAYS)
        #: Wrappers of ``metal_kernel`` that the file may call, and what their names hold.
        self.builders = tuple(b for b in project.kernel_builders if b.last_name in source)
        self.wrappers: dict[str, Value] = {}
        self.mentions_kernels = "metal_kernel" in source or bool(self.builders)
        self.fixtures: dict[str, FunctionInfo] = {}
        self.is_test = is_test_file(path)
        self.frame = Frame(self, record=True)
        self.grown: frozenset[str] = frozenset()
        if self.mentions_kernels:
            self.frame.names["__file__"] = FilePath(path)
            self.grown = grown_by_functions(source)
        self.functions: list[FunctionInfo] = []
        self.numbers: set[cst.CSTNode] = set()  # assignments of bare numbers
        self.kernels: dict[cst.CSTNode, list[CallFact]] = {}
        #: What this file's calls of shared functions gave.
        self.asked: dict[FunctionInfo, dict[tuple[Value, ...], Value]] = {}
        self.asked_exactly: dict[FunctionInfo, dict[tuple[Value, ...], Value]] = {}
        #: What the names of the file and of its functions are bound to, as far as checks ask.
        self.scopes: dict[FunctionInfo | None, Scope] = {}
        self._functions: dict[cst.CSTNode, FunctionInfo] = {}
        self._classes: dict[cst.CSTNode, ClassInfo] = {}
        self._facts: dict[FunctionInfo | None, list[Fact]] = {}
        self._launches: list[CallFact] | None = None  # as the calls of their functions make them
        self._state = "new"
        #: Whether it is settled which modules run before this one, where others import it.
        self.has_place = False
        self._sought: set[str] = set()
        self.is_analysed = False  # whether facts are being, or have been, recorded

    def run(self) -> None:
        """Run the top level, once. In a cycle of imports the names found so far must do."""
        from embercoach.analysis.statements import execute_all

        if self.is_shared and not self.has_place:
            from embercoach.analysis.cycles import running_order

            for module in running_order(self):
                module.run()
        if self._state == "new":
            self._state = "running"
            execute_all(self.frame, self.tree.body)
            if self.mentions_kernels:
                forget_lists(self)
            self._state = "done"

    @property
    def is_complete(self) -> bool:
        """Whether the top level has been run to its end."""
        return self._state == "done"

    def member(self, name: str) -> Value:
        """What a top-level name of the module holds."""
        self.run()
        value = self.frame.names.get(name)
        if value is None and self._state == "running":
            value = self._early(name)
        return UNKNOWN if value is None else value

    def _early(self, name: str) -> Value | None:
        """What a cycle of imports asks for before it is reached, if it needs no running.

        A function, a class, or what an import takes from another module.
        """
        from embercoach.analysis.imports import taken_from

        if name in self._sought:  # modules that import the name from each other
            return None
        self._sought.add(name)
        try:
            for statement in self.tree.body:
                if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                    return Function(self.function_info(statement, self.frame, None))
                if isinstance(statement, cst.ClassDef) and statement.name.value == name:
                    return Class(self.class_info(statement))
                for small in small_statements(statement):
                    taken = type(small) is cst.ImportFrom and taken_from(self.frame, small, name)
                    if taken:
                        return taken
        finally:
            self._sought.discard(name)
        return None

    def import_module(self, name: str, level: int) -> Module | None:
        """Another module of the project by the name that an import statement gives it."""
        path = self.project.resolve(self.path, name, level, self.dependencies)
        return None if path is None or path == self.path else self.import_file(path)

    def import_file(self, path: Path) -> Module | None:
        """Another module of the project by its file."""
        folder = self.path.parent
        self.named.add((str(path), self.project.boundaries(folder).imports))
        module = self.project.load(path, folder)
        if module is not None:
            self.imported.add(module)
        return module

    def all_dependencies(self) -> set[str]:
        """The files that this one's findings hang on, through any number of imports.

        Imports inside an imported file may run later than the import of that file, so that only
        the end of the analysis knows them all.
        """
        seen = {self}
        pending = [self]
        found: set[str] = set()
        named: set[Node] = set()
        while pending:
            module = pending.pop()
            found |= module.dependencies
            named |= module.named
            pending.extend(module.imported - seen)
            seen |= module.imported
        # What a module reaches decides whether it is read.
        return (found | self.project.graph.decisive(named)) - {str(self.path)}

    def facts_of(self, info: FunctionInfo | None) -> list[Fact]:
        """The facts recorded in a function, or at top level."""
        facts = self._facts.get(info)
        if facts is None:
            facts = self._facts[info] = []
        return facts

    def facts(self) -> list[Fact]:
        """All facts of the file, once it has been analysed."""
        found = [fact for facts in self._facts.values() for fact in facts]
        return [*found, *(self._launches or ())]

    def function_info(
        self, node: cst.FunctionDef | cst.Lambda, frame: Frame, cls: ClassInfo | None
    ) -> FunctionInfo:
        """The function of a ``def`` or lambda, made on first sight."""
        info = self._functions.get(node)
        if info is None:
            is_def = isinstance(node, cst.FunctionDef)
            info = FunctionInfo(
                name=node.name.value if isinstance(node, cst.FunctionDef) else "<lambda>",
                node=node,
                module=self,
                cls=cls,
                outer=frame.info,
                parameters=parameters_of(node),
                is_async=is_def and node.asynchronous is not None,  # type: ignore[union-attr]
                statement=frame.statement,
            )
            self._functions[node] = info
            self.functions.append(info)
        if info.closure is None or frame.record:
            info.closure = frame if cls is None else frame.outer
        return info

    def class_info(self, node: cst.ClassDef) -> ClassInfo:
        """The class of a ``class`` statement, made on first sight."""
        info = self._classes.get(node)
        if info is None:
            info = self._classes[node] = ClassInfo(node.name.value, node, self)
        return info

    def note_setters(self, cls: ClassInfo, method: FunctionInfo) -> None:
        """Index which attributes of ``self`` a method assigns."""
        if not method.parameters or isinstance(method.node, cst.Lambda):
            return
        names = tuple(assigned_attributes(method.node, method.parameters[0].name))
        cls.set_by[method] = names
        for name in names:
            cls.setters.setdefault(name, []).append(method)

    def analyse(self) -> list[Fact]:
        """Analyse every function, callers' evidence first where parameters need it.

        Raises:
            WorkExceededError: the file takes too much work. The facts so far hold nevertheless.
        """
        from embercoach.analysis.visits import launches_by_call

        try:
            self._analyse_functions()
        finally:
            self._spread_roles()
        if self.mentions_kernels and self._launches is None:
            self._launches = launches_by_call(self, self.facts())
        return self.facts()

    def _analyse_functions(self) -> None:
        from embercoach.analysis.functions import analyse
        from embercoach.analysis.parameters import canonical_values

        self.run()
        self.is_analysed = True
        seen = 0
        deferred: deque[FunctionInfo] = deque()
        while seen < len(self.functions) or deferred:
            found = self.functions[seen:]  # by what has been analysed so far
            seen += len(found)
            for info in found:
                # A method may have been analysed meanwhile, for the attributes that it sets.
                if info.analysed_with is None:
                    if _needs_evidence(info):
                        deferred.append(info)
                    else:
                        analyse(info)
            while deferred:
                info = deferred.popleft()
                if info.analysed_with is None:
                    analyse(info)
                    break
        for info in self.functions[:]:
            if all(p.evidence is None for p in info.parameters):
                continue
            if canonical_values(info) != info.analysed_with:
                info.forget()
                analyse(info)

    def _spread_roles(self) -> None:
        """What a compiled or differentiated function calls is compiled or differentiated too."""
        inner: dict[FunctionInfo | None, list[FunctionInfo]] = {}
        for info in self.functions:
            inner.setdefault(info.outer, []).append(info)
        for role in ("compiled", "vmapped", "differentiated"):
            pending = [info for info in self.functions if getattr(info, role)]
            seen = set(pending)
            while pending:
                info = pending.pop()
                setattr(info, role, True)
                for callee in [*info.calls, *inner.get(info, ())]:
                    if callee not in seen and callee.module is self:
                        seen.add(callee)
                        callee.role_givers[role] = info
                        pending.append(callee)


def _needs_evidence(info: FunctionInfo) -> bool:
    start = 1 if info.is_method else 0
    return any(
        p.annotation is None and p.evidence is None and not p.star for p in info.parameters[start:]
    )


def assigned_attributes(node: cst.FunctionDef, self_name: str) -> set[str]:
    """The attributes that a method assigns on its first parameter, or appends to."""
    found: set[str] = set()
    for statement in small_statements(node.body):
        targets: list[cst.CSTNode]
        # (``isinstance`` is slow for the classes that it denies.)
        if type(statement) is cst.Assign:
            targets = [t.target for t in statement.targets]
        elif type(statement) is cst.AnnAssign or type(statement) is cst.AugAssign:
            targets = [statement.target]
        elif type(statement) is cst.Expr and type(statement.value) is cst.Call:
            called = statement.value.func
            if type(called) is not cst.Attribute or called.attr.value != "append":
                continue
            targets = [called.value]
        else:
            continue
        while targets:
            target = targets.pop()
            if type(target) is cst.Attribute:
                if type(target.value) is cst.Name and target.value.value == self_name:
                    found.add(target.attr.value)
            elif type(target) is cst.Tuple or type(target) is cst.List:
                targets.extend(e.value for e in target.elements)
    return found


DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


def small_statements(
    suite: cst.CSTNode, closed: tuple[type, ...] = DEFINITIONS
) -> Iterator[cst.BaseSmallStatement]:
    """The simple statements of a suite and of those nested in it, but for the ``closed`` kinds."""
    pending: list[cst.CSTNode] = [suite]
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is cst.SimpleStatementLine or kind is cst.SimpleStatementSuite:
            yield from node.body  # type: ignore[attr-defined]
        elif kind is cst.IndentedBlock:
            pending.extend(reversed(node.body))  # type: ignore[attr-defined]
        elif kind not in closed:
            for name in ("finalbody", "orelse", "body"):
                inner = getattr(node, name, None)
                if inner is not None:
                    pending.append(inner)
            pending.extend(getattr(node, "handlers", ()))
            pending.extend(getattr(node, "cases", ()))


def is_test_file(path: Path) -> bool:
    """Whether a path is a test by pytest's and unittest's habits."""
    name = path.name
    if name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py":
        return True
    return any(part in TEST_FOLDERS for part in path.parent.parts[-2:])
