"""RANDOM-004, 007, 008 and 009: seeds that start the same numbers again, or decide no draw."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import Contents, bound_by, contents_of
from embercoach.analysis.dataflow.function_summaries import (
    derived_names,
    evaluated_calls,
    passed_values,
    reached_by,
)
from embercoach.analysis.dataflow.layout import is_older, layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import assignment_counts, passed_arguments, scope_of
from embercoach.analysis.dataflow.value_sources import (
    Callee,
    Sources,
    argument_of,
    is_set_once,
    sources_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, keyed_path, target_names
from embercoach.analysis.values.facts import Argument, CallFact, Fact, LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import Number, as_array
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_STEPS
from embercoach.checks.arrays.random_keys import PREFIX, draws, is_benchmark, key_of
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

#: Methods that run once for each item or batch.
_PER_ITEM = frozenset(("__getitem__", "__next__"))


@check("RANDOM-004", of=(f"{PREFIX}seed", f"{PREFIX}key"))
def seed_in_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.seed(0)`` in a loop whose iterations then draw the same numbers."""
    loop, seed = fact.place.loop, fact.positional(0)
    if loop is None or seed is None or fact.place.periodic or _is_test(fact, module):
        return
    if not _is_fixed(seed, fact, loop, module):
        return
    contents = contents_of(loop.body)
    targets = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    if not contents.names.isdisjoint(targets):
        return
    keys = None if fact.symbol == f"{PREFIX}seed" else _keys_from(fact, contents)
    bound = contents.assigned - (keys or set()) - _states(contents)
    for node in contents.calls:
        given = (contents_of(argument.value).names for argument in node.args)
        if _draws_at(node, keys, module) and all(map(bound.isdisjoint, given)):
            yield Report.at(
                fact,
                message="the same seed in every iteration: each draws the same numbers",
                help="Seed once, before the loop",
            )
            return


def _states(contents: Contents) -> set[str]:
    """Return the names that a loop computes from its last state: each draw is for the next one."""
    needs: dict[str, set[str]] = {}
    for statement in contents.statements:
        if isinstance(statement, cst.Assign):
            for name in bound_by(statement):
                needs.setdefault(name, set()).update(contents_of(statement.value).names)
    reached: dict[str, set[str]] = {}
    for start in list(needs)[:MOST_STEPS]:
        pending, seen = [start], set[str]()
        while pending:
            further = needs.get(pending.pop(), set()) - seen
            seen |= further
            pending += further
        reached[start] = seen
    states = {name for name, seen in reached.items() if name in seen}
    return {name for name, seen in reached.items() if not states.isdisjoint(seen)}


def _draws_at(node: cst.Call, keys: set[str] | None, module: Module) -> bool:
    """Return whether a call draws, with a key or without; also in a function of the file."""
    evaluation = evaluation_of(module)
    draw, local = evaluation.calls.get(node), evaluation.local_call(node)
    if local is not None:
        return keys is None and _draws(local.function)
    return draw is not None and draws(draw) and _uses(draw, keys)


