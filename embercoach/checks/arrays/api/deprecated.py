"""DEPRECATED-001: functions of MLX that print a warning and will be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.checks.fallbacks import MISSING, is_expected, is_patched
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.mlx_api.replacements import Deprecated
    from embercoach.analysis.project.module import Module

PREFIX = "mlx.core."
#: Releases that are old enough for a fix not to ask which one the program supports.
OLD = frozenset(("0.24.1",))


@check("DEPRECATED-001", of=("mlx.core.metal.",))
def deprecated_function(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.metal.clear_cache()``."""
    from embercoach.analysis.mlx_api.replacements import DEPRECATED

    instead = DEPRECATED.get(fact.symbol or "")
    if instead is None or is_expected(module, fact.place.statement, MISSING, broadly=False):
        return
    name = instead.name.removeprefix(PREFIX)
    if is_patched(module, mlx_alias(module) or "mx", name):
        return
    yield Report.at(
        fact,
        "DEPRECATED-001",
        node=fact.node.func,
        message=f"`mx.metal.{name}()` is deprecated",
        help=f"Use `mx.{name}()`, which MLX has since {instead.since}",
        change=_change(fact, module, instead),
    )


def _change(fact: CallFact, module: Module, instead: Deprecated) -> ProposedFix | None:
    """Write the new name: ``mx.clear_cache``."""
    func = fact.node.func
    if not isinstance(func, cst.Attribute):
        return None
    owner = func.value
    mx = module.parsed.code(owner.value) if isinstance(owner, cst.Attribute) else mlx_alias(module)
    if mx is None:
        return None
    text = f"{mx}.{instead.name.removeprefix(PREFIX)}"
    return ProposedFix(f"Write `{text}`", instead.since in OLD, ((func, text),))
