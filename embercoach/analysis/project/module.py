"""A file of the project: parsed once, run at top level on demand, analysed when it is checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo, function_parameters
from embercoach.analysis.evaluate.dispatch import execute
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.imports import taken_from
from embercoach.analysis.evaluate.mutation import forget_lists, grown_by_functions
from embercoach.analysis.syntax.trees import assigned_attributes, small_statements
from embercoach.analysis.values.lattice import UNKNOWN, Class, FilePath, Function, Value
from embercoach.analysis.work import Work, note_reading

if TYPE_CHECKING:
    from embercoach.analysis.dataflow.gradient_roots import DifferentiatedResult, GradientRoot
    from embercoach.analysis.project.import_graph import Node
    from embercoach.analysis.project.project import Project
    from embercoach.analysis.shapes.interpreter import SourceFile
    from embercoach.analysis.syntax.source_tree import SourceTree
    from embercoach.analysis.values.facts import CallFact, Fact
    from embercoach.analysis.values.memo import Attributes


def running_order(start: Module) -> list[Module]:
    """Return a module and those that its top level imports, to be run one after the other.

    What a module imports comes before it. In a cycle none can be first by that rule: there the
    order of paths decides, and not which of them is asked for. (Tarjan's algorithm, without
    recursion; modules whose place has been found before are left out.)
    """
    found: list[Module] = []
    number: dict[Module, int] = {start: 0}
    lowest: dict[Module, int] = {start: 0}
    open_modules = [start]
    pending = [(start, _named_by(start))]
    start.has_place = True
    while pending:
        module, named = pending[-1]
        following = next(named, None)
        if following is not None:
            if not following.has_place:
                following.has_place = True
                number[following] = lowest[following] = len(number)
                open_modules.append(following)
                pending.append((following, _named_by(following)))
            elif following in lowest:
                lowest[module] = min(lowest[module], number[following])
            continue
        pending.pop()
        if pending:
            above = pending[-1][0]
            lowest[above] = min(lowest[above], lowest[module])
        if lowest[module] == number[module]:
            cycle: list[Module] = []
            while module in lowest:
                cycle.append(open_modules.pop())
                del lowest[cycle[-1]]
            found += sorted(cycle, key=lambda one: one.path)
    return found


def _named_by(module: Module) -> Iterator[Module]:
    """Yield the modules of the project that the statements of a module's top level name."""
    root = module.project.boundaries(module.path.parent).imports
    for path in module.project.graph.imports((str(module.path), root)).at_top:
        found = module.import_file(path)
        if found is not None:
            yield found


TEST_FOLDERS = frozenset({"test", "tests"})


