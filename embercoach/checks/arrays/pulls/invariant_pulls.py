"""HOST-PULL-013: values that a loop computes and reads anew, and that it never changes."""

from __future__ import annotations

import builtins
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.dataflow.value_uses import region_of
from embercoach.analysis.evaluate.classes import assigned_by
from embercoach.analysis.facts.facts import CallFact, LocalCall, ProjectCall
from embercoach.analysis.syntax.trees import SCOPES, around, children, dotted, walk
from embercoach.analysis.values.joins import as_array, pulls_of
from embercoach.analysis.values.lattice import BoundMember
from embercoach.analysis.work import WorkExceededError
from embercoach.checks.arrays.lazy.growth import is_long
from embercoach.checks.hoisted_reads import is_array
from embercoach.checks.registry import Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

#: Nodes of an expression that are looked at.
_MOST_SOURCES = 64


@lru_cache(maxsize=64)
def _is_changed(name: str, body: cst.CSTNode) -> bool:
    """Test whether a body assigns items of what a name holds."""
    region = region_of(body)
    for read, _ in region.reads.get(name, ()):
        node: cst.CSTNode = read
        while isinstance(region.parents[node], (cst.Subscript, cst.Attribute)):
            node = region.parents[node]
        if node is not read and isinstance(region.parents[node], cst.AssignTarget):
            return True
    return False


