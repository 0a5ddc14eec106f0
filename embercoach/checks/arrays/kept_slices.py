"""MEMORY-001 and 002: state that keeps whole arrays alive, and state that is copied to grow."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.scopes import CONSTRUCTORS, display
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted
from embercoach.analysis.values.facts import Fact, calls_of
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

#: Functions of MLX that make a new array of others.
_NAMES = frozenset(("concatenate", "concat", "pad"))
_JOINS = frozenset(f"mlx.core.{name}" for name in _NAMES)
#: Attributes and parameters that hold the state of a model between its calls.
_STATE = ("cache", "state", "buffer", "history", "context")


@check("MEMORY-001")
def kept_slice(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``cache[0] = padded[:, -n:, :]`` of what ``mx.concatenate`` has made."""
    if not any(word in module.source for word in _STATE) or "mlx" not in module.source:
        return
    for function in module.functions:
        if function.name in CONSTRUCTORS:
            continue
        contents = contents_of(function.node.body, DEFINITIONS)
        if contents.names.isdisjoint(_NAMES):
            continue
        for node in contents.of(cst.Assign):
            target = node.targets[0].target
            if len(node.targets) > 1 or not _is_state(target, function):
                continue
            ends = sources_of(module).ends(Source(node.value, node, function, module))
            kept = ends[0] if len(ends) == 1 else None
            if kept is None or kept.function is not function:
                continue
            part = kept.node
            if not isinstance(part, cst.Subscript) or not _is_end(part):
                continue
            if not _is_joined(kept.at(part.value)):
                continue
            yield Report.at(
                kept,
                message="slice kept as state holds the whole array in memory",
                help="Copy it: `mx.contiguous(x[:, -n:])`",
                context=module.purpose or "avoidable",
                change=_copied(part, module),
            )


def _is_state(target: cst.BaseExpression, function: FunctionInfo) -> bool:
    """Test for ``cache[0]``, ``cache.keys`` and ``self._buffer``."""
    if not isinstance(target, (cst.Subscript, cst.Attribute)):
        return False
    root = root_name(target)
    if root != "self":
        names = {parameter.name for parameter in function.parameters}
        return root in names and any(word in root for word in _STATE)
    while isinstance(target, cst.Subscript):
        target = target.value
    if not isinstance(target, cst.Attribute):
        return False
    return any(word in target.attr.value for word in _STATE)


def _is_end(node: cst.Subscript) -> bool:
    """Test for ``x[:, -n:]``: one slice to the end of an axis, of others in whole."""
    ends = 0
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index):
            if not isinstance(part.value, cst.Ellipsis):
                return False
            continue
        assert isinstance(part, cst.Slice)
        if part.upper is not None or part.step is not None:
            return False
        if part.lower is not None:
            ends += 1
            if not isinstance(part.lower, cst.UnaryOperation):
                return False
    return ends == 1


def _is_joined(source: Source) -> bool:
    """Return whether each expression that an array may be is one that joins others."""
    sources = sources_of(source.module)
    calls = [sources.library_call(end) for end in sources.ends(source)]
    return bool(calls) and all(call is not None and call.name in _JOINS for call in calls)


def _copied(node: cst.Subscript, module: Module) -> ProposedFix | None:
    alias = mlx_alias(module)
    if alias is None:
        return None
    text = f"{alias}.contiguous({module.parsed.code(node)})"
    return ProposedFix("Copy the slice", safe=True, edits=((node, text),))


@check("MEMORY-002")
def grown_cache(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``self.keys = mx.concatenate([self.keys, keys], axis=2)`` for each token."""
    if "concat" not in module.source or "self." not in module.source:
        return
    for function in module.functions:
        if function.cls is None or function.name in CONSTRUCTORS:
            continue
        if "Concat" in function.cls.name:  # as its name says
            continue
        contents = contents_of(function.node.body, DEFINITIONS)
        if "concatenate" not in contents.names and "concat" not in contents.names:
            continue
        results = contents.of(cst.Return)
        returned = {dotted(node) for result in results for node in contents_of(result)}
        names = {parameter.name for parameter in function.parameters}
        for node in contents.of(cst.Assign):
            added = _added(node, module)
            if added not in names or dotted(node.targets[0].target) not in returned:
                continue
            yield Report.in_file(
                module,
                node.value,
                function=function,
                message="cache grown by `mx.concatenate`: each call copies all of it",
                help="Allocate in steps, and assign to a slice: `self.keys[:, :, i:j] = keys`",
                context=module.purpose or "avoidable",
            )


def _added(node: cst.Assign, module: Module) -> str | None:
    """Return ``k`` of ``self.keys = mx.concatenate([self.keys, k], axis=2)``."""
    call, path = node.value, dotted(node.targets[0].target)
    if path is None or not path.startswith("self.") or not isinstance(call, cst.Call):
        return None
    fact = calls_of(module).get(call)
    if fact is None or fact.symbol not in ("mlx.core.concatenate", "mlx.core.concat"):
        return None
    axis = fact.argument(1, "axis")
    items = display(call.args[0].value)
    if axis is None or getattr(axis.node, "value", "") == "0" or items is None or len(items) != 2:
        return None
    return dotted(items[1]) if dotted(items[0]) == path else None
