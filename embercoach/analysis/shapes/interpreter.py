"""The abstract interpreter: its state, and the dispatch of nodes by type.

``expression_shapes`` and ``statement_paths`` register what they evaluate here. ``Machine`` runs a
module, and keeps what they find. Nothing of the program is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from embercoach.analysis.shapes.arrays import UNKNOWN, weak_kind
from embercoach.analysis.shapes.path_states import Frame, Heap, Snapshot
from embercoach.analysis.shapes.python_values import (
    ClassValue,
    FunctionValue,
    LibraryName,
    ModuleValue,
    ObjectReference,
    Place,
)
from embercoach.analysis.shapes.recorded_values import learn_before_joins
from embercoach.analysis.shapes.value_joins import Joiner

if TYPE_CHECKING:
    from embercoach.analysis.shapes.annotated_shapes import WrittenShape
    from embercoach.analysis.shapes.requirements import Condition
    from embercoach.analysis.shapes.size_integers import Integer, SizeSymbol

    Handler = Callable[["Machine", Frame, Any], Any]

#: Calls inside each other.
DEEPEST = 24
#: Nodes that are evaluated for a file, and for each character of it.
STEPS, STEPS_OF_CHARACTER = 20_000, 2
#: Where values are recorded: no call is remembered there, and roots are run twice.
TIMES_RECORDED = 6
#: Events of one path that are kept.
MOST_EVENTS = 200
#: Results of one function that are kept, and one more that says that there are others.
MOST_RESULTS = 16
#: Conditions of a function on which all that follows is run twice.
MOST_SPLITS = 2


class SourceFile(Struct, frozen=True):
    """A file of the program: its path and tree, and how its imports are found.

    Attributes:
        path: of the file.
        tree: as ``ast`` parses it.
        find: the file that an import names (module, level), None for a library's.
        has_other_arrays: whether it mentions libraries whose values have array methods, too.
        source: its text, for the shapes in comments; empty where these are not read.
    """

    path: Path
    tree: ast.Module
    find: Callable[[str, int], SourceFile | None]
    has_other_arrays: bool = False
    source: str = ""


class ShapeEvent(Struct, frozen=True):
    """Something that a call or an operation does to its arguments' sizes.

    Attributes:
        node: the call or operation.
        file: that holds it.
        reason: one clause, with the sizes.
        condition: under which it does not raise; None if it always does.
        operation: what is called: ``matmul``, ``mlx.nn.Linear``.
        code: of the rule, where it is neither an error nor about two sizes.
        callers: the lines of the calls that lead here, the nearest first, with their files.
    """

    node: ast.AST
    file: SourceFile
    reason: str
    condition: Condition | None
    operation: str
    callers: tuple[tuple[SourceFile, int], ...] = ()
    code: str = ""


class ShapeSite(Struct):
    """An expression or a statement that is evaluated, in a frame."""

    machine: Machine
    frame: Frame
    node: ast.AST

    @property
    def heap(self) -> Heap:
        """The state on the path at hand."""
        return self.machine.heap

    def call(
        self, callee: Any, arguments: tuple[Any, ...] = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        """Call a value from here: ``function_runs.call_any``."""
        made = ShapeCall(self.machine, self.frame, self.node, arguments, keywords or {})
        return LINKS["call"](made, callee)

    def add_event(
        self, reason: str, condition: Condition | None, operation: str, code: str = ""
    ) -> None:
        """Note what happens here."""
        self.machine.add_event(self.frame, self.node, reason, condition, operation, code)


class ShapeCall(ShapeSite):
    """A call and what it passes.

    Attributes:
        arguments: by position.
        keywords: by name.
        is_complete: whether these are all arguments; else others are unknown.
    """

    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    is_complete: bool = True

    def with_first(self, owner: Any) -> ShapeCall:
        """Return the call with one more argument, ahead of the others."""
        return ShapeCall(
            self.machine,
            self.frame,
            self.node,
            (owner, *self.arguments),
            self.keywords,
            self.is_complete,
        )

    def value(self, at: int = 0, default: Any = UNKNOWN) -> Any:
        """Return the value of an argument, with all that is known of it."""
        return self.heap.value(self.arguments[at]) if at < len(self.arguments) else default


class BudgetError(Exception):
    """The steps for this file are used up."""


class Machine:
    """The interpreter of one file and what it imports.

    Attributes:
        heap: objects and facts on the path at hand.
        events: what is found, by node and reason.
        trials: above 0, alternatives are tried out: what they find is dropped.
        caught: above 0, the program handles what MLX raises for shapes.
        records: values of assigned names, by node, of each activation.
        results: values that a function returns, by its node.
    """

    def __init__(
        self, file: SourceFile, *, characters: int, records: bool = False, assumes: bool = True
    ) -> None:
        """Prepare the run of a file.

        Args:
            file: what is run.
            characters: its size, which bounds the steps.
            records: keep the values of assigned names.
            assumes: take sizes with names for above 1.
        """
        self.file = file
        self.heap = Heap()
        self.left = STEPS + STEPS_OF_CHARACTER * characters
        self.left *= TIMES_RECORDED if records else 1
        #: Below so many steps left, the function at hand is given up.
        self.floor = 0
        self.events: dict[tuple[int, Hashable], ShapeEvent] = {}
        self.trials = self.caught = 0
        #: Loops that are running.
        self.rounds = 0
        self.keeps_records = records
        self.assumes = assumes
        #: By function (None for a module) the values of its assigned names in all activations.
        self.records: dict[ast.AST | None, dict[tuple[ast.AST, str], Any]] = {}
        self.results: dict[ast.AST, list[Any]] = {}
        #: By the id of a body, which is kept: its places of repeated conditions.
        self._repeated: dict[int, tuple[list[ast.stmt], frozenset[int]]] = {}
        self.modules: dict[Path, ModuleValue] = {}
        #: By a custom function's node: its ``vjp``.
        self.backward: dict[ast.AST, FunctionValue] = {}
        #: By a function's node: the shapes that its parameters' annotations and comments name.
        self.written: dict[ast.AST, dict[str, WrittenShape]] = {}
        self.active: list[FunctionValue] = []
        self.reached: set[ast.AST] = set()
        #: Functions that are called for any of several objects, or (true) with numbers alone.
        self.partly: dict[ast.AST, bool] = {}
        #: Of the functions that are called, those whose other callers may pass other shapes.
        self.special: set[ast.AST] = set()
        self.instances: dict[ClassValue, Any] = {}
        self.open_attributes: dict[tuple[int, str], Any] = {}
        self.memo: dict[Any, Any] = {}
        self.defaults: dict[SizeSymbol, int] = {}
        #: Sizes of two axes of one weight: what takes one of them gives the other.
        self.unlike: set[frozenset[Integer]] = set()
        self.silent = False
        #: The states after the branches of an ``if``, where an array has fewer axes in one.
        self.parted: tuple[Snapshot, Snapshot] | None = None
        #: Whether numbers that get a name are symbols; where not, the names of each number.
        self.names_numbers = False
        self.named_numbers: dict[int, set[str]] = {}
        #: Whether the program may replace functions of MLX: what they require is unknown then.
        self.is_patched = False

    def evaluate(self, frame: Frame, node: ast.AST) -> Any:
        """Return the value of an expression."""
        self.left -= 1
        if self.left < self.floor:
            raise BudgetError
        handler = EVALUATORS.get(type(node))
        return UNKNOWN if handler is None else handler(self, frame, node)

    def part_of(self, owner: Place | ObjectReference, key: str, name: str) -> Place:
        """Return the setting that is a part of another one: the same whenever it is read."""
        place = (owner.number if type(owner) is ObjectReference else id(owner), key)
        found: Place | None = self.open_attributes.get(place)
        if found is None:
            found = self.open_attributes[place] = Place(name, is_setting=True, scope=owner)
        return found

    def peek(self, frame: Frame, node: ast.AST) -> Any:
        """Return the value of an expression, of which nothing is kept that it finds."""
        with self.trying():
            return self.evaluate(frame, node)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Drop what is found meanwhile."""
        self.trials += 1
        try:
            yield
        finally:
            self.trials -= 1

    def execute(self, frame: Frame, body: list[ast.stmt]) -> bool:
        """Run statements; return whether the program can go on after them."""
        if id(body) not in self._repeated:
            self._repeated[id(body)] = body, repeated_tests(body)
        repeated = self._repeated[id(body)][1]
        for at, node in enumerate(body):
            self.left -= 1
            if self.left < self.floor:
                raise BudgetError
            if at in repeated and frame.splits < MOST_SPLITS and isinstance(node, ast.If):
                goes_on: bool | None = LINKS["split"](self, frame, node, body[at + 1 :])
                if goes_on is not None:
                    return goes_on
                continue
            handler = EXECUTORS.get(type(node))
            if handler is not None and handler(self, frame, node) is False:
                return False
            if self.parted is not None:
                states, self.parted = self.parted, None
                rest = body[at + 1 :]
                if rest and frame.splits < MOST_SPLITS and isinstance(node, ast.If):
                    return bool(LINKS["part"](self, frame, states, rest))
        return True

    def note_records(self, frame: Frame) -> None:
        """Keep the values of assigned names, with all that is learned by the end of the frame.

        Activations with different sizes are one with symbols that stand for either.
        """
        if not frame.logged or self.silent:
            return
        values: dict[tuple[ast.AST, str], Any] = {}
        facts = self.heap.facts
        self.heap.facts = facts.copy()
        learn_before_joins(self.heap)
        joiner = Joiner(self.heap.facts, self.heap.facts)
        for node, name, value in frame.logged:
            final = self.heap.value(value)
            key = (node, name)
            values[key] = joiner.value(values[key], final, name) if key in values else final
        self.heap.facts = facts
        function = None if frame.function is None else frame.function.node
        known = self.records.get(function)
        if known is None:
            self.records[function] = values
            return
        joiner = Joiner(self.heap.facts, self.heap.facts)
        # Numbers first: those that differ between activations get their names.
        for key, value in sorted(values.items(), key=lambda one: weak_kind(one[1]) != "int"):
            known[key] = joiner.value(known[key], value, key[1]) if key in known else value

    def note_result(self, function: FunctionValue, value: Any) -> Any:
        """Keep what a call of a function returns, and return it."""
        if not self.names_numbers:
            known = self.results.setdefault(function.node, [])
            if len(known) <= MOST_RESULTS:
                known.append(value)
        return value

    def add_event(
        self,
        frame: Frame,
        node: ast.AST,
        reason: str,
        condition: Condition | None,
        operation: str,
        code: str = "",
    ) -> None:
        """Note what a call does on the path at hand; without a condition or code, it raises."""
        facts = self.heap.facts
        if condition is None and not code:
            facts.failed = True
        if self.trials or (self.caught and not code) or len(facts.events) >= MOST_EVENTS:
            return
        callers = []
        at: Frame | None = frame
        while at is not None and at.caller is not None:
            callers.append((at.caller.module, at.call_line))
            at = at.caller
        event = ShapeEvent(node, frame.module, reason, condition, operation, tuple(callers), code)
        facts.events = (*facts.events, event)

    def note_patch(self, arguments: tuple[Any, ...]) -> None:
        """Note that code out of sight gets MLX's module, whose functions it may replace."""
        if any(
            type(one) is LibraryName and one.name in ("mlx.core", "mlx.nn") for one in arguments
        ):
            self.is_patched = True

    def commit(self) -> None:
        """Keep what happens on the path at hand; the first of its kind at each node.

        One of known axes takes the place of one of unknown axes, which says less of its sizes.
        """
        for event in self.heap.facts.events:
            condition = event.condition
            # Sizes of one name are of different things, in different runs.
            kind = event.code if condition is None else (condition.left, condition.right)
            self.events.setdefault((id(event.node), kind), event)
        self.heap.facts.events = ()
        self.heap.facts.failed = False


