"""CACHE-001: the step of mlx-lm's caches, taken for the number of tokens in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.checks.registry import ProposedFix, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.contents import Contents
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: mlx-lm's function that makes one cache a layer, of the kinds that the model needs.
_MAKER = "make_prompt_cache"


@check("CACHE-001")
def cache_members(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``cache[0].step``."""
    if _MAKER not in module.source or module.is_test:
        return
    contents = contents_of(module.tree)
    for node in contents.of(cst.Attribute):
        if node.attr.value != "step" or not isinstance(node.value, cst.Subscript):
            continue
        statement = contents.statement_of(node)
        if _is_made(node.value.value, statement, contents, module):
            yield Report(
                "CACHE-001",
                node,
                module.frame.place()._replace(statement=statement),
                message="`step` is how far a cache's buffers grow at once, not how much it holds",
                help="Read `.offset`, the number of tokens in the cache",
                context="default",
                change=ProposedFix("Read `.offset`", False, ((node.attr, "offset"),)),
            )


def _is_made(
    node: cst.BaseExpression, statement: cst.CSTNode, contents: Contents, module: Module
) -> bool:
    """Return whether all values of an expression are results of ``make_prompt_cache``."""
    around = next((one for one in contents.above(node) if isinstance(one, cst.FunctionDef)), None)
    function = next((one for one in module.functions if one.node is around), None)
    ends = sources_of(module).ends(Source(node, statement, function, module), through_callers=True)
    made = [isinstance(end.node, cst.Call) and last_name(end.node) == _MAKER for end in ends]
    # An attribute may be None before.
    empty = [isinstance(end.node, cst.Name) and end.node.value == "None" for end in ends]
    return any(made) and all(one or other for one, other in zip(made, empty, strict=True))
