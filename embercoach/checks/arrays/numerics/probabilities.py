"""NN-008: losses that take logits or log-probabilities, and are passed something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.checks.arrays.numerics.compositions import SUM, computed
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.value_sources import Source, Sources
    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: By the last name of a function or layer: what its result is.
_MEANINGS = {
    "softmax": "softmax",
    "Softmax": "softmax",
    "sigmoid": "sigmoid",
    "Sigmoid": "sigmoid",
    "Linear": "linear",
}
_LOSSES = "mlx.nn.losses."


def meaning_of(start: Source, sources: Sources) -> str | None:
    """Return what computes an array: softmax, sigmoid, linear, or a quotient by a sum.

    None for several of them, and for everything else.
    """
    ends = computed(start, sources, bounded=True)
    found = {_meaning(end, sources) for end in ends}
    return found.pop() if len(found) == 1 else None


def _meaning(source: Source, sources: Sources) -> str | None:
    call = sources.library_call(source)
    if call is not None and call.name.startswith(("mlx.core.", "mlx.nn.")):
        return _MEANINGS.get(call.name.rpartition(".")[2])
    return "quotient" if _is_normalized(source, sources) else None


def _is_normalized(source: Source, sources: Sources) -> bool:
    """Test whether an expression is ``x / mx.sum(x)``."""
    node = source.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Divide):
        return False
    ends = sources.ends(source.at(node.right))
    total = sources.library_call(ends[0]) if len(ends) == 1 else None
    if total is None or total.name not in SUM or total.array is None:
        return False
    path = dotted(node.left)
    return path is not None and path == dotted(total.array.node)


@check("NN-008", of=[f"{_LOSSES}{name}" for name in ("cross_entropy", "binary_cross_entropy")])
def loss_of_probabilities(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.losses.cross_entropy(mx.softmax(x), targets)``."""
    is_binary = (fact.symbol or "").endswith("binary_cross_entropy")
    argument = fact.argument(0, "inputs" if is_binary else "logits")
    if argument is None or argument.star or any(a.star for a in fact.arguments):
        return
    option = fact.argument(3, "with_logits") if is_binary else None
    sources = sources_of(module)
    meaning = meaning_of(sources.of(fact, argument.node), sources)
    if option is None:
        refused: tuple[str, ...] = ("softmax", "sigmoid") if is_binary else ("softmax",)
        if meaning in refused:
            name = "binary_cross_entropy" if is_binary else "cross_entropy"
            instead = "with_logits=False" if is_binary else "the logits"
            yield _report(
                fact,
                argument.node,
                f"`{name}()` takes logits, got probabilities of `{meaning}`",
                f"Pass {instead}: the loss takes the {meaning} of its input",
            )
    elif getattr(option.node, "value", None) == "False" and meaning == "linear":
        yield _report(
            fact,
            argument.node,
            "`binary_cross_entropy(with_logits=False)` takes probabilities, got logits",
            "Leave out `with_logits=False`, or pass `mx.sigmoid(logits)`",
        )


@check("NN-008", of=[f"{_LOSSES}{name}" for name in ("nll_loss", "kl_div_loss")])
def loss_of_no_logarithms(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.losses.nll_loss(mx.softmax(x), targets)``."""
    name = (fact.symbol or "").removeprefix(_LOSSES)
    given = [fact.argument(0, "inputs")]
    if name == "kl_div_loss":
        given.append(fact.argument(1, "targets"))
    sources = sources_of(module)
    for argument in given:
        if argument is None or argument.star:
            continue
        meaning = meaning_of(sources.of(fact, argument.node), sources)
        if meaning not in ("softmax", "linear"):
            continue
        shown = "logits" if meaning == "linear" else "probabilities of `softmax`"
        yield _report(
            fact,
            argument.node,
            f"`{name}()` takes log-probabilities, got {shown}",
            "Pass `nn.log_softmax(logits, axis=-1)`",
        )


def _report(fact: CallFact, node: cst.BaseExpression, message: str, instead: str) -> Report:
    return Report.at(fact, "NN-008", node=node, message=message, help=instead, subject=node)
