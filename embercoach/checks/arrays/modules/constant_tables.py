"""Arrays of modules that are constants by their use or their making: asked for NN-002."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.syntax.trees import dotted, walk

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import AttributeFact
    from embercoach.analysis.project.module import Module

#: Functions of NumPy and audio libraries that make windows, filters and grids.
_MAKERS = frozenset(
    (
        *("hanning", "hamming", "blackman", "bartlett", "kaiser", "get_window"),
        *("linspace", "logspace", "geomspace", "mel_filters", "mel_filter_bank", "sinusoids"),
    )
)
#: What a docstring or a comment says of an array that no one trains.
_UNTRAINED = re.compile(
    r"\b(not|never|isn't) (be )?(learn|train)|non-?train|untrain|no gradient", re.IGNORECASE
)
_TRAINED = re.compile(r"learn|trainable", re.IGNORECASE)
#: Functions that a table of positions takes of its angles.
WAVES = frozenset({"mlx.core.sin", "mlx.core.cos"})


def is_host_table(made: cst.CSTNode, symbols: set[str]) -> bool:
    """``mx.array(np.hanning(n))``, and sines and cosines of NumPy."""
    if "mlx.core.array" not in symbols:
        return False
    if {"numpy.sin", "numpy.cos"} <= symbols:
        return "numpy.random" not in symbols
    names = {
        (dotted(node.func) or "").rpartition(".")[2]
        for node in walk(made)
        if isinstance(node, cst.Call)
    }
    return not _MAKERS.isdisjoint(names)


def is_fixed_projection(fact: AttributeFact, module: Module) -> bool:
    """Return whether random numbers are drawn once: sine and cosine take products with them.

    Such random Fourier features are fixed, unless the class says that they are learned.
    """
    if fact.name == "weight":
        return False  # what checkpoints hold
    if _UNTRAINED.search(_beside(fact, module)) is not None:
        return True
    if not _is_projected(fact, module):
        return False
    text = module.parsed.code(fact.owner.node)
    return _TRAINED.search(text) is None or _UNTRAINED.search(text) is not None


def _beside(fact: AttributeFact, module: Module) -> str:
    """The line of the assignment, with its comment, and the line before."""
    span = module.parsed.spans({fact.node: fact.place.statement})[fact.node]
    lines = module.source.splitlines()[max(span.line - 2, 0) : span.line]
    return "\n".join(line.partition("#")[2] for line in lines)


def _is_projected(fact: AttributeFact, module: Module) -> bool:
    """Return whether a method takes both waves of what is computed from the attribute."""
    for method in fact.owner.methods.values():
        waves = {
            call.symbol
            for call in module.facts_of(method)
            if type(call) is CallFact
            and call.symbol in WAVES
            and call.arguments
            and _mentions(call.arguments[0].node, fact.name, method, module)
        }
        if waves == WAVES:
            return True
    return False


def _mentions(node: cst.CSTNode, name: str, method: FunctionInfo, module: Module) -> bool:
    """Return whether an expression, or what its name is bound to, reads an attribute."""
    made = resolve_name(Expression(node, scope_of(module, method))).node
    return any(isinstance(n, cst.Attribute) and n.attr.value == name for n in walk(made))