def _is_fixed(seed: Argument, fact: CallFact, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a seed is a constant, or a name or setting that the loop never changes."""
    if isinstance(seed.value, Number) and seed.value.const is not None:
        return True
    path = keyed_path(seed.node)
    reaching = scope_of(module, fact.place.function).reaching
    if path is None or path in contents_of(loop.body).stored_paths:
        return False
    owner, _, last = path.rpartition(".")  # of a setting: ``args.seed``, ``config["seed"]``
    if owner and not last.startswith("[") and assignment_counts(module)[last] > 1:
        return False
    bindings = reaching.before(fact.place.statement, path.partition(".")[0])
    return bool(bindings) and is_older(path, loop, fact.place, module)


def _keys_from(fact: CallFact, contents: Contents) -> set[str]:
    """Return the names that hold a key, and the keys that are split from it."""
    keys = set(bound_by(fact.place.statement))
    for other in contents.statements:
        made = other.value if isinstance(other, cst.Assign) else None
        if isinstance(made, cst.Call) and last_name(made).endswith("split"):
            keys.update(bound_by(other) if keys & contents_of(made).names else ())
    return keys


def _uses(draw: CallFact, keys: set[str] | None) -> bool:
    """Return whether a call draws with one of the keys, or without any for ``None``."""
    key = key_of(draw)
    if keys is None or key is None:
        return keys is None and key is None
    return not keys.isdisjoint(contents_of(key).names)


def _is_test(fact: CallFact, module: Module) -> bool:
    function = fact.place.function
    return module.is_test if function is None else function.is_test


@check("RANDOM-004", of=(f"{PREFIX}seed", f"{PREFIX}key"))
def seed_in_repeated_function(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.seed(0)`` or ``mx.random.key(0)`` in a function that a loop calls."""
    function, seed = fact.place.function, fact.positional(0)
    if function is None or seed is None or fact.place.loops or _is_test(fact, module):
        return
    levels = [*layout_of(module, function).outward(fact.place.statement)]
    if len(levels) != 1 or is_benchmark(module):
        return
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, seed.node), through_callers=True)
    constants = {getattr(end.node, "value", None) for end in ends}
    is_constant = len(constants) == 1 and all(isinstance(end.node, cst.Integer) for end in ends)
    if not is_constant and not is_unchanging(seed.node, function, module):
        return
    if not _draws_from(fact, function):
        return
    call = _repeating_call(function, sources, set())
    if call is None and not (is_constant and _runs_per_item(function)):
        return
    if call is not None and not is_constant and not is_of_one_object(call, function, module):
        return
    text = "called in every iteration"
    yield Report.at(
        fact,
        message="the same seed at every call: each draws the same numbers",
        help="Seed once, before the loop, or pass a key for each call",
        related=() if call is None else (Stop(call.node, call.place.statement, text),),
    )


def is_unchanging(node: cst.CSTNode, function: FunctionInfo, module: Module) -> bool:
    """Return whether a seed is ``self.seed`` that ``__init__`` sets, or a variable around."""
    owner, *rest = (dotted(node) or "").split(".")
    cls = function.cls
    if cls is not None and function.is_method and rest and owner == function.parameters[0].name:
        is_set = is_set_once(cls, rest[0], module)
        return is_set and not any(assignment_counts(module)[name] for name in rest[1:])
    if rest or function.outer is None or scope_of(module, function).binds(owner):
        return False
    reaching = scope_of(module, function.outer).reaching
    bindings = reaching.bindings.get(owner, [])
    layout = layout_of(module, function.outer)
    is_bound_once = len(bindings) == 1 and bindings[0].kind in ("parameter", "assigned")
    return is_bound_once and next(layout.loops(bindings[0].statement), None) is None


def is_of_one_object(call: LocalCall | ProjectCall, function: FunctionInfo, module: Module) -> bool:
    """Return whether a loop calls a method of an object, or a closure, that is older."""
    path, loop = dotted(call.node.func), call.place.loop
    if call.function is not function or path is None or loop is None:
        return False
    return is_older(path, loop, call.place, module)


def _draws_from(fact: CallFact, function: FunctionInfo) -> bool:
    """Return whether a function draws from the global generator, or with a key made in it."""
    if fact.symbol == f"{PREFIX}seed":
        return _draws(function)
    if isinstance(function.node, cst.Lambda):
        return False
    keys = _keys_from(fact, contents_of(function.node.body))
    found = (f for f in function.module.facts_of(function) if isinstance(f, CallFact))
    return any(draws(draw) and _uses(draw, keys) for draw in found)


@kept_for_file
def _draws(function: FunctionInfo) -> bool:
    """Return whether a function, or one that it calls, draws from the global generator."""
    facts = (fact for info in reached_by(function) for fact in info.module.facts_of(info))
    return any(isinstance(f, CallFact) and draws(f) and key_of(f) is None for f in facts)


