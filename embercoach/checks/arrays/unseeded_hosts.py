"""RANDOM-007 and RANDOM-008: draws that a given seed does not decide."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import derived_names, evaluated_calls
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.values.facts import CallFact, ProjectCall
from embercoach.analysis.work import MOST_CALLERS
from embercoach.checks.arrays.random_keys import draws, key_of
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

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
