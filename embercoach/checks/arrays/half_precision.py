"""DTYPE-006, 007, 013, 018, 019: numbers that exceed a half, also by functions of other files."""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst
from msgspec.structs import replace

from embercoach.analysis.calls.binding import bind
from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.calls.functions import must_execute
from embercoach.analysis.dataflow.layout import assigned_to
from embercoach.analysis.dataflow.scopes import (
    CONSTRUCTORS,
    made_in_init,
    resolved,
    scope_of,
)
from embercoach.analysis.dataflow.value_sources import (
    Source,
    Sources,
    default_of,
    field_default,
    sources_of,
)
from embercoach.analysis.evaluate.must_execute import MustExecute
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.node_shapes import is_scalar
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values import promotion
from embercoach.analysis.values.facts import (
    Argument,
    BinaryFact,
    CallFact,
    Fact,
    ItemStoreFact,
    Operand,
    ProjectCall,
    calls_of,
)
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    BoundMember,
    DType,
    Symbol,
    Value,
    as_array,
    as_number,
    definite_array,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.values.promotion import HALF, UNSIGNED
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.arrays.compositions import MEAN, SUM, squared
from embercoach.checks.arrays.narrow_integers import LARGEST_NARROW, narrow_arithmetic
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias
from embercoach.terminal_text import in_file, quoted

#: Half of the smallest positive number: this and smaller ones round to 0.
_SMALLEST = 2.0**-25
_NORM = "mlx.core.linalg.norm"
_WITH_NUMBERS = ("add", "subtract", "multiply", "divide", "maximum", "clip")


