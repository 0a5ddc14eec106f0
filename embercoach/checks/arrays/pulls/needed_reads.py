"""Reads in loops that no plain change makes fewer: searches, tables, short loops, kept lists."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.host_uses import hot_functions, is_fed_back, is_forward
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.value_uses import Use, lists_of, region_of, uses_of
from embercoach.analysis.syntax.trees import SCOPES, small_statements, target_names, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import BoundMember, Symbol
from embercoach.checks.arrays.lazy.loop_lengths import is_long, is_short
from embercoach.checks.arrays.pulls.invariance import is_changed

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import BinaryFact, FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source

#: Functions whose results are in order: a search in them stops early.
_ORDERED = frozenset(f"mlx.core.{name}" for name in ("argsort", "sort"))
#: Functions that make arrays of Python numbers.
_FILLED = frozenset(
    f"mlx.core.{name}" for name in ("arange", "linspace", "zeros", "ones", "full", "eye", "tri")
)
#: Iterations of a loop before the function's main loop; views, and operations of a table.
_FEW, _MOST_VIEWS, _MOST_OPERATIONS = 8, 4, 48


def is_needed(place: FactPlace, pull: cst.CSTNode, subject: cst.CSTNode, module: Module) -> bool:
    """Test whether a read in a loop is of a search, of a table, or of a short loop before another.

    Args:
        place: the place of the read.
        pull: the node that synchronizes.
        subject: the expression of the array.
        module: the module of the read.
    """
    if not isinstance(subject, cst.BaseExpression) or place.loop is None:
        return False
    return (
        _is_exceptional(place, module)
        or _searches_in_order(place, pull, subject, module)
        or _is_of_table(place, subject, module)
        or _precedes_main_loop(place, pull, module)
    )


def _is_exceptional(place: FactPlace, module: Module) -> bool:
    """Test whether a read is in an ``except`` clause of the loop."""
    for level in layout_of(module, place.function).outward(place.statement):
        if level.arm.startswith("handlers"):
            return True
        if level.owner is place.loop:
            break
    return False


def _searches_in_order(
    place: FactPlace, pull: cst.CSTNode, subject: cst.BaseExpression, module: Module
) -> bool:
    """Test whether a loop reads sorted elements until one of them satisfies a test.

    It reads few elements; the whole array may be a vocabulary.
    """
    loop = place.loop
    assert loop is not None
    array = _elements_of(subject, loop)
    if array is None or not _may_stop(loop):
        return False
    uses = uses_of(pull, loop.body, module, place.function)
    if uses.isdisjoint((Use.DECIDES, Use.CHOOSES, Use.CONVERGED)):
        return False
    sources = sources_of(module)
    ends = sources.ends(sources.at_place(array, place))
    return bool(ends) and all(_is_ordered(end, module) for end in ends)


def _elements_of(
    subject: cst.BaseExpression, loop: cst.For | cst.While
) -> cst.BaseExpression | None:
    """The array whose element a loop reads: of ``x[i]``, or of the loop's own variable."""
    if isinstance(subject, cst.Subscript):
        return subject.value
    if not isinstance(loop, cst.For) or not isinstance(subject, cst.Name):
        return None
    if subject.value not in target_names(loop.target):
        return None
    over = loop.iter
    if isinstance(over, cst.Call) and isinstance(over.func, cst.Name) and over.args:
        return over.args[0].value if over.func.value == "enumerate" else None
    return over


def _may_stop(loop: cst.For | cst.While) -> bool:
    """Test whether a loop has a ``break`` or ``return``, outside of inner loops."""
    return any(
        isinstance(node, (cst.Break, cst.Return))
        for node in small_statements(loop.body, (cst.For, cst.While, *SCOPES))
    )


def _is_ordered(end: Source, module: Module, views: int = 0) -> bool:
    """Test whether a value is a sorted array, reversed or a part of one."""
    sources, node = sources_of(module), end.node
    call = sources.library_call(end)
    if call is not None and call.name in _ORDERED:
        return True
    if not isinstance(node, cst.Subscript) or views > _MOST_VIEWS:
        return False
    ends = sources.ends(end.at(node.value))
    return bool(ends) and all(_is_ordered(inner, module, views + 1) for inner in ends)


def _is_of_table(place: FactPlace, subject: cst.BaseExpression, module: Module) -> bool:
    """Test whether an array is computed from Python numbers alone, in a function that runs once.

    Such a table waits for no other work. A function is taken to run once if no loop here calls it.
    """
    function = place.function
    if function is None or is_forward(function) or function in hot_functions(module):
        return False
    if function.compiled or function.vmapped or function.differentiated:
        return False
    return _Table(module, function).holds(sources_of(module).at_place(subject, place))


