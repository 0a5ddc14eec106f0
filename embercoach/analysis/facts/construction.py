"""Functions that run while an object is made: ``__init__``, and what nothing else calls."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import calls_by_function

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: Methods that Python calls once for each object.
CONSTRUCTORS = frozenset(("__init__", "__post_init__"))
#: Calls inside of each other that are followed.
_MOST_CALLS = 4


def runs_at_construction(function: FunctionInfo) -> bool:
    """Test whether a function only runs while an object is made."""
    return function in _at_construction(function.module)


@lru_cache(maxsize=2)
def _at_construction(module: Module) -> frozenset[FunctionInfo]:
    callers = {
        function: {call.place.function for call in calls}
        for function, calls in calls_by_function(module).items()
        # Other files may call what has a public name.
        if function.name.startswith("_") and not function.name.startswith("__")
    }
    found = {f for f in module.functions if f.cls is not None and f.name in CONSTRUCTORS}
    for _ in range(_MOST_CALLS):
        further = {f for f, given in callers.items() if f not in found and given <= found}
        if not further:
            break
        found |= further
    return frozenset(found)
