"""Execution of statements, path by path."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from embercoach.analysis.shapes import function_runs
from embercoach.analysis.shapes.annotated_shapes import compare_assigned
from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DTypeSymbol,
    ShapedArray,
    weak_kind,
)
from embercoach.analysis.shapes.assigned_targets import assign_target, bind_name, extend, scope_of
from embercoach.analysis.shapes.attributes import iterable_of, library_name
from embercoach.analysis.shapes.interpreter import Machine, ShapeSite, SourceFile, executes, link
from embercoach.analysis.shapes.operations import binary, iterated_items, truth_of
from embercoach.analysis.shapes.path_conditions import assume
from embercoach.analysis.shapes.path_states import Frame, Snapshot, changed_between
from embercoach.analysis.shapes.python_values import (
    Attributes,
    ClassValue,
    Entries,
    Items,
    ListReference,
    ModuleValue,
    Options,
    Place,
)
from embercoach.analysis.shapes.size_integers import ANY_INT, SizeSymbol, symbol
from embercoach.analysis.shapes.value_joins import is_invariant, joined_values, shape_under

#: Modules inside each other that are read.
DEEPEST_IMPORT = 6
#: Rounds of a loop that are run one by one, where their number is known.
MOST_ROUNDS = 12


@executes(ast.Expr)
def _expression(machine: Machine, frame: Frame, node: ast.Expr) -> bool:
    value = node.value
    if type(value) is not ast.Constant:
        machine.evaluate(frame, value)
        if type(value) is ast.Call and _exits(frame, value):
            return False
    return True


def _exits(frame: Frame, node: ast.Call) -> bool:
    """``sys.exit()``, ``exit()``, ``pytest.skip()``."""
    func = node.func
    if type(func) is ast.Name:
        return func.id in ("exit", "quit") and frame.find(func.id) is None
    return (
        type(func) is ast.Attribute
        and type(func.value) is ast.Name
        and f"{func.value.id}.{func.attr}" in _EXITS
    )


_EXITS = frozenset(
    ("sys.exit", "os._exit", "parser.error", "pytest.skip", "pytest.fail", "pytest.xfail")
)


# -- assignment ------------------------------------------------------------------------------


@executes(ast.Assign)
def _assign(machine: Machine, frame: Frame, node: ast.Assign) -> bool:
    value = compare_assigned(machine, frame, node, machine.evaluate(frame, node.value))
    for target in node.targets:
        value = _named_number(machine, frame, target, value)
        assign_target(machine, frame, target, value)
    return True


def _named_number(machine: Machine, frame: Frame, target: ast.expr, value: Any) -> Any:
    """Get a number above 1; where these are asked for, a symbol of the name it is assigned to."""
    if type(target) is ast.Tuple and type(value) is tuple and len(value) == len(target.elts):
        return tuple(
            _named_number(machine, frame, one, item)
            for one, item in zip(target.elts, value, strict=True)
        )
    if type(target) is not ast.Name or type(value) is not int or value < 2:
        return value
    if not machine.names_numbers:
        if frame.module is machine.file:
            machine.named_numbers.setdefault(value, set()).add(target.id)
        return value
    key = (id(target), "number")
    found = machine.open_attributes.get(key)
    if found is None:
        found = symbol(target.id, place=scope_of(frame), is_local=False)
        machine.open_attributes[key] = found
    return found


@executes(ast.AnnAssign)
def _annotated(machine: Machine, frame: Frame, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        value = compare_assigned(machine, frame, node, machine.evaluate(frame, node.value))
        assign_target(machine, frame, node.target, value)
    return True


@executes(ast.AugAssign)
def _augmented(machine: Machine, frame: Frame, node: ast.AugAssign) -> bool:
    target = node.target
    old = machine.heap.value(machine.evaluate(frame, target))
    right = machine.evaluate(frame, node.value)
    if type(old) is ListReference and type(node.op) is ast.Add:
        extend(machine, old, machine.heap.value(right))
        return True
    value = binary(ShapeSite(machine, frame, node), type(node.op), old, right)
    if isinstance(target, ast.Subscript) and type(old) is ShapedArray:
        return True  # keeps the shape of what it is written to
    assign_target(machine, frame, target, compare_assigned(machine, frame, node, value))
    return True


# -- branches --------------------------------------------------------------------------------


@executes(ast.If)
def _if(machine: Machine, frame: Frame, node: ast.If) -> bool:
    truth = truth_of(machine, machine.evaluate(frame, node.test))
    if type(truth) is bool:
        assume(machine, frame, node.test, truth, truth)
        return machine.execute(frame, node.body if truth else node.orelse)
    if type(node.body[0]) is ast.Raise and not node.orelse:
        return assume(machine, frame, node.test, False, truth)
    return _either(machine, frame, node, truth)


def _either(
    machine: Machine, frame: Frame, node: ast.If, truth: Any, rest: list[ast.stmt] | None = None
) -> bool:
    """Run both branches of an ``if``, each with what follows it."""

    def run(holds: bool, body: list[ast.stmt]) -> Callable[[], bool]:
        return lambda: (
            assume(machine, frame, node.test, holds, truth)
            and machine.execute(frame, body)
            and (rest is None or machine.execute(frame, rest))
        )

    branches = [run(True, node.body), run(False, node.orelse)]
    return _branches(machine, frame, branches, invariant=is_invariant(truth))


def _branches(
    machine: Machine,
    frame: Frame,
    branches: list[Callable[[], bool]],
    *,
    invariant: bool = False,
) -> bool:
    """Run alternatives from the state at hand, and go on with what they have in common."""
    heap = machine.heap
    start = heap.snapshot(frame)
    result: Snapshot | None = None
    parted: tuple[Snapshot, Snapshot] | None = None
    for at, branch in enumerate(branches):
        heap.restore(frame, start if at == len(branches) - 1 else start.copy())
        if branch():
            ended = heap.snapshot(frame)
            if result is None:
                result = ended
                continue
            before, result = result, heap.join(result, ended, is_invariant=invariant)
            parted = (before, ended) if _differ_in_rank(before, ended) else None
    if result is None:
        return False
    heap.restore(frame, result)
    machine.parted = parted
    return True


def _differ_in_rank(a: Snapshot, b: Snapshot) -> bool:
    """Return whether an array of one name has more axes in one of two states."""
    if a.facts.failed or b.facts.failed:
        return False
    for name, value in a.names.items():
        other = b.names.get(name)
        if type(value) is not ShapedArray or type(other) is not ShapedArray or value is other:
            continue
        ranks = shape_under(a.facts, value.shape).rank, shape_under(b.facts, other.shape).rank
        if None not in ranks and ranks[0] != ranks[1]:
            return True
    return False


@link("part")
def _part(
    machine: Machine, frame: Frame, states: tuple[Snapshot, Snapshot], rest: list[ast.stmt]
) -> bool:
    """Run what follows the branches of an ``if`` after each of them."""

    def run(state: Snapshot) -> Callable[[], bool]:
        def go_on() -> bool:
            machine.heap.restore(frame, state)
            return machine.execute(frame, rest)

        return go_on

    frame.splits += 1
    try:
        return _branches(machine, frame, list(map(run, states)))
    finally:
        frame.splits -= 1


@link("split")
def _split(machine: Machine, frame: Frame, node: ast.If, rest: list[ast.stmt]) -> bool | None:
    """Run an ``if`` and all that follows it, once for each branch: it is tested there again.

    None where the branch is known and goes on.
    """
    truth = truth_of(machine, machine.evaluate(frame, node.test))
    if type(truth) is bool:
        assume(machine, frame, node.test, truth, truth)
        return None if machine.execute(frame, node.body if truth else node.orelse) else False
    frame.splits += 1
    try:
        return _either(machine, frame, node, truth, rest)
    finally:
        frame.splits -= 1


@executes(ast.Match)
def _match(machine: Machine, frame: Frame, node: ast.Match) -> bool:
    machine.evaluate(frame, node.subject)

    def case(one: ast.match_case) -> Callable[[], bool]:
        def run() -> bool:
            for part in ast.walk(one.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    bind_name(frame, name, UNKNOWN)
            return machine.execute(frame, one.body)

        return run

    return _branches(machine, frame, [*map(case, node.cases), lambda: True])


# -- loops -----------------------------------------------------------------------------------


#: Rounds after which what still changes is unknown; in loops of loops it is after one.
EXACT_ROUNDS = 2


class _Loop(Struct):
    """The states in which the rounds of a loop end by ``break`` and ``continue``.

    targets: the names that each round assigns before it reads them.
    """

    targets: frozenset[str] = frozenset()
    breaks: list[Snapshot] = field(default_factory=list)
    continues: list[Snapshot] = field(default_factory=list)


def _names_in(target: ast.expr | None) -> frozenset[str]:
    if isinstance(target, ast.Name):
        return frozenset((target.id,))
    if isinstance(target, (ast.Tuple, ast.List)):
        return frozenset().union(*map(_names_in, target.elts))
    return frozenset()


@executes(ast.Break, ast.Continue)
def _jump(machine: Machine, frame: Frame, node: ast.Break | ast.Continue) -> bool:
    if frame.loops:  # Python refuses one elsewhere
        loop = frame.loops[-1]
        states = loop.breaks if type(node) is ast.Break else loop.continues
        states.append(machine.heap.snapshot(frame))
    return False


@executes(ast.For, ast.AsyncFor)
def _for(machine: Machine, frame: Frame, node: ast.For) -> bool:
    value = machine.heap.value(machine.evaluate(frame, node.iter))
    held = iterated_items(machine, iterable_of(ShapeSite(machine, frame, node), value))
    loop = _Loop(_names_in(node.target))
    frame.loops.append(loop)
    try:
        if held.items is not None and len(held.items) <= MOST_ROUNDS:
            goes_on = _known_rounds(machine, frame, node, held.items, loop)
        else:
            item = held.common if held.items is None else _any(held.items)
            goes_on = _rounds(
                machine, frame, node.body, loop, lambda: _next_item(machine, frame, node, item)
            )
    finally:
        frame.loops.pop()
    if goes_on and node.orelse:
        goes_on = machine.execute(frame, node.orelse)
    return _after(machine, frame, loop, goes_on=goes_on)


def _any(items: tuple[Any, ...]) -> Any:
    if all(type(item) is int for item in items):
        return ANY_INT
    first = items[0]
    is_same = all(item is first or item == first for item in items)
    return first if is_same else joined_values(list(items))


def _next_item(machine: Machine, frame: Frame, node: ast.For, item: Any) -> bool:
    assign_target(machine, frame, node.target, item)
    return True


def _known_rounds(
    machine: Machine, frame: Frame, node: ast.For, items: tuple[Any, ...], loop: _Loop
) -> bool:
    for item in items:
        assign_target(machine, frame, node.target, item)
        goes_on = machine.execute(frame, node.body)
        if not _after(machine, frame, loop, goes_on=goes_on, continues=True):
            return False
    return True


def _after(
    machine: Machine, frame: Frame, loop: _Loop, *, goes_on: bool, continues: bool = False
) -> bool:
    """Go on after a round, or after the loop, in any of the states that lead there."""
    heap = machine.heap
    states = loop.continues if continues else loop.breaks
    if goes_on:
        if not states:
            return True
        states = [heap.snapshot(frame), *states]
    if continues:
        loop.continues = []
    else:
        loop.breaks = []
    if not states:
        return False
    heap.restore(frame, reduce(heap.join, states))
    return True


def _rounds(
    machine: Machine,
    frame: Frame,
    body: list[ast.stmt],
    loop: _Loop,
    begin: Callable[[], bool],
) -> bool:
    """Run the body until the state at its head changes no more; go on with that state."""
    heap = machine.heap
    head = heap.snapshot(frame)
    fresh: set[SizeSymbol | DTypeSymbol | AxesSymbol] = set()
    exact = EXACT_ROUNDS if machine.rounds == 0 or machine.keeps_records else 0
    machine.rounds += 1
    for at in range(exact + 2):
        heap.restore(frame, head.copy())
        if not begin():
            break
        goes_on = machine.execute(frame, body)
        if not _after(machine, frame, loop, goes_on=goes_on, continues=True):
            break
        before = head
        # How many axes an array has does not depend on whether there is a round.
        known = head.facts.axes
        for axes, shape in heap.facts.axes.items():
            if axes not in known:
                known[axes] = heap.shape(shape)
        if heap.facts.failed and not head.facts.failed:
            # A loop whose rounds raise is one that raises.
            head = heap.snapshot(frame)
            break
        head = heap.join(head, heap.snapshot(frame), fresh)
        # What is learned of the sizes of one round does not hold in the next one.
        head.facts.sizes = {k: v for k, v in head.facts.sizes.items() if k not in fresh}
        is_same = _has_same_objects(before, head) and all(
            name in loop.targets or _is_as_before(before.names.get(name, UNKNOWN), value)
            for name, value in head.names.items()
        )
        if is_same or (not machine.keeps_records and _settles(before, head, loop.targets)):
            break
        if at == exact:
            _forget_changes(before, head)
    machine.rounds -= 1
    heap.restore(frame, head)
    return True


def _is_as_before(old: Any, value: Any) -> bool:
    """Return whether a round has left a value as it was; one unknown value is as any other."""
    if type(old) is type(value) and old == value:
        return True
    if type(old) is Options and type(value) is Options and len(old.values) == len(value.values):
        return all(any(_is_as_before(one, other) for one in old.values) for other in value.values)
    return _is_vague(old) and _is_vague(value)


def _has_same_objects(a: Snapshot, b: Snapshot) -> bool:
    """Return whether a round has left the objects that were there before it as they were."""
    return all(
        number not in a.heap or a.heap[number] == b.heap[number]
        for number in changed_between(a.changes, b.changes)
    )


def _is_vague(value: Any) -> bool:
    return value is UNKNOWN or (type(value) is Place and not value.is_setting)


def _settles(before: Snapshot, head: Snapshot, targets: frozenset[str]) -> bool:
    """Return whether a round has changed nothing but dtypes, which are unknown then."""
    if not _has_same_objects(before, head):
        return False
    changed: dict[str, Any] = {}
    for name, value in head.names.items():
        old = before.names.get(name, UNKNOWN)
        if name in targets or _is_as_before(old, value):
            continue
        if type(old) is not ShapedArray or type(value) is not ShapedArray:
            if name in before.names:
                return False
            continue
        if shape_under(head.facts, old.shape) != shape_under(head.facts, value.shape):
            return False
        if old.dtype != value.dtype:
            changed[name] = ShapedArray(value.shape, None, value.line, value.origin)
    head.names.update(changed)
    return True


def _forget_changes(before: Snapshot, head: Snapshot) -> None:
    """Set what still changes after some rounds to unknown."""
    for name, value in head.names.items():
        old = before.names.get(name, value)
        if old != value:
            head.names[name] = _widened(_known_array(head, old), _known_array(head, value))
    for number in changed_between(before.changes, head.changes):
        old, value = before.heap.get(number), head.heap[number]
        if old is not None and old != value:
            head.heap[number] = _widened_object(old, value)


def _known_array(head: Snapshot, value: Any) -> Any:
    """Return an array with all that is learned of its shape."""
    if type(value) is not ShapedArray:
        return value
    return replace(value, shape=shape_under(head.facts, value.shape))


def _widened(old: Any, value: Any) -> Any:
    """Return the common part of two rounds' values of one place."""
    if type(value) is ShapedArray:
        rank = value.shape.rank
        if rank is None or type(old) is not ShapedArray or old.shape.rank != rank:
            return ShapedArray(ArrayShape((), AxesSymbol()), None, value.line)
        sizes = [
            m if m == n else ANY_INT for m, n in zip(old.shape.head, value.shape.head, strict=True)
        ]
        dtype = value.dtype if value.dtype == old.dtype else None
        return ShapedArray(ArrayShape(tuple(sizes)), dtype, value.line)
    return ANY_INT if weak_kind(value) == "int" else UNKNOWN