@check("DTYPE-018")
def small_operand(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``h + 1e-8`` for a float16 ``h``."""
    if fact.operator in "+-*/":
        for array, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if array.array is not None and array.array.dtype == "float16":
                yield from _small(fact, other, module)


@check("DTYPE-018", of=[f"mlx.core.{name}" for name in _WITH_NUMBERS])
def small_argument(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.maximum(h, 1e-8)`` for a float16 ``h``."""
    arrays = [a for a in (as_array(b.value) for b in fact.arguments) if a is not None]
    if arrays and all(array.dtype == "float16" for array in arrays):
        for argument in fact.arguments:
            yield from _small(fact, argument, module)


@check("DTYPE-018", of=("mlx.core.array", "mlx.core.full"))
def small_constant(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array(1e-8, dtype=mx.float16)``, and ``dtype=x.dtype``, which may be that."""
    index = 1 if fact.symbol == "mlx.core.full" else 0
    value, dtype = fact.positional(index), fact.argument(index + 1, "dtype")
    if value is None or dtype is None:
        return
    if dtype.value == DType("float16"):
        yield from _small(fact, value, module)
    elif dtype.value == DType(None) and isinstance(dtype.node, cst.Attribute):
        shown = quoted(module.parsed.code(dtype.node), 20)
        yield from _small(fact, value, module, f"where `{shown}` is float16")


def _small(
    fact: Fact, given: Operand | Argument, module: Module, where: str = "in float16"
) -> Iterator[Report]:
    if as_array(given.value) is not None:
        return
    sources = sources_of(module)
    const = _constant(sources.of(fact, given.node), sources)
    if const is not None and 0 < abs(const) <= _SMALLEST:
        yield Report.at(
            fact,
            "DTYPE-018",
            message=f"{const:g} is 0 {where}, whose smallest is 6e-08",
            help="Compute in float32, or use at least 1e-07",
            replaces=("PYTHON-SCALAR-001", "PYTHON-SCALAR-002", "PYTHON-SCALAR-003"),
        )


def _constant(source: Source, sources: Sources) -> float | None:
    """Return the number that an expression is, that of a parameter's default among them."""
    ends = sources.ends(source, through_callers=True)
    if len(ends) != 1:
        return None
    end = default_of(ends[0]) or ends[0]
    number = as_number(sources.value(end))
    return number.const if number is not None and isinstance(number.const, float) else None


@check("DTYPE-019", of=(*SUM, *MEAN, ".sum", ".mean", _NORM))
def square_overflow(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.mean(mx.square(h))`` for a float16 ``h``."""
    sources = sources_of(module)
    call = sources.library_call(sources.of(fact, fact.node))
    if call is None or call.array is None:
        return
    given = fact.positional(0)
    value = fact.array if fact.symbol is None else given and as_array(given.value)
    if value is None or value.dtype != "float16":
        return
    if fact.symbol == _NORM:
        shown = "norm"
    elif squared(call.array, sources) is not None:
        shown = f"{call.name.rpartition('.')[2]} of squares"
    else:
        return
    yield Report.at(
        fact,
        message=f"{shown} in float16 is infinite if a value exceeds 255",
        help="Cast first: `x.astype(mx.float32)`, or use `mx.fast.rms_norm`",
        subject=call.array.node,
    )


#: Functions that sum the squares of deviations in the dtype of their argument.
_DEVIATIONS = ("mlx.core.std", "mlx.core.var", ".std", ".var")
#: What the last axis of an array is called that has a vocabulary's size.
_OVER_VOCABULARY = frozenset({"logits", "logprobs", "log_probs", "logit"})


@check("DTYPE-019", of=_DEVIATIONS)
def deviation_overflow(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.std(h)`` for a float16 ``h``, and ``mx.std(logits, axis=-1)`` of any model."""
    given = fact.positional(0)
    value = fact.array if fact.symbol is None else given and as_array(given.value)
    node = fact.receiver_node if fact.symbol is None else given and given.node
    if value is None or node is None:
        return
    name = (dotted(node) or "").rpartition(".")[2]
    is_wide = value.dtype is None and name in _OVER_VOCABULARY and value.traced
    if value.dtype != "float16" and not is_wide:
        return
    short = (fact.symbol or dotted(fact.node.func) or "").rpartition(".")[2]
    what = f"`{short}` of logits" if is_wide else f"`{short}`"
    yield Report.at(
        fact,
        message=f"{what} in float16 is infinite if the squares sum to 65520",
        help="Cast first: `x.astype(mx.float32)`",
        subject=node,
    )


#: The smallest value that rounds to infinity: half a step above the largest finite one.
LARGEST = {"float16": 65520.0, "bfloat16": 3.3961775292304601e38}
#: Whole numbers up to this one are exact.
WHOLE = {"float16": 2048, "bfloat16": 256}
FILLING = ("mlx.core.array", "mlx.core.full")
ARITHMETIC = ("mlx.core.add", "mlx.core.subtract", "mlx.core.multiply", "mlx.core.divide")
ATTENTION = "mlx.core.fast.scaled_dot_product_attention"


@check("DTYPE-006", of=FILLING)
def half_overflow(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.array(-3.4e38, dtype=mx.float16)`` is -inf."""
    assert isinstance(fact.callee, Symbol)
    index = 1 if fact.callee.name == "mlx.core.full" else 0
    value = fact.positional(index)
    dtype = fact.argument(index + 1, "dtype")
    number = None if value is None else as_number(value.value)
    if value is None or dtype is None or number is None or not is_large(number.const):
        return
    for report in _overflow(fact, value.value, _dtype_of(fact, dtype, module)):
        yield replace(report, change=_largest_finite(module, value, dtype))


def is_large(const: object) -> bool:
    """Test for a number that overflows a half: who passes the dtype is asked for these alone."""
    return isinstance(const, (int, float)) and math.inf > abs(const) >= min(LARGEST.values())


def _largest_finite(module: Module, value: Argument, dtype: Argument) -> ProposedFix | None:
    """``mx.finfo(mx.float16).min`` for a number below it."""
    mx, number = mlx_alias(module), as_number(value.value)
    if mx is None or number is None or not isinstance(dtype.node, (cst.Name, cst.Attribute)):
        return None
    assert isinstance(number.const, (int, float))
    end = "min" if number.const < 0 else "max"
    name = module.parsed.code(dtype.node)
    text = f"{mx}.finfo({name}).{end}"
    return ProposedFix(f"Use `finfo({name}).{end}`", False, ((value.node, text),))


@check("DTYPE-006")
def overflow_in_arithmetic(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``h - 1e9`` for a float16 ``h``."""
    if fact.operator not in "+-*/":
        return
    for value, other in ((fact.left, fact.right), (fact.right, fact.left)):
        if value.array is not None and value.array.dtype in HALF:
            yield from _overflow(fact, other.value, value.array.dtype)


@check("DTYPE-006", "DTYPE-022")
def scaled_mask(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``(1 - mask.astype(x.dtype)) * -1e9``, whose zeros become NaN in float16."""
    if fact.operator != "*":
        return
    for value, other in ((fact.left, fact.right), (fact.right, fact.left)):
        number = as_number(other.value)
        const = None if number is None else number.const
        if value.array is None or value.array.dtype is not None or not is_large(const):
            continue
        cast = _cast_to(value.node, fact, module)
        if cast is None:
            continue
        dtype = _dtype_of(fact, cast, module)
        if dtype is not None:
            yield from _overflow(fact, other.value, dtype)
        elif (dotted(cast.node) or "").endswith(".dtype"):
            yield Report.at(
                fact,
                "DTYPE-022",
                message=f"{const:g} is infinite in float16: the mask's zeros become NaN",
                help="Use mx.where(keep, 0, mx.finfo(x.dtype).min), or a boolean mask",
                replaces=("PYTHON-SCALAR-001", "PYTHON-SCALAR-002", "PYTHON-SCALAR-003"),
            )


def _cast_to(node: cst.BaseExpression, fact: Fact, module: Module) -> Argument | None:
    """Return the dtype of ``mask.astype(dtype)``, or of ``1 - mask.astype(dtype)``."""
    for _ in range(MOST_STEPS):
        found = resolved(node, fact.place.function, module)
        if isinstance(found, cst.BinaryOperation):
            sides = [s for s in (found.left, found.right) if not isinstance(s, _NUMBERS)]
            if len(sides) != 1:
                return None
            node = sides[0]
        elif isinstance(found, cst.Subscript):
            node = found.value
        else:
            call = calls_of(module).get(found)
            callee = None if call is None else call.callee
            if call is None or not isinstance(callee, BoundMember) or callee.name != "astype":
                return None
            return call.positional(0)
    return None


_NUMBERS = (cst.Integer, cst.Float)


@check("DTYPE-006", of=("mlx.core.where", "mlx.core.full_like", *ARITHMETIC))
def overflow_in_call(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.where(mask, h, -1e9)``."""
    arguments = fact.arguments[1:] if fact.symbol == "mlx.core.where" else fact.arguments
    arrays = (as_array(a.value) for a in arguments)
    dtypes = {array.dtype for array in arrays if array is not None}
    if len(dtypes) == 1:
        for argument in arguments:
            yield from _overflow(fact, argument.value, next(iter(dtypes)))


@check("DTYPE-006")
def overflow_in_write(fact: ItemStoreFact, module: Module) -> Iterator[Report]:
    """``h[mask] = -1e9``."""
    array = as_array(fact.base)
    if array is not None and not fact.in_place:
        yield from _overflow(fact, fact.value, array.dtype)


@check("DTYPE-006", of=(".astype",))
def overflow_in_cast(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.where(mask, 0.0, -1e9).astype(mx.float16)``."""
    if len(fact.arguments) != 1 or fact.receiver_node is None:
        return
    source = resolved(fact.receiver_node, fact.place.function, module)
    made = calls_of(module).get(source)
    if made is not None and made.symbol in ("mlx.core.where", *FILLING):
        for argument in made.arguments:
            number = as_number(argument.value)
            if number is not None and is_large(number.const):
                dtype = _dtype_of(fact, fact.arguments[0], module)
                yield from _overflow(fact, argument.value, dtype)


def _overflow(fact: Fact, value: Value, dtype: str | None) -> Iterator[Report]:
    number = as_number(value)
    largest = LARGEST.get(dtype or "")
    if number is None or largest is None or not isinstance(number.const, (int, float)):
        return
    const = number.const
    if (isinstance(const, float) and not math.isfinite(const)) or abs(const) < largest:
        return
    yield Report.at(
        fact,
        "DTYPE-006",
        message=f"{const:g} overflows {dtype} and becomes infinite",
        help="Use mx.finfo(dtype).min or .max",
        replaces=("PYTHON-SCALAR-001", "PYTHON-SCALAR-002", "PYTHON-SCALAR-003"),
    )


@check("DTYPE-007", of=("mlx.core.arange",))
def half_range(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.arange(n, dtype=mx.bfloat16)``."""
    dtype = fact.keyword("dtype")
    if dtype is None and len(fact.arguments) == 4:
        dtype = fact.positional(3)
    if dtype is not None:
        yield from _counted(fact, fact, _dtype_of(fact, dtype, module))


@check("DTYPE-007", of=(".astype",))
def half_range_by_cast(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.arange(n).astype(mx.bfloat16)``."""
    dtype = fact.arguments[0].value if fact.arguments else None
    made = None if fact.receiver_node is None else calls_of(module).get(fact.receiver_node)
    if isinstance(dtype, DType) and made is not None and made.symbol == "mlx.core.arange":
        yield from _counted(fact, made, dtype.name)


def _dtype_of(fact: Fact, argument: Argument, module: Module) -> str | None:
    """Return the dtype that is passed, or that all callers and defaults pass for a parameter."""
    if isinstance(argument.value, DType) and argument.value.name is not None:
        return argument.value.name
    sources = sources_of(module)
    names: set[str | None] = set()
    for end in sources.ends(sources.of(fact, argument.node), through_callers=True):
        value = sources.value(default_of(end) or field_default(end) or end)
        names.add(value.name if isinstance(value, DType) else None)
    return names.pop() if len(names) == 1 else None


def _counted(fact: Fact, made: CallFact, dtype: str | None) -> Iterator[Report]:
    """Report a range of whole numbers that may go past those that a half can represent."""
    largest = WHOLE.get(dtype or "")
    bounds = [as_number(a.value) for a in made.arguments if a.keyword is None][:3]
    if largest is None or not bounds or len(bounds) == 3:
        return
    stop = bounds[-1]
    if stop is None or stop.kind != "int":
        return
    if isinstance(stop.const, int) and stop.const <= largest + 1:
        return
    yield Report.at(
        fact,
        "DTYPE-007",
        message=f"{dtype} rounds whole numbers above {largest}",
        help="Count in int32 or float32, and cast what is computed from it",
    )


@check("DTYPE-007", of=("mlx.core.cumsum", ".cumsum"))
def half_cumsum(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.cumsum(h)`` of a half, whose sum does not grow past its digits."""
    given = fact.positional(0)
    value = fact.receiver if isinstance(fact.callee, BoundMember) else given and given.value
    array = None if value is None else as_array(value)
    if array is not None and array.dtype in HALF and fact.keyword("dtype") is None:
        yield Report.at(
            fact,
            message=f"`cumsum` accumulates in {array.dtype}: large sums stop growing",
            help="Use `mx.cumsum(x.astype(mx.float32))`",
        )


@check("DTYPE-007")
def half_counter(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``total += loss`` in a loop, where ``total`` is a half of one element."""
    if fact.operator != "+" or not fact.place.loops:
        return
    name = _updated(fact)
    array = fact.left.array
    result = None if array is None else array.dtype
    other = fact.right.array
    if other is not None:
        result = promotion.promote(result, other.dtype)
    if name is None or result not in HALF or array is None:
        return
    held = scope_of(module, fact.place.function).reaching.bindings.get(name, [])[:MOST_STEPS]
    calls = calls_of(module)
    starts = [calls.get(b.value) for b in held if isinstance(b.value, cst.Call)]
    if not any(_is_scalar_start(start, module) for start in starts if start is not None):
        return
    yield from _stops_growing(fact, result)


def _stops_growing(fact: BinaryFact, dtype: str) -> Iterator[Report]:
    yield Report.at(
        fact,
        "DTYPE-007",
        message=f"accumulator in {dtype}: it stops growing at {WHOLE[dtype]} times its step",
        help="Accumulate in float32: `mx.array(0.0)`, and cast each value",
    )


@check("DTYPE-007")
def half_attribute(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``self.hits += hit`` in a method, where the constructor makes zeros in half precision."""
    node, place = fact.left.node, fact.place
    path = dotted(node) if isinstance(node, cst.Attribute) else None
    if fact.operator != "+" or path is None or path.count(".") != 1 or place.function is None:
        return
    owner, _, name = path.partition(".")
    if owner != "self" or place.function.cls is None or place.function.name in CONSTRUCTORS:
        return
    statement, array = place.statement, fact.left.array
    is_sum = (
        path in map(dotted, assigned_to(statement))
        and getattr(statement, "value", None) is fact.node
    )
    if not fact.in_place and not is_sum:
        return
    start = calls_of(module).get(made_in_init(place.function.cls, name) or node)
    made = None if start is None else as_array(start.result)
    dtype = None if array is None else array.dtype or (made and made.dtype)
    given = None if start is None or dtype is not None else start.keyword("dtype")
    if array is not None and start is not None and given is not None:
        dtype = _dtype_of(start, given, module)
    other = fact.right.array
    result = dtype
    if other is not None and not _is_cast_like(fact.right.node, path):
        result = promotion.promote(dtype, other.dtype)
    if result not in HALF or start is None:
        return
    if start.symbol == "mlx.core.zeros" or _is_scalar_start(start, module):
        yield from _stops_growing(fact, result)


def _is_cast_like(node: cst.BaseExpression, path: str) -> bool:
    """Test for ``v.astype(self.hits.dtype)``."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    is_cast = node.func.attr.value == "astype" and len(node.args) == 1
    return is_cast and dotted(node.args[0].value) == f"{path}.dtype"


def _updated(fact: BinaryFact) -> str | None:
    """Return the name that ``x += v`` or ``x = x + v`` updates."""
    if not isinstance(fact.left.node, cst.Name):
        return None
    name = fact.left.node.value
    if fact.in_place:
        return name
    statement = fact.place.statement
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return None
    return name if name in map(dotted, assigned_to(statement)) else None


def _is_scalar_start(start: CallFact, module: Module) -> bool:
    """Return whether an array of one element is made, of which the call fixes the dtype."""
    array = as_array(start.result)
    return array is not None and array.literal and is_scalar(module, start.node)


@check("DTYPE-013", of=(ATTENTION,))
def wide_mask(fact: CallFact, module: Module) -> Iterator[Report]:
    """Yield a float32 mask for half-precision queries, keys and values."""
    mask = fact.keyword("mask")
    given = None if mask is None else as_array(mask.value)
    arrays = [as_array(a.value) for a in fact.arguments[:3] if a.keyword in (None, "q", "k", "v")]
    if given is None or given.dtype != "float32" or len(arrays) < 3 or mask is None:
        return
    dtype: str | None = "bool"
    for array in arrays:
        dtype = promotion.promote(dtype, None if array is None else array.dtype)
    if dtype in HALF:
        yield Report.at(
            fact,
            node=mask.node,
            message=f"a float32 mask for {dtype} attention raises a ValueError",
            help="Cast it (`mask.astype(q.dtype)`), or pass a boolean mask or `mask='causal'`",
            subject=mask.node,
        )


#: Dtypes whose range arithmetic leaves soon.
_NARROW = frozenset((*UNSIGNED, *LARGEST_NARROW, "float16"))
_EFFECTS = {
    "DTYPE-006": "a constant overflows float16",
    "DTYPE-010": "a negative unsigned difference wraps",
    "DTYPE-015": "sums or products of small integers wrap",
}


@check("DTYPE-006", "DTYPE-010", "DTYPE-015")
def imported_arithmetic(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``motion(frames)`` of another file, which subtracts the uint8 frames that it is given."""
    function = fact.function
    if function.module is module or module.is_test or function.is_async:
        return
    passed = bind(function, UNKNOWN if fact.is_bound else None, fact.arguments)
    if DType("float16") in passed.values() and _casts_large_number(function, passed):
        yield _reported(fact, "DTYPE-006", "Use mx.finfo(dtype).min or .max")
        return
    arrays = {name: array for name, value in passed.items() if (array := definite_array(value))}
    if not any(array.dtype in _NARROW and not array.scalar for array in arrays.values()):
        return
    run = _run(function, tuple(sorted(arrays.items(), key=lambda one: one[0])))
    for operation in run.operations:
        for check_of in (narrow_arithmetic, overflow_in_arithmetic):
            for found in check_of(operation, function.module):
                yield _reported(fact, found.code, found.help)
                return


def _reported(fact: ProjectCall, code: str, remedy: str) -> Report:
    name, file = fact.function.name, fact.function.module.path.name
    message = in_file(name, file, f": {_EFFECTS[code]}")
    return Report.at(fact, code, message=message, help=remedy)


def _casts_large_number(function: FunctionInfo, passed: dict[str, Value]) -> bool:
    """Test for ``mx.where(keep, 0.0, -1e9).astype(dtype)``, where float16 is passed."""
    run = _run(function, tuple((n, v) for n, v in passed.items() if isinstance(v, DType)))
    for call, given in run.calls.items():
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "astype" or len(given) != 1:
            continue
        made = resolved(func.value, function, function.module)
        if given[0].value != DType("float16") or not isinstance(made, cst.Call):
            continue
        root, _, name = (dotted(made.func) or "").partition(".")
        is_mlx = function.module.frame.names.get(root) == Symbol("mlx.core")
        if is_mlx and name in ("where", "full", "array"):
            numbers = (as_number(argument.value) for argument in run.calls.get(made, ()))
            if any(number is not None and is_large(number.const) for number in numbers):
                return True
    return False


@kept_for_file
def _run(function: FunctionInfo, given: tuple[tuple[str, Array | DType], ...]) -> MustExecute:
    """Run a function for what it must execute with these arrays and dtypes."""
    arrays = frozenset(name for name, value in given if not isinstance(value, DType))
    return must_execute(function, arrays, given)
