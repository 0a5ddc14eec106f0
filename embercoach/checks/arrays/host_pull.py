"""HOST-PULL: an array's data leaves the device, or an array stands where Python ints belong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import numpy_api
from embercoach.analysis.facts.contexts import context_of
from embercoach.analysis.facts.facts import Argument, BinaryFact, CallFact, Fact
from embercoach.analysis.syntax.trees import children
from embercoach.analysis.values.joins import as_array, as_numpy
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    BoundMember,
    Bytes,
    Number,
    Numpy,
    Sequence,
    Value,
)
from embercoach.checks.arrays.graph_break import pull
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module

BUFFERS = {"builtins.memoryview", "builtins.bytes", "builtins.bytearray", "pickle.dumps"} | {
    "struct.pack",
    "pickle.dump",
}
TORCH_CONVERSIONS = {"torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.from_dlpack"}
KEEP = "keep the computation in mx, or pull once at the end"


@check("HOST-PULL-001", on=CallFact, of=(".tolist",))
def tolist_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.tolist()``."""
    callee = fact.callee
    assert isinstance(callee, BoundMember)
    if as_array(callee.owner) is not None:
        yield pull(
            "HOST-PULL-001",
            fact,
            module,
            fact.node,
            callee.owner,
            "`.tolist()` waits for the array and copies every element to the host",
            "keep the computation in mx, or pull once, outside the loop",
            subject=fact.receiver_node,
        )


@check("HOST-PULL-002", "HOST-PULL-003", on=CallFact, of=("numpy.",))
def numpy_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``np.array(x)``, ``np.exp(x)``, ``np.linalg.norm(x)``."""
    name = fact.symbol
    if name is None or not numpy_api.takes_data(name):
        return
    argument = _array_argument(fact.arguments)
    if argument is None:
        return
    short = "np." + name.removeprefix("numpy.")
    array = as_array(argument.value)
    half = " (a bfloat16 array raises: NumPy has no such dtype)"
    if name.rpartition(".")[2] in numpy_api.CONVERSIONS:
        yield pull(
            "HOST-PULL-002",
            fact,
            module,
            fact.node,
            argument.value,
            f"`{short}()` waits for the mx.array and copies it into NumPy"
            f"{half if array is not None and array.dtype == 'bfloat16' else ''}",
            KEEP,
            subject=argument.node,
        )
    elif name.count(".") == 1 and name[6:] in numpy_api.RAISING:
        yield Report(
            "HOST-PULL-003",
            fact.node,
            fact.place,
            f"`{short}()` of an mx.array raises a TypeError: NumPy calls the array's own method "
            "with arguments that MLX does not take",
            f"use {_mlx_twin(name)}",
            context_of(fact.place, module.is_test, value=argument.value),
            subject=argument.node,
        )
    else:
        yield pull(
            "HOST-PULL-003",
            fact,
            module,
            fact.node,
            argument.value,
            f"`{short}()` of an mx.array runs on the host and yields a NumPy value, no mx.array",
            f"use {_mlx_twin(name)}",
            subject=argument.node,
        )


def _mlx_twin(name: str) -> str:
    twin = "mlx.core." + name.removeprefix("numpy.")
    if mlx_api.lookup(twin) is not None:
        return "mx." + twin.removeprefix("mlx.core.")
    return "MLX's own functions, or pull once at the end"


def _array_argument(arguments: tuple[Argument, ...]) -> Argument | None:
    for argument in arguments:
        if as_array(argument.value) is not None:
            return argument
    for argument in arguments:
        value = argument.value
        if isinstance(value, Sequence) and as_array(value.item) is not None:
            return argument
    return None


@check("HOST-PULL-004", on=BinaryFact)
def numpy_on_the_left(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``ndarray * x``: NumPy converts the mx.array and keeps the result."""
    numpy = as_numpy(fact.left)
    if numpy is None or as_array(fact.right) is None or numpy.scalar:
        return
    yield pull(
        "HOST-PULL-004",
        fact,
        module,
        fact.node,
        fact.right,
        f"a NumPy array on the left of `{fact.operator}` pulls the mx.array to the host and the "
        "result is a NumPy array",
        "put the mx.array first, or convert the NumPy array once with mx.array(...)",
    ).about(fact.right_node)


