"""HOST-PULL: an array's data leaves the device, and mx.eval where nothing needs it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import numpy_api
from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.contexts import (
    EFFECTS,
    context_of,
    error_of,
)
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of, is_pull
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import is_scalar
from embercoach.analysis.values.facts import Argument, BinaryFact, CallFact, Fact
from embercoach.analysis.values.inheritance import is_forward
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    BoundMember,
    Bytes,
    Number,
    Numpy,
    Sequence,
    Tree,
    Value,
    any_item,
    as_array,
    definite_array,
    holds_arrays,
    is_traced,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.arrays.pull_reports import pull
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.hoisted_reads import element_fix, iteration_fix
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.terminal_text import quoted

#: What makes the gradient function of a training step.
GRADIENTS = frozenset(("mlx.core.grad", "mlx.core.value_and_grad", "mlx.nn.value_and_grad"))


@check("HOST-PULL-011", of=("mlx.core.eval", "mlx.core.async_eval"))
def eval_in_trace(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(y)`` of an array that depends on the arguments of a compiled function."""
    function, statement = fact.place.function, fact.place.statement
    levels = layout_of(module, function).outward(statement)
    if function is None or any(isinstance(level.owner, (cst.If, cst.Try)) for level in levels):
        return  # ``if self.timing:``, which is off where the function is compiled
    values = [a.value for a in fact.arguments if is_traced(a.value) and holds_arrays(a.value)]
    if any(error_of(fact.place, v) for v in values):
        short = "async_eval" if fact.symbol == "mlx.core.async_eval" else "eval"
        yield Report.at(
            fact,
            message=f"`mx.{short}()` {EFFECTS['compiled']}",
            help="Evaluate the result after the compiled call",
            context="compiled",
        )


@check("HOST-PULL-011", of=("mlx.core.eval",))
def eval_in_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval`` in the inner of two loops, in a layer, or before each read of a token."""
    loop = fact.place.loop
    if fact.place.periodic or error_of(fact.place, None) or not _passes_arrays(fact):
        return
    names = {n.value for a in fact.arguments for n in _roots(a.node)}
    is_carried = loop is not None and fact.place.loops > 0 and _is_carried(names, loop)
    context = "minor"
    if is_carried and loop is not None and _reads(names, loop):
        where = "every iteration, before the next one is started"
        help_text = "Compute the next result, and call mx.async_eval on it, before this one is read"
    elif is_carried and fact.place.loops > 1:
        if loop is None or not _has_operations_only(loop, module):
            return  # such as a step of a model
        where, help_text = "every iteration of an inner loop", "Evaluate once per outer iteration"
        context = context_of(fact.place, module)
    elif is_forward(fact.place.function):
        where = "every forward pass"
        help_text = "Evaluate in the training or generation loop, after the whole step"
    else:
        return
    if _is_training(fact, module) or _is_explained(fact, module):
        return
    message = f"`mx.eval()` synchronizes with the GPU in {where}"
    yield Report.at(fact, message=message, help=help_text, context=context)


def _is_explained(fact: CallFact, module: Module) -> bool:
    """Test whether a comment above the call, or at the end of its line, says why it is there."""
    span = module.parsed.spans({fact.node: fact.place.statement}).get(fact.node)
    if span is None:
        return False
    lines = _lines(module)
    after = lines[span.end_line - 1][span.end_column :]
    before = lines[span.line - 2] if span.line > 1 else ""
    return after.lstrip().startswith("#") or before.lstrip().startswith("#")


@kept_for_file
def _lines(module: Module) -> list[str]:
    return module.source.splitlines()


def _is_training(fact: CallFact, module: Module) -> bool:
    """Test whether the function updates weights: training in MLX evaluates once per step."""
    if any(isinstance(o, Tree) for a in fact.arguments for o in options(a.value)):
        return True
    function = fact.place.function
    if fact.place.loops and _takes_gradients(function, module):
        return True  # by hand, such as ``w = w - rate * gradient(w)``; a sweep may be around
    return function is not None and any(
        isinstance(node.func, cst.Attribute)
        and node.func.attr.value in ("update", "apply_gradients")
        and len(node.args) == 2
        for node in contents_of(function.node).calls
    )


def _takes_gradients(function: FunctionInfo | None, module: Module) -> bool:
    """Test whether a function, or one that it defines or calls, takes a gradient."""
    inner = [f for f in module.functions if function is not None and f.outer is function]
    called = [] if function is None else [f for f in function.calls if f.module is module]
    return any(
        isinstance(fact, CallFact) and fact.symbol in GRADIENTS
        for info in (function, *inner, *called)
        for fact in module.facts_of(info)
    )


def _is_carried(names: set[str], loop: cst.For | cst.While) -> bool:
    """Test whether a loop computes one of the names from its value in the last iteration.

    Such a chain needs one synchronization at its end. Other arrays may be evaluated to bound
    memory, or to measure time.
    """
    fresh: set[str] = set()  # already reassigned in this iteration
    read: set[str] = set()
    for statement in contents_of(loop.body).statements:
        if isinstance(statement, cst.AugAssign):
            targets = {n.value for n in _roots(statement.target)}
            if isinstance(statement.target, cst.Subscript) and targets & names:
                return True
        elif isinstance(statement, cst.Assign):
            value = statement.value
            targets = {n.value for t in statement.targets for n in _roots(t.target)}
            # In a plain sum the graphs of the iterations are independent.
            if not (isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add)):
                read |= (names & contents_of(value).names) - fresh
            if targets & read:
                return True
            fresh |= targets
    return False


def _has_operations_only(loop: cst.For | cst.While, module: Module) -> bool:
    """Test whether a loop only computes by MLX's operations, which take less time than a wait."""
    calls = evaluation_of(module).calls
    facts = map(calls.get, contents_of(loop.body).calls)
    return all(
        fact is not None
        and (fact.array is not None or (fact.symbol or "").startswith(("mlx.core.", "builtins.")))
        for fact in facts
    )


