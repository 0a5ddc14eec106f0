"""API-008: functions that return values, where torch returns values and indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: What returns the indices.
_INDICES = {
    "topk": "mx.argpartition(-x, k - 1, axis=-1)[..., :k]",
    "sort": "mx.argsort(x, axis=...)",
    "max": "mx.argmax(x, axis=...)",
    "min": "mx.argmin(x, axis=...)",
}
_FUNCTIONS = tuple(f"mlx.core.{name}" for name in _INDICES)
#: Words in names of indices.
_WORDS = frozenset(
    """
idx idxs ind inds index indexes indices indexs ids order position positions pred preds predicted
prediction predictions argmax argmin arg label labels
""".split()  # noqa: SIM905
)


@check("API-008", of=(*_FUNCTIONS, ".max", ".min"))
def unpacked_values(fact: CallFact, module: Module) -> Iterator[Report]:
    """``values, indices = mx.topk(x, k)``, ``indices = mx.sort(x)[1]``."""
    if fact.entry is None:
        return
    name = fact.entry.name.rpartition(".")[2]
    if name not in _INDICES or not _takes_indices(fact):
        return
    yield Report.at(
        fact,
        "API-008",
        message=f"`{name}()` returns values alone, not a pair of values and indices",
        help=f"Get the indices from `{_INDICES[name]}`",
    )


def _takes_indices(fact: CallFact) -> bool:
    """Return whether a statement takes indices from the result."""
    statement = fact.place.statement
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0].target, statement.value
    if value is fact.node and isinstance(target, cst.Tuple) and len(target.elements) == 2:
        first, second = (_words(element.value) for element in target.elements)
        return not _WORDS.isdisjoint(second) or (first == {""} and bool(second))
    if not isinstance(value, cst.Subscript) or value.value is not fact.node:
        return False
    index = value.slice[0].slice if len(value.slice) == 1 else None
    is_second = (
        isinstance(index, cst.Index)
        and isinstance(index.value, cst.Integer)
        and index.value.value == "1"
    )
    return is_second and not _WORDS.isdisjoint(_words(target))


def _words(node: cst.BaseExpression) -> set[str]:
    """The words in the last name of a path."""
    return set((dotted(node) or "?").rpartition(".")[2].lower().strip("_").split("_"))
