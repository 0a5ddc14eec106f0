"""DTYPE: constants and NumPy values that promote an array, or lose its values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.call_results import model_dtype as set_dtype
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.contexts import context_of
from embercoach.analysis.dataflow.value_sources import Source, Sources, returned_by, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import dotted, targets_of
from embercoach.analysis.values.facts import Argument, BinaryFact, CallFact, Fact, Operand, calls_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import (
    Array,
    Numpy,
    Sequence,
    any_item,
    as_array,
    as_number,
    as_numpy,
)
from embercoach.analysis.values.promotion import HALF, INTEGERS
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.arrays.pull_reports import pull
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

_NAMED = (cst.Name, cst.Attribute)


def is_kept_constant(
    fact: Fact, node: cst.BaseExpression, module: Module, *, of_any_shape: bool
) -> bool:
    """Return whether a name or attribute holds ``mx.array`` of a float, wherever it was made.

    Or, ``of_any_shape``, ``mx.zeros(shape)``, to which the operation itself may add in a loop, or a
    function that returns it. Public attributes of modules are parameters: ``set_dtype`` and loaded
    weights change them.
    """
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Call) if of_any_shape else _NAMED):
        return False
    if may_be_parameter(fact, node):
        return False
    sources = sources_of(module)
    ends = [
        end
        for end in sources.ends(sources.of(fact, node), through_callers=True)
        if not (of_any_shape and end.node is fact.node)
    ]
    return bool(ends) and all(
        _is_float(end, sources) or (of_any_shape and _is_filled(end, sources)) for end in ends
    )


def _is_float(end: Source, sources: Sources) -> bool:
    """Test for ``mx.array(0.5)`` and ``mx.array(dims**-0.5)``."""
    call = sources.library_call(end)
    if call is None or call.name != "mlx.core.array" or call.array is None:
        return False
    made = calls_of(sources.module).get(end.node)
    value = sources.value(call.array) if made is None else made.arguments[0].value
    number = as_number(value)
    has_dtype = isinstance(end.node, cst.Call) and len(end.node.args) > 1
    return number is not None and number.kind == "float" and not has_dtype


def _is_filled(end: Source, sources: Sources) -> bool:
    """Test for ``mx.zeros(shape)``, ``mx.triu(mx.full(shape, -1e9))`` without a dtype."""
    if not isinstance(end.node, cst.Call):
        return False
    if "float32" in contents_of(end.node).names:
        return False
    value = as_array(sources.value(end))
    return value is not None and value.literal and value.dtype == "float32"


def is_cast_back(fact: Fact, module: Module) -> bool:
    """Return whether a result, or what its function makes of it, is cast: ``y.astype(x.dtype)``."""
    function = fact.place.function
    results = () if function is None else returned_by(function)
    found = [node for value, _ in results for node in _parts(value)]
    if found and all(map(_is_cast, found)):
        return True
    statement = fact.place.statement
    names = {name for target in targets_of(statement) for name in contents_of(target).names}
    body = statement if function is None else function.node.body
    casts = (call.func for call in contents_of(body).calls if _is_cast(call))
    receivers = [cst.ensure_type(function, cst.Attribute).value for function in casts]
    return any(
        (isinstance(one, cst.Name) and one.value in names) or fact.node in contents_of(one)
        for one in receivers
    )


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [e.value for e in node.elements] if isinstance(node, cst.Tuple) else [node]


def _is_cast(node: cst.CSTNode) -> bool:
    """Test for ``y.astype(dtype)``, but for float32."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or not node.args:
        return False
    given = dotted(node.args[0].value) or ""
    return node.func.attr.value == "astype" and not given.endswith("float32")


def may_be_parameter(fact: Fact, node: cst.BaseExpression) -> bool:
    """Return whether an expression is a public attribute, perhaps of a module."""
    if not isinstance(node, cst.Attribute) or node.attr.value.startswith("_"):
        return False
    function = fact.place.function
    return function is None or function.cls is None or is_layer(function.cls)


def half_of_models(fact: Fact, module: Module) -> str | None:
    """Return the half-precision dtype that a file sets for its models, for an array in a module."""
    function = fact.place.function
    if function is None or function.cls is None or not is_layer(function.cls):
        return None
    return set_dtype(module)


#: Expressions of a Python number.
LITERALS = (cst.Float, cst.Integer, cst.UnaryOperation, cst.BinaryOperation)
ARITHMETIC = frozenset(["+", "-", "*", "/", "//", "%", "**", "@"])


