"""TORCH-SYNC: the host waits for a tensor's values in a loop or a forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.library.torch_api import is_on_accelerator
from embercoach.analysis.facts.contexts import context_of
from embercoach.analysis.facts.host_uses import hot_functions, is_log_line
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.values.torch_values import as_tensor
from embercoach.checks.registry import Report, check
from embercoach.checks.torch.device_tests import is_for_a_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact, Fact, FactPlace, TensorTruthFact
    from embercoach.analysis.project.module import Module

_CASTS = ("builtins.float", "builtins.int", "builtins.bool", "builtins.complex")
_EFFECTS = {
    "loop": "synchronizes with the GPU in every iteration",
    "forward": "synchronizes with the GPU in every forward pass",
}
_HELP = {
    "loop": "Keep the value on the GPU (`x.detach()`), and read it once after the loop",
    "forward": "Keep the value on the GPU: compute with tensors, and choose with `torch.where`",
}


@check("TORCH-SYNC-001", of=(".item", ".tolist", ".cpu", *_CASTS))
def host_read(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.item()``, ``x.tolist()``, ``x.cpu()``, ``float(x)``."""
    if fact.symbol is not None:
        given = fact.positional(0)
        tensor = None if given is None or len(fact.arguments) != 1 else as_tensor(given.value)
        what = f"`{fact.symbol.removeprefix('builtins.')}()` of a tensor"
    else:
        tensor = None if fact.receiver is None else as_tensor(fact.receiver)
        assert isinstance(fact.node.func, cst.Attribute)
        what = f"`.{fact.node.func.attr.value}()`"
    if tensor is not None and is_on_accelerator(tensor):
        yield from _report(fact, module, what, is_copy=what == "`.cpu()`")


@check("TORCH-SYNC-001")
def tensor_truth(fact: TensorTruthFact, module: Module) -> Iterator[Report]:
    """``if x.sum() > 0:``."""
    if is_on_accelerator(fact.value):
        yield from _report(fact, module, "the truth value of a tensor")


def _report(fact: Fact, module: Module, what: str, *, is_copy: bool = False) -> Iterator[Report]:
    if is_for_a_device(fact, module):
        return
    context = context_of(fact.place, module.is_test)
    if is_copy and context != "forward":
        return  # it frees memory of the GPU
    if context == "loop" and _is_needed(fact.place, module):
        context = "sink"
    is_hot = context == "function" and fact.place.function in hot_functions(module)
    if not is_hot and context not in ("loop", "forward", "sink", "periodic"):
        return
    yield Report.at(
        fact,
        "TORCH-SYNC-001",
        message=f"{what} {_EFFECTS.get(context, 'synchronizes with the GPU')}",
        help=_HELP.get(context, _HELP["loop"]),
        context=context,
    )


def _is_needed(place: FactPlace, module: Module) -> bool:
    """Return whether a loop ends by the value, or only logs it."""
    if isinstance(place.statement, cst.While):
        return True
    if isinstance(place.statement, cst.If) and isinstance(place.statement.body, cst.IndentedBlock):
        last = place.statement.body.body[-1]
        ends = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
        return isinstance(ends, (cst.Break, cst.Return, cst.Raise))
    loop = place.loop
    if loop is not None and layout_of(module, place.function).leaves(place.statement, loop):
        return True
    return is_log_line(place, module)
