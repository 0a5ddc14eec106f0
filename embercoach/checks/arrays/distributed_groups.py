"""API-025: groups of processes that are used as their size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted
from embercoach.analysis.values.lattice import LibraryObject
from embercoach.checks.fallbacks import is_meant_to_raise
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

_GROUP = "mlx.core.distributed.Group"
_INIT = "mlx.core.distributed.init"
_ORDERING = (cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.GreaterThanEqual)


@check("API-025")
def group_as_number(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mx.distributed.all_sum(x) / group``, ``range(group)``."""
    if "distributed" not in module.source:
        return
    for function in (None, *module.functions):
        body = module.tree if function is None else function.node.body
        contents = contents_of(body, DEFINITIONS)
        used: list[cst.CSTNode] = contents.of(cst.BinaryOperation, cst.Comparison, cst.Call)
        for node in used:
            for operand in _numbers(node):
                if not _may_be_group(operand, module):
                    continue
                source = Source(operand, contents.statement_of(node), function, module)
                if not _is_group(source) or is_meant_to_raise(module, node):
                    continue
                place = module.frame.place()._replace(statement=source.statement, function=function)
                text = module.parsed.code(operand)
                yield Report(
                    "API-025",
                    operand,
                    place,
                    message="group of processes used as a number",
                    help="Use its size: `group.size()`",
                    context="default",
                    change=ProposedFix(
                        "Use the size of the group",
                        safe=False,
                        edits=((operand, f"{text}.size()"),),
                    ),
                )


def _numbers(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the operands of arithmetic, of comparisons by size, and of ``range``."""
    if isinstance(node, cst.BinaryOperation):
        yield node.left
        yield node.right
    elif isinstance(node, cst.Comparison):
        first = node.comparisons[0]
        if isinstance(first.operator, _ORDERING):
            yield node.left
            yield first.comparator
    elif isinstance(node, cst.Call) and dotted(node.func) in ("range", "int", "float"):
        yield from (argument.value for argument in node.args if not argument.star)


def _may_be_group(node: cst.BaseExpression, module: Module) -> bool:
    """Return whether it is worth asking what an expression is: most operands are numbers."""
    if isinstance(node, cst.Call):
        return (dotted(node.func) or "").endswith("distributed.init")
    if isinstance(node, cst.Name) and "distributed.init(" in module.source:
        return True
    return dotted(node) is not None and any(word in last_name(node) for word in _WORDS)


_WORDS = ("group", "world", "comm")


def _is_group(source: Source) -> bool:
    sources = sources_of(source.module)
    value = sources.value(source)
    if isinstance(value, LibraryObject):
        return value.cls == _GROUP
    ends = sources.ends(source, through_callers=True)
    calls = [sources.library_call(end) for end in ends]
    return bool(calls) and all(call is not None and call.name == _INIT for call in calls)
