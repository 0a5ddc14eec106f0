"""HOST-PULL: an array's data leaves the device, or an array stands where Python ints belong."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis import mlx_api, numpy_api
from embercoach.analysis.contexts import context_of
from embercoach.analysis.facts import Argument, BinaryFact, CallFact, Fact, IndexFact
from embercoach.analysis.lattice import as_array, as_numpy, holds_arrays, options
from embercoach.analysis.module import Module, small_statements
from embercoach.analysis.promotion import FLOATING
from embercoach.analysis.results import match
from embercoach.analysis.values import (
    UNKNOWN,
    BoundMember,
    Bytes,
    Dict,
    Kernel,
    Number,
    Numpy,
    Sequence,
    Str,
    Symbol,
    Tree,
    Value,
)
from embercoach.checks.graph_break import pull
from embercoach.checks.registry import Report, check
from embercoach.checks.source import walk

BUFFERS = {"builtins.memoryview", "builtins.bytes", "builtins.bytearray", "pickle.dumps"} | {
    "struct.pack",
    "pickle.dump",
}
TORCH_CONVERSIONS = {"torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.from_dlpack"}
KEEP = "keep the computation in mx, or pull once at the end"


@check("HOST-PULL-001", on=CallFact)
def tolist_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.tolist()``."""
    callee = fact.callee
    if isinstance(callee, BoundMember) and callee.name == "tolist":
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


@check("HOST-PULL-002", "HOST-PULL-003", on=CallFact)
def numpy_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``np.array(x)``, ``np.exp(x)``, ``np.linalg.norm(x)``."""
    name = _symbol(fact)
    if name is None or not name.startswith("numpy.") or not numpy_api.takes_data(name):
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
            f"`{short}()` of an mx.array raises a TypeError: NumPy calls the array's own method with "
            "arguments that MLX does not take",
            f"use {_mlx_twin(name)}",
            context_of(fact.place, module.is_test, value=argument.value),
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
    )


@check("HOST-PULL-005", on=CallFact)
def buffer_export(fact: CallFact, module: Module) -> Iterator[Report]:
    """``memoryview(x)``, ``bytes(x)``, ``pickle.dumps(x)``."""
    name = _symbol(fact)
    if name not in BUFFERS:
        return
    argument = _array_argument(fact.arguments)
    if argument is not None:
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


@check("HOST-PULL-006", on=CallFact)
def torch_bridge(fact: CallFact, module: Module) -> Iterator[Report]:
    """``torch.from_numpy(np.array(x))``, ``torch.tensor(x.tolist())``."""
    name = _symbol(fact)
    if name not in TORCH_CONVERSIONS or not fact.arguments:
        return
    argument = fact.arguments[0]
    inner = _pull_inside(argument)
    if inner is None and as_array(argument.value) is None:
        return
    yield pull(
        "HOST-PULL-006",
        fact,
        module,
        fact.node,
        argument.value,
        f"`{name}()` of an mx.array's data waits for the array and copies it through the host",
        "convert once, at the border between the two libraries, outside hot loops",
        subject=argument.node,
        covers=(inner,) if inner is not None else (),
    )


@check("HOST-PULL-007", on=CallFact)
def round_trip(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array(np.array(x))``: out to the host and back again."""
    if _symbol(fact) != "mlx.core.array" or not fact.arguments:
        return
    argument = fact.arguments[0]
    inner = _pull_inside(argument)
    if inner is None:
        return
    yield pull(
        "HOST-PULL-007",
        fact,
        module,
        fact.node,
        argument.value,
        "the array goes to the host and comes back as a new constant",
        "use the array itself (mx.array(x) copies it on the device, .astype converts it); "
        "mx.stop_gradient(x) where detaching is meant",
        covers=(inner,),
    )


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
    elif _symbol(fact) in ("builtins.int", "builtins.float", "builtins.bool") and fact.arguments:
        subject, value = fact.arguments[0].node, fact.arguments[0].value
    if subject is None or value is None or as_array(value) is None:
        return
    if not _is_element(subject, fact):
        return
    yield pull(
        "HOST-PULL-008",
        fact,
        module,
        fact.node,
        value,
        "the loop pulls an array element by element, one wait and one copy each",
        "compute on the whole array with mx functions, or call .tolist() once before the loop",
        subject=subject,
        replaces=("GRAPH-BREAK-001", "GRAPH-BREAK-002"),
    )


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
        for child in node.children:
            yield from _names(child)


