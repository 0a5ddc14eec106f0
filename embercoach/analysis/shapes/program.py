"""The shapes of a program: what is run, with which arguments, and what comes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from embercoach.analysis.evaluate.imports import LIBRARIES
from embercoach.analysis.shapes import (
    expression_shapes,  # noqa: F401  (fill the tables of evaluators and executors)
    statement_paths,  # noqa: F401
    table,
)
from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape, AxesSymbol
from embercoach.analysis.shapes.call_memo import is_relevant
from embercoach.analysis.shapes.function_runs import run_function
from embercoach.analysis.shapes.general_values import general_arguments, general_instance
from embercoach.analysis.shapes.interpreter import (
    BudgetError,
    Machine,
    ShapeEvent,
    ShapeSite,
    SourceFile,
)
from embercoach.analysis.shapes.path_states import Frame
from embercoach.analysis.shapes.python_values import (
    ClassValue,
    FunctionValue,
    Items,
    ListReference,
    ModuleValue,
    Truth,
)
from embercoach.analysis.shapes.recorded_values import imported_beside, name_axes
from embercoach.analysis.shapes.table_calls import lowered

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: Different values of a node that are kept; with more of them it is unknown.
MOST_VALUES = 8
#: Items of a list that are looked at.
MOST_ITEMS = 64
#: The line of calls that are not in sight.
ANY_CALLER = 0

#: By the line of the call that runs it: the different values of an expression.
Values = dict[int, list[Any]]


class ValueMachine(Machine):
    """A machine that keeps the different values of the file's expressions."""

    def __init__(self, file: SourceFile, *, characters: int) -> None:
        """Prepare the run of a file; ``characters`` is its size."""
        super().__init__(file, characters=characters)
        self.values: dict[ast.AST, Values] = {}
        #: What is learned of unknown axes, perhaps after their array is first used.
        self.learned: dict[AxesSymbol, ArrayShape] = {}

    def evaluate(self, frame: Frame, node: ast.AST) -> Any:
        """Return the value of an expression, which is kept."""
        value = super().evaluate(frame, node)
        if frame.module is self.file and not self.names_numbers:
            line = ANY_CALLER if frame.is_root else frame.call_line
            known = self.values.setdefault(node, {}).setdefault(line, [])
            if len(known) < MOST_VALUES:
                keep(known, self._final(value))
        return value

    def commit(self) -> None:
        """Keep what happens on the path at hand, and what is learned there."""
        super().commit()
        self.learned.update(self.heap.facts.axes)

    def _final(self, value: Any) -> Any:
        """Return a value with what is known where it is computed."""
        if type(value) is ListReference:
            held = self.heap.objects.get(value.number)
            if type(held) is not Items or len(held.items or ()) > MOST_ITEMS:
                return UNKNOWN
        return lowered(self, value) if type(value) in _LOWERED else self.heap.value(value)


_LOWERED = (tuple, ListReference, Truth)


def keep(values: list[Any], value: Any) -> None:
    """Add a value to different ones."""
    if not any(one is value or (type(one) is type(value) and one == value) for one in values):
        values.append(value)


def analysed(
    file: SourceFile, characters: int, *, records: bool = False, keeps_values: bool = False
) -> Machine:
    """Run a file: at top level, then what nothing in it calls with arguments that are known.

    What raises does so without the assumption that sizes with names are above 1, too.

    Args:
        file: what is run.
        characters: its size.
        records: keep the values of assigned names.
        keeps_values: keep the values of all expressions.
    """
    if keeps_values:
        machine: Machine = ValueMachine(file, characters=characters)
    else:
        machine = Machine(file, characters=characters, records=records)
    run_program(machine)
    if not records and any(_is_certain(event) for event in machine.events.values()):
        strict = run_program(Machine(file, characters=characters, assumes=False)).events
        machine.events = {
            key: event
            for key, event in machine.events.items()
            if not _is_certain(event) or (key in strict and _is_certain(strict[key]))
        }
    return machine


def _is_certain(event: ShapeEvent) -> bool:
    """Return whether something raises, or isn't what its annotation says, for all sizes."""
    return event.condition is None and event.code in ("", "SHAPE-006")


def run_program(machine: Machine, *, with_names: bool = True) -> Machine:
    """Run the file of a machine, which keeps what it finds.

    with_names: also with symbols for the numbers that get names.
    """
    table.load()
    file = machine.file
    module = ModuleValue(Frame({"__name__": "__main__"}, None, file))
    machine.modules[file.path] = module
    module.frame.logged = [] if machine.keeps_records else None
    with suppress(BudgetError, RecursionError):
        machine.execute(module.frame, file.tree.body)
        machine.note_records(module.frame)
        machine.commit()
        machine.reached.clear()
        has_equal_numbers = any(len(names) > 1 for names in machine.named_numbers.values())
        imported = imported_beside(file) if machine.keeps_records else frozenset()
        for function, cls in _roots(module):
            if cls is None and function.name in imported:
                machine.special.add(function.node)
            if function.node in machine.special:
                machine.records.pop(function.node, None)
                machine.reached.discard(function.node)
            is_open = function.node not in machine.reached or function.node in machine.partly
            if is_open and is_relevant(function):
                # What callers pass says more than what they may.
                machine.silent = function.node in machine.records
                known = machine.events.copy() if function.node in machine.partly else None
                _run_root(machine, module, function, cls)
                if known is not None:
                    _keep_meanings(machine, known, has_numbers=machine.partly[function.node])
        if with_names and has_equal_numbers:
            _run_with_names(machine, file)
    if machine.is_patched:
        machine.events.clear()
    for values in machine.records.values():
        name_axes(values.values())
    return machine


