"""TORCH-SYNC: the host waits for a tensor's values in a loop or a forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.library.torch_api import is_on_accelerator
from embercoach.analysis.facts.contexts import context_of, recurrence_of
from embercoach.analysis.values.torch_values import as_tensor
from embercoach.checks.registry import Report, check
from embercoach.checks.torch.device_tests import is_for_a_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact, Fact, TensorTruthFact
    from embercoach.analysis.project.module import Module

_CASTS = ("builtins.float", "builtins.int", "builtins.bool", "builtins.complex")


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
    recurrence = recurrence_of(fact.place, module)
    if recurrence is None or (is_copy and recurrence != "forward pass"):
        return  # a copy frees memory of the GPU
    yield Report.at(
        fact,
        "TORCH-SYNC-001",
        message=f"{what} synchronizes with the GPU in every {recurrence}",
        help="Keep the value on the GPU where the host doesn't need it",
        context=context_of(fact.place, module),
    )
