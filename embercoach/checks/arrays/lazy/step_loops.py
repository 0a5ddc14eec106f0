"""Loops over data: whether one trains or evaluates a model, and what an array in it comes from."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.evaluation import EVALUATING, evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import Expression, display, resolve_name, scope_of
from embercoach.analysis.syntax.trees import (
    children,
    dotted,
    names_below,
    small_statements,
    target_names,
    walk,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import holds_arrays, options
from embercoach.analysis.values.lattice import (
    BoundMember,
    Instance,
    LibraryObject,
    Symbol,
    Transformed,
    Unknown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, FactPlace
    from embercoach.analysis.project.module import Module

#: Iterations up to which a graph of all of them is small.
_SHORT = 16
#: Names that an array is followed through; calls of functions that are followed.
_MOST_NAMES, _MOST_CALLS = 16, 3
_GRADIENTS = frozenset(("grad", "value_and_grad", "module_value_and_grad"))
_REDUCTIONS = frozenset(("mean", "sum", "argmax", "logsumexp", "max", "all", "any"))
_UPDATES = frozenset(("update", "apply_gradients"))


class Lineage(NamedTuple):
    """The origin of an array in a loop.

    names: bound in the loop.
    calls: calls of models, and those that nothing is known of.
    is_reduced: a mean, a sum or a loss is taken of what the calls return.
    """

    names: frozenset[str]
    calls: tuple[cst.Call, ...]
    is_reduced: bool


def lineage_of(
    node: cst.BaseExpression, place: FactPlace, loop: cst.For | cst.While, module: Module
) -> Lineage:
    """Follow an expression through lazy operations to the names and calls that it depends on."""
    evaluation, layout = evaluation_of(module), layout_of(module, place.function)
    reaching = scope_of(module, place.function).reaching
    names: set[str] = set()
    calls: list[cst.Call] = []
    is_reduced = False
    pending: list[tuple[cst.CSTNode, cst.CSTNode]] = [(node, place.statement)]
    while pending and len(names) < _MOST_NAMES:
        at, statement = pending.pop()
        if isinstance(at, cst.Name):
            bindings = (reaching.before(statement, at.value) if reaching else None) or ()
            inside = [b for b in bindings if layout.is_inside(b.statement, loop)]
            if at.value not in names and inside and len(inside) == len(bindings):
                names.add(at.value)
                pending += [(b.value, b.statement) for b in inside if b.value is not None]
        elif isinstance(at, cst.Call):
            effect = evaluation.effect(at)
            fact = evaluation.calls.get(at)
            if fact is not None and fact.symbol == "mlx.core.array":
                continue
            is_model = fact is not None and isinstance(fact.callee, LibraryObject)
            if effect == "lazy" and not is_model and not _is_transformed(fact):
                pending += [(a.value, statement) for a in at.args]
                is_reduced = is_reduced or _reduces(fact)
                if isinstance(at.func, cst.Attribute):
                    pending.append((at.func.value, statement))
            else:
                calls.append(at)
        elif not isinstance(at, (cst.Lambda, cst.Attribute)):
            pending += [(child, statement) for child in children(at)]
    return Lineage(frozenset(names), tuple(calls), is_reduced)


def _reduces(fact: CallFact | None) -> bool:
    callee = None if fact is None else fact.callee
    if isinstance(callee, Symbol):
        name = callee.name.rpartition(".")[2]
        return name in _REDUCTIONS or callee.name.startswith("mlx.nn.losses.")
    return isinstance(callee, BoundMember) and callee.name in _REDUCTIONS


def _is_transformed(fact: CallFact | None) -> bool:
    return fact is not None and not isinstance(fact.callee, (Symbol, BoundMember))


def is_long(loop: cst.For | cst.While) -> bool:
    """Return whether a loop may have many iterations, and is not one over layers or weights."""
    if isinstance(loop, cst.While):
        return True
    iterable = loop.iter
    if isinstance(iterable, (cst.List, cst.Tuple)):
        return False
    if isinstance(iterable, cst.Call) and dotted(iterable.func) == "range":
        counts = [_integer(argument.value) for argument in iterable.args]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and 0 < len(known) <= 3 and known[2:] != [0]:
            return len(range(*known)) > _SHORT
    targets = set(target_names(loop.target))
    return not any(_root(call.func) in targets for call in _calls(loop.body))


def _integer(node: cst.BaseExpression) -> int | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _integer(node.expression)
        return None if inner is None else -inner
    return int(node.value) if isinstance(node, cst.Integer) and node.value.isdigit() else None


def _root(node: cst.CSTNode) -> str | None:
    """The name of what is called: of an element of a loop, a layer."""
    return node.value if isinstance(node, cst.Name) else None


def walks_short_list(
    loop: cst.For | cst.While, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether a loop is over a list or tuple of few items, written here or at a name."""
    if not isinstance(loop, cst.For):
        return False
    node: cst.CSTNode = loop.iter
    if isinstance(node, cst.Call) and dotted(node.func) in ("enumerate", "zip", "reversed"):
        node = node.args[0].value if node.args else node
    found = display(resolve_name(Expression(node, scope_of(module, function))).node)
    return found is not None and 0 < len(found) <= _SHORT