@check("DTYPE-001", "DTYPE-004")
def strong_operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``x * mx.array(0.5)`` for a half-precision ``x``."""
    if fact.operator in ARITHMETIC:
        yield from _strong(fact, module, fact.left, fact.right)


@check("DTYPE-001", "DTYPE-004", of=("mlx.core.",))
def strong_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.multiply(x, mx.array(0.5))`` for a half-precision ``x``."""
    entry = fact.entry
    if entry is None or entry.dtype_rule not in ("promote", "float"):
        return
    operands: list[Operand] = []
    for param, argument in fact.matched:
        if not entry.dtype_from or param.name in entry.dtype_from:
            operands.extend(operands_of(argument))
    for first, second in combinations(operands[:MOST_STEPS], 2):
        yield from _strong(fact, module, first, second)


def operands_of(argument: Argument) -> list[Operand]:
    """Return the operands in an argument: itself, or the items of a list display."""
    value, node = argument.value, argument.node
    if isinstance(value, Sequence) and value.items is not None:
        if isinstance(node, (cst.List, cst.Tuple)) and len(node.elements) == len(value.items):
            return [Operand.of(v, e.value) for v, e in zip(value.items, node.elements, strict=True)]
        return []
    return [Operand.of(value, node)]


HELP = "Use a Python number (a weak scalar), or mx.array(value, dtype=x.dtype)"
HELP_OF_ARRAYS = "Give the constant the other dtype: `constant.astype(x.dtype)`"


def _strong(fact: Fact, module: Module, left: Operand, right: Operand) -> Iterator[Report]:
    of_models = half_of_models(fact, module)
    for operand, other in ((left, right), (right, left)):
        array, constant = operand.array, other.array
        if array is None or constant is None or constant.dtype not in (None, "float32"):
            continue
        dtype, is_scalar = array.dtype, constant.scalar
        may_be_half = dtype is None and not array.literal
        is_parameter = may_be_parameter(fact, other.node)
        if is_parameter and of_models is not None:
            continue  # it is cast with the model
        if may_be_half and not is_parameter:
            dtype = of_models
        if dtype not in HALF and not may_be_half:
            continue
        if not constant.literal:
            is_known = constant.dtype is not None or dtype in HALF
            is_scalar = is_known and is_kept_constant(
                fact, other.node, module, of_any_shape=array.dtype in HALF
            )
        elif constant.dtype is None:
            continue
        if not is_scalar and (not constant.literal or dtype != array.dtype):
            continue
        if dtype in HALF:
            if not constant.scalar and is_cast_back(fact, module):
                continue
            yield Report.at(
                fact,
                "DTYPE-001",
                node=other.node,
                message=f"float32 constant promotes a {dtype} array to float32",
                help=HELP if constant.scalar and constant.literal else HELP_OF_ARRAYS,
                change=_with_dtype(module, other.node, operand.node),
                subject=other.node,
            )
        elif may_be_half and is_scalar:
            yield Report.at(
                fact,
                "DTYPE-004",
                node=other.node,
                message="float32 scalar array promotes half-precision operands to float32",
                help=HELP,
                change=_weak_scalar(module, other.node),
                subject=other.node,
            )


def _with_dtype(
    module: Module, constant: cst.BaseExpression, subject: cst.BaseExpression
) -> ProposedFix | None:
    """Replace ``mx.array(0.5)`` by ``mx.array(0.5, dtype=x.dtype)``, if both are names."""
    node = subject
    while isinstance(node, cst.Attribute):
        node = node.value
    if not isinstance(node, cst.Name) or not isinstance(constant, cst.Call):
        return None
    dtype = f"{module.parsed.code(subject)}.dtype"
    if not isinstance(constant.func, cst.Attribute) or constant.func.attr.value != "array":
        return None
    function = module.parsed.code(constant.func)
    first = module.parsed.code(constant.args[0].value)
    text = f"{function}({first}, dtype={dtype})"
    return ProposedFix("Give the constant the array's dtype", False, ((constant, text),))


