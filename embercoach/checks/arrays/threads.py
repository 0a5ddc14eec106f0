"""THREAD-001: streams that another thread has made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.values.lattice import LibraryObject
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument, CallFact
    from embercoach.analysis.project.module import Module

_STREAM = "mlx.core.Stream"
_MAKERS = frozenset(("mlx.core.new_stream", "mlx.core.default_stream"))


@check("THREAD-001", of=("mlx.",))
def foreign_stream(fact: CallFact, module: Module) -> Iterator[Report]:
    """``with mx.stream(stream):`` in a thread that did not make the stream."""
    function = fact.place.function
    if function is None or not function.threaded:
        return
    given = fact.positional(0) if fact.symbol == "mlx.core.stream" else fact.keyword("stream")
    if given is None or not _is_stream(given) or not _is_foreign(given.node, function, module):
        return
    if evaluation_of(module).evaluates(function.node.body):
        yield Report.at(
            fact,
            "THREAD-001",
            node=given.node,
            message="the stream belongs to another thread: evaluation raises",
            help="Use `mx.new_thread_local_stream()`, or make the stream in this thread",
        )


def _is_stream(given: Argument) -> bool:
    return isinstance(given.value, LibraryObject) and given.value.cls == _STREAM


def _is_foreign(node: cst.BaseExpression, function: FunctionInfo, module: Module) -> bool:
    """Test whether a stream is made outside of all functions that run in the thread."""
    if isinstance(node, cst.Attribute):
        setters = () if function.cls is None else function.cls.setters.get(node.attr.value, ())
        first = function.parameters[0].name if function.is_method else None
        is_own = isinstance(node.value, cst.Name) and node.value.value == first
        return (
            is_own
            and bool(setters)
            and all(s.name == "__init__" and not s.threaded for s in setters)
        )
    if not isinstance(node, cst.Name):
        return False
    owner: FunctionInfo | None = function
    while owner is not None and owner.threaded:
        scope = scope_of(module, owner)
        if scope.binds(node.value):
            return False
        owner = owner.outer
    found = scope_of(module, owner).find(node.value)
    made = None if found is None or found[1] is None else found[1].node
    call = None if made is None else evaluation_of(module).calls.get(made)
    return call is not None and call.symbol in _MAKERS
