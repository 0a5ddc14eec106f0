"""LAZY-001, LAZY-002 and LAZY-006: loops whose graph grows, as nothing evaluates it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo, FunctionParameter
from embercoach.analysis.calls.parameters import annotated_value
from embercoach.analysis.dataflow.accumulation import (
    Accumulation,
    accumulated,
    accumulations,
    by_caller,
    path_of,
)
from embercoach.analysis.dataflow.contents import bound_by, contents_of, head_contents
from embercoach.analysis.dataflow.contexts import evaluated_by
from embercoach.analysis.dataflow.function_summaries import derived_names, passed_values
from embercoach.analysis.dataflow.layout import Layout, assigned_to, is_older, layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of, is_plainly_lazy, is_update
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import Binding, last_name
from embercoach.analysis.dataflow.scopes import by_parameter, passed_with_owner, scope_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import (
    SCOPES,
    dotted,
    target_names,
)
from embercoach.analysis.values.facts import CallFact, Fact, FactPlace, LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import find_method, is_layer
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    Instance,
    LibraryObject,
    Unknown,
    Value,
    holds_arrays,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS
from embercoach.checks.arrays.growth import (
    counts_by_setting,
    each_iteration,
    gradient_names,
    grows,
    is_consumed,
    is_long,
    is_short,
    is_step,
    lineage_of,
    runs_model,
    synchronizes,
    walks_short_list,
)
from embercoach.checks.registry import VALUE, Report, check

_ADDS = "each call adds to it here"
_MESSAGE = "`{}` is not evaluated in the loop: its graph grows in every iteration"


@check("LAZY-001")
def growing_array(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``total += loss`` or ``losses.append(loss)`` in a loop that evaluates neither."""
    seen: set[int] = set()
    for fact in facts:
        place = fact.place
        if not place.loops or place.loop is None or id(place.statement) in seen:
            continue
        seen.add(id(place.statement))
        if not is_one_graph(place, module):
            found = accumulations(place.statement, place.function, module)
            yield from _reports(fact, found, module)


def _reports(fact: Fact, accumulated: Iterable[Accumulation], module: Module) -> Iterator[Report]:
    """Report the additions whose sums no loop around a fact evaluates."""
    for found in accumulated:
        if may_ask(fact.place, module) and _is_unevaluated(found, fact.place, module):
            stops = () if found.inner is None else (Stop(*found.inner, _ADDS),)
            yield _growing(fact, found.node, found.path, module, stops)


def _growing(
    fact: Fact, node: cst.CSTNode, path: str, module: Module, stops: tuple[Stop, ...] = ()
) -> Report:
    return Report.at(
        fact,
        "LAZY-001",
        node=node,
        message=_MESSAGE.format(path),
        help=help_of(path, fact.place, module),
        related=stops,
    )


def help_of(path: str, place: FactPlace, module: Module) -> str:
    """Return the remedy: an ``mx.eval()``, or another argument of the one that a loop has."""
    loops = layout_of(module, place.function).loops(place.statement)
    facts = (fact for loop in loops for fact in evaluation_of(module).calls_in(loop.body))
    if any(fact.symbol == "mlx.core.eval" for fact in facts):
        return f"Add `{path}` to the arguments of the loop's `mx.eval()`"
    return f"Call `mx.eval({path})` in each iteration"


def _is_unevaluated(found: Accumulation, place: FactPlace, module: Module) -> bool:
    layout = layout_of(module, place.function)
    loops = list(layout.loops(place.statement))
    for loop in loops:
        if not _is_kept(found, loop, place, module):
            return False
        if is_short_loop(loop, place, module):
            continue
        if is_long(loop) and grows(found, loop, place, module):
            level = next(iter(layout.outward(loop)))
            rest = level.statements[level.position + 1 :] if loop is not loops[-1] else ()
            # A chunk of an outer loop is evaluated as a whole.
            return not _is_captured(found.path, place, module) and not any(
                found.path in evaluated_by(statement, module) for statement in rest
            )
    return False


