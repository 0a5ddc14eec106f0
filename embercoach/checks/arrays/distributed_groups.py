"""API-025: groups of processes that are used as their size."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import bodies_of
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import Fact
from embercoach.analysis.values.lattice import LibraryObject
from embercoach.checks.fallbacks import is_meant_to_raise
from embercoach.checks.registry import ProposedFix, Report, check

_GROUP = "mlx.core.distributed.Group"
_INIT = "mlx.core.distributed.init"
_ORDERING = (cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.GreaterThanEqual)


@check("API-025")
def group_as_number(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``mx.distributed.all_sum(x) / group``, ``range(group)``."""
    if "distributed" not in module.source:
        return
    names = _GROUPS | _made(module)
    if not any(f"{before}{name}" in module.source for before in _BEFORE for name in names):
        return
    for function, contents in bodies_of(module):
        if contents.names.isdisjoint(names):
            continue
        used: list[cst.CSTNode] = contents.of(cst.BinaryOperation, cst.Comparison, cst.Call)
        for node in used:
            for operand in _numbers(node):
                is_made = isinstance(operand, cst.Call) and last_name(operand) == "init"
                if not is_made and last_name(operand) not in names:
                    continue
                source = Source(operand, contents.statement_of(node), function, module)
                if not _is_group(source) or is_meant_to_raise(module, node):
                    continue
                text = module.parsed.code(operand)
                yield Report.at(
                    source,
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


#: Names of parameters and attributes that may be groups.
_GROUPS = frozenset(("group", "_group", "world", "comm", "world_group", "process_group"))
_BEFORE = tuple(
    f"{before}{owner}"
    for before in ("/ ", "% ", "* ", "- ", "> ", "< ", ">= ", "<= ", "(")
    for owner in ("", "self.", "mx.distributed.")
)


def _made(module: Module) -> frozenset[str]:
    """Return the names that a file assigns the result of ``init`` to, and ``init`` itself."""
    found = {"init"}
    if "distributed.init(" in module.source:
        for node in contents_of(module.tree).of(cst.Assign):
            if isinstance(node.value, cst.Call) and last_name(node.value) == "init":
                found.add(last_name(node.targets[0].target))
    return frozenset(found - {""})


def _is_group(source: Source) -> bool:
    sources = sources_of(source.module)
    value = sources.value(source)
    if isinstance(value, LibraryObject):
        return value.cls == _GROUP
    ends = sources.ends(source, through_callers=True)
    calls = [sources.library_call(end) for end in ends]
    return bool(calls) and all(call is not None and call.name == _INIT for call in calls)