def is_step(loop: cst.For | cst.While, module: Module, *, by_evaluation: bool) -> bool:
    """Return whether each iteration updates weights, or ``by_evaluation``, evaluates arrays."""
    evaluation = evaluation_of(module)
    for call in _calls(loop.body):
        fact = evaluation.calls.get(call)
        if fact is not None and (is_update(fact) or (by_evaluation and _is_evaluation(fact))):
            return True
        local = evaluation.local_call(call)
        if local is not None and updates(local.function, module):
            return True
    return False


def is_counted(loop: cst.For | cst.While, least: int) -> bool:
    """Return whether a loop has a known number of iterations, at least so many."""
    iterable = loop.iter if isinstance(loop, cst.For) else None
    if not isinstance(iterable, cst.Call) or dotted(iterable.func) != "range":
        return False
    counts = [_integer(argument.value) for argument in iterable.args]
    known = [count for count in counts if count is not None]
    return len(counts) == len(known) < 3 and known[-1] - sum(known[:-1]) >= least


def descends(lineage: Lineage, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a gradient is subtracted in each of many iterations."""
    facts = (evaluation_of(module).calls.get(call) for call in lineage.calls)
    callees = (fact.callee for fact in facts if fact is not None)
    return is_counted(loop, _SHORT + 1) and any(
        isinstance(callee, Transformed) and callee.transform in _GRADIENTS for callee in callees
    )


def is_private(path: str, loop: cst.For | cst.While, place: FactPlace, module: Module) -> bool:
    """Return whether one statement of a loop assigns an attribute, and no method reads it there."""
    owner, _, attribute = path.rpartition(".")
    cls = None if place.function is None else place.function.cls
    if cls is None or "." in owner:
        return False
    for statement in small_statements(loop.body):
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []
        if statement is not place.statement and path in map(dotted, targets):
            return False
    for call in _calls(loop.body):
        if not isinstance(call.func, cst.Attribute) or dotted(call.func.value) != owner:
            continue
        local = evaluation_of(module).local_call(call)
        if local is None and call.func.attr.value not in cls.setters:
            return False
        if local is not None and attribute in names_below(local.function.node.body):
            return False
    return True


def _is_evaluation(fact: CallFact) -> bool:
    return fact.symbol in EVALUATING and not fact.place.periodic


def is_update(fact: CallFact) -> bool:
    """Return whether a call is ``optimizer.update(model, gradients)``."""
    callee = fact.callee
    func = fact.node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _UPDATES:
        return False
    if isinstance(callee, BoundMember) and isinstance(callee.owner, LibraryObject):
        return callee.owner.cls.startswith("mlx.optimizers.")
    gradients = fact.positional(1)
    return isinstance(callee, Unknown) and gradients is not None and holds_arrays(gradients.value)


def updates(function: FunctionInfo, module: Module, depth: int = 0) -> bool:
    """Return whether a function of the file updates weights."""
    if not _has_updates(module):
        return False
    known = evaluation_of(module).updating
    if function.node not in known:
        known[function.node] = False  # for functions that call each other
        calls = _calls(function.node)
        known[function.node] = any(_updates(call, module, depth) for call in calls)
    return known[function.node]


@lru_cache(maxsize=1)
def _has_updates(module: Module) -> bool:
    return any(is_update(call) for call in evaluation_of(module).calls.values())


def _updates(call: cst.Call, module: Module, depth: int) -> bool:
    evaluation = evaluation_of(module)
    fact, local = evaluation.calls.get(call), evaluation.local_call(call)
    if fact is not None and is_update(fact):
        return True
    return local is not None and depth < _MOST_CALLS and updates(local.function, module, depth + 1)


def gradient_names(loop: cst.For | cst.While, module: Module) -> set[str]:
    """Return the names of what a loop gets from steps: losses, gradients."""
    evaluation = evaluation_of(module)
    names: set[str] = set()
    for statement in small_statements(loop.body):
        if not isinstance(statement, cst.Assign) or not isinstance(statement.value, cst.Call):
            continue
        value = statement.value
        fact = evaluation.calls.get(value)
        is_transformed = fact is not None and isinstance(fact.callee, Transformed)
        if is_transformed or evaluation.local_call(value) is not None:
            for target in statement.targets:
                names.update(target_names(target.target))
    return names


def runs_model(lineage: Lineage, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a model computes the array from the loop's data."""
    if not isinstance(loop, cst.For):
        return False
    data = _derived(loop)
    return any(_is_model(call, data, module) for call in lineage.calls)


def _derived(loop: cst.For) -> set[str]:
    """The names that hold what a loop iterates over, or something made of it."""
    names = set(target_names(loop.target))
    for statement in small_statements(loop.body):
        if isinstance(statement, cst.Assign) and names & set(names_below(statement.value)):
            for target in statement.targets:
                names.update(target_names(target.target))
    return names


def _is_model(call: cst.Call, data: set[str], module: Module, depth: int = 0) -> bool:
    """Test whether a model, or a function that gets one, is called with data."""
    if not any(data & set(names_below(argument.value)) for argument in call.args):
        return False
    evaluation = evaluation_of(module)
    fact, local = evaluation.calls.get(call), evaluation.local_call(call)
    if local is not None and not _is_layer_method(local.function):
        parameters = {p.name for p in local.function.parameters}
        inner = _calls(local.function.node)
        return depth < _MOST_CALLS and any(
            _is_model(c, parameters, module, depth + 1) for c in inner
        )
    if fact is not None:
        callees = list(options(fact.callee))
        if any(isinstance(c, LibraryObject) and c.cls.startswith("mlx.nn.") for c in callees):
            return True
        if not any(isinstance(c, (Unknown, Instance)) for c in callees):
            return False
    elif local is None and isinstance(call.func, cst.Name):
        return _is_variable(call.func, module)
    return isinstance(call.func, (cst.Name, cst.Attribute))


def _is_variable(node: cst.Name, module: Module) -> bool:
    """Test whether a name is not one of the module: a parameter, or a variable."""
    found = module.frame.names.get(node.value)
    return found is None or isinstance(found, (Unknown, Instance))


def _is_layer_method(function: FunctionInfo) -> bool:
    return function.cls is not None and is_layer(function.cls) and function.name == "__call__"


def _calls(body: cst.CSTNode) -> Iterator[cst.Call]:
    for node in walk(body, (cst.ClassDef,)):
        if type(node) is cst.Call:
            yield node
