"""DTYPE-008 to 010, 015 to 017, INDEX-006: integers that wrap, lose fractions or fail on GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import resolved
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.values.facts import (
    OPERATORS,
    Argument,
    BinaryFact,
    CallFact,
    Fact,
    IndexFact,
    ItemStoreFact,
    arithmetic_of,
    calls_of,
)
from embercoach.analysis.values.lattice import (
    Array,
    ArrayAt,
    BoundMember,
    DType,
    Value,
    as_array,
    as_number,
)
from embercoach.analysis.values.promotion import FLOATING, INTEGERS, UNSIGNED, promote
from embercoach.checks.arrays.compositions import computed
from embercoach.checks.registry import Report, check

#: Functions whose results are floats, whatever their arguments are.
_FLOATS = frozenset(
    f"mlx.core.{name}"
    for name in (
        *("mean", "var", "std", "softmax", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt"),
        *("sin", "cos", "divide", "logsumexp", "erf", "linspace", "reciprocal"),
        *("random.normal", "random.uniform"),
    )
)
#: Functions whose results are between 0 and 1.
_FRACTIONS = frozenset(
    (
        *("mlx.core.softmax", "mlx.core.sigmoid", "mlx.nn.softmax", "mlx.nn.sigmoid"),
        *("mlx.nn.Softmax", "mlx.nn.Sigmoid"),
    )
)
_UNIFORM = "mlx.core.random.uniform"


@check("DTYPE-016")
def fraction_in_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``counts[i] = 0.5`` for an int32 ``counts``."""
    array = as_array(fact.base)
    if array is None or array.dtype not in INTEGERS:
        return
    statement = fact.place.statement
    if not isinstance(statement, (cst.Assign, cst.AugAssign)):
        return
    divides = isinstance(statement, cst.AugAssign) and isinstance(
        statement.operator, cst.DivideAssign
    )
    sources = sources_of(module)
    source = sources.of(fact, statement.value)
    value = fact.value if isinstance(statement, cst.Assign) else None
    if divides or _has_fraction(value, source, sources):
        yield _report(fact, array.dtype, fact.node.value)


@check("DTYPE-016", of=[f".{name}" for name in ("add", "subtract", "multiply", "divide")])
def fraction_in_update(fact: CallFact, module: Module) -> Iterator[Report]:
    """``counts.at[i].add(0.5)`` for an int32 ``counts``."""
    owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
    array = as_array(owner.array) if isinstance(owner, ArrayAt) else None
    given = fact.positional(0)
    if array is None or given is None or array.dtype not in INTEGERS:
        return
    sources = sources_of(module)
    if _has_fraction(given.value, sources.of(fact, given.node), sources):
        yield _report(fact, array.dtype, given.node)


def _report(fact: Fact, dtype: str | None, node: cst.BaseExpression) -> Report:
    return Report.at(
        fact,
        "DTYPE-016",
        message=f"a float written to an {dtype} array loses its fraction",
        help="Make the array of floats: `mx.zeros(shape)`, `mx.array([0.0, ...])`",
        subject=node,
    )


def _has_fraction(value: Value | None, source: Source, sources: Sources) -> bool:
    """Return whether a value is a float that is not whole for all that is known."""
    number = None if value is None else as_number(value)
    if number is not None:
        if number.kind != "float":
            return False
        const = number.const
        return isinstance(const, float) and not const.is_integer()
    array = None if value is None else as_array(value)
    if array is not None and array.dtype is not None and array.dtype not in FLOATING:
        return False
    ends = computed(source, sources, bounded=True)
    return bool(ends) and all(_is_fractional(end, sources) for end in ends)


def _is_fractional(end: Source, sources: Sources) -> bool:
    """Return whether an expression divides, or is computed by a function of floats."""
    node = end.node
    if isinstance(node, cst.Float):
        return not float(node.value.replace("_", "")).is_integer()
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide):
            return True
        if isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply)):
            sides = (end.at(node.left), end.at(node.right))
            return any(_is_fractional(side, sources) for side in sides)
        return False
    call = sources.library_call(end)
    return call is not None and call.name in _FLOATS


