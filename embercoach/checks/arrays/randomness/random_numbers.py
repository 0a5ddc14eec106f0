"""RANDOM-002 to RANDOM-006: equal random numbers, and arguments of another meaning."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import by_parameter, scope_of
from embercoach.analysis.syntax.trees import names_below, small_statements, target_names, walk
from embercoach.analysis.values.lattice import LibraryObject, Number
from embercoach.checks.arrays.randomness.random_keys import PREFIX, draws, key_of
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument, CallFact, LibraryWrite, LocalCall
    from embercoach.analysis.project.module import Module

_STATE = "mlx.core.random.state"
_MOST_STEPS = 8
#: Calls of functions of the file that are followed, and the places that call one.
_MOST_CALLS, _MOST_SITES = 2, 16
_SHAPING = frozenset(
    ("astype", "reshape", "squeeze", "flatten", "expand_dims", "transpose", "take")
)
_SOFTMAX = frozenset(("mlx.core.softmax", "mlx.nn.softmax", "mlx.nn.layers.activations.softmax"))


@check("RANDOM-002", of=(PREFIX,))
def same_in_every_lane(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal(...)`` without a key in a function that ``mx.vmap`` maps."""
    function = fact.place.function
    if function is not None and function.vmapped and draws(fact) and key_of(fact) is None:
        yield Report.at(
            fact,
            "RANDOM-002",
            message="the random numbers are the same for all elements of `mx.vmap`",
            help="Map over keys: `mx.vmap(f)(x, mx.random.split(key, len(x)))`",
        )


@check("RANDOM-003")
def written_state(fact: LibraryWrite, module: Module) -> Iterator[Report]:
    """``mx.random.state = ...`` and ``mx.random.state[0] = ...``."""
    if fact.symbol != _STATE:
        return
    problem = "raises `TypeError`" if fact.is_item else "does not change MLX's random numbers"
    yield Report.at(
        fact,
        "RANDOM-003",
        message=f"assignment to `mx.random.state` {problem}",
        help="Seed with `mx.random.seed(...)`, or pass keys to the functions",
    )


@check("RANDOM-004", of=(f"{PREFIX}seed",))
def seed_in_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.seed(0)`` in a loop whose iterations then draw the same numbers."""
    loop, seed = fact.place.loop, fact.positional(0)
    if loop is None or seed is None or fact.place.periodic or _is_test(fact, module):
        return
    if not _is_fixed(seed, fact, loop, module):
        return
    bound = set(target_names(loop.target)) if isinstance(loop, cst.For) else set()
    body = [n for n in walk(loop.body) if isinstance(n, (cst.Name, cst.Call))]
    if bound & {n.value for n in body if isinstance(n, cst.Name)}:
        return
    for statement in small_statements(loop.body):
        if isinstance(statement, cst.Assign):
            bound.update(n for t in statement.targets for n in target_names(t.target))
    calls = evaluation_of(module).calls
    for node in body:
        draw = calls.get(node) if isinstance(node, cst.Call) else None
        if draw is None or not draws(draw) or key_of(draw) is not None:
            continue
        if not bound & {n for argument in draw.arguments for n in names_below(argument.node)}:
            yield Report.at(
                fact,
                "RANDOM-004",
                message="the same seed in every iteration: each draws the same numbers",
                help="Call `mx.random.seed()` once, before the loop",
            )
            return


def _is_fixed(seed: Argument, fact: CallFact, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a seed is a constant, or a name that a ``for`` loop never binds."""
    if isinstance(seed.value, Number) and seed.value.const is not None:
        return True
    reaching = scope_of(module, fact.place.function).reaching
    if not isinstance(seed.node, cst.Name) or not isinstance(loop, cst.For) or reaching is None:
        return False
    layout = layout_of(module, fact.place.function)
    bindings = reaching.before(fact.place.statement, seed.node.value) or ()
    return bool(bindings) and not any(
        b.statement is loop or layout.is_inside(b.statement, loop) for b in bindings
    )


def _is_test(fact: CallFact, module: Module) -> bool:
    function = fact.place.function
    return module.is_test if function is None else function.is_test


