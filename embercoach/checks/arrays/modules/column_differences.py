"""NN-011: a column of predictions and a vector of targets, whose difference is a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.layer_sources import constructor
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import as_array, as_number
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources
    from embercoach.analysis.values.lattice import Value

_LINEAR = "mlx.nn.Linear"
#: Losses that broadcast their arguments; the others compare the shapes.
_BROADCASTING = ("huber_loss", "log_cosh_loss", "hinge_loss", "smooth_l1_loss", "gaussian_nll_loss")


@check("NN-011")
def column_minus_vector(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``model(x) - y``, where the model ends in ``nn.Linear(n, 1)`` and ``y`` is a vector."""
    if fact.operator == "-" and fact.left.array is not None and fact.right.array is not None:
        left, right = (fact.left.value, fact.left.node), (fact.right.value, fact.right.node)
        yield from _difference(fact, left, right, module)


@check("NN-011", of=("mlx.core.subtract", *(f"mlx.nn.losses.{name}" for name in _BROADCASTING)))
def loss_of_column_and_vector(fact: CallFact, module: Module) -> Iterator[Report]:
    """``nn.losses.huber_loss(model(x), y)``."""
    first, second = fact.positional(0), fact.positional(1)
    if first is not None and second is not None:
        yield from _difference(fact, (first.value, first.node), (second.value, second.node), module)


def _difference(
    fact: Fact,
    left: tuple[Value, cst.BaseExpression],
    right: tuple[Value, cst.BaseExpression],
    module: Module,
) -> Iterator[Report]:
    sources = sources_of(module)
    for column, vector in ((left, right), (right, left)):
        if _axes(column[0]) in (None, 2) and _is_vector(vector[0]):
            ends = sources.ends(sources.of(fact, column[1]), through_callers=True)
            if ends and all(_is_column(end, sources) for end in ends):
                yield Report.at(
                    fact,
                    "NN-011",
                    message="(n, 1) outputs and (n,) targets broadcast to an (n, n) matrix",
                    help="Drop the axis first: `model(x).squeeze(-1)`",
                    subject=column[1],
                )


def _axes(value: Value) -> int | None:
    array = as_array(value)
    shape = None if array is None else array.shape
    return None if shape is None or shape.sizes is None else len(shape.sizes)


def _is_vector(value: Value) -> bool:
    array = as_array(value)
    shape = None if array is None else array.shape
    sizes = None if shape is None else shape.sizes
    return sizes is not None and len(sizes) == 1 and sizes[0] != 1


def _is_column(end: Source, sources: Sources) -> bool:
    """Return whether an expression calls ``nn.Linear(n, 1)``."""
    node = end.node
    call = sources.library_call(end)
    if call is None or call.name != _LINEAR or not isinstance(node, cst.Call):
        return False
    made = constructor(sources, end.at(node.func))
    if made is None or not isinstance(made.node, cst.Call):
        return False
    args = made.node.args
    size = next((a for a in args if a.keyword and a.keyword.value == "output_dims"), None)
    if size is None and len(args) > 1 and not any(a.star or a.keyword for a in args[:2]):
        size = args[1]
    number = None if size is None else as_number(sources.value(made.at(size.value)))
    return number is not None and number.const == 1