@check("DTYPE-017", of=(".astype",))
def cast_fraction(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.sigmoid(x).astype(mx.int32)``."""
    dtype = fact.arguments[0].value if fact.arguments else None
    if not isinstance(dtype, DType) or dtype.name not in INTEGERS or fact.receiver_node is None:
        return
    sources = sources_of(module)
    ends = computed(sources.of(fact, fact.receiver_node), sources)
    if ends and all(_is_below_one(end, sources) for end in ends):
        yield Report.at(
            fact,
            message=f"values below 1 become 0 in {dtype.name}",
            help="Compare them (`p > 0.5`), or scale or round them first",
            subject=fact.receiver_node,
        )


def _is_below_one(end: Source, sources: Sources) -> bool:
    call = sources.library_call(end)
    if call is None:
        return False
    if call.name != _UNIFORM:
        return call.name in _FRACTIONS
    given = end.node.args if isinstance(end.node, cst.Call) else ()
    names = {a.keyword.value if a.keyword else "" for a in given}
    return names.isdisjoint(("", "low", "high"))


#: Dtypes that Metal's scatter does not support.
WIDE = frozenset(["int64", "uint64", "complex64"])


@check(
    "INDEX-006", of=[f"mlx.core.{name}" for name in ("take", "take_along_axis", "put_along_axis")]
)
def float_take(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.take(x, i / 2)``."""
    indices = fact.argument(1, "indices")
    array = None if indices is None else as_array(indices.value)
    if indices is None or array is None or (array.literal and array.scalar):
        return  # of a number that may be an int, whatever its annotation says
    if array.dtype in FLOATING:
        yield Report.at(
            fact,
            node=indices.node,
            message=f"{array.dtype} indices raise: indices must be integers",
            help="Divide with `//`, or cast with `.astype(mx.int32)`",
            subject=indices.node,
        )


@check("DTYPE-008")
def wide_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``x[index] = v`` of an int64 ``x``."""
    array = as_array(fact.base)
    if array is None or array.dtype not in WIDE or not _has_array_index(fact, module):
        return
    yield from _wide(fact, array.dtype)


def _has_array_index(fact: ItemStoreFact, module: Module) -> bool:
    from embercoach.checks.arrays.index_updates import array_indices

    found = array_indices(module)
    given = (e.slice.value for e in fact.node.slice if isinstance(e.slice, cst.Index))
    return any(node in found for node in given)


@check("DTYPE-008", of=("mlx.core.put_along_axis",))
def wide_put(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.put_along_axis(x, index, v, axis)`` of an int64 ``x``."""
    array = as_array(fact.arguments[0].value) if fact.arguments else None
    if array is not None and array.dtype in WIDE:
        yield from _wide(fact, array.dtype)


@check("DTYPE-008")
def wide_update(fact: IndexFact, module: Module) -> Iterator[Report]:
    """``x.at[index].add(v)`` of an int64 ``x``."""
    array = as_array(fact.base.array) if isinstance(fact.base, ArrayAt) else None
    if array is not None and array.dtype in WIDE and fact.form == "index":
        yield from _wide(fact, array.dtype)


def _wide(fact: Fact, dtype: str | None) -> Iterator[Report]:
    yield Report.at(
        fact,
        "DTYPE-008",
        message=f"scatter into a {dtype} array fails on the GPU",
        help="Make it int32: `mx.array(values, dtype=mx.int32)`",
    )


@check("DTYPE-009", of=("mlx.core.", ".astype"))
def float64_on_gpu(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.zeros(3, dtype=mx.float64)`` and ``x.astype(mx.float64)`` without a CPU stream."""
    is_cast = fact.symbol is None and len(fact.arguments) == 1
    dtype = fact.arguments[0] if is_cast else fact.keyword("dtype")
    if dtype is None or dtype.value != DType("float64") or fact.keyword("stream") is not None:
        return
    if "cpu" not in module.source:  # the device may be set anywhere in the file
        yield Report.at(
            fact,
            message="float64 is not supported on the GPU",
            help="Use float32, or compute on the CPU: `with mx.stream(mx.cpu):`",
        )


#: Functions around a difference that keep it from being negative.
GUARDS = frozenset(["where", "maximum", "minimum", "clip", "max", "min", "select"])
#: The largest values of integers that are smaller than Python's numbers become.
LARGEST_NARROW = {"int8": 127, "uint8": 255, "int16": 32_767, "uint16": 65_535}
_BYTES = frozenset(("int8", "uint8"))
#: A number that is added is small if the sum of so many of them fits.
_MOST_ADDED = 10
_BITS = (cst.BitAnd, cst.BitOr, cst.BitXor, cst.LeftShift, cst.RightShift, cst.Modulo)


@check("DTYPE-010", "DTYPE-015", of=tuple(OPERATORS))
def narrow_arithmetic(fact: BinaryFact | CallFact, module: Module) -> Iterator[Report]:
    """``image - 128``, ``image * 2`` and ``mx.subtract(image, other)`` of uint8 arrays."""
    operation = arithmetic_of(fact)
    if operation is None:
        return
    operator, first, second = operation.operator, operation.left.value, operation.right.value
    left, right, node = as_array(first), as_array(second), operation.left.node
    if operator == "-":
        if _is_unsigned_difference(left, right, second) and not _is_excluded(fact, node, module):
            assert left is not None
            yield Report.at(
                fact,
                "DTYPE-010",
                message=f"a negative difference of {left.dtype} arrays wraps to a large number",
                help="Cast first: `x.astype(mx.int32)`, or `mx.float32` for images",
                subject=node,
            )
    elif operator in ("+", "*", "**"):
        dtype = _wrapping(operator, left, right, first, second)
        if dtype is not None and not _is_small(fact, module):
            yield _wraps(fact, dtype, _SHOWN[operator], node)


_SHOWN = {"+": "sum", "*": "product", "**": "power"}


def _is_unsigned_difference(left: Array | None, right: Array | None, second: Value) -> bool:
    if left is None or left.dtype not in UNSIGNED or left.scalar:
        return False
    if right is not None:
        return right.dtype in UNSIGNED
    number = as_number(second)
    return number is not None and number.kind == "int" and bool(number.const)


def _is_excluded(fact: Fact, node: cst.BaseExpression, module: Module) -> bool:
    """Return whether the left operand is a result, or the statement selects or bounds values."""
    source = resolved(node, fact.place.function, module)
    if isinstance(source, cst.BinaryOperation):
        return True
    calls = contents_of(fact.place.statement, (cst.BaseSuite,)).calls
    calls = [*calls, source] if isinstance(source, cst.Call) else calls
    return any(_guards(call, fact.node, module) for call in calls)


def _guards(call: cst.Call, difference: cst.CSTNode, module: Module) -> bool:
    """Return whether a call keeps a difference from being negative.

    A number bounds operands alone: ``mx.maximum(x - 1, 0)`` is given what has wrapped.
    """
    name = last_name(call)
    if name not in GUARDS:
        return False
    made = calls_of(module).get(call) if name in ("maximum", "clip") else None
    if made is None:
        return True
    others = [a.value for a in _arguments(made) if difference not in contents_of(a.node)]
    is_around = len(others) < len(_arguments(made))
    return not is_around or any(as_array(value) is not None for value in others)


def _wrapping(
    operator: str, left: Array | None, right: Array | None, first: Value, second: Value
) -> str | None:
    """The dtype of a sum or product that may exceed it, None if it is wide or numbers are small."""
    if left is not None and right is not None:
        if left.scalar or right.scalar:
            return None
        dtype = promote(left.dtype, right.dtype)
        return dtype if dtype in LARGEST_NARROW and left.dtype == right.dtype else None
    array, number = (left, as_number(second)) if left is not None else (right, as_number(first))
    if array is None or number is None or array.scalar or array.dtype not in LARGEST_NARROW:
        return None
    if operator == "**" and array is right:
        return None
    const = number.const
    if number.kind != "int":
        return None
    if not isinstance(const, int):
        return array.dtype if operator == "*" or array.dtype in _BYTES else None
    return array.dtype if const >= (_MOST_ADDED if operator == "+" else 2) else None


def _is_small(fact: Fact, module: Module) -> bool:
    """Return whether operands are flags or parts of a number, or bits are taken of the result."""
    around = contents_of(fact.place.statement, (cst.BaseSuite,))
    if any(isinstance(node.operator, _BITS) for node in around.of(cst.BinaryOperation)):
        return True
    sources = sources_of(module)
    nodes = [a.node for a in _arguments(fact)]
    for node in nodes:
        if isinstance(node, cst.Call) and _is_widened(module, node):
            return True
        for end in computed(sources.of(fact, node), sources, bounded=True):
            made = end.node
            if isinstance(made, (cst.Comparison, cst.BooleanOperation)):
                return True
            if isinstance(made, cst.BinaryOperation) and isinstance(
                made.operator, (*_BITS, cst.FloorDivide, cst.Subtract)
            ):
                return True
            if _is_constant(end, sources) or _is_flag(end, sources):
                return True
    return False


def _is_flag(end: Source, sources: Sources) -> bool:
    value = as_array(sources.value(end))
    return value is not None and value.dtype == "bool"


def _is_constant(end: Source, sources: Sources) -> bool:
    """Test for ``mx.array([1, 2])`` and ``mx.zeros(shape)``."""
    call = sources.library_call(end)
    if call is None or not isinstance(end.node, cst.Call):
        return False
    name = call.name.removeprefix("mlx.core.")
    if name != "array":
        return name in ("zeros", "ones", "zeros_like", "ones_like", "eye", "arange")
    return call.array is not None and isinstance(call.array.node, (cst.List, cst.Tuple))


def _is_widened(module: Module, node: cst.Call) -> bool:
    """Test whether an operand is cast to 16 bits where it is used: as it is in 8 bits."""
    made = calls_of(module).get(node)
    given = None if made is None or not made.arguments else made.arguments[0].value
    name = made.callee.name if made is not None and isinstance(made.callee, BoundMember) else ""
    return name == "astype" and isinstance(given, DType) and given.name not in _BYTES


def _arguments(fact: Fact) -> list[Argument]:
    if isinstance(fact, CallFact):
        given = [a for a in fact.arguments if not a.star and a.keyword is None]
        receiver, node = fact.receiver, fact.receiver_node
        if receiver is not None and node is not None:
            given.append(Argument(receiver, node, None, ""))
        return given
    assert isinstance(fact, BinaryFact)
    return [Argument(o.value, o.node, None, "") for o in (fact.left, fact.right)]


@check("DTYPE-015", of=("mlx.core.square", ".square", "mlx.core.power"))
def narrow_square(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.square(samples)`` of int16 ``samples``."""
    yield from _unary(fact, module, "power" if fact.symbol == "mlx.core.power" else "square")


@check("DTYPE-015", of=[f"{p}{n}" for p in ("mlx.core.", ".") for n in ("cumsum", "cumprod")])
def narrow_running_sum(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.cumsum(hits)`` of uint8 ``hits``, whose sum stays uint8."""
    yield from _unary(fact, module, "running sum", counts_flags=True)


def _unary(
    fact: CallFact, module: Module, shown: str, *, counts_flags: bool = False
) -> Iterator[Report]:
    given = _arguments(fact)[-1:] if fact.symbol is None else _arguments(fact)[:1]
    array = as_array(given[0].value) if given else None
    if array is None or array.scalar or array.dtype not in LARGEST_NARROW:
        return
    if not (array.dtype in _BYTES and counts_flags) and _is_small(fact, module):
        return
    yield _wraps(fact, array.dtype or "", shown, given[0].node)


def _wraps(fact: Fact, dtype: str, shown: str, node: cst.BaseExpression) -> Report:
    return Report.at(
        fact,
        "DTYPE-015",
        message=f"{shown} of {dtype} arrays wraps above {LARGEST_NARROW[dtype]}",
        help="Cast first: `x.astype(mx.int32)`, or `mx.float32`",
        subject=node,
        replaces=("PYTHON-SCALAR-001", "PYTHON-SCALAR-002", "PYTHON-SCALAR-003"),
    )
