"""The work that the kernels of a Python file may take together, and what to report beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from embercoach.metal.work_budget import WorkBudget

if TYPE_CHECKING:
    from embercoach.analysis.project.module import Module

#: Of the file that is checked.
_budgets: WeakKeyDictionary[Module, WorkBudget] = WeakKeyDictionary()


def budget_of(module: Module) -> WorkBudget:
    """Return the budget that the kernels of a module share."""
    budget = _budgets.get(module)
    if budget is None:
        budget = _budgets[module] = WorkBudget.of(module.source)
    return budget
