"""RANDOM-001, 002, 003, 005 and 006: keys that are used twice, and equal random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.transforms import ThreadStart
from embercoach.analysis.dataflow.contents import contents_of, head_contents
from embercoach.analysis.dataflow.function_summaries import evaluated_calls
from embercoach.analysis.dataflow.layout import Layout, is_older, layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import Binding, last_name
from embercoach.analysis.dataflow.scopes import (
    assignment_counts,
    bindings_at,
    fixed_attribute,
    passed_arguments,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, keyed_path
from embercoach.analysis.values.facts import CallFact, Fact, LibraryWrite, LocalCall, ProjectCall
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import NONE, Array, Class
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_CALLERS, MOST_STEPS
from embercoach.checks.arrays.compositions import meaning_of
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

#: Functions of ``mlx.core.random`` whose key comes at a place among the positional arguments.
_KEY_AT = {"split": 0, "permutation": 2, "bernoulli": 2}
PREFIX = "mlx.core.random."
_WITHOUT_KEY = frozenset(("key", "seed", "state"))
#: Words in the names of functions that measure a model.
_MEASURES = frozenset(("eval", "evaluate", "evaluation", "validate", "validation", "test"))
_HELP = "Split the key for each use: `key, subkey = mx.random.split(key)`"


class _Use(NamedTuple):
    """A use of a key: the key as written, its variable, and the bindings that may hold there."""

    text: str
    name: str
    bindings: frozenset[Binding]
    fact: CallFact | LocalCall
    node: cst.CSTNode


@check("RANDOM-001")
def reused_key(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Yield a key that two calls use, or every iteration of a loop."""
    if module.is_test or "random" not in module.source:
        return
    uses = _Uses(module, facts)
    for function in uses.functions():
        if function is None or not function.is_test:
            yield from _reports(uses.of(function), layout_of(module, function))


def _reports(uses: list[_Use], layout: Layout) -> Iterator[Report]:
    groups: dict[str, list[_Use]] = {}
    for use in uses:
        groups.setdefault(use.text, []).append(use)
    for group in groups.values():
        for index, use in enumerate(group[:MOST_STEPS]):
            place = use.fact.place
            # Uses in functions that are called come last, wherever the calls are.
            others = (
                other
                for at, other in enumerate(group[:MOST_STEPS])
                if (at < index or other.fact.place.statement is not place.statement)
                and not _is_compared(other, use, layout)
                and not (_is_evaluation(use) and _is_evaluation(other))
            )
            earlier = next((u for u in others if _is_repeated(u, use, layout)), None)
            related: tuple[Stop, ...] = ()
            if earlier is not None:
                message = f"key `{use.text}` is used again: the numbers are not independent"
                first = earlier.fact.place.statement
                related = (Stop(earlier.node, first, "first use of the key"),)
            elif _is_in_loop(use, layout) and not _is_evaluation(use):
                message = f"key `{use.text}` is the same in every iteration"
            else:
                continue
            yield Report("RANDOM-001", use.node, place, message, _HELP, related=related)


def _is_repeated(first: _Use, second: _Use, layout: Layout) -> bool:
    """Test whether two uses take the same key, one after the other."""
    if first.bindings != second.bindings or first.node is second.node:
        return False
    one, other = first.fact.place.statement, second.fact.place.statement
    if one is other:
        return not head_contents(one).of(cst.IfExp, cst.BooleanOperation)
    return layout.in_sequence(one, other)


def _is_evaluation(use: _Use) -> bool:
    """Test whether a function measures a model, which equal numbers make comparable."""
    fact = use.fact
    return type(fact) is LocalCall and bool(_MEASURES & {*fact.function.name.lower().split("_")})


def _is_compared(first: _Use, second: _Use, layout: Layout) -> bool:
    """Test whether a script shows two functions at work with the same numbers."""
    one, other = first.fact, second.fact
    if type(one) is not LocalCall or type(other) is not LocalCall:
        return False
    if one.function is other.function or one.place.function is not None:
        return False
    owners = [level.owner for level in layout.outward(other.place.statement)]
    return any(
        isinstance(owner, cst.If) and "__name__" in contents_of(owner.test).names
        for owner in owners
    )


def _is_in_loop(use: _Use, layout: Layout) -> bool:
    """Test whether a loop or comprehension uses a key that is bound outside of it."""
    place = use.fact.place
    statement = place.statement
    loops = [*layout.loops(statement)]
    returns = isinstance(statement, (cst.Return, cst.Raise))
    if place.loops > (0 if returns else len(loops)) and use.name not in place.loop_names:
        return True  # in a comprehension
    if not loops or returns or layout.leaves(statement, loops[0]):
        return False
    return not any(layout.is_bound_in(binding, loops[0]) for binding in use.bindings)