def _runs_per_item(function: FunctionInfo) -> bool:
    """Return whether a method is a dataset's, or the forward pass of a module."""
    if function.cls is None:
        return False
    return is_forward(function) or function.name in _PER_ITEM


def _repeating_call(
    function: FunctionInfo, sources: Sources, seen: set[FunctionInfo]
) -> LocalCall | ProjectCall | None:
    """Return a call in a loop that passes no settings to compare, by a caller or by its callers."""
    seen.add(function)
    calls = sources.callers(function)[:MOST_CALLERS]
    for call in calls:
        if call.place.loops and not call.place.periodic:
            return call if repeats(call, function, sources) else None
    for call in calls if len(seen) < MOST_STEPS else ():
        caller = call.place.function
        if caller is not None and caller not in seen and not caller.is_test:
            found = _repeating_call(caller, sources, seen)
            if found is not None:
                return found
    return None


def _varies(node: cst.CSTNode, call: LocalCall | ProjectCall, sources: Sources) -> bool:
    """Return whether an argument is of the loop's variables, or built of them in the loop."""
    function, statement, loop = call.place.function, call.place.statement, call.place.loop
    reaching = scope_of(sources.module, function).reaching
    layout = layout_of(sources.module, function)
    pending, seen = [(node, statement)], set[int]()
    while pending and len(seen) < MOST_STEPS:
        node, statement = pending.pop()
        contents = contents_of(node)
        for used in (use for name in contents.reads for use in contents.uses(name)):
            name = used.value
            if name in call.place.loop_names:
                return True
            if _is_carried(used, call, sources.module):
                continue  # the loop's state: what it is varies, what belongs to it need not
            for binding in reaching.before(statement, name) or ():
                inside = loop is not None and layout.is_inside(binding.statement, loop)
                if inside and binding.value is not None and id(binding) not in seen:
                    seen.add(id(binding))
                    pending.append((binding.value, binding.statement))
    return False