def is_invariant(node: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Test whether an expression is of arrays from before the loop, or of their elements."""
    pending = [(node, False)]
    for _ in range(_MOST_SOURCES):
        if not pending:
            return True
        at, is_index = pending.pop()
        if isinstance(at, cst.Name):
            own = place.loop_names if is_index else place.array_names
            if at.value not in own and not _is_from_before(at.value, place, module):
                return False
        elif isinstance(at, cst.Call):
            if not _is_operation(at, module):
                return False
            pending += ((argument.value, is_index) for argument in at.args)
            if isinstance(at.func, cst.Attribute):
                pending.append((at.func.value, is_index))
        elif isinstance(at, cst.Subscript):
            if not is_array(module, place, at.value):
                return False  # each item of a list is another array
            pending.append((at.value, is_index))
            # A slice by the loop's variable is an element, but no operation takes all of them.
            parts = [element.slice for element in at.slice]
            pending += ((p, isinstance(p, cst.Index) or at is node) for p in parts)
        elif isinstance(at, cst.Attribute):
            if dotted(at.value) != (mlx_alias(module) or "mlx.core"):
                return False
        else:
            pending += ((child, is_index) for child in children(at))
    return False


def _is_operation(call: cst.Call, module: Module) -> bool:
    """Test whether MLX computes a call's result of arrays, without random numbers."""
    fact = evaluation_of(module).calls.get(call)
    if fact is None or fact.array is not None:
        return fact is not None
    name = fact.symbol or ""
    is_random = name.startswith("mlx.core.random.")
    takes_arrays = any(as_array(argument.value) is not None for argument in fact.arguments)
    return name.startswith("mlx.core.") and not is_random and takes_arrays


def _is_from_before(name: str, place: FactPlace, module: Module) -> bool:
    """Test whether a name is bound before the innermost loop, which does not change its items."""
    if name in place.loop_names:
        return False
    layout = layout_of(module, place.function)
    loop = next(layout.loops(place.statement), None)
    if loop is None:
        return True  # in a comprehension alone
    if _is_changed(name, loop.body):
        return False
    reaching = scope_of(module, place.function).reaching
    found = reaching.before(place.statement, name)
    if found is None:
        return name not in reaching.bindings
    return all(b.statement is not loop and not layout.is_inside(b.statement, loop) for b in found)


if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import PropertyReadFact
    from embercoach.analysis.project.module import Module

    #: What runs a function in a loop.
    Read = LocalCall | ProjectCall | PropertyReadFact

#: Nodes of a loop that are walked.
_MOST_NODES = 4_000
#: Simple statements of a function that computes one value.
_MOST_STATEMENTS = 6
_PULLS = ("item", "tolist")
_CASTS = ("builtins.float", "builtins.int")


@check("HOST-PULL-013")
def invariant_pull(call: LocalCall, module: Module) -> Iterator[Report]:
    """``gain = 1 / wave.peak()`` in a loop that does not change ``wave``."""
    yield from _invariant(call, module)


@check("HOST-PULL-013")
def invariant_imported_pull(call: ProjectCall, module: Module) -> Iterator[Report]:
    """``wave.peak()`` of a class of another file."""
    if call.function.module is not module:
        yield from _invariant(call, module)


@check("HOST-PULL-013")
def invariant_property(read: PropertyReadFact, module: Module) -> Iterator[Report]:
    """``wave.gain``, a property that reads an array."""
    yield from _invariant(read, module)


def _invariant(call: Read, module: Module) -> Iterator[Report]:
    loop, function = call.place.loop, call.function
    if not isinstance(loop, cst.For) or module.is_test or call.place.periodic:
        return
    if function.module is module:
        pulls, computes = _pulls_in(function, module)
    else:
        pulls, computes = _pulls_of_imported(function)
    if not pulls or not is_long(loop) or _is_conditional(call, loop):
        return
    if not _is_pure(function) or _varies(call, loop, module):
        return
    what = "computes and reads" if computes else "reads"
    yield Report.at(
        call,
        "HOST-PULL-013",
        message=f"{what} the same value in every iteration",
        help="Call it once, before the loop",
        context="avoidable" if computes else "minor",
        covers=pulls if computes else (),
    )


def _is_conditional(call: Read, loop: cst.For) -> bool:
    """Return whether a test in the loop decides if the call is made: it may be made once."""
    return any(type(n) in _TESTS for n in around(loop.body, call.place.statement))


_TESTS = (cst.If, cst.Else, cst.Try, cst.Match)


@lru_cache(maxsize=32)
def _pulls_in(function: FunctionInfo, module: Module) -> tuple[tuple[cst.CSTNode, ...], bool]:
    """The reads of a function that returns what the host reads of an array.

    With those that compute the array, if there are any, and whether there are.
    """
    if not any(pulls_of(v) and as_array(v) is None for v in function.summaries.values()):
        return (), False
    facts = [fact for fact in module.facts_of(function) if isinstance(fact, CallFact)]
    pulls = [fact for fact in facts if _pulls(fact)]
    computed = tuple(f.node for f in pulls if _computes(f, function, module))
    return computed or tuple(f.node for f in pulls), bool(computed)


@lru_cache(maxsize=32)
def _pulls_of_imported(function: FunctionInfo) -> tuple[tuple[cst.CSTNode, ...], bool]:
    """``mx.abs(self.w).max().item()``, in a function of another file."""
    computed = tuple(
        node
        for node in walk(function.node.body)
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "item"
        and isinstance(node.func.value, cst.Call)
    )
    return computed, bool(computed)


def _pulls(fact: CallFact) -> bool:
    if isinstance(fact.callee, BoundMember):
        return fact.callee.name in _PULLS and fact.array is not None
    return fact.symbol in _CASTS and any(as_array(a.value) is not None for a in fact.arguments)


def _computes(fact: CallFact, function: FunctionInfo, module: Module) -> bool:
    """Return whether more than an attribute is read: each call runs the operations again."""
    read = fact.receiver_node if isinstance(fact.callee, BoundMember) else fact.arguments[0].node
    if read is None:
        return False
    made = resolve_name(Expression(read, scope_of(module, function))).node
    return any(isinstance(node, (cst.Call, cst.BinaryOperation)) for node in walk(made))


@lru_cache(maxsize=32)
def _is_pure(function: FunctionInfo) -> bool:
    """Return whether a short function assigns local names alone, and draws or reads nothing."""
    statements = 0
    for node in walk(function.node.body):
        if isinstance(node, (cst.Global, cst.Nonlocal, cst.Yield, cst.Await, *SCOPES)):
            return False
        if isinstance(node, cst.BaseSmallStatement):
            statements += 1
        if isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.AssignTarget)) and not isinstance(
            node.target, cst.Name
        ):
            return False
        if isinstance(node, cst.Call):
            path = dotted(node.func) or ""
            if _IMPURE & set(path.split(".")):
                return False
    return statements <= _MOST_STATEMENTS


