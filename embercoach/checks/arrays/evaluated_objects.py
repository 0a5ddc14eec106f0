"""API-027: objects that ``mx.eval`` ignores without an error: they are not trees of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.inheritance import lineage
from embercoach.analysis.values.lattice import (
    Class,
    Instance,
    LibraryObject,
    NoneValue,
    Sequence,
    any_item,
    options,
)
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import CallFact
    from embercoach.analysis.values.lattice import Value


@check("API-027", of=("mlx.core.eval", "mlx.core.async_eval"))
def evaluated_object(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(model.parameters(), optimizer)``."""
    for argument in fact.arguments:
        if argument.star:
            continue
        found = [o for o in options(argument.value) if type(o) is not NoneValue]
        if not found or not all(map(_is_object, found)):
            continue
        text = module.parsed.code(argument.node)
        is_optimizer = all(map(_is_optimizer, found))
        shown = "an optimizer" if is_optimizer else "this object"
        change = None
        if is_optimizer:
            edits = ((argument.node, f"{text}.state"),)
            change = ProposedFix("Evaluate the state of the optimizer", safe=False, edits=edits)
        yield Report.at(
            fact,
            node=argument.node,
            message=f"`mx.eval` evaluates nothing of {shown}",
            help="Pass its arrays, such as `optimizer.state`, or a list of them",
            change=change,
        )


def _is_optimizer(value: Value) -> bool:
    return isinstance(value, LibraryObject) and value.cls.startswith("mlx.optimizers.")


def _is_object(value: Value) -> bool:
    """Return whether a value is an optimizer, or an object that MLX does not walk through."""
    if isinstance(value, Sequence):
        item = any_item(value)
        return isinstance(item, Instance) and _is_object(item)
    if isinstance(value, Instance):
        # A protocol stands for other classes, and a base of a library may be a dictionary.
        return all(type(base) is Class for cls in lineage(value.info) for base in cls.bases)
    return _is_optimizer(value)
