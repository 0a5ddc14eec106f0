"""DTYPE-024: arrays that are float32 by default, and promote the activations of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import CONSTRUCTORS
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import calls_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import as_array, as_number
from embercoach.analysis.values.promotion import HALF
from embercoach.checks.arrays.dtype import LITERALS, is_cast_back, operands_of
from embercoach.checks.arrays.float_tables import has_layers, is_half_nearby, words_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.value_sources import Source
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Argument, BinaryFact, CallFact, Fact, ItemStoreFact
    from embercoach.analysis.values.lattice import Array

_JOINS = ("mlx.core.concatenate", "mlx.core.concat", "mlx.core.stack")
#: Functions whose dtype is float32 unless it is given, and the place of that parameter.
_FILLED = {"zeros": 1, "ones": 1, "full": 2}
#: Words of the names of what is float32 in a half-precision model too.
_WIDE = frozenset(
    (
        *("audio", "wav", "waveform", "sample", "samples", "frame", "frames", "window", "mel"),
        *("mels", "feat", "feats", "feature", "features", "pixel", "pixels", "image", "images"),
        *("mask", "masks", "loss", "losses", "ids", "tokens", "positions", "lengths", "noise"),
        *("sigmas", "timesteps", "cos", "sin", "freqs", "signal", "spec", "coords", "points"),
        *("box", "boxes", "prob", "probs", "scores", "counts", "grads"),
    )
)


@check("DTYPE-024", of=_JOINS)
def float_padding(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.concatenate([mx.zeros((B, n, D)), x], axis=1)``, in a model."""
    operands = [one for argument in fact.arguments[:1] for one in operands_of(argument)]
    values = [one for one in operands if _is_activation(one.array, one.node)]
    if not values or not _is_in_model(fact, module):
        return
    for one in operands:
        if _is_default(one.array, fact, one.node, module) and not is_cast_back(fact, module):
            yield _report(fact, one.node, module, _DEFAULT, _dtype_of(values[0].node))
            return


@check("DTYPE-024")
def float_buffer(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``padded = mx.zeros(shape)``, then ``padded[:, :n] = x``."""
    base, value = as_array(fact.base), as_array(fact.value)
    if fact.in_place or value is None:
        return
    assigned = fact.place.statement
    node = assigned.value if isinstance(assigned, cst.Assign) else None
    if node is None or not _is_activation(value, node) or not _is_in_model(fact, module):
        return
    if not _WIDE.isdisjoint(words_of(fact.node)):
        return
    if _is_default(base, fact, fact.node.value, module) and not is_cast_back(fact, module):
        yield _report(fact, fact.node.value, module, _DEFAULT, _dtype_of(node))


@check("DTYPE-024")
def float_function(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x / mx.sqrt(2)``, ``scores * (1 / mx.sqrt(q.shape[-1]))``."""
    if fact.operator not in ("+", "-", "*", "/"):
        return
    for made, value in ((fact.left, fact.right), (fact.right, fact.left)):
        if made.array is None or made.array.dtype in HALF:
            continue
        if not _is_activation(value.array, value.node) or not _is_in_model(fact, module):
            continue
        sources = sources_of(module)
        ends = sources.ends(sources.of(fact, made.node))
        if ends and all(_is_of_numbers(end) for end in ends) and not is_cast_back(fact, module):
            yield _report(
                fact, made.node, module, "a function of numbers is a float32 array", _MATH
            )
            return


#: Functions that take a Python number and return an array of float32.
_OF_NUMBERS = frozenset(
    ("sqrt", "rsqrt", "log", "log2", "exp", "power", "reciprocal", "sin", "cos")
)
_MATH = "Compute a Python number: `math.sqrt(2)`, `dims**-0.5`"
_DEFAULT = "float32 by default"
_DEEPEST = 4


def _is_of_numbers(source: Source, depth: int = _DEEPEST) -> bool:
    """Return whether an expression is MLX's function of Python numbers alone."""
    node, module = source.node, source.module
    if depth == 0:
        return False
    if isinstance(node, cst.BinaryOperation):
        sides = [source.at(node.left), source.at(node.right)]
        found = [_is_of_numbers(side, depth - 1) for side in sides]
        return any(found) and all(
            one or isinstance(side.node, LITERALS) for one, side in zip(found, sides, strict=True)
        )
    fact = calls_of(module).get(node)
    if fact is None or fact.symbol is None or not fact.arguments:
        return False
    if fact.symbol.removeprefix("mlx.core.") not in _OF_NUMBERS:
        return False
    return all(_is_number(argument, source) for argument in fact.arguments)


def _is_number(argument: Argument, source: Source) -> bool:
    """Test for a Python number, and for ``mx.array`` of one without a dtype."""
    made = calls_of(source.module).get(argument.node)
    if made is not None and made.symbol == "mlx.core.array" and len(made.arguments) == 1:
        argument = made.arguments[0]
    return as_number(argument.value) is not None and as_array(argument.value) is None


def _is_in_model(fact: Fact, module: Module) -> bool:
    function = fact.place.function
    if module.is_test or function is None or function.name in (*CONSTRUCTORS, "sanitize"):
        return False
    return has_layers(module) if function.cls is None else is_layer(function.cls)


def _is_activation(array: Array | None, node: cst.BaseExpression) -> bool:
    """Return whether an array of unknown dtype comes from the arguments of a model."""
    if array is None or array.dtype is not None or array.literal or not array.traced:
        return False
    return _WIDE.isdisjoint(words_of(node))


def _is_default(array: Array | None, fact: Fact, node: cst.BaseExpression, module: Module) -> bool:
    """Return whether an array is of ``mx.zeros(shape)``, whose dtype nobody has chosen."""
    if array is None or not array.literal or array.scalar or array.dtype != "float32":
        return False
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, node))
    return bool(ends) and all(_is_filled(end.node) for end in ends)


def _is_filled(node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call) or (dotted(node.func) or "").count(".") > 1:
        return False
    place = _FILLED.get(last_name(node) or "")
    if place is None or any(a.keyword and a.keyword.value == "dtype" for a in node.args):
        return False
    return len([a for a in node.args if a.keyword is None]) <= place


def _dtype_of(value: cst.BaseExpression) -> str:
    name = (dotted(value) or "").rpartition(".")[2] or "x"
    return f"Give it the other dtype: `dtype={name[:20]}.dtype`"


def _report(
    fact: Fact, made: cst.BaseExpression, module: Module, problem: str, remedy: str
) -> Report:
    return Report.at(
        fact,
        "DTYPE-024",
        node=made,
        message=f"{problem}: promotes half-precision activations",
        help=remedy,
        context="avoidable" if is_half_nearby(module) else "minor",
        subject=made,
    )