@check("LAZY-002", of=(".", VALUE))
def unevaluated_update(fact: CallFact | LocalCall, module: Module) -> Iterator[Report]:
    """``optimizer.update(model, gradients)``, or a step, in a loop that evaluates nothing."""
    place, func, evaluation = fact.place, fact.node.func, evaluation_of(module)
    if not place.loops or place.loop is None:
        return
    if isinstance(fact, LocalCall):
        is_owned, updates = fact.is_bound, evaluation.updates(fact.function.node)
    else:
        is_owned, updates = True, is_update(fact)
    if not updates or is_one_graph(place, module) or not may_ask(place, module):
        return
    loops = layout_of(module, place.function).loops(place.statement)
    loop = next((around for around in loops if is_long(around)), None)
    if loop is None or evaluation.evaluates(loop.body):
        return
    names = [dotted(argument.value) for argument in fact.node.args]
    owner = dotted(func.value) if is_owned and isinstance(func, cst.Attribute) else None
    paths = {path for path in (*names, owner) if path is not None}
    if not evaluation.may_evaluate(loop.body.body, paths | gradient_names(loop, module)):
        model, optimizer = "model", "optimizer"
        if isinstance(fact, CallFact):
            given = fact.argument(0 if last_name(fact.node) == "update" else 1, "model")
            model = (given and dotted(given.node)) or model
            optimizer = owner or optimizer
        yield Report.at(
            fact,
            message="the loop updates parameters and evaluates nothing: its graph grows",
            help=f"End each iteration with `mx.eval({model}.parameters(), {optimizer}.state)`",
        )


def is_short_loop(loop: cst.For | cst.While, place: FactPlace, module: Module) -> bool:
    """Return whether a loop has few iterations, and is not a training loop of ``steps=10``."""
    if not walks_short_list(loop, place.function, module):
        return False
    is_outermost = list(layout_of(module, place.function).loops(place.statement))[-1] is loop
    is_setting = is_outermost and counts_by_setting(loop)
    return not (is_setting and is_step(loop, module, by_evaluation=False))


def may_ask(place: FactPlace, module: Module) -> bool:
    """Count a question about a loop; return False if there have been too many."""
    asked = evaluation_of(module).asked
    asked[place.loop] += 1
    return asked[place.loop] <= MOST_CALLERS


def is_one_graph(place: FactPlace, module: Module) -> bool:
    """Return whether the loop becomes one graph on purpose, or is a test's."""
    function = place.function
    if function is None:
        return module.is_test
    if function.compiled or function.differentiated or function.vmapped or function.is_test:
        return True
    return function.cls is not None and is_layer(function.cls)


def _is_captured(name: str, place: FactPlace, module: Module) -> bool:
    """Test whether an inner function reads the variable, and may evaluate it."""
    function = place.function
    inner = [] if function is None else [f for f in module.functions if f.outer is function]
    return any(name in contents_of(info.node.body).names for info in inner)


def _is_kept(
    found: Accumulation, loop: cst.For | cst.While, place: FactPlace, module: Module
) -> bool:
    """Return whether what is added to is older than a loop, and nothing there resets it."""
    path, adder = found.path, found.function
    owner, _, name = path.rpartition(".")
    if not owner and adder is None:
        return _is_kept_variable(found, loop, place, module)
    if (adder is None and "." in owner) or not is_older(path, loop, place, module):
        return False
    for statement in contents_of(loop.body).statements:
        is_own = adder is None and statement is place.statement
        if not is_own and path in map(dotted, assigned_to(statement)):
            return False
    own = adder or place.function
    cls, evaluation = None if own is None else own.cls, evaluation_of(module)
    for node in _called_each_time(found, loop, module):
        func = None if node is found.node else node.func
        if not isinstance(func, cst.Attribute) or dotted(func.value) != owner:
            continue
        local = evaluation.local_call(node) or evaluation.elsewhere.get(node)
        if local is None and (cls is None or func.attr.value not in cls.setters):
            return False
        other = None if local is None or local.function is adder else local.function
        if other is not None and name in contents_of(other.node.body).names:
            return False
    return True


def _is_kept_variable(
    found: Accumulation, loop: cst.For | cst.While, place: FactPlace, module: Module
) -> bool:
    """Test whether a variable reaches the next iteration of a loop.

    A sum of gradients may start again after some micro-batches.
    """
    bindings = scope_of(module, place.function).reaching.before(place.statement, found.path) or ()
    layout = layout_of(module, place.function)
    inside = [binding for binding in bindings if layout.is_bound_in(binding, loop)]
    is_tree = found.kind == "tree"
    return len(inside) < len(bindings) and all(
        b.statement is place.statement
        or _excludes(b.statement, place.statement, layout)
        or (is_tree and _starts_again(b, layout))
        for b in inside
    )


