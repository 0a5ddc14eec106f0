"""LAZY-004: files that are overwritten before their arrays are read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import target_names
from embercoach.analysis.values.facts import Argument, CallFact
from embercoach.analysis.values.lattice import Str
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias


@check("LAZY-004", of=("mlx.core.savez", "mlx.core.savez_compressed"))
def overwritten_file(fact: CallFact, module: Module) -> Iterator[Report]:
    """``weights = mx.load(path)``, then ``mx.savez(path, **weights)``."""
    path = fact.argument(0, "file")
    if path is None or not _is_archive(path):
        return
    function, asked = fact.place.function, evaluation_of(module).asked
    scope = None if function is None else function.node
    asked[scope] += 1
    if asked[scope] > MOST_STEPS:
        return
    loaded = None
    for load in _loads(path, fact, module):
        loaded = _saved_from(load, fact, module)
        if loaded is not None:
            break
    if loaded is None:
        return
    shown = module.parsed.code(path.node)
    name = f"`{shown}`" if len(shown) <= 20 else "the file"
    yield Report.at(
        fact,
        message=f"{name} is overwritten before its lazy arrays are read: its data is lost",
        help=f"Evaluate what is loaded first: `mx.eval({loaded or 'weights'})`",
        change=_change(loaded, fact, module),
    )


def _is_archive(path: Argument) -> bool:
    text = path.value.text if isinstance(path.value, Str) else None
    return text is None or text.endswith(".npz")


def _loads(path: Argument, save: CallFact, module: Module) -> Iterator[CallFact]:
    """Yield the calls of ``mx.load`` in the same function that are given the same path."""
    seen = 0
    for fact in module.facts_of(save.place.function):
        if type(fact) is not CallFact or fact.symbol != "mlx.core.load" or seen == MOST_STEPS:
            continue
        seen += 1
        given = fact.argument(0, "file")
        if given is None or not given.node.deep_equals(path.node):
            continue
        if _is_unchanged(path.node, fact.place.statement, save, module):
            yield fact


def _is_unchanged(
    path: cst.BaseExpression, start: cst.CSTNode, save: CallFact, module: Module
) -> bool:
    """Test whether a path that is a name has the same value in both statements."""
    if not isinstance(path, cst.Name):
        return True
    reaching = scope_of(module, save.place.function).reaching
    return reaching.before(start, path.value) == reaching.before(save.place.statement, path.value)


def _saved_from(load: CallFact, save: CallFact, module: Module) -> str | None:
    """Return the name of what is loaded, empty without one; None unless it is saved unevaluated."""
    values = [argument.node for argument in save.arguments[1:]]
    if any(load.node in contents_of(value) for value in values):
        return ""
    first, last = load.place.statement, save.place.statement
    if not isinstance(first, cst.Assign):
        return None
    names = set(target_names(first.targets[0].target))
    if len(names) != 1:
        return None
    name = next(iter(names))
    layout, evaluation = layout_of(module, save.place.function), evaluation_of(module)
    if not layout.in_sequence(first, last):
        return None
    if evaluation.may_evaluate(layout.between(first, last), names):
        return None
    return name if any(evaluation.use(value, names) == "derived" for value in values) else None


def _change(loaded: str | None, fact: CallFact, module: Module) -> ProposedFix | None:
    """``mx.eval(weights)`` in the line before."""
    mx = mlx_alias(module)
    if mx is None or not loaded:
        return None
    call = f"{mx}.eval({loaded})"
    return ProposedFix(f"Insert `{call}`", False, (), ((fact.place.statement, call),))
