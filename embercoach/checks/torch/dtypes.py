"""TORCH-DTYPE: dtypes that MPS does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.values.torch_values import as_tensor
from embercoach.checks.registry import Report, check
from embercoach.checks.torch.device_tests import is_for_a_device, may_be_caught

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

_UNSUPPORTED = frozenset(("float64", "complex128"))


@check("TORCH-DTYPE-001", of=("torch.", "."))
def float64_on_mps(fact: CallFact, module: Module) -> Iterator[Report]:
    """``torch.zeros(3, dtype=torch.float64, device="mps")``."""
    if not _is_unsupported(fact.result):
        return
    given = (fact.receiver, *(argument.value for argument in fact.arguments))
    if any(value is not None and _is_unsupported(value) for value in given):
        return  # which has raised before
    if is_for_a_device(fact, module) or may_be_caught(fact.place, module):
        return
    tensor = as_tensor(fact.result)
    assert tensor is not None
    yield Report.at(
        fact,
        "TORCH-DTYPE-001",
        message=f"{tensor.dtype} tensor on MPS: raises a TypeError",
        help="Convert it before it is moved: `x.to(device, dtype=torch.float32)`",
    )


def _is_unsupported(value: Value) -> bool:
    tensor = as_tensor(value)
    return tensor is not None and tensor.dtype in _UNSUPPORTED and "mps" in tensor.devices