def _starts_again(binding: Binding, layout: Layout) -> bool:
    """Test for ``total = None`` in a branch."""
    level = next(layout.outward(binding.statement), None)
    is_none = isinstance(binding.value, cst.Name) and binding.value.value == "None"
    return is_none and level is not None and isinstance(level.owner, cst.If)


def _excludes(first: cst.CSTNode, second: cst.CSTNode, layout: Layout) -> bool:
    """Test whether two statements are in the two branches of one ``if``."""
    arms = {id(level.owner): level.arm for level in layout.outward(first)}
    return any(
        isinstance(level.owner, cst.If) and arms.get(id(level.owner), level.arm) != level.arm
        for level in layout.outward(second)
    )


#: Parts of names of learning rates that depend on the step, which is then evaluated with weights.
_SCHEDULES = ("schedule", "decay(", "warmup", "get_lr")


@check("LAZY-006", of=(".update",))
def unevaluated_state(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(loss, model.parameters())`` in a loop, without ``optimizer.state``."""
    place, func = fact.place, fact.node.func
    if not place.loops or place.loop is None or not _is_optimizer(fact):
        return
    path = dotted(func.value) if isinstance(func, cst.Attribute) else None
    if path is None or is_one_graph(place, module) or not may_ask(place, module):
        return
    if any(word in module.source.lower() for word in _SCHEDULES):
        return
    loops = layout_of(module, place.function).loops(place.statement)
    loop = next((around for around in loops if is_long(around)), None)
    evaluation = evaluation_of(module)
    if loop is None or not evaluation.evaluates(loop.body):
        return  # LAZY-002 reports a loop that evaluates nothing
    outermost = list(layout_of(module, place.function).loops(place.statement))[-1]
    body = module.tree if place.function is None else place.function.node.body
    holders = derived_names(body, {path.rpartition(".")[2]})
    if not evaluation.may_evaluate(outermost.body.body, {path, *holders}):
        yield Report.at(
            fact,
            message="the loop never evaluates the optimizer's state: its graph grows",
            help=f"Add it to the evaluation: `mx.eval(model.parameters(), {path}.state)`",
        )


def _is_optimizer(fact: CallFact) -> bool:
    callee = fact.callee
    owner = callee.owner if isinstance(callee, BoundMember) else None
    return isinstance(owner, LibraryObject) and owner.cls.startswith("mlx.optimizers.")


@check("LAZY-001")
def losses_at_once(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``sum(loss_fn(model, x) for x in batches)``."""
    seen: set[int] = set()
    for fact in facts:
        place = fact.place
        if not place.loop_names or id(place.statement) in seen:
            continue
        seen.add(id(place.statement))
        found: list[cst.ListComp | cst.GeneratorExp]
        found = head_contents(place.statement).of(cst.ListComp, cst.GeneratorExp)
        for node in found:
            if _keeps_graphs(node, place, module):
                yield Report.at(
                    fact,
                    node=node,
                    message="no element is evaluated: the graphs of all batches are kept",
                    help="Sum in a loop with `mx.eval()`, or evaluate each element: `.item()`",
                )


def _keeps_graphs(node: cst.ListComp | cst.GeneratorExp, place: FactPlace, module: Module) -> bool:
    if is_one_graph(place, module) or not may_ask(place, module):
        return False
    loop, statement, function = node.for_in, place.statement, place.function
    targets = set(target_names(loop.target))
    if is_short(loop.iter, function, module):
        return False
    if any(dotted(call.func) in targets for call in contents_of(node.elt, SCOPES).calls):
        return False  # over layers
    lineage = lineage_of(node.elt, statement, function, loop, module)
    if not lineage.is_reduced or lineage.is_evaluated or not runs_model(lineage, loop, module):
        return False
    return is_consumed(node, statement, function, module)


@check("LAZY-001")
def growing_attribute(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``ema.update(model)`` in a training loop, where ``update`` averages into ``self.shadow``."""
    if not fact.place.loops or is_one_graph(fact.place, module):
        return
    added = accumulated(fact.function, module)
    if isinstance(fact, ProjectCall):
        if not is_plainly_lazy(fact.function):
            return
        derived = derived_names(fact.function.node.body, _array_parameters(fact))
        # Of weights, or of arrays.
        added = [item for item in added if item.kind == "tree" or item.adds_one_of(derived)]
    yield from islice(_reports(fact, by_caller(fact, added), module), 1)


def _array_parameters(call: ProjectCall) -> set[str]:
    """Return the parameters that a call passes arrays for."""
    pairs = [(argument.keyword, argument.node) for argument in call.arguments]
    passed = by_parameter(call.function, pairs, is_bound=call.is_bound)
    arrays = {id(argument.node) for argument in call.arguments if holds_arrays(argument.value)}
    keywords = next((p.name for p in call.function.parameters if p.star == "**"), None)
    own = {parameter.name for parameter in call.function.parameters}
    found = (
        name if name in own else keywords for name, node in passed.items() if id(node) in arrays
    )
    return {name for name in found if name is not None}


def _called_each_time(
    found: Accumulation, loop: cst.For | cst.While, module: Module
) -> Iterator[cst.Call]:
    """The calls of a loop, without the step that takes a sum of gradients after some of them."""
    body: list[cst.BaseStatement | cst.BaseSmallStatement] = [*loop.body.body]
    always = each_iteration(body, module) if found.kind == "tree" else body
    for statement in body:
        is_kept = statement in always
        node = statement.test if isinstance(statement, cst.If) and not is_kept else statement
        yield from contents_of(node).calls


@check("LAZY-001")
def unevaluated_chunks(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(prompt[:, start:stop], cache=cache)`` for each chunk of a prompt."""
    if "cache" not in module.source:
        return
    seen: set[int] = set()
    for fact in facts:
        if not fact.place.loops or not isinstance(fact, (CallFact, LocalCall, ProjectCall)):
            continue
        cache = None if id(fact.node) in seen else _cache_of(fact)
        if cache is None or is_one_graph(fact.place, module) or not may_ask(fact.place, module):
            continue
        seen.add(id(fact.node))
        for loop in layout_of(module, fact.place.function).loops(fact.place.statement):
            if is_long(loop) and _fills_cache(fact, cache, loop, module):
                yield Report.at(
                    fact,
                    message=_MESSAGE.format(cache),
                    help=f"Call `mx.eval([layer.state for layer in {cache}])` in each iteration",
                )
                break


def _cache_of(fact: CallFact | LocalCall | ProjectCall) -> str | None:
    """Return the cache that a model is called with."""
    if isinstance(fact, CallFact):
        if not isinstance(fact.callee, (Unknown, Instance, LibraryObject)):
            return None
    elif fact.function.cls is None or not is_layer(fact.function.cls):
        return None
    for argument in fact.node.args:
        path = dotted(argument.value)
        if path is not None and "cache" in path.rpartition(".")[2].lower():
            return path
    return None


def _fills_cache(
    fact: CallFact | LocalCall | ProjectCall,
    cache: str,
    loop: cst.For | cst.While,
    module: Module,
) -> bool:
    """Return whether each iteration gives a model a chunk, and nothing evaluates the cache."""
    evaluation, statement = evaluation_of(module), fact.place.statement
    if walks_short_list(loop, fact.place.function, module) or evaluation.evaluates(loop.body):
        return False
    varying = contents_of(loop.body).assigned.union(bound_by(loop))
    if cache.partition(".")[0] in _of_element(loop):
        return False
    is_older = cache.partition(".")[0] not in varying
    is_element = is_older and _takes_element(fact, loop)
    if not is_element and not _takes_chunk(fact.node, varying, loop):
        return False
    kept = {cache.partition(".")[0], *bound_by(statement)}
    for call in contents_of(loop.body).calls:
        given = {name for argument in call.args for name in contents_of(argument.value).names}
        # A function that nothing is known of may evaluate the cache, or the result.
        is_known = evaluation.effect(call) == "lazy" or evaluation.local_call(call) is not None
        if call is not fact.node and not is_known and not kept.isdisjoint(given):
            return False
    return True


def _of_element(loop: cst.For | cst.While) -> set[str]:
    """Return the names of a loop's element and of its parts: ``cache = entry["cache"]``."""
    targets = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    parts = {
        target.target.value
        for statement in contents_of(loop.body).statements
        if isinstance(statement, cst.Assign) and _root(statement.value) in targets
        for target in statement.targets
        if isinstance(target.target, cst.Name)
    }
    return targets | parts


def _root(node: cst.BaseExpression) -> str | None:
    """Return the name that a path of attributes, indices and ``.get(key)`` starts from."""
    path = path_of(node)
    return None if path is None else path.partition(".")[0]


def _takes_element(fact: CallFact | LocalCall | ProjectCall, loop: cst.For | cst.While) -> bool:
    """Test for ``model(c, cache)`` with each ``c`` of a loop, of which only the cache is kept."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Expr) or statement.value is not fact.node:
        return False
    elements = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    return any(dotted(argument.value) in elements for argument in fact.node.args)


def _takes_chunk(call: cst.Call, varying: frozenset[str], loop: cst.For | cst.While) -> bool:
    """Test whether a call gets a slice whose bounds, or whose array, change with the loop."""
    passed = [argument.value for argument in call.args]
    given = varying & {name for node in passed for name in contents_of(node).names}
    return any(
        any(isinstance(element.slice, cst.Slice) for element in node.slice)
        and not varying.isdisjoint(contents_of(node).names)
        for source in (*passed, *contents_of(loop.body).values_of(given))
        for node in contents_of(source).of(cst.Subscript)
    )


_KINDS = frozenset(("concatenation", "sum"))
_VIEWS = frozenset(("astype", "reshape", "squeeze", "transpose", "flatten", "swapaxes"))
#: Functions whose results are numbers of the host.
_COUNTING = frozenset(
    ("len", "int", "float", "bool", "time.time", "time.perf_counter", "time.monotonic")
)
_EVALUATING = frozenset(("eval", "async_eval", "item", "tolist"))


@check("LAZY-001")
def growing_state(fact: LocalCall | ProjectCall, module: Module) -> Iterator[Report]:
    """``logits = model(token, cache)``, where ``cache.push()`` concatenates what nothing reads."""
    function, place = fact.function, fact.place
    if not place.loops or isinstance(function.node, cst.Lambda) or is_one_graph(place, module):
        return
    values, passed = passed_values(fact), passed_with_owner(fact)
    for parameter in function.parameters:
        path = dotted(passed[parameter.name]) if parameter.name in passed else None
        given = values.get(parameter.name, UNKNOWN)
        if given is UNKNOWN:
            given = _declared(function, parameter)
        if path is None or not isinstance(given, Instance):
            continue
        for grown in _grown(function, parameter.name, given):
            found = f"{path}.{grown.attribute}"
            if may_ask(place, module) and _grows_in_loop(found, fact, module):
                stop = Stop(grown.node, grown.statement, _ADDS)
                is_here = grown.function.module is module
                yield _growing(fact, fact.node, found, module, (stop,) if is_here else ())


def _declared(function: FunctionInfo, parameter: FunctionParameter) -> Value:
    """Return the value of a parameter by its annotation, or as the object of a method."""
    is_own = function.is_method and parameter is function.parameters[0]
    if is_own and function.cls is not None:
        return Instance(function.cls)
    return annotated_value(function, parameter)


def _grows_in_loop(path: str, fact: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a loop that evaluates other arrays never evaluates an older object's."""
    place, root = fact.place, path.partition(".")[0]
    loops = list(layout_of(module, place.function).loops(place.statement))
    if place.loops != len(loops):
        return False
    for loop in loops:
        if is_short_loop(loop, place, module):
            continue
        if not is_long(loop) or not is_older(path, loop, place, module):
            return False
        # A call with the one in it that adds has no other mention of the object.
        calls = (call for call in map(contents_of, contents_of(loop.body).calls))
        if any(root in call.names and fact.node not in call for call in calls):
            return False
        return is_step(loop, module, by_evaluation=True) or synchronizes(loop, module)
    return False


class _Grown(NamedTuple):
    """An attribute that a function adds to, at a node of a statement of a function."""

    attribute: str
    node: cst.CSTNode
    statement: cst.CSTNode
    function: FunctionInfo


@kept_for_file
def _grown(function: FunctionInfo, name: str, given: Instance) -> tuple[_Grown, ...]:
    """Return the attributes of an object that a function adds to, and reads nowhere else."""
    if _evaluates(function):
        return ()
    found: list[_Grown] = []
    adders = [(name, function, True), *_adders(function, name, given)]
    for owner, adder, computes in adders:
        if _evaluates(adder) or isinstance(adder.node, cst.Lambda):
            return ()
        for statement in contents_of(adder.node.body).statements:
            added = next(accumulations(statement, adder, None), None)
            root, _, attribute = (added.path if added is not None else "").partition(".")
            if added is None or root != owner or not attribute or added.kind not in _KINDS:
                continue
            is_new = any(_computes(node, adder) for node in added.added)
            if "." not in attribute and (is_new or (computes and adder is not function)):
                found.append(_Grown(attribute, added.node, statement, adder))
    if _is_passed_on(function, name):
        return ()
    readers = {adder: None for _, adder, _ in adders}
    return tuple(g for g in found if not any(_reads(r, g, found) for r in readers))


def _adders(
    function: FunctionInfo, name: str, given: Instance
) -> Iterator[tuple[str, FunctionInfo, bool]]:
    """Yield the methods of an object that a function calls, and whether it passes new arrays."""
    for node in contents_of(function.node.body).calls:
        func = node.func
        if not isinstance(func, cst.Attribute) or dotted(func.value) != name:
            continue
        method = find_method(given.info, func.attr.value)
        if method is not None and method.parameters:
            computes = any(_computes(argument.value, function) for argument in node.args)
            yield method.parameters[0].name, method, computes


def _computes(node: cst.BaseExpression, function: FunctionInfo) -> bool:
    """Return whether an expression is a new array, on which no other one depends."""
    while True:
        func = node.func if isinstance(node, cst.Call) else None
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(func, cst.Attribute) and func.attr.value in _VIEWS:
            node = func.value
        else:
            break
    if not isinstance(node, cst.Name):
        return _may_make_array(node, function)
    name = node.value
    made = _assigned(name, function)
    if len(made) != 1 or not _may_make_array(made[0], function):
        return False
    contents = contents_of(function.node.body)
    returns = any(isinstance(s, cst.Return) and s.value is not None for s in contents.statements)
    return len(contents.reads[name]) == 2 or not returns


def _assigned(name: str, function: FunctionInfo) -> list[cst.BaseExpression]:
    return contents_of(function.node.body).values_of({name})


def _may_make_array(node: cst.BaseExpression, function: FunctionInfo) -> bool:
    if isinstance(node, cst.BinaryOperation):  # ``stop - start`` of a clock makes none
        sides = (_assigned(dotted(n) or "", function) for n in (node.left, node.right))
        return not all(made and all(map(_is_count, made)) for made in sides)
    return isinstance(node, cst.Call) and not _is_count(node)


def _is_count(node: cst.BaseExpression) -> bool:
    """Test for a number of the host: ``len(x)``, ``sum(len(x) for x in xs)``."""
    if not isinstance(node, cst.Call):
        return False
    first = node.args[0].value if node.args else None
    if dotted(node.func) == "sum" and isinstance(first, (cst.GeneratorExp, cst.ListComp)):
        return _is_count(first.elt)
    return dotted(node.func) in _COUNTING


def _evaluates(function: FunctionInfo) -> bool:
    return not _EVALUATING.isdisjoint(contents_of(function.node.body).names)


def _is_passed_on(function: FunctionInfo, name: str) -> bool:
    """Return whether a function passes an object on, or binds another name to it."""
    contents = contents_of(function.node.body)
    owners = {node.value for node in contents.of(cst.Attribute)}
    return not owners.issuperset(contents.reads.get(name, ()))


def _reads(function: FunctionInfo, grown: _Grown, others: list[_Grown]) -> bool:
    """Return whether a function reads an attribute other than to add to it, or test for None."""
    contents = contents_of(function.node.body)
    adding = {
        node for g in others if g.attribute == grown.attribute for node in contents_of(g.statement)
    }
    for test in contents.of(cst.Comparison):
        if all(dotted(target.comparator) == "None" for target in test.comparisons):
            adding.update(contents_of(test))
    adding.update(node.target for node in contents.of(cst.AssignTarget))
    attributes = {n for n in contents.of(cst.Attribute) if n.attr.value == grown.attribute}
    return not adding.issuperset(attributes)