class _Uses:
    """The uses of keys in a file, those by functions of the file that get a key included."""

    def __init__(self, module: Module, facts: list[Fact]) -> None:
        self._module = module
        self._found: dict[FunctionInfo | None, list[_Use]] = {}
        self._keys: dict[FunctionInfo | None, list[tuple[CallFact, cst.BaseExpression]]] = {}
        self._calls: dict[FunctionInfo | None, list[LocalCall]] = {}
        for fact in facts:
            if type(fact) is CallFact:
                node = key_of(fact)
                if node is not None:
                    self._keys.setdefault(fact.place.function, []).append((fact, node))
            elif type(fact) is LocalCall:
                self._calls.setdefault(fact.place.function, []).append(fact)

    def functions(self) -> list[FunctionInfo | None]:
        """Return the functions that may use keys."""
        if not self._keys:
            return []
        return list(dict.fromkeys((*self._keys, *self._calls)))

    def of(self, function: FunctionInfo | None) -> list[_Use]:
        """Return the uses in a function, in the order of the facts."""
        found = self._found.get(function)
        if found is None:
            self._found[function] = []  # for functions that call each other
            found = [*self._direct(function), *self._passed(function)]
            self._found[function] = found
        return found

    def _direct(self, function: FunctionInfo | None) -> Iterator[_Use]:
        for fact, node in self._keys.get(function, ()):
            yield from self._use(fact, node)

    def _passed(self, function: FunctionInfo | None) -> Iterator[_Use]:
        """Yield the keys that are passed to functions of the file, which use them."""
        for call in self._calls.get(function, ()):
            names = self._parameters(call.function)
            if not names or any(argument.star for argument in call.node.args):
                continue
            passed = passed_arguments(call)
            for name in names & passed.keys():
                yield from self._use(call, passed[name])

    def _parameters(self, function: FunctionInfo) -> frozenset[str]:
        """Return the parameters that a function uses as keys."""
        own = {p.name for p in function.parameters}
        return frozenset(
            use.name
            for use in self.of(function)
            if use.text == use.name
            and use.name in own
            and all(b.kind == "parameter" for b in use.bindings)
        )

    def _use(self, fact: CallFact | LocalCall, node: cst.BaseExpression) -> Iterator[_Use]:
        text, name = _path(node)
        place = fact.place
        if name is None and _is_kept_in(node, place.function, self._module):
            text = keyed_path(node) or ""
            name = text.partition(".")[0]
        if fixed_attribute(node, place.function, self._module) is not None:
            path = dotted(node) or ""
            yield _Use(path, path, frozenset(), fact, node)
        if name is None:
            return
        bound = bindings_at(name, place.statement, place.function, self._module)
        if bound is not None:
            yield _Use(text, name, frozenset(bound.bindings), fact, node)


def is_benchmark(module: Module) -> bool:
    """Return whether a file measures time: a benchmark repeats the same numbers on purpose."""
    return "perf_counter" in module.source or "timeit" in module.source


def draws(fact: CallFact) -> bool:
    """Return whether a call draws random numbers."""
    symbol = fact.symbol or ""
    return symbol.startswith(PREFIX) and symbol[len(PREFIX) :] not in (*_WITHOUT_KEY, "split")


def key_of(fact: CallFact) -> cst.BaseExpression | None:
    """Return the key that a function of ``mlx.core.random`` is called with."""
    symbol = fact.symbol
    if symbol is None or not symbol.startswith(PREFIX):
        return None
    name = symbol[len(PREFIX) :]
    if name in _WITHOUT_KEY:
        return None
    argument = fact.keyword("key")
    if argument is None and name in _KEY_AT:
        argument = fact.positional(_KEY_AT[name])
    return None if argument is None or argument.value is NONE else argument.node


def _is_kept_in(node: cst.BaseExpression, function: FunctionInfo | None, module: Module) -> bool:
    """Test whether a key is one of a dictionary, or of a dataclass, that nothing stores to.

    An object that is passed to another function may be given another key there.
    """
    path = keyed_path(node)
    if path is None or path.count(".") != 1 or function is None:
        return False
    owner, name = path.split(".")
    if isinstance(node, cst.Attribute):
        classes = (v.info for v in module.frame.names.values() if isinstance(v, Class))
        if assignment_counts(module)[name] or not any(name in c.annotations for c in classes):
            return False
    contents = contents_of(function.node.body)
    passed = (dotted(argument.value) for argument in contents.of(cst.Arg))
    return path not in contents.stored_paths and owner not in passed


def _path(node: cst.BaseExpression) -> tuple[str, str | None]:
    """Return a key as written, and its variable: ``key``, ``keys[0]``."""
    if isinstance(node, cst.Name):
        return node.value, node.value
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name):
        index = node.slice[0].slice if len(node.slice) == 1 else None
        if isinstance(index, cst.Index) and isinstance(index.value, cst.Integer):
            return f"{node.value.value}[{index.value.value}]", node.value.value
    return "", None


