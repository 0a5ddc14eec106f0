"""TORCH-NUMPY: NumPy on tensors of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.values.torch_values import as_tensor
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.torch.device_tests import is_for_a_device, may_be_caught

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: Kinds of device whose tensors NumPy certainly cannot read.
_GPUS = frozenset(("mps", "cuda", "xpu"))
_CONVERSIONS = ("numpy.array", "numpy.asarray", "numpy.ascontiguousarray", "numpy.asanyarray")


@check("TORCH-NUMPY-001", of=(".numpy", *_CONVERSIONS))
def numpy_of_gpu(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.numpy()`` and ``np.asarray(x)`` of a tensor on MPS."""
    given = fact.positional(0)
    value = fact.receiver if fact.symbol is None else None if given is None else given.value
    tensor = None if value is None else as_tensor(value)
    if tensor is None or not tensor.devices & _GPUS or fact.keyword("force") is not None:
        return
    if is_for_a_device(fact, module) or may_be_caught(fact.place, module):
        return
    node = fact.receiver_node if fact.symbol is None else None if given is None else given.node
    kind = "mps" if "mps" in tensor.devices else min(tensor.devices & _GPUS)
    yield Report.at(
        fact,
        "TORCH-NUMPY-001",
        message=f"NumPy cannot read a tensor on {kind}: raises a TypeError",
        help="Copy it to the host before: `x.cpu().numpy()`",
        change=None if node is None else _by_host(node, module),
    )


def _by_host(node: cst.BaseExpression, module: Module) -> ProposedFix | None:
    """Insert ``.cpu()``, which returns a tensor of the host as it is."""
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return None
    text = f"{module.parsed.code(node)}.cpu()"
    return ProposedFix("Insert `.cpu()`", True, ((node, text),))