def _weak_scalar(module: Module, constant: cst.BaseExpression) -> ProposedFix | None:
    """Replace ``mx.array(0.5)`` by ``0.5``, which is correct for integers and booleans too."""
    if not isinstance(constant, cst.Call) or not isinstance(constant.func, cst.Attribute):
        return None
    if constant.func.attr.value != "array" or not isinstance(constant.args[0].value, LITERALS):
        return None
    text = module.parsed.code(constant.args[0].value)
    if not isinstance(constant.args[0].value, cst.Float):
        text = f"({text})"
    return ProposedFix("Use the Python number", False, ((constant, text),))


@check("DTYPE-002")
def numpy_truncation(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``int_array * np.float32(0.5)`` is all zeros."""
    array, numpy = fact.left.array, fact.right.numpy
    if array is not None and numpy is not None:
        yield from _truncation(fact, module, array, numpy, fact.right.node, fact.left.node)


@check("DTYPE-002", of=("mlx.core.",))
def numpy_truncation_in_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.add(int_array, np.array([0.5]))``."""
    if fact.entry is None or not fact.entry.elementwise or len(fact.arguments) < 2:
        return
    values = [(a.value, a.node) for a in fact.arguments[:2]]
    for (value, subject), (other, node) in (values, values[::-1]):
        array, numpy = as_array(value), as_numpy(other)
        if array is not None and numpy is not None:
            yield from _truncation(fact, module, array, numpy, node, subject)


def _truncation(
    fact: Fact,
    module: Module,
    array: Array,
    numpy: Numpy,
    node: cst.BaseExpression,
    array_node: cst.BaseExpression,
) -> Iterator[Report]:
    if array.dtype not in INTEGERS or numpy.kind != "float":
        return
    if numpy.scalar and numpy.dtype in ("float64", None):
        return  # np.float64 is a Python float, a weak scalar
    kind = "scalar" if numpy.scalar else "array"
    yield Report.at(
        fact,
        "DTYPE-002",
        node=node,
        message=f"NumPy {kind} truncated to {array.dtype}: the fraction is lost",
        help="Convert the array first (x.astype(mx.float32)), or pass float(value)",
        subject=node,
        change=_keeping_fraction(module, numpy, node, array_node, in_place=_is_in_place(fact)),
    )


def _is_in_place(fact: Fact) -> bool:
    return isinstance(fact.node, cst.AugAssign)


def _keeping_fraction(
    module: Module,
    numpy: Numpy,
    node: cst.BaseExpression,
    array_node: cst.BaseExpression,
    *,
    in_place: bool,
) -> ProposedFix | None:
    """``float(value)`` for a NumPy scalar, ``x.astype(mx.float32)`` before a NumPy array."""
    if in_place:
        return None
    if numpy.scalar:
        return _as_float(module, node)
    mx = mlx_alias(module)
    if mx is None or not isinstance(array_node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        return None
    text = f"{module.parsed.code(array_node)}.astype({mx}.float32)"
    return ProposedFix("Convert the array to float32", False, ((array_node, text),))


def _as_float(module: Module, node: cst.BaseExpression) -> ProposedFix:
    text = f"float({module.parsed.code(node)})"
    return ProposedFix("Pass a Python float", False, ((node, text),))


@check("DTYPE-003")
def numpy_scalar_on_left(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``np.float32(0.5) * x``: the result is a NumPy array."""
    numpy = fact.left.numpy
    if numpy is None or not numpy.scalar or fact.right.array is None:
        return
    report = pull(
        fact,
        "DTYPE-003",
        module,
        f"NumPy scalar left of `{fact.operator}`",
        value=fact.right.value,
        help="Put the array first, or make the number a Python float (math.sqrt, float(...))",
        subject=fact.right.node,
    )
    if report.context == "minor":
        report = replace(report, context=context_of(fact.place, module, by_calls=True))
    if numpy.kind == "float":
        report = replace(report, change=_as_float(module, fact.left.node))
    yield report


@check("DTYPE-005", of=("mlx.core.array",))
def numpy_scalars_in_list(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array([np.int64(1)])`` raises."""
    if not fact.arguments or not isinstance(fact.arguments[0].value, Sequence):
        return
    value = fact.arguments[0].value
    items = value.items if value.items is not None else (any_item(value),)
    numpy = [n for i in items if (n := as_numpy(i)) is not None]
    if any(n.scalar and n.dtype not in ("float64", "complex128") for n in numpy):
        yield Report.at(
            fact,
            message="`mx.array()` of a list of NumPy scalars raises a ValueError",
            help="Use mx.array(np.array(values)), or Python numbers (.tolist())",
        )
