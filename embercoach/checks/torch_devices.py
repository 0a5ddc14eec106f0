"""TORCH-DTYPE and TORCH-NUMPY: dtypes that MPS lacks, and NumPy on tensors of a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import CallFact, Fact, FactPlace
from embercoach.analysis.values.lattice import Value, as_tensor
from embercoach.checks.registry import ProposedFix, Report, check

_WORDS = ("mps", "cuda", "cpu", "gpu", "xpu", "npu", "dml", "device")


def is_for_a_device(fact: Fact, module: Module) -> bool:
    """Return whether a test around a place, or of its statement, asks for the device."""
    place = fact.place
    around = layout_of(module, place.function).outward(place.statement)
    owners = (place.statement, *(level.owner for level in around))
    tests = (getattr(owner, "test", None) for owner in owners)
    if any(test is not None and _names_device(test) for test in tests):
        return True
    choices = contents_of(place.statement, (cst.IndentedBlock,)).of(cst.IfExp)
    return any(_names_device(c.test) and fact.node in contents_of(c) for c in choices)


def may_be_caught(place: FactPlace, module: Module) -> bool:
    """Return whether a place is in a ``try`` that handles exceptions."""
    around = layout_of(module, place.function).outward(place.statement)
    return any(
        isinstance(level.owner, cst.Try) and level.arm == "body" and bool(level.owner.handlers)
        for level in around
    )


def _names_device(test: cst.CSTNode) -> bool:
    parts = contents_of(test)
    texts = [*parts.names, *(node.value for node in parts.of(cst.SimpleString))]
    return any(word in text.lower() for text in texts for word in _WORDS)


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
        message=f"{tensor.dtype} tensor on MPS: raises a TypeError",
        help="Convert it before it is moved: `x.to(device, dtype=torch.float32)`",
    )


def _is_unsupported(value: Value) -> bool:
    tensor = as_tensor(value)
    return tensor is not None and tensor.dtype in _UNSUPPORTED and "mps" in tensor.devices


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
