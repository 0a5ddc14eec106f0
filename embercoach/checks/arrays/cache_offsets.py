"""CACHE-005: masks and positions that leave out the tokens that a cache holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of, root_name
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.syntax.trees import DEFINITIONS, target_names
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.dataflow.contents import Contents
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import Fact

#: Parameters that hold the caches of all layers.
_CACHES = frozenset(("cache", "caches", "kv_cache", "kv_caches", "past_key_values"))
#: Parts of names in functions that know how many tokens a cache holds.
_KNOWING = frozenset(
    (
        "offset",
        "offsets",
        "past",
        "pos",
        "start",
        "prefix",
        "total",
        "history",
        "kv",
        "step",
        "prev",
    )
)
_CAUSAL = "create_additive_causal_mask"
_DEEPEST = 4
_MASK = "Add the cache's offset to the keys, as mlx-lm's `create_attention_mask` does"
_IDS = "Add the offset of the cache: `mx.arange(L) + cache[0].offset`"


@check("CACHE-005")
def mask_without_offset(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``create_additive_causal_mask(h.shape[1])``, then ``layer(h, mask, cache[i])``."""
    if module.is_test or "cache" not in module.source or "mx." not in module.source:
        return
    for function in module.functions:
        caches = [p.name for p in function.parameters if p.name in _CACHES]
        if not caches:
            continue
        contents = contents_of(function.node.body, DEFINITIONS)
        names = (word for name in contents.names if name not in caches for word in name.split("_"))
        if not _KNOWING.isdisjoint(names):
            continue
        cache = quoted(caches[0], 20)
        uses = [
            (one, _square, f"mask without the tokens in `{cache}`: it has fewer keys", _MASK)
            for one in _masks_with_caches(contents, caches[0])
        ]
        uses += [
            (one, _from_zero, f"positions start at 0 also after the tokens in `{cache}`", _IDS)
            for one in _positions(contents)
        ]
        for mask, maker, message, remedy in uses:
            statement = contents.statement_of(mask)
            made = maker(Source(mask, statement, function, module))
            if made is None or _is_for_none(made, caches[0], contents):
                continue
            yield Report(
                "CACHE-005",
                made,
                module.frame.place()._replace(
                    statement=contents.statement_of(made), function=function
                ),
                message=message,
                help=remedy,
                context="default",
            )
            break


def _masks_with_caches(contents: Contents, caches: str) -> Iterator[cst.BaseExpression]:
    """Yield the masks that are passed to a layer together with its cache."""
    loops: list[cst.For | cst.CompFor] = contents.of(cst.For, cst.CompFor)
    items = {
        name
        for loop in loops
        if caches in contents_of(loop.iter).names
        for name in target_names(loop.target)
    }
    for call in contents.calls:
        given = [argument.value for argument in call.args]
        if not any(_is_cache(one, caches, items) for one in given):
            continue
        for one in given:
            if isinstance(one, cst.Name) and "mask" in one.value:
                yield one


def _is_cache(node: cst.BaseExpression, caches: str, items: set[str]) -> bool:
    if isinstance(node, cst.Subscript):
        return root_name(node) == caches
    return isinstance(node, cst.Name) and node.value in items and "mask" not in node.value


def _positions(contents: Contents) -> Iterator[cst.BaseExpression]:
    """Yield what a learned embedding of positions is given."""
    for call in contents.calls:
        name = (last_name(call) or "").lower()
        if len(call.args) == 1 and (name == "wpe" or ("pos" in name and "emb" in name)):
            yield call.args[0].value


def _square(source: Source, depth: int = _DEEPEST) -> cst.Call | None:
    """Return the call that makes a causal mask with as many keys as queries, if one may."""
    for end in sources_of(source.module).ends(source) if depth else ():
        node = end.node
        if not isinstance(node, cst.Call) or end.function is not source.function:
            continue
        if last_name(node) == _CAUSAL or any(map(_is_triangle, contents_of(node).calls)):
            return node
        if last_name(node) == "astype" and isinstance(node.func, cst.Attribute):
            return _square(end.at(node.func.value), depth - 1)
    return None


def _is_triangle(call: cst.Call) -> bool:
    """Test for ``mx.tri(L)``, ``mx.tril(mx.ones((L, L)))`` and ``mx.triu(mx.full((L, L), x))``."""
    name = last_name(call)
    if name == "tri":
        return len([one for one in call.args if one.keyword is None]) == 1
    made = call.args[0].value if name in ("tril", "triu") and call.args else None
    shape = made.args[0].value if isinstance(made, cst.Call) and made.args else None
    sizes = [e.value for e in shape.elements] if isinstance(shape, (cst.Tuple, cst.List)) else []
    return len(sizes) == 2 and sizes[0].deep_equals(sizes[1])


def _from_zero(source: Source, depth: int = _DEEPEST) -> cst.Call | None:
    """Return ``mx.arange(L)`` of positions, if they may be that."""
    for end in sources_of(source.module).ends(source) if depth else ():
        node = end.node
        while isinstance(node, cst.Subscript):
            node = node.value
        if not isinstance(node, cst.Call) or end.function is not source.function:
            continue
        if last_name(node) == "arange" and len(node.args) == 1:
            return node
        if last_name(node) in ("array", "broadcast_to", "expand_dims") and node.args:
            return _from_zero(end.at(node.args[0].value), depth - 1)
    return None


def _is_for_none(node: cst.CSTNode, caches: str, contents: Contents) -> bool:
    """Return whether a mask is made only without a cache."""
    tests = (one.test for one in contents.above(node) if isinstance(one, (cst.If, cst.IfExp)))
    return any(caches in contents_of(test).names for test in tests)
