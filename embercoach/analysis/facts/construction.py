"""Code that runs once: while an object is made, in a cached function, or to fill a cache."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_by_function
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import CONSTRUCTORS
from embercoach.analysis.syntax.trees import dotted, small_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

#: Decorators that keep the result of a function.
_CACHED = frozenset(f"functools.{name}" for name in ("cache", "lru_cache", "cached_property"))
#: Calls inside of each other that are followed.
_MOST_CALLS = 4


def runs_once(place: FactPlace, function: FunctionInfo) -> bool:
    """Test whether a statement only runs while an object is made, or what it makes is cached."""
    return function in _at_construction(function.module) or _fills_cache(place, function)


@lru_cache(maxsize=2)
def _at_construction(module: Module) -> frozenset[FunctionInfo]:
    callers = {
        function: {call.place.function for call in calls}
        for function, calls in calls_by_function(module).items()
        # Other files may call what has a public name.
        if function.name.startswith("_") and not function.name.startswith("__")
    }
    found = {
        f
        for f in module.functions
        if (f.cls is not None and f.name in CONSTRUCTORS) or not _CACHED.isdisjoint(f.decorators)
    }
    for _ in range(_MOST_CALLS):
        further = {f for f, given in callers.items() if f not in found and given <= found}
        if not further:
            break
        found |= further
    return frozenset(found)


def _fills_cache(place: FactPlace, function: FunctionInfo) -> bool:
    """Test whether a statement runs where a cache is empty: ``if self.table is None:``.

    The cache is an attribute, or an entry of a container, that the same ``if`` assigns.
    """
    for level in layout_of(function.module, function).outward(place.statement):
        if isinstance(level.owner, cst.If) and level.arm == "body":
            missing = set(_missing(level.owner.test))
            if missing and not missing.isdisjoint(_assigned(level.owner.body)):
                return True
    return False


def _missing(test: cst.BaseExpression) -> Iterator[str]:
    """The caches that a test finds empty: of ``self.table is None``, ``key not in self.tables``."""
    if isinstance(test, cst.BooleanOperation):
        yield from _missing(test.left)
        yield from _missing(test.right)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return
    operator, right = test.comparisons[0].operator, dotted(test.comparisons[0].comparator)
    left = dotted(test.left)
    if isinstance(operator, cst.Is) and right == "None" and left is not None and "." in left:
        yield left
    elif isinstance(operator, cst.NotIn) and right is not None:
        yield f"{right}[]"


def _assigned(body: cst.BaseSuite) -> Iterator[str]:
    for statement in small_statements(body):
        if isinstance(statement, cst.Assign):
            for target in statement.targets:
                is_entry = isinstance(target.target, cst.Subscript)
                owner = target.target.value if is_entry else target.target  # type: ignore[attr-defined]
                path = dotted(owner)
                if path is not None:
                    yield f"{path}[]" if is_entry else path
