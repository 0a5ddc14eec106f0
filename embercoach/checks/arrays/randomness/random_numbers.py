"""RANDOM-002, 003, 005 and 006: equal random numbers, and arguments of another meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import walk
from embercoach.checks.arrays.numerics.probabilities import meaning_of
from embercoach.checks.arrays.randomness.random_keys import PREFIX, draws, key_of
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact, LibraryWrite
    from embercoach.analysis.project.module import Module

_STATE = "mlx.core.random.state"
_SHOWN = {"softmax": "probabilities of `softmax`", "quotient": "normalized weights"}


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
        "RANDOM-005",
        node=argument.node,
        message=f"`mx.random.categorical()` takes logits, got {_SHOWN[meaning]}",
        help="Pass the logits" if meaning == "softmax" else "Pass `mx.log(probabilities)`",
        change=change,
        subject=argument.node,
    )


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