def _reads(names: set[str], loop: cst.For | cst.While) -> bool:
    """Test whether a loop reads one of the arrays by a method: ``y.item()``, ``y[0].tolist()``."""
    pulls = filter(is_pull, contents_of(loop.body).calls)
    return any(not names.isdisjoint(contents_of(call.func).names) for call in pulls)


def _roots(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the names that an expression's values are derived from."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _roots(element.value)


def _passes_arrays(fact: CallFact) -> bool:
    return any(holds_arrays(a.value) or a.value is UNKNOWN for a in fact.arguments)


BUFFERS = {"builtins.memoryview", "builtins.bytes", "builtins.bytearray", "pickle.dumps"} | {
    "struct.pack",
    "pickle.dump",
}
TORCH_CONVERSIONS = {"torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.from_dlpack"}
KEEP = "Keep the computation in mx, or convert once at the end"


@check("HOST-PULL-001", of=(".tolist",))
def tolist_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x.tolist()``."""
    callee = fact.callee
    assert isinstance(callee, BoundMember)
    if fact.array is None:
        return
    report = pull(
        fact,
        "HOST-PULL-001",
        module,
        "`.tolist()`",
        value=callee.owner,
        help=KEEP,
        array_node=fact.receiver_node,
    )
    yield replace(report, change=_row_fix(fact, module))


def _row_fix(fact: CallFact, module: Module) -> ProposedFix | None:
    """Read the array once where a loop reads its rows."""
    subject = fact.receiver_node
    if isinstance(subject, cst.Subscript) and fact.place.loops and fact.array is not None:
        return element_fix(module, fact.place, subject, fact.array, replaced=fact.node, is_row=True)
    if isinstance(subject, cst.Name) and subject.value in fact.place.array_names:
        return iteration_fix(module, fact.place, subject)
    return None


@check("HOST-PULL-002", "HOST-PULL-003", "API-003", of=("numpy.",))
def numpy_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``np.array(x)``, ``np.exp(x)``, ``np.linalg.norm(x)``."""
    name = fact.symbol
    if name is None or not numpy_api.takes_data(name):
        return
    argument = _array_argument(fact.arguments)
    if argument is None:
        return
    short = quoted("np." + name.removeprefix("numpy."), 32)
    if name.rpartition(".")[2] in numpy_api.CONVERSIONS:
        yield pull(
            fact,
            "HOST-PULL-002",
            module,
            f"`{short}()`",
            value=argument.value,
            help=KEEP,
            array_node=argument.node,
        )
        return
    is_reduction = name.count(".") == 1 and name[6:] in numpy_api.RAISING
    if is_reduction and type(argument.value) is Array:
        if not is_expected(module, fact.place.statement, REFUSED, broadly=True):
            yield Report.at(
                fact,
                "API-003",
                message=f"`{short}()` raises a TypeError on an mx.array",
                help=_mlx_twin(fact, name),
                replaces=("HOST-PULL-003",),
            )
        return
    is_list = isinstance(argument.value, Sequence)
    yield pull(
        fact,
        "HOST-PULL-003",
        module,
        f"`{short}()` on {'a list of mx.arrays' if is_list else 'an mx.array'}",
        value=argument.value,
        help="Stack the arrays first: `mx.stack(...)`"
        if is_list and is_reduction
        else _mlx_twin(fact, name),
        array_node=argument.node,
    )


def _mlx_twin(fact: CallFact, name: str) -> str:
    twin = "mlx.core." + name.removeprefix("numpy.")
    entry = mlx_api.lookup(twin)
    if entry is None:
        return "Use MLX's own functions, or convert once at the end"
    short = "mx." + twin.removeprefix("mlx.core.")
    required = [p.name for p in entry.params if not p.has_default]
    if len(required) <= len(fact.arguments):
        return f"Use {short}"
    # ``np.where(mask)``: MLX has no function whose result's shape depends on the data.
    return f"Select with {short}({', '.join(required)}), or convert once at the end"


def _array_argument(arguments: tuple[Argument, ...]) -> Argument | None:
    for argument in arguments:
        if as_array(argument.value) is not None:
            return argument
    for argument in arguments:
        value = argument.value
        if isinstance(value, Sequence) and as_array(any_item(value)) is not None:
            return argument
    return None


@check("HOST-PULL-004")
def numpy_on_the_left(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``ndarray * x``: NumPy converts the mx.array and keeps the result."""
    numpy = fact.left.numpy
    if numpy is None or fact.right.array is None or numpy.scalar:
        return
    first = evaluation_of(module).operations.get(fact.left.node)
    if first is not None and first.left.numpy is not None and first.right.array is not None:
        return  # ``(ndarray @ x) / y``: the first operation is reported
    yield pull(
        fact,
        "HOST-PULL-004",
        module,
        f"NumPy array left of `{fact.operator}`",
        value=fact.right.value,
        help="Put the mx.array first, or convert the NumPy array once with mx.array(...)",
        subject=fact.right.node,
    )


@check("HOST-PULL-005", of=BUFFERS)
def buffer_export(fact: CallFact, module: Module) -> Iterator[Report]:
    """``memoryview(x)``, ``bytes(x)``, ``pickle.dumps(x)``."""
    name = fact.symbol
    argument = _array_argument(fact.arguments)
    if argument is not None and name is not None:
        yield pull(
            fact,
            "HOST-PULL-005",
            module,
            f"`{name.removeprefix('builtins.')}()` on an mx.array",
            value=argument.value,
            help="Use mx.save or mx.save_safetensors to store arrays",
            array_node=argument.node,
        )


@check("HOST-PULL-006", of=TORCH_CONVERSIONS)
def torch_bridge(fact: CallFact, module: Module) -> Iterator[Report]:
    """``torch.from_numpy(np.array(x))``, ``torch.tensor(x.tolist())``."""
    name = fact.symbol
    if not fact.arguments:
        return
    argument = fact.arguments[0]
    inner = _pull_inside(argument)
    if inner is None and as_array(argument.value) is None:
        return
    yield pull(
        fact,
        "HOST-PULL-006",
        module,
        f"`{name}()`",
        value=argument.value if inner is None else _pulled(fact, module, inner),
        help="Convert once, outside hot loops",
        pulled_by=inner,
        array_node=argument.node,
    )


@check("HOST-PULL-007", of=("mlx.core.array",))
def round_trip(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array(np.array(x))``: out to the host and back again."""
    if not fact.arguments:
        return
    argument = fact.arguments[0]
    inner = _pull_inside(argument)
    if inner is None:
        return
    value = _pulled(fact, module, inner)
    report = pull(
        fact,
        "HOST-PULL-007",
        module,
        "host round trip",
        value=value,
        help="Use the array itself, mx.array(x) to copy it, or mx.stop_gradient(x) to detach it",
        pulled_by=inner,
    )
    yield replace(report, change=_round_trip_fix(module, inner, value))


def _round_trip_fix(module: Module, inner: cst.CSTNode, value: Value) -> ProposedFix | None:
    """``mx.array(np.array(x))`` to ``mx.array(x)``: it keeps the dtype, and the gradient."""
    array = definite_array(value)
    if (
        array is None
        or not isinstance(inner, cst.Call)
        or not isinstance(inner.func, cst.Attribute)
    ):
        return None
    name = inner.func.attr.value
    if name == "tolist" or (name == "item" and is_scalar(module, inner.func.value)):
        source = inner.func.value if not inner.args else None
    elif name in ("array", "asarray") and len(inner.args) == 1 and not inner.args[0].star:
        source = inner.args[0].value
    else:
        return None
    if source is None:
        return None
    text = module.parsed.code(source)
    return ProposedFix("Copy the array on the device", False, ((inner, text),))


def _pulled(fact: Fact, module: Module, inner: cst.CSTNode) -> Value:
    """Return the array that the call ``inner`` pulls, recorded before the call around it."""
    for other in module.facts_of(fact.place.function):
        if other.node is inner and isinstance(other, CallFact):
            if isinstance(other.callee, BoundMember):
                return other.callee.owner
            argument = _array_argument(other.arguments)
            if argument is not None:
                return argument.value
    return UNKNOWN


def _pull_inside(argument: Argument) -> cst.CSTNode | None:
    """Return the call that pulls an array, if the argument is such a call itself."""
    node = argument.node
    if not isinstance(node, cst.Call):
        return None
    pulls = getattr(argument.value, "pulls", ())
    value = argument.value
    if node not in pulls or not isinstance(value, (Numpy, Number, Sequence, Bytes)):
        return None
    # A NumPy function that computes something is more than a round trip.
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else None
    computes = isinstance(value, Numpy) and name not in numpy_api.CONVERSIONS
    return None if computes else node


@check("HOST-PULL-008", of=(".item", "builtins.int", "builtins.float", "builtins.bool"))
def element_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``x[i].item()`` with the loop's own ``i``, ``for v in x: v.item()``."""
    callee = fact.callee
    subject: cst.BaseExpression | None = None
    value: Value = UNKNOWN
    if isinstance(callee, BoundMember):
        subject, value = fact.receiver_node, callee.owner
    elif fact.arguments:
        subject, value = fact.arguments[0].node, fact.arguments[0].value
    if subject is None or not _is_element(subject, fact) or as_array(value) is None:
        return
    report = pull(
        fact,
        "HOST-PULL-008",
        module,
        "per-element read",
        value=value,
        help="Compute on the whole array with mx functions",
        array_node=subject,
    )
    change = _element_fix(fact, module, subject, value)
    yield replace(report, change=change, replaces=("GRAPH-BREAK-001", "GRAPH-BREAK-002"))


def _element_fix(
    fact: CallFact, module: Module, subject: cst.BaseExpression, value: Value
) -> ProposedFix | None:
    array = as_array(value)
    if isinstance(subject, cst.Name):
        return iteration_fix(module, fact.place, subject)
    if array is None or not isinstance(subject, cst.Subscript):
        return None
    replaced = fact.node if isinstance(fact.callee, BoundMember) else subject
    return element_fix(module, fact.place, subject, array, replaced=replaced)


def _is_element(subject: cst.BaseExpression, fact: Fact) -> bool:
    place = fact.place
    if not place.loops:
        return False
    if isinstance(subject, cst.Name):
        return subject.value in place.array_names
    if not isinstance(subject, cst.Subscript):
        return False
    indices = (e.slice for e in subject.slice if isinstance(e.slice, cst.Index))
    return any(not place.loop_names.isdisjoint(contents_of(i, _NOT_INDICES).names) for i in indices)


#: Expressions in an index whose own names are none: ``x[y[i]]``, ``x[f(i)]``.
_NOT_INDICES = (cst.Attribute, cst.Call, cst.Subscript)