def _keep_meanings(machine: Machine, known: dict[Any, ShapeEvent], *, has_numbers: bool) -> None:
    """Drop the sizes that have to be equal where all calls may make them so.

    ``has_numbers``: calls have numbers, with which nothing may raise, either.
    """

    def remains(event: ShapeEvent) -> bool:
        if event.condition is None:
            return bool(event.code) or not has_numbers
        return event.condition.is_unmeant and not has_numbers

    machine.events = {
        key: event for key, event in machine.events.items() if key in known or remains(event)
    }


def _run_with_names(machine: Machine, file: SourceFile) -> None:
    """Run a file's top level once more, with symbols for the numbers that get names there.

    Sizes that are equal by chance, ``BATCH = 16`` and ``SEQ = 16``, are distinguished this way.
    """
    known = machine.events
    machine.events = {}
    machine.names_numbers, machine.silent = True, True
    machine.memo.clear()
    machine.modules.pop(file.path, None)
    frame = Frame({"__name__": "__main__"}, None, file)
    machine.modules[file.path] = ModuleValue(frame)
    try:
        machine.execute(frame, file.tree.body)
        machine.commit()
    finally:
        machine.names_numbers = False
        found, machine.events = machine.events, known
        for key, event in found.items():
            if event.condition is not None and event.condition.adds_axes:
                machine.events.setdefault(key, event)


def _roots(module: ModuleValue) -> Iterator[tuple[FunctionValue, ClassValue | None]]:
    """Yield the functions of a file, the last ones first: what is below uses what is above it."""
    for value in reversed(list(module.frame.names.values())):
        if type(value) is FunctionValue and value.frame.module is module.frame.module:
            yield value, None
        elif type(value) is ClassValue and value.frame.module is module.frame.module:
            members = [m for m in value.members.values() if type(m) is FunctionValue]
            # ``__call__`` first: other methods may be its parts.
            for member in sorted(members, key=lambda m: m.name != "__call__"):
                if member.name != "__init__":
                    yield member, value


def _run_root(
    machine: Machine, module: ModuleValue, function: FunctionValue, cls: ClassValue | None
) -> None:
    """Run a function with the most general arguments.

    One that takes too many steps is given up; what it calls is run by itself.
    """
    frame = module.frame
    if isinstance(function.node, ast.Lambda):
        return
    parameters = function.positional
    names: dict[str, Any] = {}
    if cls is not None and "builtins.staticmethod" not in function.decorators and parameters:
        is_class = "builtins.classmethod" in function.decorators
        names[parameters[0].arg] = cls if is_class else general_instance(machine, cls)
        parameters = parameters[1:]
    names.update(general_arguments(machine, function, parameters))
    # What the constructor requires holds for each of its objects.
    state, reached = machine.heap.snapshot(frame), machine.reached.copy()
    if not machine.keeps_records:
        machine.floor = max(0, machine.left - STEPS_OF_ROOT)
    try:
        _run_general(machine, frame, function, names)
    except BudgetError:
        if machine.floor == 0:
            raise
        machine.reached = reached
        machine.rounds = machine.trials = 0
    machine.floor = 0
    machine.heap.restore(frame, state)


def _run_general(
    machine: Machine, frame: Frame, function: FunctionValue, names: dict[str, Any]
) -> None:
    """Run a function, and once more with what is learned late of the shapes of its arguments."""
    state = machine.heap.snapshot(frame)
    silent, left = machine.silent, machine.left
    machine.silent = silent or machine.keeps_records
    site = ShapeSite(machine, frame, function.node)
    run_function(site, function, dict(names), is_root=True)
    learned = {
        axes: shape
        for axes, known in machine.heap.facts.axes.items()
        if (shape := machine.heap.shape(known)).rank is not None or machine.keeps_records
    }
    machine.silent = silent
    machine.commit()
    if machine.keeps_records or (learned and left - machine.left < SHORT):
        machine.heap.restore(frame, state)
        machine.heap.facts.axes.update(learned)
        run_function(site, function, names, is_root=True)
        machine.commit()


#: Steps of a function that is run once more, when more is known of its arguments.
SHORT = 600
#: Steps of a function at most, and of all that it calls.
STEPS_OF_ROOT = 8_000


#: Libraries whose values have methods of arrays, with other parameters.
OTHER_ARRAYS = frozenset(("torch", "jax", "tensorflow"))


def source_file(module: Module) -> SourceFile | None:
    """Return a module as the inference of shapes reads it; None where Python can't parse it."""
    if module.parsed.outline is None:
        return None
    if module.shape_source is None:
        module.shape_source = SourceFile(
            module.path,
            module.parsed.outline,
            cache(partial(_imported_file, module)),
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


def _imported_file(module: Module, name: str, level: int) -> SourceFile | None:
    """Return the file that ``import name`` reads, None for one that is not the project's."""
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