@check("HOST-PULL-009", "HOST-PULL-012", on=CallFact)
def array_as_int(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.zeros((n,))``, ``x.reshape(n, -1)``, ``range(n)`` with an array ``n``."""
    name = _symbol(fact)
    callee = fact.callee
    if name == "builtins.range":
        for argument in fact.arguments:
            if as_array(argument.value) is not None:
                yield _int_report(fact, module, argument, "`range()`")
        return
    if name is not None and name.startswith("mlx."):
        entry = mlx_api.lookup(name)
    elif isinstance(callee, BoundMember) and as_array(callee.owner) is not None:
        entry = mlx_api.array_member(callee.name)
    else:
        return
    if entry is None:
        return
    shown = f"`mx.{name.removeprefix('mlx.core.')}()`" if name else f"`.{callee.name}()`"  # type: ignore[attr-defined]
    for param, argument in match(entry, fact.arguments):
        if name == "mlx.core.arange" and as_array(argument.value) is not None:
            yield Report(
                "HOST-PULL-012",
                argument.node,
                fact.place,
                "mx.arange takes Python numbers: an mx.array raises a TypeError",
                "pass a Python number, such as one from `.shape`",
                context_of(fact.place, module.is_test, value=argument.value),
            )
        elif param.takes_only_ints and _holds_array_int(argument.value):
            yield _int_report(fact, module, argument, shown)


def _holds_array_int(value: Value) -> bool:
    if as_array(value) is not None:
        return True
    return (
        isinstance(value, Sequence)
        and value.kind in ("tuple", "list")
        and value.items is not None
        and any(as_array(i) is not None for i in value.items)
    )


def _int_report(fact: Fact, module: Module, argument: Argument, shown: str) -> Report:
    value = argument.value
    if isinstance(value, Sequence) and value.items is not None:
        value = next(i for i in value.items if as_array(i) is not None)
    return pull(
        "HOST-PULL-009",
        fact,
        module,
        argument.node,
        value,
        f"{shown} needs Python ints: an mx.array raises, or is evaluated to get one",
        "carry sizes, axes and counts as Python ints, such as those of `.shape`",
        subject=argument.node,
    )


@check("HOST-PULL-009", "HOST-PULL-012", on=IndexFact)
def array_index(fact: IndexFact, module: Module) -> Iterator[Report]:
    """``names[i]``, ``names[:n]`` and ``x[:n]`` with arrays ``i`` and ``n``."""
    if fact.form == "slice" and as_array(fact.base) is not None:
        yield Report(
            "HOST-PULL-012",
            fact.node,
            fact.place,
            "an mx.array as a slice bound of an mx.array raises a ValueError",
            "use a Python int, or mx.slice / mx.take with the array as start or indices",
            context_of(fact.place, module.is_test, value=fact.index),
        )
    elif all(isinstance(o, (Sequence, Str)) for o in options(fact.base)):
        if not any(isinstance(o, Dict) for o in options(fact.base)):
            yield pull(
                "HOST-PULL-009",
                fact,
                module,
                fact.node,
                fact.index,
                "a Python sequence needs an int index: the mx.array is evaluated to get one",
                "index with a Python int, or stack the items into one mx.array and use mx.take",
                subject=fact.node,
            )


@check("HOST-PULL-010", on=CallFact)
def array_grid(fact: CallFact, module: Module) -> Iterator[Report]:
    """A kernel's ``grid`` or ``threadgroup`` that holds arrays."""
    if not isinstance(fact.callee, Kernel):
        return
    for name in ("grid", "threadgroup"):
        argument = fact.keyword(name)
        if argument is None or not isinstance(argument.value, Sequence):
            continue
        for item in argument.value.items or ():
            array = as_array(item)
            if array is not None and array.dtype not in FLOATING:
                yield pull(
                    "HOST-PULL-010",
                    fact,
                    module,
                    argument.node,
                    item,
                    f"`{name}` holds an mx.array, which is evaluated to get an int",
                    f"`{name}` takes three Python ints: compute them from `.shape`",
                )
                break


@check("HOST-PULL-011", on=CallFact)
def eval_in_inner_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval`` in the inner of two loops, or in a layer."""
    if _symbol(fact) != "mlx.core.eval" or fact.place.periodic:
        return
    context = context_of(fact.place, module.is_test)
    inner = fact.place.loops >= 2 and _is_carried(fact)
    if not (inner or context == "forward") or not _passes_arrays(fact) or _is_training(fact):
        return
    if inner:
        what = "`mx.eval` in an inner loop waits for the GPU again and again"
        help_text = "evaluate once an outer iteration: larger graphs let MLX overlap work"
    else:
        what = "`mx.eval` in a layer's forward pass cuts the graph at every layer"
        help_text = "evaluate in the training or generation loop, after the whole step"
    yield Report("HOST-PULL-011", fact.node, fact.place, what, help_text, context)


def _is_training(fact: CallFact) -> bool:
    """Whether the function updates weights: one evaluation a step is how to train with MLX."""
    if any(isinstance(o, Tree) for a in fact.arguments for o in options(a.value)):
        return True
    function = fact.place.function
    return function is not None and any(
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("update", "apply_gradients")
        and len(node.args) == 2
        for node in walk(function.node)
    )


def _is_carried(fact: CallFact) -> bool:
    """Whether the inner loop computes what is evaluated from its own value of the round before.

    Such a chain needs one wait at its end. What is not carried on may be evaluated to bound
    memory, or to measure time.
    """
    loop = fact.place.loop
    if loop is None:
        return False
    names = {n.value for a in fact.arguments for n in _roots(a.node)}
    for statement in small_statements(loop.body):
        if isinstance(statement, cst.AugAssign):
            targets = {n.value for n in _roots(statement.target)}
            if isinstance(statement.target, cst.Subscript) and targets & names:
                return True
        elif isinstance(statement, cst.Assign):
            targets = {n.value for t in statement.targets for n in _roots(t.target)} & names
            value = statement.value
            if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
                continue  # a plain sum: the graph of each round hangs on its own
            if targets & {n.value for n in walk(value) if isinstance(n, cst.Name)}:
                return True
    return False


def _roots(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that an expression's values are reached from."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _roots(element.value)


def _passes_arrays(fact: CallFact) -> bool:
    return any(holds_arrays(a.value) or a.value is UNKNOWN for a in fact.arguments)


def _symbol(fact: CallFact) -> str | None:
    return fact.callee.name if isinstance(fact.callee, Symbol) else None
