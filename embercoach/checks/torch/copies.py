"""TORCH-COPY and TORCH-NUMPY: tensors that leave the GPU for NumPy or for the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.library.torch_api import is_copy, is_on_accelerator
from embercoach.analysis.facts.contexts import context_of
from embercoach.analysis.values.joins import as_numpy, pulls_of
from embercoach.analysis.values.torch_values import as_tensor
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.torch.device_tests import is_for_a_device, may_be_caught

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Kinds of device whose tensors NumPy certainly cannot read.
_GPUS = frozenset(("mps", "cuda", "xpu"))
_CONVERSIONS = ("numpy.array", "numpy.asarray", "numpy.ascontiguousarray", "numpy.asanyarray")
_UPLOADS = ("torch.tensor", "torch.as_tensor", "torch.asarray")


@check("TORCH-COPY-001", of=(".to", ".cuda", *_UPLOADS))
def round_trip(fact: CallFact, module: Module) -> Iterator[Report]:
    """``torch.from_numpy(np.exp(x.cpu().numpy())).to(device)``."""
    moved = as_tensor(fact.result)
    if moved is None or not is_on_accelerator(moved):
        return
    given = fact.positional(0)
    source = fact.receiver if fact.symbol is None else None if given is None else given.value
    if source is None or not _is_from_gpu(source):
        return
    if is_for_a_device(fact, module):
        return
    yield Report.at(
        fact,
        "TORCH-COPY-001",
        message="round trip: the values have been copied from the GPU to the host",
        help="Compute on the GPU with torch, without `.cpu()` and `.numpy()` in between",
        context=context_of(fact.place, module),
        covers=tuple(p for p in pulls_of(source) if isinstance(p, cst.CSTNode) and is_copy(p)),
    )


def _is_from_gpu(value: Value) -> bool:
    tensor = as_tensor(value)
    if tensor is not None and is_on_accelerator(tensor):
        return False
    if as_numpy(value) is None and (tensor is None or not tensor.changed):
        return False  # a copy that is kept on the host for some time
    return any(is_copy(pull) for pull in pulls_of(value))


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
