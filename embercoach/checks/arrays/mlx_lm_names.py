"""API-030: names that mlx-lm no longer has, other letter case, and caches that miss arguments.

Code that was written for an early release of mlx-lm fails when it is imported, or when it makes
the first cache. :mod:`mlx_lm_calls` has the calls of its functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.mlx_api.replacements import MLX_LM_GONE
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.lattice import Symbol, Value, options
from embercoach.checks.fallbacks import MISSING, REFUSED
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import CallFact, Fact, MissingMemberFact

_CACHES = "mlx_lm.models.cache."


@check("API-030", unless=MISSING)
def removed_name(fact: MissingMemberFact, module: Module) -> Iterator[Report]:
    """``from mlx_lm.utils import make_kv_caches``."""
    owner = fact.owner.name if isinstance(fact.owner, Symbol) else ""
    last, remedy = MLX_LM_GONE.get(f"{owner}.{fact.name}", ("", ""))
    if last:
        yield Report.at(
            fact,
            message=f"`{fact.name}` was removed from `{owner}`",
            help=f"{remedy} (last in mlx-lm {last})",
        )


#: Modules whose names are of small letters alone.
_SMALL = frozenset(("mlx", "mlx_audio", "mlx_embeddings", "mlx_lm", "mlx_vlm", "mlx_whisper"))


@check("API-030", unless=MISSING)
def other_case(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``from mlx_LM import load``: names of modules are compared by case on all systems."""
    contents = contents_of(module.tree)
    plain = [(node, alias.name) for node in contents.of(cst.Import) for alias in node.names]
    members = [(n, n.module) for n in contents.of(cst.ImportFrom) if n.module and not n.relative]
    for node, named in (*plain, *members):
        first = (dotted(named) or "").partition(".")[0]
        if first in _SMALL or first.lower() not in _SMALL:
            continue
        if module.import_module(first, 0) is None:
            yield Report.in_file(
                module,
                node,
                message=f"no module `{first}`: names of modules are case-sensitive",
                help=f"Write `{first.lower()}`",
            )


class _Parameters(NamedTuple):
    """The parameters of a class, and how many of the first ones have no default."""

    names: tuple[str, ...]
    required: int


_MADE = {
    "ArraysCache": _Parameters(("size", "left_padding"), 1),
    "ChunkedKVCache": _Parameters(("chunk_size",), 1),
    "BatchKVCache": _Parameters(("left_padding",), 1),
    "BatchRotatingKVCache": _Parameters(("max_size", "left_padding"), 2),
}


@check("API-030", of=(_CACHES, VALUE), unless=REFUSED)
def refused_by_cache(fact: CallFact, module: Module) -> Iterator[Report]:
    """``ArraysCache()``, ``BatchRotatingKVCache(max_size)``."""
    yield from _refused(fact.node, _cache_of(fact.callee), module)


@check("API-030", unless=REFUSED)
def refused_by_base(module: Module, _: list[Fact]) -> Iterator[Report]:
    """``super().__init__()`` in a class of ArraysCache."""
    for cls in module.classes:
        name = _cache_of(cls.bases[0]) if len(cls.bases) == 1 else ""
        made = cls.methods.get("__init__")
        contents = contents_of(made.node.body) if name and made is not None else None
        for call in () if contents is None else contents.calls:
            owner = call.func.value if isinstance(call.func, cst.Attribute) else None
            if last_name(call) == "__init__" and owner is not None and last_name(owner) == "super":
                yield from _refused(call, name, module)


def _refused(call: cst.Call, name: str, module: Module) -> Iterator[Report]:
    """Yield the call of a class of caches that misses an argument."""
    parameters = _MADE.get(name)
    if parameters is None or any(argument.star for argument in call.args):
        return
    named = {one.keyword.value for one in call.args if one.keyword is not None}
    given = {*parameters.names[: len(call.args) - len(named)], *named}
    missed = [one for one in parameters.names[: parameters.required] if one not in given]
    if missed:
        text, remedy = f"mlx-lm's `{name}` needs `{missed[0]}`", f"Pass `{missed[0]}=`"
        yield Report.in_file(module, call, message=text, help=remedy)


def _cache_of(value: Value) -> str:
    """Return the class that a value is; of a fallback the one that mlx-lm still has."""
    names = {one.name if isinstance(one, Symbol) else "" for one in options(value)}
    present = [name for name in names if name not in MLX_LM_GONE]
    owner, _, name = present[0].rpartition(".") if len(present) == 1 else ("", "", "")
    return name if f"{owner}." == _CACHES else ""