def _widened_object(old: Any, value: Any) -> Any:
    if type(value) is Items:
        return Items(None, UNKNOWN)
    if type(value) is Entries:
        return Entries({}, is_open=True)
    if type(value) is Attributes and type(old) is Attributes:
        values = {
            k: v if k in old.values and old.values[k] == v else _widened(old.values.get(k), v)
            for k, v in value.values.items()
        }
        return Attributes(values, value.is_summary, value.doubtful)
    return UNKNOWN


@executes(ast.While)
def _while(machine: Machine, frame: Frame, node: ast.While) -> bool:
    truth = truth_of(machine, machine.evaluate(frame, node.test))
    if truth is False:
        return machine.execute(frame, node.orelse)
    is_endless = type(node.test) is ast.Constant and bool(node.test.value)
    loop = _Loop()
    frame.loops.append(loop)
    try:
        _rounds(machine, frame, node.body, loop, lambda: _begins(machine, frame, node))
    finally:
        frame.loops.pop()
    goes_on = not is_endless
    if goes_on:
        assume(machine, frame, node.test, False, ANY_BOOL)
        goes_on = machine.execute(frame, node.orelse)
    return _after(machine, frame, loop, goes_on=goes_on)


def _begins(machine: Machine, frame: Frame, node: ast.While) -> bool:
    truth = truth_of(machine, machine.evaluate(frame, node.test))
    return assume(machine, frame, node.test, True, truth)


