"""Analysis of a module: every function once, by what its callers are known to pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.calls.functions import analyse
from embercoach.analysis.calls.parameters import canonical_values
from embercoach.analysis.calls.transforms import compiled_by
from embercoach.analysis.calls.visits import launches_by_call
from embercoach.analysis.dataflow.gradient_roots import differentiated_results
from embercoach.analysis.values.facts import CompiledCall, CompileFact, Fact
from embercoach.analysis.values.gradient_marks import detached_at
from embercoach.analysis.values.inheritance import lineage
from embercoach.analysis.values.lattice import Function

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module


#: What a differentiated function passes on is evidence for what it calls.
MOST_ROUNDS = 3
#: Methods that set attributes, each looked at for each method, that count as a step of work.
SETTERS_A_STEP = 5


def analyse_module(module: Module) -> list[Fact]:
    """Analyse every function, callers' evidence first where parameters need it.

    Raises:
        WorkExceededError: the file takes too much work. The facts so far hold nevertheless.
    """
    try:
        _analyse_functions(module)
    finally:
        _drop_bypassed_compilations(module)
        _spread_roles(module)
    module.differentiated = differentiated_results(module)
    module.detaching = frozenset().union(*(detached_at(r.value) for r in module.differentiated))
    if module.mentions_kernels and module.launches is None:
        module.launches = launches_by_call(module, module.facts())
    return module.facts()


def _analyse_functions(module: Module) -> None:
    module.run()
    module.is_analysed = True
    seen = 0
    deferred: list[FunctionInfo] = []
    while seen < len(module.functions) or deferred:
        found = module.functions[seen:]  # by what has been analysed so far
        seen += len(found)
        for info in found:
            # A method may have been analysed meanwhile, for the attributes that it sets.
            if info.analysed_with is None:
                if _needs_evidence(info):
                    deferred.append(info)
                else:
                    _analyse_with_callees(info)
        # What calls the others is defined last, as a rule.
        while deferred:
            info = deferred.pop()
            if info.analysed_with is None:
                _analyse_with_callees(info)
                break
    for _ in range(MOST_ROUNDS):
        found = [info for info in module.functions if _is_outdated(info)]
        classes = {info.cls for info in found if info.cls is not None and info in info.cls.set_by}
        found += [info for info in module.functions if _may_read(info, classes, found)]
        for info in found:
            info.forget()
            analyse(info)
        if not any(info.seeds for info in found):
            break


def _analyse_with_callees(first: FunctionInfo) -> None:
    """Analyse a function, then those that it is the first to pass arguments to, and so on."""
    pending = [first]
    while pending:
        info = pending.pop()
        if info.analysed_with is None:
            analyse(info)
            callees = (c for c in info.calls if c.module is info.module)
            ready = [c for c in callees if c.analysed_with is None and not _needs_evidence(c)]
            pending += reversed(ready)


def _is_outdated(info: FunctionInfo) -> bool:
    """Return whether calls or transforms have shown more of the parameters than was known."""
    if not info.seeds and all(p.evidence is None for p in info.parameters):
        return False
    return canonical_values(info) != info.analysed_with


def _may_read(info: FunctionInfo, classes: set[ClassInfo], found: list[FunctionInfo]) -> bool:
    """Return whether a method reads attributes that are set by more than was known."""
    if info.cls is None or info.analysed_with is None or info in found:
        return False
    return not classes.isdisjoint(lineage(info.cls))


def _drop_bypassed_compilations(module: Module) -> None:
    """Forget ``mx.compile`` of functions that are only differentiated: MLX bypasses it."""
    bypassed = {info for info in module.functions if info.differentiated_compiled}
    if bypassed:
        calls = (fact for fact in module.facts() if type(fact) is CompiledCall)
        bypassed.difference_update(compiled_by(call.callee) for call in calls)
    for info in bypassed:
        info.compiled = False
    for function in (None, *module.functions) if bypassed else ():
        facts = module.facts_of(function)
        facts[:] = [
            fact
            for fact in facts
            if type(fact) is not CompileFact
            or type(fact.function) is not Function
            or fact.function.info not in bypassed
        ]


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
    """Return whether callers may show more of a function's parameters, or of its object."""
    if _lacks_arguments(info):
        return True
    cls = info.cls if info.is_method else None
    if cls is not None and cls.annotations and "__init__" not in cls.methods:
        return True  # what fills its fields
    setters = {} if cls is None else cls.set_by
    info.module.work.left -= len(setters) // SETTERS_A_STEP
    return any(
        other is not info and other.analysed_with is None and _lacks_arguments(other)
        for other in setters
    )


def _lacks_arguments(info: FunctionInfo) -> bool:
    start = 1 if info.is_method else 0
    refines = info.module.is_script  # what callers pass refines annotations too
    return any(
        (refines or p.annotation is None) and p.evidence is None and not p.star
        for p in info.parameters[start:]
    )
