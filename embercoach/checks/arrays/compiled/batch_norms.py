"""COMPILE-005: compiled calls of batch norm whose statistics ``outputs=`` lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, names_below, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.checks.arrays.compiled.captured_state import captured_owners
from embercoach.checks.arrays.compiled.compilations import traced_by
from embercoach.checks.arrays.modules.mode_layers import DEEPEST, is_by_mode
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source

_NORM = "BatchNorm"


@check("COMPILE-005")
def uncaptured_statistics(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(lambda x: model(x), inputs=model.state)`` of a model with ``nn.BatchNorm``."""
    inputs = fact.option(1, "inputs")
    if inputs is None or fact.has_star or fact.option(2, "outputs") is not None:
        return
    if ".eval()" in module.source or ".train(" in module.source:
        return  # its statistics may not change
    for owner in captured_owners(fact, inputs, module) or ():
        name = (dotted(owner.node) or "").rpartition(".")[2]
        if _runs(fact, name, module) and _has_norm(owner, module):
            yield Report.at(
                fact,
                "COMPILE-005",
                message=f"batch norm updates `{name}`, which `outputs=` of mx.compile lacks"[:80],
                help=f"Add `{name}.state` to `outputs=` as well",
                context="compiled",
            )
            return


def _runs(fact: CompileFact, name: str, module: Module) -> bool:
    node = fact.node
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    return (given is not None and name in names_below(given)) or any(
        name in names_below(info.node.body) for info in traced_by(fact, module)
    )


def _has_norm(owner: Source, module: Module) -> bool:
    """Return whether a model certainly holds ``nn.BatchNorm``, itself or in a layer."""
    sources = sources_of(module)
    ends = sources.ends(owner)
    made = [end.node for end in ends if isinstance(end.node, cst.Call)]
    if len(made) != len(ends) or not made:
        return False
    if is_by_mode(sources.value(owner), module, DEEPEST, names=(_NORM,)):
        return True
    return all((dotted(call.func) or "").endswith("Sequential") for call in made) and any(
        isinstance(node, cst.Call) and (dotted(node.func) or "").endswith(f"nn.{_NORM}")
        for call in made
        for node in walk(call)
    )
