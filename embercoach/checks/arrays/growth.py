"""Sums and evaluations of loops: the conditions of LAZY-001, LAZY-002 and LAZY-006."""

from __future__ import annotations

import builtins
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.accumulation import Accumulation
from embercoach.analysis.dataflow.contents import bound_by, contents_of, head_contents
from embercoach.analysis.dataflow.function_summaries import derived_names
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import EVALUATING, PULLS, evaluation_of
from embercoach.analysis.dataflow.scopes import (
    Expression,
    display,
    made_in_init,
    resolve_name,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import returned_by
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import shape_at
from embercoach.analysis.syntax.trees import SCOPES, dotted, target_names
from embercoach.analysis.values.facts import CallFact, FactPlace, calls_by_function
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import (
    BoundMember,
    Instance,
    LibraryObject,
    Symbol,
    Transformed,
    Unknown,
    as_array,
    options,
)
from embercoach.analysis.work import MOST_CALLERS, MOST_CALLS, MOST_STEPS

#: Iterations up to which a graph of all of them is small.
SHORT = 16


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
            return len(range(*known)) > SHORT
    targets = set(target_names(loop.target))
    return not any(_root(call.func) in targets for call in contents_of(loop.body).calls)


def _integer(node: cst.CSTNode) -> int | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _integer(node.expression)
        return None if inner is None else -inner
    return int(node.value) if isinstance(node, cst.Integer) and node.value.isdigit() else None


def _root(node: cst.CSTNode) -> str | None:
    """Return the name of what is called: of an element of a loop, a layer."""
    return node.value if isinstance(node, cst.Name) else None


def walks_short_list(
    loop: cst.For | cst.While, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether a loop has few items: of a list, tuple or range, here or at a name."""
    return isinstance(loop, cst.For) and is_short(loop.iter, function, module)


def counts_by_setting(loop: cst.For | cst.While) -> bool:
    """Return whether a loop is one over ``range(steps)``: its length is a setting, not a fact."""
    iterable = loop.iter if isinstance(loop, cst.For) else None
    is_range = isinstance(iterable, cst.Call) and dotted(iterable.func) == "range"
    return is_range and any(
        dotted(a.value) is not None for a in cst.ensure_type(iterable, cst.Call).args
    )


def is_short(
    node: cst.BaseExpression, function: FunctionInfo | None, module: Module, most: int = SHORT
) -> bool:
    """Return whether an iterable has few items: at most ``most``."""
    count = _count(node, function, module)
    if count is not None:
        return count <= most
    if isinstance(node, cst.Call) and dotted(node.func) in ("enumerate", "zip", "reversed"):
        node = node.args[0].value if node.args else node
    found = display(resolve_name(Expression(node, scope_of(module, function))).node)
    return found is not None and 0 < len(found) <= most


def _count(node: cst.BaseExpression, function: FunctionInfo | None, module: Module) -> int | None:
    """Return the number of items of ``range(COUNT)``: of a constant, or a parameter's default."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "range" or len(node.args) != 1:
        return None
    bound: cst.CSTNode = node.args[0].value
    parameters = () if function is None else function.parameters
    default = next((p.default for p in parameters if p.name == dotted(bound)), None)
    return _integer(default or resolve_name(Expression(bound, scope_of(module, function))).node)


def is_counted(loop: cst.For | cst.While, least: int) -> bool:
    """Return whether a loop has a known number of iterations, at least so many."""
    iterable = loop.iter if isinstance(loop, cst.For) else None
    if not isinstance(iterable, cst.Call) or dotted(iterable.func) != "range":
        return False
    counts = [_integer(argument.value) for argument in iterable.args]
    known = [count for count in counts if count is not None]
    return len(counts) == len(known) < 3 and known[-1] - sum(known[:-1]) >= least


_GRADIENTS = frozenset(("grad", "value_and_grad", "module_value_and_grad"))
_REDUCTIONS = frozenset(("mean", "sum", "argmax", "logsumexp", "max", "all", "any"))


class Lineage(NamedTuple):
    """The origin of an array in a loop.

    names: bound in the loop.
    calls: calls of models, and those that nothing is known of.
    is_reduced: a mean, a sum or a loss is taken of what the calls return.
    is_evaluated: a function of the file evaluates what it returns.
    """

    names: frozenset[str]
    calls: tuple[cst.Call, ...]
    is_reduced: bool
    is_evaluated: bool


def joined_lineages(lineages: list[Lineage]) -> Lineage:
    """Return the origins of several arrays."""
    return Lineage(
        frozenset().union(*(lineage.names for lineage in lineages)),
        tuple(call for lineage in lineages for call in lineage.calls),
        any(lineage.is_reduced for lineage in lineages),
        any(lineage.is_evaluated for lineage in lineages),
    )


def lineage_of(
    node: cst.BaseExpression,
    statement: cst.CSTNode,
    function: FunctionInfo | None,
    loop: cst.CSTNode,
    module: Module,
) -> Lineage:
    """Follow an expression through lazy operations to the names and calls that it depends on."""
    evaluation, layout = evaluation_of(module), layout_of(module, function)
    reaching = scope_of(module, function).reaching
    names: set[str] = set()
    followed: set[cst.CSTNode] = set()  # statements that bind them: ``g = f(g)`` is another ``g``
    calls: list[cst.Call] = []
    is_reduced = is_evaluated = False
    pending: list[tuple[cst.CSTNode, cst.CSTNode]] = [(node, statement)]
    while pending and len(followed) < MOST_STEPS:
        at, statement = pending.pop()
        if isinstance(at, cst.Name):
            bindings = reaching.before(statement, at.value) or ()
            inside = [b for b in bindings if layout.is_inside(b.statement, loop)]
            if inside and len(inside) == len(bindings):
                names.add(at.value)
                new = [b for b in inside if b.value is not None and b.node not in followed]
                followed.update(b.node for b in new)
                pending += [(b.value, b.statement) for b in new if b.value is not None]
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
                local = evaluation.local_call(at)
                if local is not None:
                    is_evaluated = is_evaluated or _evaluates_result(local.function, module)
                    is_reduced = is_reduced or _returns_reduction(local.function, module)
        else:
            parts = contents_of(at, (cst.Attribute, cst.Call, cst.Lambda)).of(cst.Name, cst.Call)
            pending += [(part, statement) for part in parts]
    return Lineage(frozenset(names), tuple(calls), is_reduced, is_evaluated)


def _evaluates_result(function: FunctionInfo, module: Module) -> bool:
    """Test whether a function of the file may evaluate an array before it returns it."""
    names = {name for value, _ in returned_by(function) for name in contents_of(value).names}
    return bool(names) and evaluation_of(module).may_evaluate_in(function, names)


def _returns_reduction(function: FunctionInfo, module: Module) -> bool:
    """Test whether a function of the file returns a mean, a sum or a loss."""
    results = [value for value, _ in returned_by(function) if isinstance(value, cst.Call)]
    calls = evaluation_of(module).calls
    return bool(results) and all(_reduces(calls.get(value)) for value in results)


def _reduces(fact: CallFact | None) -> bool:
    callee = None if fact is None else fact.callee
    if isinstance(callee, Symbol):
        name = callee.name.rpartition(".")[2]
        return name in _REDUCTIONS or callee.name.startswith("mlx.nn.losses.")
    return isinstance(callee, BoundMember) and callee.name in _REDUCTIONS


def _is_transformed(fact: CallFact | None) -> bool:
    return fact is not None and not isinstance(fact.callee, (Symbol, BoundMember))


def is_step(loop: cst.For | cst.While | cst.If, module: Module, *, by_evaluation: bool) -> bool:
    """Return whether each iteration updates weights, or ``by_evaluation``, evaluates arrays."""
    evaluation = evaluation_of(module)
    return evaluation.updates(loop.body) or (
        by_evaluation and any(map(_is_evaluation, evaluation.calls_in(loop.body)))
    )


def synchronizes(loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether each iteration pulls an array, or calls a function that evaluates one."""
    evaluation = evaluation_of(module)
    for call in contents_of(loop.body).calls:
        fact, local = evaluation.calls.get(call), evaluation.local_call(call)
        if fact is not None and _is_pull(fact):
            return True
        if local is not None and _evaluates(local.function, module):
            return True
    return False


def _evaluates(function: FunctionInfo, module: Module) -> bool:
    """Return whether a function of the file evaluates arrays, and returns afterwards."""
    body = function.node.body
    is_generator = contents_of(body, SCOPES).of(cst.Yield)
    return not is_generator and evaluation_of(module).evaluates(body)


def descends(lineage: Lineage, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a gradient is subtracted in each of many iterations."""
    return is_counted(loop, SHORT + 1) and _is_gradient(lineage, module)


def differentiates(lineage: Lineage, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether each iteration computes a gradient of other data, a micro-batch."""
    if not isinstance(loop, cst.For) or not _is_gradient(lineage, module):
        return False
    data = contents_of(loop.body).assigned.union(target_names(loop.target))
    given = (argument.value for call in lineage.calls for argument in call.args)
    return any(not data.isdisjoint(contents_of(node).names) for node in given)


def _is_gradient(lineage: Lineage, module: Module) -> bool:
    facts = (evaluation_of(module).calls.get(call) for call in lineage.calls)
    callees = (fact.callee for fact in facts if fact is not None)
    return any(
        isinstance(callee, Transformed) and callee.transform in _GRADIENTS for callee in callees
    )


def _is_evaluation(fact: CallFact) -> bool:
    return fact.symbol in EVALUATING and not fact.place.periodic


def _is_pull(fact: CallFact) -> bool:
    callee = fact.callee
    is_pull = isinstance(callee, BoundMember) and callee.name in PULLS and fact.array is not None
    return is_pull and not fact.place.periodic


def gradient_names(loop: cst.For | cst.While, module: Module) -> set[str]:
    """Return the names of what a loop gets from steps: losses, gradients."""
    evaluation = evaluation_of(module)
    names: set[str] = set()
    for statement in contents_of(loop.body).statements:
        if not isinstance(statement, cst.Assign) or not isinstance(statement.value, cst.Call):
            continue
        value = statement.value
        fact = evaluation.calls.get(value)
        is_transformed = fact is not None and isinstance(fact.callee, Transformed)
        if is_transformed or evaluation.local_call(value) is not None:
            names.update(bound_by(statement))
    return names


def runs_model(lineage: Lineage, loop: cst.For | cst.While | cst.CompFor, module: Module) -> bool:
    """Return whether a model computes the array from the loop's data."""
    if isinstance(loop, cst.While):
        return False
    if isinstance(loop, cst.CompFor):
        data, inner = set(target_names(loop.target)), set[str]()
    else:
        data, contents = _derived(loop), contents_of(loop.body)
        inner = {name for node in contents.of(cst.For) for name in target_names(node.target)}
        if any(_is_type_test(call, data) for call in contents.calls):
            return False  # over objects of several types
    # A model of an inner loop over models, such as the trees of a forest, is not one of data.
    calls = (c for c in lineage.calls if inner.isdisjoint(dotted(a.value) or "" for a in c.args))
    return any(_is_model(call, data, module) for call in calls)


def runs_model_below(
    call: cst.CSTNode, added: cst.CSTNode, function: FunctionInfo, loop: cst.For, module: Module
) -> bool:
    """Return whether a call gives a function data, which ``added`` there has a model compute."""
    if not isinstance(call, cst.Call):
        return False
    data, parameters = _derived(loop), {parameter.name for parameter in function.parameters}
    return _takes_one_of(call, data) and any(
        _is_model(inner, parameters, module) for inner in contents_of(added).calls
    )


def _takes_one_of(call: cst.Call, names: set[str]) -> bool:
    """Test whether an argument of a call mentions one of some names."""
    return any(not names.isdisjoint(contents_of(argument.value).names) for argument in call.args)


def _is_type_test(call: cst.Call, names: set[str]) -> bool:
    is_test = dotted(call.func) == "isinstance" and len(call.args) > 0
    return is_test and dotted(call.args[0].value) in names


def yields_losses(loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a loop is over a generator of the file that yields losses of a model."""
    evaluation = evaluation_of(module)
    local = evaluation.local_call(loop.iter) if isinstance(loop, cst.For) else None
    if local is None or isinstance(local.function.node, cst.Lambda):
        return False
    function = local.function
    certainly = evaluation_of(module, is_certain=True)
    for statement in contents_of(function.node.body).statements:
        result = statement.value if isinstance(statement, cst.Expr) else None
        inner = next(layout_of(module, function).loops(statement), None)
        value = result.value if isinstance(result, cst.Yield) else None
        if inner is not None and isinstance(value, cst.BaseExpression):
            lineage = lineage_of(value, statement, function, inner, module)
            if certainly.may_evaluate(inner.body.body, {*lineage.names}):
                return False
            if lineage.is_reduced and runs_model(lineage, inner, module):
                return True
    return False


def _derived(loop: cst.For) -> set[str]:
    """Return the names that hold what a loop iterates over, or something made of it."""
    return derived_names(loop.body, set(target_names(loop.target)))


def _is_model(call: cst.Call, data: set[str], module: Module, depth: int = 0) -> bool:
    """Test whether a model, or a function that gets one, is called with data."""
    if not _takes_one_of(call, data):
        return False
    evaluation = evaluation_of(module)
    fact, local = evaluation.calls.get(call), evaluation.local_call(call)
    if local is not None and not is_forward(local.function):
        parameters = {p.name for p in local.function.parameters}
        inner = contents_of(local.function.node).calls
        return depth < MOST_CALLS and any(
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
    if hasattr(builtins, node.value):
        return False
    found = module.frame.names.get(node.value)
    return found is None or isinstance(found, (Unknown, Instance))


Statement = cst.BaseStatement | cst.BaseSmallStatement
#: Iterations from which on any graph of all of them is large.
_MANY = 1_000


def grows(
    found: Accumulation,
    loop: cst.For | cst.While,
    place: FactPlace,
    module: Module,
) -> bool:
    """Return whether a loop over data evaluates neither the accumulator nor what is added."""
    is_state = found.function is not None  # what a function adds to outlives it
    evaluation, body = evaluation_of(module), [*loop.body.body]
    if found.kind == "tree" and not found.in_place:
        body = each_iteration(body, module)
    if evaluation.may_evaluate(body, {found.path}):
        return False
    statement, function = place.statement, place.function
    lineage = joined_lineages(
        [lineage_of(n, statement, function, loop, module) for n in found.added]
    )
    # A tree of averages keeps the weights of all steps, evaluated or not.
    keeps = found.kind == "tree" or _keeps_parts(found, place, module)
    names = {found.path, *lineage.names}
    if not keeps and (lineage.is_evaluated or evaluation.may_evaluate(body, names)):
        return False
    is_list = found.kind == "list"
    if is_step(loop, module, by_evaluation=not is_list):
        return True
    if not is_list and (is_state or keeps) and synchronizes(loop, module):
        return True
    if is_state and found.kind == "sum" and _takes_host_data(found, lineage.names, loop, module):
        return True
    if not is_list and (differentiates(lineage, loop, module) or descends(lineage, loop, module)):
        return True
    if is_list and not lineage.is_reduced:
        return False  # parts of a result, such as chunks
    # A state that each iteration computes from the last one, as a sampler does, holds no data.
    last = found.path.rpartition(".")[2]
    is_chain = not is_list and found.adds_one_of({last})
    runs = not is_chain and (runs_model(lineage, loop, module) or _adds_losses(found, loop, module))
    if not runs and found.inner and found.function and isinstance(loop, cst.For):
        added = found.inner[1]
        runs = runs_model_below(found.node, added, found.function, loop, module)
    if not runs and not is_counted(loop, _MANY):
        return False
    return is_state or _is_evaluated_after({found.path}, loop, place.function, module)


def each_iteration(body: list[Statement], module: Module) -> list[Statement]:
    """Return the statements of a loop without the step that some micro-batches end with.

    Until then, the sum of their gradients keeps the graphs of all of them.
    """
    return [
        statement
        for statement in body
        if not isinstance(statement, cst.If)
        or statement.orelse is not None
        or not is_step(statement, module, by_evaluation=False)
    ]


def _takes_host_data(
    found: Accumulation, inside: frozenset[str], loop: cst.For | cst.While, module: Module
) -> bool:
    """Test for ``mx.array(env.step())`` in what is added: each iteration has other data."""
    names = {found.path, *inside, *(n for node in found.added for n in contents_of(node).names)}
    data = {*target_names(loop.target)} if isinstance(loop, cst.For) else set()
    evaluation = evaluation_of(module)
    for value in (*found.added, *contents_of(loop.body).values_of(names)):
        for fact in evaluation.calls_in(value):
            if fact.symbol == "mlx.core.array" and fact.node.args:
                first = contents_of(fact.node.args[0].value)
                if first.calls or not data.isdisjoint(first.names):
                    return True
    return False


def _adds_losses(found: Accumulation, loop: cst.For | cst.While, module: Module) -> bool:
    """Test whether a generator yields what is added: losses of a model."""
    targets = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    return found.adds_one_of(targets) and yields_losses(loop, module)


def _keeps_parts(found: Accumulation, place: FactPlace, module: Module) -> bool:
    """Test whether a sum starts as a vector: it keeps each one that is added."""
    if found.kind != "sum":
        return False
    calls = evaluation_of(module).calls
    for node in _starts(found, found.function or place.function, module):
        call = calls.get(node)
        array = None if call is None else as_array(call.result)
        if array is not None and array.literal and shape_at(module, node):
            return True
    return False


def _starts(
    found: Accumulation, function: FunctionInfo | None, module: Module
) -> list[cst.BaseExpression]:
    """Return the expressions that an accumulator starts from."""
    owner, _, name = found.path.rpartition(".")
    if owner:
        classes = {f.cls for f in module.functions if f.cls and name in f.cls.setters}
        made = made_in_init(classes.pop(), name) if len(classes) == 1 else None
        return [] if made is None else [made]
    while function is not None and name in (*function.nonlocal_names, *function.global_names):
        function = function.outer
    bindings = scope_of(module, function).reaching.bindings.get(name, [])
    return [b.value for b in bindings if b.kind == "assigned" and b.value is not None]


def _is_evaluated_after(
    names: set[str], statement: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether arrays of names are certainly evaluated after a statement, or by a caller."""
    certainly = evaluation_of(module, is_certain=True)
    levels = layout_of(module, function).outward(statement)
    later = [s for level in levels for s in level.statements[level.position + 1 :]]
    if certainly.may_evaluate(later, names):
        return True
    returned = [s.value for s in later if isinstance(s, cst.Return) and s.value is not None]
    if not any(certainly.use(value, names) == "derived" for value in returned):
        return False
    return _is_result_evaluated(function, module)


def is_consumed(
    node: cst.CSTNode, statement: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether arrays in an expression are certainly evaluated: here, later, by a caller."""
    certainly = evaluation_of(module, is_certain=True)
    for outer in head_contents(statement).of(cst.FormattedString, cst.Call):
        is_lazy = isinstance(outer, cst.Call) and certainly.effect(outer) != "evaluates"
        if not is_lazy and outer is not node and node in contents_of(outer):
            return True
    if isinstance(statement, cst.Return):
        return _is_result_evaluated(function, module)
    if not isinstance(statement, cst.Assign):
        return False
    return _is_evaluated_after(set(bound_by(statement)), statement, function, module)


def _is_result_evaluated(function: FunctionInfo | None, module: Module) -> bool:
    """Test whether what a function returns is evaluated, and not differentiated."""
    if function is None or isinstance(function.node, cst.Lambda):
        return False
    if any(map(_is_inference, contents_of(function.node.body).statements)):
        return True
    for call in calls_by_function(module).get(function, ())[:MOST_CALLERS]:
        caller = call.place.function
        if caller is not function and is_consumed(call.node, call.place.statement, caller, module):
            return True
    return False


def _is_inference(statement: cst.BaseSmallStatement) -> bool:
    """Test whether a statement is ``model.eval()``: what follows is not differentiated."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) and not call.args else None
    return isinstance(func, cst.Attribute) and func.attr.value == "eval"