class _Key(NamedTuple):
    """A key that all calls of a function share.

    owner: the parameter that holds it, ``self``, or None for a name around the function.
    default: the parameter whose default is the key.
    """

    owner: str | None = None
    default: str | None = None


@check("RANDOM-001", of=(PREFIX,))
def repeated_key(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal(shape, key=self.key)`` in a method that a loop calls."""
    function, node = fact.place.function, key_of(fact)
    if function is None or node is None or fact.place.loops or function.is_test:
        return
    if is_benchmark(module):
        return
    key = _shared(node, fact, function, module)
    if key is None:
        return
    call = _repeating_call(function, key, module, set())
    # A layer draws with one key in all of its forward passes.
    if call is None and (key.owner is None or not is_forward(function)):
        return
    text = "called again"
    yield Report.at(
        fact,
        node=node,
        message=f"key `{module.parsed.code(node)}` is the same at every call",
        help="Split it at each call, and keep the new key: `key, subkey = mx.random.split(key)`",
        related=() if call is None else (Stop(call.node, call.place.statement, text),),
    )


@check("RANDOM-001")
def repeated_key_elsewhere(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """Yield a loop calls a method of another file, which draws with a key of its object."""
    place, function = fact.place, fact.function
    if not place.loops or place.periodic or function.cls is None or module.is_test:
        return
    if (place.function is not None and place.function.is_test) or function.name == "__init__":
        return
    key = _fixed_key(function)
    if key is None or is_benchmark(module):
        return
    if is_of_older(fact, receiver_of(fact), module):
        yield Report.at(
            fact,
            message=f"`{function.name}()` draws with the same key `{key}` at every call",
            help="Split the key at each call, and keep the new one",
        )


@kept_for_file
def _fixed_key(method: FunctionInfo) -> str | None:
    """Get the attribute that a method of another file draws with, if only ``__init__`` makes it."""
    keys = (key_of(call) for call in evaluated_calls(method)) if method.cls is not None else ()
    for node in keys:
        made = None if node is None else fixed_attribute(node, method, method.module)
        if node and isinstance(made, cst.Call) and (dotted(made.func) or "").endswith("random.key"):
            return dotted(node)
    return None


def _shared(
    node: cst.BaseExpression, fact: CallFact, function: FunctionInfo, module: Module
) -> _Key | None:
    """Return how all calls of a function get the same key, if they do."""
    made = fixed_attribute(node, function, module)
    if made is not None or _is_field(node, function, module):
        if made is None or isinstance(made, cst.Name):  # what the object is made with
            is_key = any(type(a.value) is Array for a in fact.arguments if a.node is node)
        else:
            is_key = _is_key(made, module)
        return _Key(owner="self") if function.name != "__init__" and is_key else None
    if not isinstance(node, cst.Name):
        return None
    scope = scope_of(module, function)
    if not scope.binds(node.value):
        bound = bindings_at(node.value, fact.place.statement, function, module)
        binding = None if bound is None else bound.bindings[0]
        if binding is not None and binding.kind == "parameter":  # of the function around
            is_array = any(type(a.value) is Array for a in fact.arguments if a.node is node)
            return _Key() if is_array else None
        value = None if binding is None else binding.value
        return _Key() if value is not None and _is_key(value, module) else None
    bindings = scope.reaching.bindings[node.value]
    parameter = next((p for p in function.parameters if p.name == node.value), None)
    if len(bindings) != 1 or parameter is None or parameter.default is None:
        return None
    return _Key(default=node.value) if _is_key(parameter.default, module) else None


def _is_field(node: cst.BaseExpression, function: FunctionInfo, module: Module) -> bool:
    """Test for the field ``self.key`` of a dataclass, which nothing assigns."""
    owner, _, name = (dotted(node) or "").partition(".")
    cls = function.cls
    if cls is None or not function.is_method or owner != function.parameters[0].name:
        return False
    return name in cls.annotations and not assignment_counts(module)[name]


def _is_key(node: cst.BaseExpression, module: Module) -> bool:
    """Test whether an expression makes a key: a generator of another library has methods."""
    symbols = {fact.symbol for fact in evaluation_of(module).calls_in(node)}
    return f"{PREFIX}key" in symbols or f"{PREFIX}split" in symbols


def _repeating_call(
    function: FunctionInfo, key: _Key, module: Module, seen: set[FunctionInfo]
) -> LocalCall | ProjectCall | None:
    """Return a call of a function in a loop, or a second call, with the same key."""
    seen.add(function)
    earlier: list[LocalCall | ProjectCall] = []
    for call in sources_of(module).callers(function)[:MOST_CALLERS]:
        caller = call.place.function
        if (caller is not None and caller.is_test) or not _shares(call, key):
            continue
        path = receiver_of(call)
        if call.place.loops and not call.place.periodic and is_of_older(call, path, module):
            return call
        if path is not None and any(_precedes(other, call, path, module) for other in earlier):
            return call
        earlier.append(call)
        if caller is None or caller in seen or len(seen) >= MOST_STEPS:
            continue
        is_own = bool(caller.parameters) and caller.is_method and path == caller.parameters[0].name
        if (key.owner is not None and is_own) or (key.owner is None and caller.outer is None):
            further = _repeating_call(caller, _Key(key.owner), module, seen)
            if further is not None:
                return further
    return None


def _precedes(
    first: LocalCall | ProjectCall, second: LocalCall | ProjectCall, path: str, module: Module
) -> bool:
    """Return whether two calls of one object's method execute one after the other."""
    function, one, two = first.place.function, first.place.statement, second.place.statement
    if function is not second.place.function or receiver_of(first) != path or one is two:
        return False
    return layout_of(module, function).in_sequence(one, two)


def _shares(call: LocalCall | ProjectCall, key: _Key) -> bool:
    """Return whether a call does not pass another key."""
    if key.default is None:
        return True
    has_star = any(argument.star for argument in call.node.args)
    return key.default not in passed_arguments(call) and not has_star


def receiver_of(call: LocalCall | ProjectCall) -> str | None:
    """Return the object whose method is called, or the name of the function."""
    func = call.node.func
    return dotted(func.value if call.is_bound and isinstance(func, cst.Attribute) else func)


def is_of_older(call: LocalCall | ProjectCall, path: str | None, module: Module) -> bool:
    """Return whether what is called exists before the loop or comprehension around a call."""
    if path is None:
        return False
    place = call.place
    if path.partition(".")[0] in place.loop_names:
        return False
    layout = layout_of(module, place.function)
    loop = next(layout.loops(place.statement), None)
    if loop is None:
        return True
    return not layout.leaves(place.statement, loop) and is_older(path, loop, place, module)


_STATE = "mlx.core.random.state"
_SHOWN = {"softmax": "probabilities of `softmax`", "quotient": "normalized weights"}


@check("RANDOM-002", of=(PREFIX,))
def same_in_every_lane(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal(...)`` without a key in a function that ``mx.vmap`` maps."""
    function = fact.place.function
    if function is not None and function.vmapped and draws(fact) and key_of(fact) is None:
        yield Report.at(
            fact,
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
        message=f"assignment to `mx.random.state` {problem}",
        help="Seed with `mx.random.seed(...)`, or pass keys to the functions",
    )


@check("RANDOM-005", of=(f"{PREFIX}categorical",))
def sampled_probabilities(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.categorical(mx.softmax(logits))``."""
    argument = fact.argument(0, "logits")
    if argument is None or argument.star:
        return
    sources = sources_of(module)
    meaning = meaning_of(sources.of(fact, argument.node), sources)
    if meaning not in ("softmax", "quotient"):
        return
    alias, change, node = mlx_alias(module), None, argument.node
    if meaning == "softmax" and isinstance(node, cst.Call) and node.args:
        text = module.parsed.code(node.args[0].value)
        change = ProposedFix("Pass the logits", False, ((node, text),))
    elif meaning == "quotient" and alias is not None:
        text = f"{alias}.log({module.parsed.code(node)})"
        change = ProposedFix("Take the logarithm", False, ((node, text),))
    yield Report.at(
        fact,
        node=argument.node,
        message=f"`mx.random.categorical()` takes logits, got {_SHOWN[meaning]}",
        help="Pass the logits" if meaning == "softmax" else "Pass `mx.log(probabilities)`",
        change=change,
        subject=argument.node,
    )


@kept_for_file
def _run_in_threads(module: Module) -> frozenset[FunctionInfo]:
    """Return the functions of a file that several threads run: started in a loop, or by ``map``."""
    starts = (fact for fact in module.facts() if type(fact) is ThreadStart)
    return frozenset(s.function for s in starts if s.place.loops or last_name(s.node) == "map")


@check("RANDOM-006", of=(PREFIX,))
def same_in_every_thread(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.random.normal(...)`` without a key or seed in the target of several threads."""
    function = fact.place.function
    if function is None or not draws(fact) or function not in _run_in_threads(module):
        return
    if key_of(fact) is not None:
        return
    inner = evaluation_of(module).calls_in(function.node)
    if any(call.symbol == f"{PREFIX}seed" for call in inner):
        return
    yield Report.at(
        fact,
        message="the random numbers are the same in all threads",
        help="Pass a key to each thread: `mx.random.split(key, count)`",
    )