def _is_carried(node: cst.CSTNode, call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether an argument is a state that the loop updates: ``x = step(x, t)``."""
    function, loop, statement = call.place.function, call.place.loop, call.place.statement
    reaching = scope_of(module, function).reaching
    if not isinstance(node, cst.Name) or loop is None:
        return False
    bindings = reaching.before(statement, node.value) or ()
    inside = [b for b in bindings if layout_of(module, function).is_inside(b.statement, loop)]
    return 0 < len(inside) < len(bindings)


def _is_result(node: cst.CSTNode, call: LocalCall | ProjectCall) -> bool:
    """Return whether a statement assigns a call's result to one of its arguments."""
    return isinstance(node, cst.Name) and node.value in bound_by(call.place.statement)


def repeats(call: LocalCall | ProjectCall, function: FunctionInfo, sources: Sources) -> bool:
    """Return whether the calls of a loop pass the same arguments, or data alone.

    Settings that differ, for the same data, are compared with the same numbers on purpose.
    """
    source, callee = sources.of(call, call.node), Callee(function, call.is_bound)
    varying, fixed_arrays, data = False, False, False
    values = passed_values(call)
    for parameter in function.parameters:
        value = values.get(parameter.name)
        if value is None:
            continue
        given = argument_of(source, callee, parameter.name)
        if given is None or given.statement is not source.statement:
            continue
        is_array = as_array(value) is not None
        is_state = is_array or _is_result(given.node, call)
        if is_state and _is_carried(given.node, call, sources.module):
            return True
        if _varies(given.node, call, sources):
            varying, data = True, data or is_array
        else:
            fixed_arrays = fixed_arrays or is_array
    return not varying or (data and not fixed_arrays)


@check("RANDOM-004")
def seed_in_other_file(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``x = sampler.step(x)`` in a loop, where ``step`` begins with ``mx.random.seed(0)``."""
    function, place = fact.function, fact.place
    if not place.loops or place.periodic or function.module is module or module.is_test:
        return
    if place.function is not None and place.function.is_test:
        return
    seed = _seed(function)
    if seed is None or is_benchmark(module):
        return
    if not isinstance(_default(seed, fact), cst.Integer):
        if not is_unchanging(seed, function, function.module):
            return
        if not is_of_one_object(fact, function, module):
            return
    if repeats(fact, function, sources_of(module)):
        yield Report.at(
            fact,
            message=f"`{function.name[:20]}()` seeds alike at every call: the same numbers",
            help="Seed once, before the loop",
        )


def _default(seed: cst.BaseExpression, fact: ProjectCall) -> cst.CSTNode | None:
    """Return the seed, or the default of the parameter that it is, if the call passes none."""
    function, name = fact.function, dotted(seed)
    parameter = next((p for p in function.parameters if p.name == name), None)
    if parameter is None:
        return seed
    has_star = any(a.star for a in fact.arguments)
    return None if has_star or name in passed_arguments(fact) else parameter.default


@kept_for_file
def _seed(function: FunctionInfo) -> cst.BaseExpression | None:
    """Return the seed that a function always sets before it draws numbers itself."""
    names = contents_of(function.node.body).names
    if isinstance(function.node, cst.Lambda) or "seed" not in names:
        return None
    found: cst.BaseExpression | None = None
    layout = layout_of(function.module, function)
    for call in evaluated_calls(function):
        levels = [*layout.outward(call.place.statement)]  # none in an inner function
        is_certain = len(levels) == 1 and isinstance(call.place.statement, cst.BaseSmallStatement)
        if call.symbol == f"{PREFIX}seed" and is_certain and len(call.arguments) == 1:
            found = call.arguments[0].node
        elif found is not None and draws(call) and levels:
            return None if key_of(call) is not None else found
    return None


@check("RANDOM-009")
def zero_seed(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``if seed: mx.random.seed(seed)``, ``seed or 42``: the seed 0 counts as none."""
    if not any(text in module.source for text in ("if seed", ".seed:", "seed or ")):
        return
    contents = contents_of(module.tree)
    for node in contents.of(cst.If, cst.BooleanOperation):
        if isinstance(node, cst.BooleanOperation):
            tested, is_dropped = node.left, isinstance(node.operator, cst.Or)
            # Zero for zero changes nothing.
            is_dropped = is_dropped and dotted(node.right) != "None" and not _is_zero(node.right)
        else:
            assert isinstance(node, cst.If)
            tested, is_dropped = node.test, _seeds(node)
        path = dotted(tested)
        if path is None or not is_dropped or path.rpartition(".")[2] != "seed":
            continue
        yield Report.in_file(
            module,
            tested,
            message="the seed 0 counts as no seed",
            help=f"Test for None: `{quoted(path, 30)} is not None`",
        )


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.value == "0"


def _seeds(node: cst.If) -> bool:
    """Return whether a branch passes what it tests to a call of a function named ``seed``."""
    return any(
        last_name(call) in ("seed", "manual_seed", "key", "default_rng", "PRNGKey")
        and any(argument.value.deep_equals(node.test) for argument in call.args)
        for call in contents_of(node.body).calls
    )


_SEED = "mlx.core.random.seed"
#: Functions that draw from the global generators of the host, by what seeds them.
_DRAWS = {
    **{
        f"numpy.random.{name}": "np.random.seed"
        for name in (
            *("rand", "randn", "random", "uniform", "normal", "choice", "randint", "permutation"),
            *("shuffle", "standard_normal", "random_sample", "beta", "poisson", "exponential"),
        )
    },
    **{
        f"random.{name}": "random.seed"
        for name in ("shuffle", "sample", "choice", "choices", "randint", "uniform", "gauss")
    },
}


@check("RANDOM-007")
def one_generator_seeded(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mx.random.seed(args.seed)``, and ``np.random.permutation(n)`` of the data."""
    if module.is_test or "random.seed" not in module.source:
        return
    calls = [fact for fact in facts if type(fact) is CallFact]
    seeds = [fact for fact in calls if fact.symbol == _SEED]
    if not seeds or _seeds_others(module.tree, {id(fact.node) for fact in seeds}):
        return
    drawn = _drawn(calls, facts)
    if drawn is None:
        return
    draw, seeding = drawn
    shown = quoted(draw.symbol.replace("numpy", "np") if draw.symbol else "random", 26)
    stops = (Stop(draw.node, draw.place.statement, "draws here"),)
    yield Report.at(
        seeds[0],
        message=f"`mx.random.seed()` does not seed `{shown}()`, which draws too",
        help=f"Call `{seeding}()` with the same seed",
        related=stops if draw in calls else (),
    )


def _seeds_others(body: cst.CSTNode, own: set[int]) -> bool:
    """Return whether a call may seed another generator, also one of which nothing is known."""
    calls = (call for call in contents_of(body).calls if id(call) not in own)
    return any("seed" in last_name(call).lower() for call in calls)


def _drawn(calls: list[CallFact], facts: list[Fact]) -> tuple[CallFact, str] | None:
    """Return a draw from an unseeded generator, and what seeds it, also of a called function."""
    for call in calls:
        if call.symbol in _DRAWS:
            return call, _DRAWS[call.symbol]
    called = dict.fromkeys(fact.function for fact in facts if type(fact) is ProjectCall)
    for function in islice(called, MOST_CALLERS):
        other = function.module
        if "seed" in other.source and _seeds_others(other.tree, set()):
            return None
        for call in evaluated_calls(function) if "random" in other.source else ():
            if call.symbol in _DRAWS:
                return call, _DRAWS[call.symbol]
    return None


#: Parts of the names of parameters that decide what a function draws.
_GIVEN = frozenset({"seed", "key", "rng", "prng"})
_HELP = "Pass a key to each draw: `key, subkey = mx.random.split(key)`"


@check("RANDOM-008")
def draw_without_key(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mx.random.normal(shape)`` in a function whose other draws take a key from its ``seed``."""
    if module.is_test or "random" not in module.source:
        return
    drawing: dict[FunctionInfo, list[CallFact]] = {}
    for fact in facts:
        function = fact.place.function
        if type(fact) is CallFact and function is not None and draws(fact):
            drawing.setdefault(function, []).append(fact)
    for function, found in drawing.items():
        given = {p.name for p in function.parameters if _decides(p.name)}
        derived = derived_names(function.node.body, given) if given else set()
        keys = {fact: key_of(fact) for fact in found}
        keyed = [f for f, k in keys.items() if k is not None and contents_of(k).names & derived]
        if not keyed or _seeds_generator(function):
            continue
        for fact in found:
            if keys[fact] is None and not _is_alternative(fact, function, derived):
                stop = Stop(keyed[0].node, keyed[0].place.statement, "takes a key")
                yield Report.at(
                    fact,
                    message="draws without a key: what the function is given does not decide it",
                    help=_HELP,
                    related=(stop,),
                )
                break


def _decides(name: str) -> bool:
    return not _GIVEN.isdisjoint(name.lower().split("_"))


def _seeds_generator(function: FunctionInfo) -> bool:
    """Return whether a function itself calls ``mx.random.seed``, or another seeding function."""
    calls = contents_of(function.node.body).calls
    return any("seed" in last_name(call).lower() for call in calls)


def _is_alternative(fact: CallFact, function: FunctionInfo, given: set[str]) -> bool:
    """Return whether a draw is for callers that give no key: ``if key is None:``."""
    statement = fact.place.statement
    tests = [e.test for e in contents_of(statement).of(cst.IfExp)]
    levels = layout_of(function.module, function).outward(statement)
    tests += [level.owner.test for level in levels if isinstance(level.owner, cst.If)]
    return any(not given.isdisjoint(contents_of(test).names) for test in tests)