#: Methods of lists and strings.
_LISTED = frozenset({"append", "index", "join", "format", "split", "items", "write"})
#: Parts of the names of calls whose results differ.
_IMPURE = frozenset({"random", "time", "perf_counter", "next", "read", "pop", "get", "append"})


def _varies(call: Read, loop: cst.For, module: Module) -> bool:
    """Return whether the loop may change what the call depends on."""
    func = call.node.func if isinstance(call.node, cst.Call) else call.node
    used = {node.value for node in walk(call.node) if isinstance(node, cst.Name)}
    used |= {node.value for node in walk(call.function.node.body) if isinstance(node, cst.Name)}
    if any(isinstance(n, cst.Call) and n is not call.node for n in walk(call.node)):
        return True
    reaching = scope_of(module, call.place.function).reaching
    layout = layout_of(module, call.place.function)
    for name in used:
        for binding in reaching.bindings.get(name, ()):
            if binding.statement is loop or layout.is_inside(binding.statement, loop):
                return True
    if reaching.gave_up:
        return True
    roots = {n for n in used if n in reaching.bindings} | {_root(func)}
    state = _attributes_read(call.function)
    return any(_changes(node, call, roots, state, module) for node in _nodes(loop.body, module))


#: What ends the nodes of a loop that is not walked to its end.
_TOO_LARGE = cst.Pass()


def _nodes(body: cst.CSTNode, module: Module) -> Iterator[cst.CSTNode]:
    pending = [body]
    for _ in range(_MOST_NODES):
        if not pending:
            return
        node = pending.pop()
        module.work.left -= 1
        if module.work.left < 0:
            raise WorkExceededError
        yield node
        pending += children(node)
    yield _TOO_LARGE


def _root(node: cst.CSTNode) -> str:
    return (dotted(node) or "").partition(".")[0]


def _attributes_read(function: FunctionInfo) -> frozenset[str]:
    """The attributes of its instance that a method reads."""
    own = function.parameters[0].name if function.is_method and function.parameters else ""
    return frozenset(
        node.attr.value
        for node in walk(function.node.body)
        if isinstance(node, cst.Attribute) and dotted(node.value) == own
    )


def _changes(
    node: cst.CSTNode, call: Read, roots: set[str], state: frozenset[str], module: Module
) -> bool:
    """Return whether a node of the loop changes an object that the call depends on, or may."""
    if node is _TOO_LARGE:
        return True
    if isinstance(node, (cst.AssignTarget, cst.AugAssign)):
        target = node.target
        return isinstance(target, (cst.Attribute, cst.Subscript)) and _root_of(target) in roots
    if not isinstance(node, cst.Call) or node is call.node:
        return False
    if any(dotted(argument.value) in roots for argument in node.args):
        return True  # it gets the object as a whole
    if isinstance(node.func, cst.Attribute) and dotted(node.func.value) in roots:
        cls = call.function.cls
        method = None if cls is None else cls.methods.get(node.func.attr.value)
        if cls is None or method is None:
            return True
        return not state.isdisjoint(assigned_by(cls, method))
    return not _is_harmless(node, module)


def _is_harmless(node: cst.Call, module: Module) -> bool:
    """Return whether a call changes no object but, at most, a list that it adds to."""
    local = evaluation_of(module).local_call(node)
    if local is not None:
        return _is_pure(local.function)
    fact = evaluation_of(module).calls.get(node)
    if fact is not None and (fact.symbol is not None or fact.array is not None):
        return True
    if isinstance(node.func, cst.Name):
        return hasattr(builtins, node.func.value)
    return isinstance(node.func, cst.Attribute) and node.func.attr.value in _LISTED


def _root_of(target: cst.CSTNode) -> str:
    while isinstance(target, (cst.Attribute, cst.Subscript)):
        target = target.value
    return _root(target)
