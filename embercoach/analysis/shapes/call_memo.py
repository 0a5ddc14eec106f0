"""Calls that need not run: what has nothing to do with arrays, and what would do the same again."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape, AxesSymbol
from embercoach.analysis.shapes.attributes import ARRAY_MEMBERS
from embercoach.analysis.shapes.path_states import Heap, changed_between, next_serials
from embercoach.analysis.shapes.python_values import (
    BoundFunction,
    DictReference,
    Entries,
    FunctionValue,
    Iterator,
    Options,
    PartialCall,
    Reference,
)
from embercoach.analysis.shapes.size_integers import Integer, SizeSymbol, of_atom

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine, SourceFile
    from embercoach.analysis.shapes.value_joins import Facts

#: A function of so few nodes is always run: it may compute a size.
SMALL = 80

_known: WeakKeyDictionary[ast.Module, frozenset[ast.AST]] = WeakKeyDictionary()


def is_relevant(function: FunctionValue) -> bool:
    """Return whether a function, or what it names, computes with MLX, or is a layer's or small."""
    if function.name == "__call__" and function.cls is not None:
        return True
    file: SourceFile = function.frame.module
    found = _known.get(file.tree)
    if found is None:
        found = _known[file.tree] = _relevant(file.tree)
    return function.node in found or isinstance(function.node, ast.Lambda)


class _Scope(Struct, eq=False):
    """A function or class: the names and attributes in it, and the number of its nodes."""

    node: ast.AST
    outer: _Scope | None
    words: set[str] = field(default_factory=set)
    size: int = 0


def _relevant(tree: ast.Module) -> frozenset[ast.AST]:
    scopes, names = _scopes(tree)
    names |= ARRAY_MEMBERS
    functions = [one for one in scopes if not isinstance(one.node, ast.ClassDef)]
    found = {one.node for one in functions if one.size <= SMALL}
    left = functions
    # What names a function that computes with MLX does so as well.
    while True:
        more = [one for one in left if not names.isdisjoint(one.words)]
        if not more:
            return frozenset(found)
        left = [one for one in left if names.isdisjoint(one.words)]
        for one in more:
            found.add(one.node)
            assert isinstance(one.node, (ast.FunctionDef, ast.AsyncFunctionDef))
            if one.outer is not None and isinstance(one.outer.node, ast.ClassDef):
                names.add(one.outer.node.name)
                if one.node.name.startswith("__"):
                    continue
            names.add(one.node.name)