@check("HOST-PULL-005", on=CallFact, of=BUFFERS)
def buffer_export(fact: CallFact, module: Module) -> Iterator[Report]:
    """``memoryview(x)``, ``bytes(x)``, ``pickle.dumps(x)``."""
    name = fact.symbol
    argument = _array_argument(fact.arguments)
    if argument is not None and name is not None:
        yield pull(
            "HOST-PULL-005",
            fact,
            module,
            fact.node,
            argument.value,
            f"`{name.removeprefix('builtins.')}()` waits for the mx.array and reads its memory",
            "use mx.save or mx.save_safetensors to store arrays",
            subject=argument.node,
        )


@check("HOST-PULL-006", on=CallFact, of=TORCH_CONVERSIONS)
def torch_bridge(fact: CallFact, module: Module) -> Iterator[Report]:
    """``torch.from_numpy(np.array(x))``, ``torch.tensor(x.tolist())``."""
    name = fact.symbol
    if not fact.arguments:
        return
    argument = fact.arguments[0]
    inner = _pull_inside(argument)
    if inner is None and as_array(argument.value) is None:
        return
    report = pull(
        "HOST-PULL-006",
        fact,
        module,
        inner or fact.node,
        argument.value if inner is None else _pulled(fact, module, inner),
        f"`{name}()` of an mx.array's data waits for the array and copies it through the host",
        "convert once, at the border between the two libraries, outside hot loops",
        subject=argument.node,
    )
    if inner is not None:
        report = replace(report, node=fact.node, covers=(inner,), subject=inner)
    yield report


@check("HOST-PULL-007", on=CallFact, of=("mlx.core.array",))
def round_trip(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array(np.array(x))``: out to the host and back again."""
    if not fact.arguments:
        return
    argument = fact.arguments[0]
    inner = _pull_inside(argument)
    if inner is None:
        return
    report = pull(
        "HOST-PULL-007",
        fact,
        module,
        inner,
        _pulled(fact, module, inner),
        "the array goes to the host and comes back as a new constant",
        "use the array itself (mx.array(x) copies it on the device, .astype converts it); "
        "mx.stop_gradient(x) where detaching is meant",
    ).about(inner)
    yield replace(report, node=fact.node, covers=(inner,))


def _pulled(fact: Fact, module: Module, inner: cst.CSTNode) -> Value:
    """What the call ``inner``, recorded before the one around it, pulls."""
    for other in module.facts_of(fact.place.function):
        if other.node is inner and isinstance(other, CallFact):
            if isinstance(other.callee, BoundMember):
                return other.callee.owner
            argument = _array_argument(other.arguments)
            if argument is not None:
                return argument.value
    return UNKNOWN


def _pull_inside(argument: Argument) -> cst.CSTNode | None:
    """The call that pulls an array, if the argument's expression is one itself."""
    node = argument.node
    if not isinstance(node, cst.Call):
        return None
    pulls = getattr(argument.value, "pulls", ())
    value = argument.value
    if node not in pulls or not isinstance(value, (Numpy, Number, Sequence, Bytes)):
        return None
    # A NumPy function that computes something is no mere trip there and back.
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else None
    computes = isinstance(value, Numpy) and name not in numpy_api.CONVERSIONS
    return None if computes else node


@check("HOST-PULL-008", on=CallFact)
def element_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x[i].item()`` with the loop's own ``i``, ``for v in x: v.item()``."""
    callee = fact.callee
    subject: cst.BaseExpression | None = None
    value: Value | None = None
    if isinstance(callee, BoundMember) and callee.name == "item":
        subject, value = fact.receiver_node, callee.owner
    elif fact.symbol in ("builtins.int", "builtins.float", "builtins.bool") and fact.arguments:
        subject, value = fact.arguments[0].node, fact.arguments[0].value
    if subject is None or value is None or as_array(value) is None:
        return
    if not _is_element(subject, fact):
        return
    report = pull(
        "HOST-PULL-008",
        fact,
        module,
        fact.node,
        value,
        "the loop pulls an array element by element, one wait and one copy each",
        "compute on the whole array with mx functions, or call .tolist() once before the loop",
        subject=subject,
    )
    yield replace(report, replaces=("GRAPH-BREAK-001", "GRAPH-BREAK-002"))


def _is_element(subject: cst.BaseExpression, fact: Fact) -> bool:
    place = fact.place
    if not place.loops:
        return False
    if isinstance(subject, cst.Name):
        return subject.value in place.array_names
    if not isinstance(subject, cst.Subscript):
        return False
    names = {
        n.value
        for e in subject.slice
        if isinstance(e.slice, cst.Index)
        for n in _names(e.slice.value)
    }
    return bool(names & place.loop_names)


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Tuple, cst.BinaryOperation, cst.Element, cst.UnaryOperation)):
        for child in children(node):
            yield from _names(child)
