"""Analysis of a module: every function once, by what its callers are known to pass."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from embercoach.analysis.calls.functions import analyse
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.calls.visits import launches_by_call

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module


def analyse_module(module: Module) -> list[Fact]:
    """Analyse every function, callers' evidence first where parameters need it.

    Raises:
        WorkExceededError: the file takes too much work. The facts so far hold nevertheless.
    """
    try:
        _analyse_functions(module)
    finally:
        _spread_roles(module)
    if module.mentions_kernels and module.launches is None:
        module.launches = launches_by_call(module, module.facts())
    return module.facts()


def _analyse_functions(module: Module) -> None:
    module.run()
    module.is_analysed = True
    seen = 0
    deferred: deque[FunctionInfo] = deque()
    while seen < len(module.functions) or deferred:
        found = module.functions[seen:]  # by what has been analysed so far
        seen += len(found)
        for info in found:
            # A method may have been analysed meanwhile, for the attributes that it sets.
            if info.analysed_with is None:
                if _needs_evidence(info):
                    deferred.append(info)
                else:
                    analyse(info)
        while deferred:
            info = deferred.popleft()
            if info.analysed_with is None:
                analyse(info)
                break
    for info in module.functions[:]:
        if all(p.evidence is None for p in info.parameters):
            continue
        if canonical_values(info) != info.analysed_with:
            info.forget()
            analyse(info)


def _spread_roles(module: Module) -> None:
    """Mark functions that a compiled or differentiated function calls as such too."""
    inner: dict[FunctionInfo | None, list[FunctionInfo]] = {}
    for info in module.functions:
        inner.setdefault(info.outer, []).append(info)
    for role in ("compiled", "vmapped", "differentiated", "threaded"):
        pending = [info for info in module.functions if getattr(info, role)]
        seen = set(pending)
        while pending:
            info = pending.pop()
            setattr(info, role, True)
            for callee in [*info.calls, *inner.get(info, ())]:
                if callee not in seen and callee.module is module:
                    seen.add(callee)
                    callee.role_givers[role] = info
                    pending.append(callee)


def _needs_evidence(info: FunctionInfo) -> bool:
    start = 1 if info.is_method else 0
    return any(
        p.annotation is None and p.evidence is None and not p.star for p in info.parameters[start:]
    )