def repeated_tests(body: list[ast.stmt]) -> frozenset[int]:
    """Get the places of ``if`` statements whose condition a later one of the body has as well."""
    keys = {
        at: key
        for at, node in enumerate(body)
        if type(node) is ast.If and (key := _key_of(node.test))
    }
    if not keys:
        return frozenset()
    wanted = set(keys.values())
    found = set()
    later: set[str] = set()
    for at in range(len(body) - 1, min(keys) - 1, -1):
        if at in keys and keys[at] in later:
            found.add(at)
        later |= _tests_in(body[at], wanted)
    return frozenset(found)


def _tests_in(node: ast.AST, wanted: set[str]) -> set[str]:
    """Return those of some conditions that an ``if`` in a statement has."""
    found: set[str] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, (ast.If, ast.IfExp)):
            key = _key_of(one.test)
            if key in wanted:
                found.add(key)
        if isinstance(one, ast.stmt):
            for name in ("body", "orelse", "finalbody"):
                pending += getattr(one, name, ())
            value = getattr(one, "value", None)
            if value is not None:
                pending.append(value)
        elif isinstance(one, ast.Call):
            pending += one.args
            pending += [keyword.value for keyword in one.keywords]
    return found


def _key_of(test: ast.expr) -> str:
    """Return a name or an attribute that is tested, whether for truth or for ``None``."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _name_of(test.left)
    return _name_of(test)


def _name_of(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


#: By type of node: expressions give values, statements False where the program can't go on.
EVALUATORS: dict[type[ast.AST], Handler] = {}
EXECUTORS: dict[type[ast.AST], Handler] = {}


#: Functions of modules that import this one's users, by name.
LINKS: dict[str, Callable[..., Any]] = {}


def link(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that modules below its own call."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        LINKS[name] = function
        return function

    return register


def assign(machine: Machine, frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind a target to a value: ``assigned_targets.assign_target``."""
    LINKS["assign"](machine, frame, target, value)


def _registers(
    table: dict[type[ast.AST], Handler],
) -> Callable[..., Callable[[Handler], Handler]]:
    """Make the decorator of what handles nodes of some types."""

    def of(*kinds: type[ast.AST]) -> Callable[[Handler], Handler]:
        def register(function: Handler) -> Handler:
            table.update(dict.fromkeys(kinds, function))
            return function

        return register

    return of


evaluates, executes = _registers(EVALUATORS), _registers(EXECUTORS)