#: What files have that build kernels, or read their texts.
_OF_KERNELS = ("metal_kernel", "compile_shader", '.metal"', ".metal'")


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
        #: By the name of a function, names that it reads while nothing has them, and names that it
        #: binds as what is around it does.
        self.unbound_names: set[tuple[str, str]] = set()
        self.hiding_names: set[tuple[str, str]] = set()
        #: Names taken from files of the project that do not bind them: statement, name, file.
        self.unknown_imports: list[tuple[cst.CSTNode, cst.Name, Module]] = []
        #: Wrappers of ``metal_kernel`` that the file may call, and what their names hold.
        self.builders = tuple(b for b in project.kernel_builders if b.last_name in source)
        self.wrappers: dict[str, Value] = {}
        #: It builds kernels, or reads their texts for another file.
        self.mentions_kernels = bool(self.builders) or any(word in source for word in _OF_KERNELS)
        self.is_script = "__main__" in source
        self.fixtures: dict[str, FunctionInfo] = {}
        self.is_test = is_test_file(path)
        self.shape_source: SourceFile | None = None
        #: The context of what costs time in the file: a test or a benchmark; None elsewhere.
        self.purpose = "test" if self.is_test else "benchmark" if is_benchmark_file(path) else None
        self.frame = Frame(self, record=True)
        self.grown: frozenset[str] = frozenset()
        if self.mentions_kernels:
            self.frame.names["__file__"] = FilePath(path)
            self.grown = grown_by_functions(source)
        self.functions: list[FunctionInfo] = []
        self.array_parts: set[cst.CSTNode] = set()  # subscripts of arrays
        self.kernels: dict[cst.CSTNode, list[CallFact]] = {}
        #: What this file's calls of shared functions gave, by whether these are run for constants.
        self.asked: dict[tuple[FunctionInfo, bool], dict[tuple[Value, ...], Value]] = {}
        #: What these calls assigned to attributes of shared classes.
        self.attributes: Attributes = {}
        #: What this file's calls of dataclasses and named tuples pass for their fields.
        self.fields: dict[tuple[ClassInfo, str], Value] = {}
        self._functions: dict[cst.CSTNode, FunctionInfo] = {}
        self._classes: dict[cst.CSTNode, ClassInfo] = {}
        self._facts: dict[FunctionInfo | None, list[Fact]] = {}
        self.gradient_roots: list[GradientRoot] = []
        #: Results of those, and the pulls that detach a gradient, once the file has been analysed.
        self.differentiated: tuple[DifferentiatedResult, ...] = ()
        self.detaching: frozenset[cst.CSTNode] = frozenset()
        self.launches: list[CallFact] | None = None  # as the calls of their functions make them
        self._state = "new"
        #: Whether it is settled which modules run before this one, where others import it.
        self.has_place = False
        self._sought: set[str] = set()
        self.is_analysed = False  # whether facts are being, or have been, recorded

    def run(self) -> None:
        """Run the top level, once. In a cycle of imports the names found so far must do."""
        if self.is_shared and not self.has_place:
            for module in running_order(self):
                module.run()
        if self._state == "new":
            self._state = "running"
            with self.project.calls.none():
                execute(self.frame, self.tree.body)
            if self.mentions_kernels:
                forget_lists(self)
            self._state = "done"

    @property
    def is_complete(self) -> bool:
        """Return whether the top level has been run to its end."""
        return self._state == "done"

    def member(self, name: str) -> Value:
        """Return the value of a top-level name of the module."""
        self.run()
        value = self.frame.names.get(name)
        if value is None and self._state == "running":
            value = self._early(name)
        return UNKNOWN if value is None else value

    def _early(self, name: str) -> Value | None:
        """Return a name's value for a cycle of imports, before the name is reached.

        Without running anything: a function, a class, or what an import takes from another module.
        """
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
        """Return the files that this one's findings depend on, even indirectly.

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
        """Return the facts recorded in a function, or at top level."""
        facts = self._facts.get(info)
        if facts is None:
            facts = self._facts[info] = []
        return facts

    def facts(self) -> list[Fact]:
        """Return all facts of the file, once it has been analysed."""
        found = [fact for facts in self._facts.values() for fact in facts]
        return [*found, *(self.launches or ())]

    def function_info(
        self, node: cst.FunctionDef | cst.Lambda, frame: Frame, cls: ClassInfo | None
    ) -> FunctionInfo:
        """Return the function of a ``def`` or lambda, made on first sight.

        In a shared function each call has its own, which sees the values of that call.
        """
        functions = frame.functions if frame.traceless else self._functions
        info = functions.get(node)
        if info is None:
            info = FunctionInfo(
                name=node.name.value if isinstance(node, cst.FunctionDef) else "<lambda>",
                node=node,
                module=self,
                cls=cls,
                outer=frame.info,
                parameters=function_parameters(node),
                statement=frame.statement,
            )
            functions[node] = info
            if not frame.traceless:
                self.functions.append(info)
        if info.closure is None or frame.record:
            info.closure = frame if cls is None else frame.outer
        return info

    def class_info(self, node: cst.ClassDef) -> ClassInfo:
        """Return the class of a ``class`` statement, made on first sight."""
        info = self._classes.get(node)
        if info is None:
            info = self._classes[node] = ClassInfo(node.name.value, node, self)
        return info

    @property
    def classes(self) -> tuple[ClassInfo, ...]:
        """The classes that have been seen so far."""
        return tuple(self._classes.values())

    def note_setters(self, cls: ClassInfo, method: FunctionInfo) -> None:
        """Index which attributes of ``self`` a method assigns."""
        if not method.parameters or isinstance(method.node, cst.Lambda):
            return
        names = tuple(assigned_attributes(method.node, method.parameters[0].name))
        cls.set_by[method] = names
        for name in names:
            cls.setters.setdefault(name, []).append(method)


def is_test_file(path: Path) -> bool:
    """Return whether pytest collects a file by its default ``python_files``, or it serves tests.

    A function outside such files is not a test, whatever its name: ``test_step`` of a trainer.
    """
    name = path.name
    if name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py":
        return True
    return any(part in TEST_FOLDERS for part in path.parent.parts[-2:])


def is_benchmark_file(path: Path) -> bool:
    """Return whether a file measures: it is named so, or a folder around it is."""
    names = (path.stem, *path.parent.parts[-3:])
    return any(name.startswith(("bench_", "benchmark")) or name == "bench" for name in names)