def _scopes(tree: ast.Module) -> tuple[list[_Scope], set[str]]:
    """Return the functions and classes of a file, and the names that it imports from MLX."""
    whole = _Scope(tree, None)
    scopes: list[_Scope] = []
    imported: set[str] = set()
    pending: list[tuple[ast.AST, _Scope]] = [(tree, whole)]
    while pending:
        node, scope = pending.pop()
        scope.size += 1
        kind = type(node)
        if kind is ast.Name:
            scope.words.add(node.id)  # type: ignore[attr-defined]
            continue
        if kind is ast.Constant:
            continue
        if kind is ast.Attribute:
            scope.words.add(node.attr)  # type: ignore[attr-defined]
            pending.append((node.value, scope))  # type: ignore[attr-defined]
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign)):
            imported.update(_imported(node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope = _Scope(node, scope)
            scopes.append(scope)
        for value in vars(node).values():
            if type(value) is list:
                pending += [(one, scope) for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                pending.append((value, scope))
    for one in reversed(scopes):
        if one.outer is not None:
            one.outer.words |= one.words
            one.outer.size += one.size
    return scopes, imported


def _imported(node: ast.Import | ast.ImportFrom | ast.Assign) -> list[str]:
    """The names that an import binds to modules or names of MLX, or an assignment to modules."""
    if isinstance(node, ast.Assign):
        targets = node.targets if _imports(node.value) else []
        return [one.id for one in targets if isinstance(one, ast.Name)]
    if isinstance(node, ast.ImportFrom):
        is_mlx = (node.module or "").partition(".")[0] in ("mlx", "mlx_lm")
        return [alias.asname or alias.name for alias in node.names] if is_mlx else []
    parts = [(alias.name.partition(".")[0], alias.asname) for alias in node.names]
    return [name or first for first, name in parts if first == "mlx"]


def _imports(node: ast.expr) -> bool:
    """``pytest.importorskip("mlx.core")``."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in ("importorskip", "import_module")


class FinishedCall(Struct, frozen=True):
    """The effects of a call that has changed no object that was there before it.

    Attributes:
        result: the value that it returned.
        start: the serial numbers of the first symbol and object that it may have made.
        reads: the objects that it has read, by number.
        assumed: what was known of symbols before it.
        sizes: what it has learned of symbols.
        axes: what it has learned of unknown axes.
        events: what it does for certain.
        failed: whether something in it raises.
    """

    result: Any
    start: tuple[int, int]
    reads: tuple[tuple[int, Any], ...]
    assumed: Facts
    sizes: list[tuple[SizeSymbol, Integer]]
    axes: list[tuple[AxesSymbol, ArrayShape]]
    events: tuple[Any, ...]
    failed: bool


def remembered(
    machine: Machine, function: FunctionValue, names: dict[str, Any], run: Callable[[], Any]
) -> Any:
    """Return the result of a call, which runs if no call with these arguments can stand for it.

    Args:
        machine: the interpreter.
        function: that is called.
        names: the parameters' values; ``UNKNOWN`` for unknown ones.
        run: runs it.
    """
    heap = machine.heap
    if machine.keeps_records or heap.facts.failed:
        return run()
    key = _key(machine, function, names)
    if key is None:
        return run()
    found = machine.memo.get(key)
    if found is not None and _holds(heap, found):
        return _repeated(heap, found, is_exact=UNKNOWN not in names.values())
    start, before, changes = next_serials(), heap.facts.copy(), heap.changes
    given, outer = dict(names), heap.reads
    reads = heap.reads = set()
    try:
        result = run()
    finally:
        heap.reads = outer
        if outer is not None:
            outer |= reads
    changed = changed_between(heap.changes, changes)
    if _is_plain(result) and not any(
        number < start[1] and not narrows and heap.objects.get(number) != old
        for number, (old, narrows) in changed.items()
    ):
        earlier = {number: old for number, (old, _) in changed.items()}
        held = {number: earlier.get(number, heap.objects.get(number)) for number in reads}
        made = _finished(heap, result, start, held, before)
        machine.memo[key] = made
        if made.sizes or made.axes:
            # With what it has learned of its arguments, it does the same.
            machine.memo[_key(machine, function, given)] = made
    return result


def _key(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> Hashable:
    """Return the key that calls which do the same have in common; None if that is not known."""
    parts = tuple([_part(machine.heap, value) for value in names.values()])
    key = (function, machine.trials > 0, machine.rounds > 0, parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _part(heap: Heap, value: Any) -> Any:
    value = heap.value(value)
    kind = type(value)
    if kind is tuple:
        return tuple([_part(heap, one) for one in value])
    if kind is DictReference:
        held = heap.objects.get(value.number)
        if type(held) is Entries and not held.known:
            return (Entries, held.is_open)
    return value if kind is not float and kind is not bool else (kind, value)


def _holds(heap: Heap, found: FinishedCall) -> bool:
    """Return whether a call would find what an earlier one has found."""
    objects, assumed, facts = heap.objects, found.assumed, heap.facts
    return (
        all(objects.get(number) is held for number, held in found.reads)
        and _contains(facts.sizes, assumed.sizes)
        and _contains(facts.axes, assumed.axes)
        and _contains(facts.places, assumed.places)
        and _contains(facts.truths, assumed.truths)
    )


def _contains(held: dict[Any, Any], part: dict[Any, Any]) -> bool:
    for key, value in part.items():
        other = held.get(key)
        if other is not value and other != value:
            return False
    return True


def _repeated(heap: Heap, found: FinishedCall, *, is_exact: bool) -> Any:
    """Do what an earlier call has done, and return what it has returned."""
    if heap.reads is not None:
        heap.reads.update([number for number, _ in found.reads])
    heap.facts.events = (*heap.facts.events, *found.events)
    heap.facts.failed = found.failed
    for one, value in found.sizes:
        heap.learn_equal(of_atom(one), value)
    for axes, shape in found.axes:
        heap.bind_axes(axes, shape)
    return found.result if is_exact else heap.generalize(found.result, found.start)


def _finished(
    heap: Heap, result: Any, start: tuple[int, int], reads: dict[int, Any], before: Facts
) -> FinishedCall:
    after = heap.facts
    return FinishedCall(
        result,
        start,
        tuple([(number, held) for number, held in reads.items() if number < start[1]]),
        before,
        [(s, v) for s, v in after.sizes.items() if s not in before.sizes],
        [(a, v) for a, v in after.axes.items() if a not in before.axes],
        tuple(event for event in after.events if event not in before.events),
        after.failed,
    )


def _is_plain(value: Any) -> bool:
    """Return whether a value holds no object, which only one call has made."""
    if type(value) is Options:
        return all(map(_is_plain, value.values))
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return not isinstance(value, (Reference, Iterator, FunctionValue, BoundFunction, PartialCall))
