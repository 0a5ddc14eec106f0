"""Arrays that hold what the host has given: reading them costs a copy, and evaluates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import as_numpy, holds_arrays

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source

_MAKERS = frozenset(("mlx.core.array", "mlx.core.asarray"))


def is_host_data(fact: Fact, node: cst.BaseExpression, module: Module) -> bool:
    """Test whether an array is certainly made by ``mx.array()`` of a list or of NumPy's array."""
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, node))
    ends = [end for end in ends if dotted(end.node) != "None"]
    return bool(ends) and all(_is_made_from_host_data(end, module) for end in ends)


def _is_made_from_host_data(end: Source, module: Module) -> bool:
    call = calls_of(module).get(end.node)
    if call is not None and as_numpy(call.result) is not None:
        return True
    if call is None or call.symbol not in _MAKERS:
        return False
    given = call.positional(0)
    # ``mx.array([a, b])`` of arrays computes.
    return given is not None and not holds_arrays(given.value)