@check("RANDOM-005", of=(f"{PREFIX}categorical",))
def sampled_probabilities(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.categorical(mx.softmax(logits))``."""
    argument = fact.argument(0, "logits")
    if argument is None or argument.star:
        return
    if not _is_softmax(
        _Expression(argument.node, fact.place.statement, fact.place.function), module
    ):
        return
    alias, change = mlx_alias(module), None
    if alias is not None:
        text = f"{alias}.log({module.parsed.code(argument.node)})"
        change = ProposedFix("Take the logarithm", False, ((argument.node, text),))
    yield Report.at(
        fact,
        "RANDOM-005",
        node=argument.node,
        message="`mx.random.categorical()` takes logits, got probabilities of `softmax`",
        help="Pass the logits, or `mx.log(probabilities)`",
        change=change,
        subject=argument.node,
    )


class _Expression(NamedTuple):
    """An expression, with the statement and the function that it is in."""

    node: cst.BaseExpression
    statement: cst.CSTNode
    function: FunctionInfo | None


def _is_softmax(expression: _Expression, module: Module, calls: int = 0) -> bool:
    """Return whether an array is the result of a softmax, here or in a function of the file."""
    source = _source(expression, module)
    node, function = source.node, source.function
    evaluation = evaluation_of(module)
    if isinstance(node, cst.Name) and function is not None and calls < _MOST_CALLS:
        given = list(_given(node.value, function, module))
        return bool(given) and all(_is_softmax(g, module, calls + 1) for g in given)
    call = evaluation.calls.get(node)
    if call is not None:
        callee = call.callee
        is_layer = isinstance(callee, LibraryObject) and callee.cls == "mlx.nn.Softmax"
        return call.symbol in _SOFTMAX or is_layer
    local = evaluation.local_call(node)
    if local is None or calls >= _MOST_CALLS:
        return False
    returned = list(_returned(local.function))
    return bool(returned) and all(_is_softmax(r, module, calls + 1) for r in returned)


def _returned(function: FunctionInfo) -> Iterator[_Expression]:
    """The expressions that a function returns."""
    if isinstance(function.node, cst.Lambda):
        return
    for statement in small_statements(function.node.body):
        if isinstance(statement, cst.Return) and statement.value is not None:
            yield _Expression(statement.value, statement, function)


def _given(name: str, function: FunctionInfo, module: Module) -> Iterator[_Expression]:
    """The expressions that calls of the file pass for a parameter."""
    for call in _local_calls(module).get(function, ()):
        if any(argument.star for argument in call.node.args):
            continue
        pairs = ((a.keyword.value if a.keyword else None, a.value) for a in call.node.args)
        passed = by_parameter(function, pairs, is_bound=call.is_bound).get(name)
        if passed is not None:
            yield _Expression(passed, call.place.statement, call.place.function)


@lru_cache(maxsize=1)
def _local_calls(module: Module) -> dict[FunctionInfo, list[LocalCall]]:
    """The calls of each function of a file, up to a number."""
    from embercoach.analysis.facts.facts import LocalCall

    found: dict[FunctionInfo, list[LocalCall]] = {}
    for fact in module.facts():
        if (
            type(fact) is LocalCall
            and len(known := found.setdefault(fact.function, [])) < _MOST_SITES
        ):
            known.append(fact)
    return found


def _source(expression: _Expression, module: Module) -> _Expression:
    """The call that computes an array, through names, items and changes of shape and dtype.

    Or the name of a parameter that nothing else is assigned to.
    """
    node, statement, function = expression
    reaching = scope_of(module, function).reaching
    calls = evaluation_of(module).calls
    for _ in range(_MOST_STEPS):
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Name):
            found = None if reaching is None else reaching.before(statement, node.value)
            if not found or len(found) > 1 or found[0].kind != "assigned":
                kinds = [] if found is None else [binding.kind for binding in found]
                return _Expression(node, statement, function if kinds == ["parameter"] else None)
            statement, node = found[0].statement, found[0].value or node
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in _SHAPING:
                break
            call = calls.get(node)
            is_function = call is not None and call.symbol is not None and bool(node.args)
            node = node.args[0].value if is_function else node.func.value
        else:
            break
    return _Expression(node, statement, function)


@check("RANDOM-006", of=(PREFIX,))
def same_in_every_thread(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal(...)`` without a key or seed in the target of several threads."""
    function = fact.place.function
    if function is None or not function.threaded_often or not draws(fact):
        return
    if key_of(fact) is not None:
        return
    calls = evaluation_of(module).calls
    inner = (calls.get(node) for node in walk(function.node) if isinstance(node, cst.Call))
    if any(call is not None and call.symbol == f"{PREFIX}seed" for call in inner):
        return
    yield Report.at(
        fact,
        "RANDOM-006",
        message="the random numbers are the same in all threads",
        help="Pass a key to each thread: `mx.random.split(key, count)`",
    )
