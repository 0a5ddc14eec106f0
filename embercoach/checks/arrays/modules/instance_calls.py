"""NN-007: ``__call__`` of a module that is replaced on the instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import InstanceCallFact
    from embercoach.analysis.project.module import Module


@check("NN-007")
def replaced_call(fact: InstanceCallFact, module: Module) -> Iterator[Report]:
    """``layer.__call__ = f``."""
    yield Report.at(
        fact,
        "NN-007",
        message="`__call__` set on an instance: calls of the module never run it",
        help="Replace the module by one that wraps it, or set `__call__` of a subclass",
    )
