"""COMPILE-008: methods that ``mx.compile`` decorates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.inheritance import is_layer
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module

#: What the first parameter of a method is called, by PEP 8.
_BOUND = frozenset({"self", "cls"})


@check("COMPILE-008")
def compiled_method(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``@mx.compile`` of a method, which is no longer bound to its instance."""
    info = fact.decorated
    if info is None or not info.is_method or not info.parameters:
        return
    first = info.parameters[0]
    if first.name in _BOUND and not first.star:
        is_module = info.cls is not None and is_layer(info.cls)
        bound = f"self.{info.name}" + (", inputs=[self.state]" if is_module else "")
        yield Report.at(
            fact,
            "COMPILE-008",
            message="mx.compile of a method: its result is never bound to the instance",
            help=f"Set `self._{info.name.strip('_')} = mx.compile({bound})` in `__init__`",
        )
