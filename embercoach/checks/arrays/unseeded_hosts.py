"""RANDOM-007: a program that seeds `mx.random` alone, and draws from NumPy or `random` too."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import evaluated_calls
from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.values.facts import CallFact, ProjectCall
from embercoach.analysis.work import MOST_CALLERS
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

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
        "RANDOM-007",
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
    others = (fact for fact in facts if type(fact) is ProjectCall)
    for other in islice(others, MOST_CALLERS):
        if _seeds_others(other.function.module.tree, set()):
            return None
        for call in evaluated_calls(other.function):
            if call.symbol in _DRAWS:
                return call, _DRAWS[call.symbol]
    return None