# -- the rest --------------------------------------------------------------------------------


@executes(ast.Return)
def _return(machine: Machine, frame: Frame, node: ast.Return) -> bool:
    value = None if node.value is None else machine.evaluate(frame, node.value)
    if frame.returns is not None:
        value = machine.heap.value(value)
        if frame.logged is not None:
            frame.logged.append((node, "", value))
        frame.returns.append((value, machine.heap.snapshot(frame)))
    return False


@executes(ast.Raise)
def _raise(machine: Machine, frame: Frame, node: ast.Raise) -> bool:
    return False


@executes(ast.Assert)
def _assert(machine: Machine, frame: Frame, node: ast.Assert) -> bool:
    truth = truth_of(machine, machine.evaluate(frame, node.test))
    if truth is False:
        return False
    return assume(machine, frame, node.test, True, truth)


@executes(ast.With, ast.AsyncWith)
def _with(machine: Machine, frame: Frame, node: ast.With) -> bool:
    expects_error = False
    for item in node.items:
        value = machine.evaluate(frame, item.context_expr)
        called = item.context_expr
        if type(called) is ast.Call:
            func = called.func
            name = getattr(func, "attr", getattr(func, "id", ""))
            expects_error = expects_error or name.lower() in _EXPECTING or "raise" in name.lower()
        if item.optional_vars is not None:
            held = value if type(value) is ListReference else UNKNOWN
            assign_target(machine, frame, item.optional_vars, held)
    if not expects_error:
        return machine.execute(frame, node.body)
    return _tried(machine, frame, node.body)


