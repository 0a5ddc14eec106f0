"""NN-017: calls of layers that define `forward`, as in PyTorch, and no `__call__`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Fact, UncallableFact
from embercoach.analysis.values.inheritance import called_method, lineage, subclasses
from embercoach.checks.fallbacks import is_expected
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.project.module import Module

_TYPE_ERROR = frozenset(("TypeError",))
#: What may give a class a method that its text does not show.
_PATCHES = ('"__call__"', "'__call__'", ".__call__ =")
_LONGEST = 28


@check("NN-017")
def uncalled_forward(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` of a layer with ``forward``: the first call of each class."""
    ranges = module.parsed.converted.ranges or {}
    calls = [fact for fact in facts if isinstance(fact, UncallableFact)]
    seen: set[ClassInfo] = set()
    for fact in sorted(calls, key=lambda fact: ranges.get(id(fact.node), 0)):
        method = called_method(fact.cls)
        if method is None or fact.cls in seen or not _is_certain(fact, module):
            continue
        seen.add(fact.cls)
        yield Report.at(
            fact,
            message=f"call of `{fact.cls.name[:_LONGEST]}` raises: it has no `__call__`",
            help="Rename its method `forward` to `__call__`",
            change=_renamed(method, module),
        )


def _is_certain(fact: UncallableFact, module: Module) -> bool:
    """Return whether a call raises: its object is of this class, which nothing completes."""
    classes = lineage(fact.cls)
    if any(one.node.decorators or one.node.keywords for one in classes):
        return False
    if any(text in one.source for one in _files(fact, module) for text in _PATCHES):
        return False
    if is_expected(module, fact.place.statement, _TYPE_ERROR, broadly=True):
        return False
    sources = sources_of(module)
    made = sources.ends(sources.of(fact, fact.node.func), through_callers=True)
    names = {fact.cls.name}
    if made and all(isinstance(m.node, cst.Call) and last_name(m.node) in names for m in made):
        return True
    is_made = any(_makes(fact.cls.name, one) for one in _files(fact, module))
    return is_made and not _is_given(fact) and not subclasses(fact.cls, module)


def _makes(name: str, module: Module) -> bool:
    """Return whether a file makes an object of a class itself."""
    return any(last_name(call) == name for call in contents_of(module.tree).calls)


def _files(fact: UncallableFact, module: Module) -> set[Module]:
    return {module, *(one.module for one in lineage(fact.cls))}


def _is_given(fact: UncallableFact) -> bool:
    """Return whether an object may be of a derived class: it is `self`, or is annotated."""
    name = (dotted(fact.node.func) or "").partition(".")[0]
    function = fact.place.function
    while function is not None:
        for index, parameter in enumerate(function.parameters):
            if parameter.name == name:
                return parameter.annotation is not None or (function.is_method and index == 0)
        function = function.outer
    return False


def _renamed(method: FunctionInfo, module: Module) -> ProposedFix | None:
    """Rename a method of this file, unless something calls it by its name."""
    node = method.node
    attributes = contents_of(module.tree).of(cst.Attribute)
    is_read = any(attribute.attr.value == "forward" for attribute in attributes)
    if not isinstance(node, cst.FunctionDef) or method.module is not module or is_read:
        return None
    part = node, node.name, (0, len("forward")), "__call__"
    return ProposedFix("Rename `forward` to `__call__`", safe=False, edits=(), parts=(part,))