class _Table:
    """The search for what an array is computed from."""

    def __init__(self, module: Module, function: FunctionInfo) -> None:
        self._module = module
        self._function = function
        self._sources = sources_of(module)
        self._evaluation = evaluation_of(module)
        self._operations = _MOST_OPERATIONS

    def holds(self, source: Source) -> bool:
        node, function = source.node, source.function
        if isinstance(node, cst.Name) and function and is_changed(node.value, function.node.body):
            return False
        ends = self._sources.ends(source)
        return bool(ends) and all(self._is_computed(end) for end in ends)

    def _is_computed(self, end: Source) -> bool:
        self._operations -= 1
        node = end.node
        if self._operations < 0 or end.module is not self._module:
            return False
        if end.function is not self._function and end.call is None:
            return False  # an attribute, which others may set
        if isinstance(node, cst.Subscript):
            return self.holds(end.at(node.value))
        if isinstance(node, cst.BinaryOperation):
            fact = self._evaluation.operations.get(node)
            return fact is not None and self._are_numbers_or_tables(fact, end)
        return isinstance(node, cst.Call) and self._is_result(node, end)

    def _are_numbers_or_tables(self, fact: BinaryFact, end: Source) -> bool:
        return all(
            self.holds(end.at(side.node)) if side.array is not None else side.number is not None
            for side in (fact.left, fact.right)
        )

    def _is_result(self, node: cst.Call, end: Source) -> bool:
        fact = self._evaluation.calls.get(node)
        if fact is None:
            return False
        operands = [a.node for a in fact.arguments if as_array(a.value) is not None]
        if isinstance(fact.callee, BoundMember) and isinstance(node.func, cst.Attribute):
            if fact.array is None:
                return False
            operands.append(node.func.value)
        elif not isinstance(fact.callee, Symbol) or not fact.callee.name.startswith("mlx.core."):
            return False
        elif not operands:
            return fact.callee.name in _FILLED
        return all(self.holds(end.at(operand)) for operand in operands)


def _precedes_main_loop(place: FactPlace, pull: cst.CSTNode, module: Module) -> bool:
    """Test whether a loop of few iterations comes before the loop that does a function's work."""
    loop, function = place.loop, place.function
    if function is None or place.loops != 1 or not isinstance(loop, cst.For):
        return False
    if function in hot_functions(module) or is_fed_back(pull, module):
        return False
    if not is_short(loop.iter, function, module, _FEW):
        return False
    mains = (main for main in _long_loops(function) if main is not loop)
    layout = layout_of(module, function)
    return any(layout.in_sequence(loop, main) for main in mains)


@lru_cache(maxsize=16)
def _long_loops(function: FunctionInfo) -> tuple[cst.For | cst.While, ...]:
    loops = (n for n in walk(function.node.body, SCOPES) if isinstance(n, (cst.For, cst.While)))
    return tuple(loop for loop in loops if is_long(loop))


def is_used_up(
    pull: cst.CSTNode, loop: cst.For | cst.While, place: FactPlace, module: Module
) -> bool:
    """Test whether the loop that collects values in a list reads the list too.

    It tests what it has collected, or hands it over in parts: the host needs the values now. So it
    does where a test decides whether a value is collected, and a loop around reads the list.
    """
    names = lists_of(pull, loop.body, module, place.function)
    if not names:
        return False
    if _reads_list(loop, names, module):
        return True
    layout = layout_of(module, place.function)
    levels = layout.outward(place.statement)
    is_conditional = any(isinstance(v.owner, cst.If) for v in levels if v.owner is not loop)
    outer = [one for one in layout.loops(place.statement) if one is not loop]
    return is_conditional and any(_reads_list(one, names, module) for one in outer)


def _reads_list(loop: cst.For | cst.While, names: frozenset[str], module: Module) -> bool:
    """Test whether the host reads items of a list in a loop, other than to grow it.

    Its length is known without them; an operation of arrays takes them back to the device.
    """
    region, evaluation = region_of(loop.body), evaluation_of(module)
    for name in names:
        for read, _ in region.reads.get(name, ()):
            item: cst.CSTNode = read
            while isinstance(region.parents.get(item), cst.Subscript):
                item = region.parents[item]
            parent = region.parents.get(item)
            if isinstance(parent, (cst.Attribute, cst.AssignTarget, cst.AugAssign)):
                continue
            if parent in evaluation.operations:
                continue
            call = region.parents.get(parent) if isinstance(parent, cst.Arg) else None
            fact = None if call is None else evaluation.calls.get(call)
            symbol = fact.symbol if fact is not None else None
            if symbol is None or not (symbol == "builtins.len" or symbol.startswith("mlx.")):
                return True
    return False