_EXPECTING = ("raises", "assertraises", "assertraisesregex", "suppress")


def _tried(machine: Machine, frame: Frame, body: list[ast.stmt]) -> bool:
    """Run what may raise at any point: what it finds is dropped, and what it changes may hold."""
    heap = machine.heap
    before = heap.snapshot(frame)
    with machine.trying():
        goes_on = machine.execute(frame, body)
    heap.restore(frame, heap.join(before, heap.snapshot(frame)) if goes_on else before)
    return True


@executes(ast.Try)
def _try(machine: Machine, frame: Frame, node: ast.Try) -> bool:
    heap = machine.heap
    before = heap.snapshot(frame)
    catches = any(_catches_shapes(handler) for handler in node.handlers)
    machine.caught += catches
    try:
        goes_on = machine.execute(frame, node.body)
    finally:
        machine.caught -= catches
    if goes_on and node.orelse:
        goes_on = machine.execute(frame, node.orelse)
    states = [heap.snapshot(frame)] if goes_on else []
    after = heap.snapshot(frame)
    for handler in node.handlers:
        heap.restore(frame, heap.join(before.copy(), after.copy()))
        if handler.name:
            bind_name(frame, handler.name, UNKNOWN)
        if machine.execute(frame, handler.body):
            states.append(heap.snapshot(frame))
    if not states:
        if node.finalbody:
            machine.execute(frame, node.finalbody)
        return False
    heap.restore(frame, reduce(heap.join, states))
    return machine.execute(frame, node.finalbody)


if hasattr(ast, "TryStar"):
    executes(ast.TryStar)(_try)


def _catches_shapes(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches what MLX raises for shapes."""
    if handler.type is None:
        return True
    names = [n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)]
    names += [n.attr for n in ast.walk(handler.type) if isinstance(n, ast.Attribute)]
    return not names or any(name not in _OTHER_ERRORS for name in names)


_OTHER_ERRORS = frozenset(
    [
        *("ImportError", "ModuleNotFoundError", "KeyError", "OSError", "FileNotFoundError"),
        *("KeyboardInterrupt", "EOFError", "StopIteration", "ImportWarning", "PermissionError"),
        *("UnicodeDecodeError", "JSONDecodeError", "TimeoutError"),
    ]
)


@executes(ast.Delete)
def _delete(machine: Machine, frame: Frame, node: ast.Delete) -> bool:
    for target in node.targets:
        if type(target) is ast.Name:
            frame.names.pop(target.id, None)
    return True


@executes(ast.Global, ast.Nonlocal)
def _global(machine: Machine, frame: Frame, node: ast.Global) -> bool:
    frame.globals_named = frame.globals_named | frozenset(node.names)
    return True


@executes(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(machine: Machine, frame: Frame, node: ast.FunctionDef) -> bool:
    frame.names[node.name] = function_runs.decorated(machine, frame, node)
    return True


@executes(ast.ClassDef)
def _class(machine: Machine, frame: Frame, node: ast.ClassDef) -> bool:
    bases = tuple(machine.evaluate(frame, base) for base in node.bases)
    decorators = [function_runs.decorator_name(machine, frame, one) for one in node.decorator_list]
    inner = Frame({}, frame, frame.module, depth=frame.depth)
    is_dataclass = any(name.startswith("dataclasses.dataclass") for name in decorators)
    cls = ClassValue(node.name, node, frame, bases, inner.names, is_dataclass=is_dataclass)
    inner.cls = cls
    machine.execute(inner, node.body)
    cls.members.update(inner.names)
    frame.names[node.name] = cls
    return True


# -- imports ---------------------------------------------------------------------------------


@executes(ast.Import)
def _import(machine: Machine, frame: Frame, node: ast.Import) -> bool:
    for alias in node.names:
        first = alias.name.partition(".")[0]
        name = alias.asname or first
        found = frame.module.find(alias.name, 0)
        if found is None:
            frame.names[name] = library_name(alias.name if alias.asname else first)
        else:
            module = _module_of(machine, frame, found)
            # ``import a.b`` binds ``a``, which is not read.
            frame.names[name] = module if alias.asname or alias.name == first else UNKNOWN
    return True


@executes(ast.ImportFrom)
def _import_from(machine: Machine, frame: Frame, node: ast.ImportFrom) -> bool:
    found = frame.module.find(node.module or "", node.level)
    module = UNKNOWN if found is None else _module_of(machine, frame, found)
    names = module.frame.names if type(module) is ModuleValue else {}
    for alias in node.names:
        name = alias.name
        if name == "*":
            frame.names.update((k, v) for k, v in names.items() if not k.startswith("_"))
            continue
        value = names.get(name, UNKNOWN)
        if name not in names:
            inner = frame.module.find(f"{node.module}.{name}" if node.module else name, node.level)
            if inner is not None:
                value = _module_of(machine, frame, inner)
            elif found is None and not node.level and node.module:
                value = library_name(f"{node.module}.{name}")
        frame.names[alias.asname or name] = value
    return True


def _module_of(machine: Machine, frame: Frame, file: SourceFile) -> Any:
    """The module of a file, run at top level; unknown while it is being imported in a circle."""
    if file.path not in machine.modules:
        if frame.depth >= DEEPEST_IMPORT:
            return UNKNOWN
        module = ModuleValue(Frame({"__name__": ""}, None, file, depth=frame.depth + 1))
        machine.modules[file.path] = module
        with machine.trying():
            machine.execute(module.frame, file.tree.body)
    return machine.modules[file.path]
