"""Operations element by element: shapes broadcast, dtypes are promoted."""

from __future__ import annotations

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    AnyScalar,
    ArrayShape,
    DType,
    DTypeValue,
    ShapedArray,
    WeakKind,
    floating,
    is_floating,
    promote,
    promote_weak,
    unknown_shape,
    weak_kind,
    with_last,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, array_of
from embercoach.analysis.shapes.size_integers import ANY_INT, exact_quotient, floor_divide, multiply
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.values.promotion import dtype_of_number

#: What MLX takes neither for an array nor for a number.
_NO_ARRAYS = (str, bytes, tuple, list, dict, slice, DTypeValue)
#: How many bytes an element has.
ITEM_SIZES = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
}
BOOL = "bool"


def operand(requirements: Requirements, value: object) -> ShapedArray:
    """Return the array that an argument is, or that a Python number stands for."""
    found = array_of(value)
    if found is not None:
        return found
    if value is None or isinstance(value, (*_NO_ARRAYS, AnyScalar)):
        requirements.refuse(f"{_described(value)} isn't an array")
    return ShapedArray(unknown_shape())


def array_argument(requirements: Requirements, value: object) -> ShapedArray:
    """Return the array that an argument is, where MLX takes no number."""
    if weak_kind(value) is not None:
        requirements.refuse("a Python number isn't an array")
    return operand(requirements, value)


def _described(value: object) -> str:
    kind = "str" if isinstance(value, AnyScalar) else type(value).__name__
    return "None" if value is None else f"a {'dtype' if isinstance(value, DTypeValue) else kind}"


def dtype_of(value: object) -> DType:
    """Return the dtype that an array has, or that MLX gives a Python number."""
    if isinstance(value, ShapedArray):
        return value.dtype
    kind = weak_kind(value)
    return None if kind is None else dtype_of_number(kind)


def dtype_argument(requirements: Requirements, value: object, default: DType) -> DType:
    """Return the dtype that an argument names, a default one for None."""
    if value is None:
        return default
    if isinstance(value, DTypeValue):
        return value.dtype
    if isinstance(value, (*_NO_ARRAYS, AnyScalar, ShapedArray)) or weak_kind(value):
        requirements.refuse(f"{_described(value)} isn't a dtype")
    return None


def meeting_dtype(values: tuple[object, ...]) -> DType:
    """Return the dtype of arrays combined with Python numbers; of numbers alone the widest."""
    dtype: DType = None
    arrays = [value for value in values if isinstance(value, ShapedArray)]
    weak: list[WeakKind] = [kind for value in values if (kind := weak_kind(value)) is not None]
    if len(arrays) + len(weak) < len(values):
        return None
    if not arrays:
        order: tuple[WeakKind, ...] = ("complex", "float", "int", "bool")
        return next((dtype_of_number(kind) for kind in order if kind in weak), None)
    for at, array in enumerate(arrays):
        dtype = array.dtype if at == 0 else promote(dtype, array.dtype)
    for kind in weak:
        dtype = promote_weak(dtype, kind)
    return dtype


def broadcast(requirements: Requirements, *values: object) -> ShapedArray:
    """Return the array that values broadcast and promote to."""
    arrays = [operand(requirements, value) for value in values]
    shape = requirements.broadcast(*(array.shape for array in arrays))
    return ShapedArray(shape, meeting_dtype(values))


def _method(name: str) -> str:
    return f"mlx.core.array.{name}"


def _operators(*names: str) -> tuple[str, ...]:
    return tuple(_method(f"__{name}__") for name in names)


@transfer("add", "subtract", "multiply", "maximum", "minimum", "power", "pow", "floor_divide")
@transfer(
    *_operators("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul"),
    *_operators("pow", "rpow", "ipow", "floordiv", "rfloordiv", "ifloordiv"),
)
def meet(requirements: Requirements, a: object, b: object) -> object:
    """``mx.add`` and the like."""
    return broadcast(requirements, a, b)


@transfer("divide", "logaddexp")
@transfer(*_operators("truediv", "rtruediv", "div", "rdiv"))
def divide(requirements: Requirements, a: object, b: object) -> object:
    """``mx.divide``: floating."""
    found = broadcast(requirements, a, b)
    return ShapedArray(found.shape, floating(found.dtype))


@transfer(*_operators("itruediv"))
def divide_in_place(requirements: Requirements, a: object, b: object) -> object:
    """``x /= y``: not for arrays of integers."""
    dtype = dtype_of(a)
    if isinstance(dtype, str) and not is_floating(dtype) and dtype != "complex64":
        requirements.fail(f"an array of {dtype} can't be divided in place")
    return divide(requirements, a, b)


@transfer("arctan2", "atan2")
def arctan2(requirements: Requirements, a: object, b: object) -> object:
    """``mx.arctan2``: floating and real."""
    found = broadcast(requirements, a, b)
    return ShapedArray(found.shape, _real_only(requirements, floating(found.dtype)))


@transfer("remainder", *_operators("mod", "rmod", "imod"))
def remainder(requirements: Requirements, a: object, b: object) -> object:
    """``mx.remainder``: not for complex numbers."""
    found = broadcast(requirements, a, b)
    return ShapedArray(found.shape, _real_only(requirements, found.dtype))


@transfer("divmod")
def divmod_(requirements: Requirements, a: object, b: object) -> object:
    """``mx.divmod``: a list of the quotient and the remainder."""
    found = remainder(requirements, a, b)
    return [found, found]


def _real_only(requirements: Requirements, dtype: DType) -> DType:
    if dtype == "complex64":
        requirements.fail("complex64 isn't supported")
    return dtype


@transfer("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
@transfer("logical_and", "logical_or", "logical_xor")
@transfer(*_operators("lt", "le", "gt", "ge"))
def compare(requirements: Requirements, a: object, b: object) -> object:
    """``mx.equal`` and the like: bool."""
    return ShapedArray(broadcast(requirements, a, b).shape, BOOL)


@transfer(_method("__eq__"))
def same(requirements: Requirements, a: object, b: object) -> object:
    """``x == y``: False for what is neither an array nor a number."""
    if b is UNKNOWN:
        return UNKNOWN
    return False if isinstance(b, _NO_ARRAYS) else compare(requirements, a, b)


@transfer(_method("__ne__"))
def different(requirements: Requirements, a: object, b: object) -> object:
    """``x != y``: True for what is neither an array nor a number."""
    if b is UNKNOWN:
        return UNKNOWN
    return True if isinstance(b, _NO_ARRAYS) else compare(requirements, a, b)


@transfer("isclose")
def isclose(
    requirements: Requirements,
    a: object,
    b: object,
    rtol: object = 1e-05,
    atol: object = 1e-08,
    *,
    equal_nan: object = False,
) -> ShapedArray:
    """``mx.isclose``: bool, for arrays alone."""
    arrays = [array_argument(requirements, value) for value in (a, b)]
    return ShapedArray(requirements.broadcast(*(array.shape for array in arrays)), BOOL)


@transfer("allclose")
def allclose(
    requirements: Requirements,
    a: object,
    b: object,
    rtol: object = 1e-05,
    atol: object = 1e-08,
    *,
    equal_nan: object = False,
) -> object:
    """``mx.allclose``: one bool."""
    isclose(requirements, a, b, rtol, atol, equal_nan=equal_nan)
    return ShapedArray(ArrayShape(), BOOL)


@transfer("array_equal")
def array_equal(
    requirements: Requirements,
    a: object,
    b: object,
    equal_nan: object = False,
) -> object:
    """``mx.array_equal``: one bool; other shapes are not equal."""
    operand(requirements, a)
    operand(requirements, b)
    return ShapedArray(ArrayShape(), BOOL)


@transfer("bitwise_and", "bitwise_or", "bitwise_xor")
@transfer(*_operators("and", "iand", "or", "ior", "xor", "ixor"))
def bitwise(requirements: Requirements, a: object, b: object) -> object:
    """``mx.bitwise_and`` and the like: for integers and bool."""
    found = broadcast(requirements, a, b)
    return ShapedArray(found.shape, integral(requirements, found.dtype))


@transfer("left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift")
@transfer(*_operators("lshift", "ilshift", "rshift", "irshift"))
def shift(requirements: Requirements, a: object, b: object) -> object:
    """``mx.left_shift`` and the like: bool turns into uint8."""
    found = broadcast(requirements, a, b)
    dtype = integral(requirements, found.dtype)
    if not isinstance(dtype, str):
        return ShapedArray(found.shape)
    return ShapedArray(found.shape, "uint8" if dtype == BOOL else dtype)


def integral(requirements: Requirements, dtype: DType) -> DType:
    """Require a dtype of integers or bool."""
    if is_floating(dtype) or dtype == "complex64":
        requirements.fail(f"{dtype} isn't a dtype of integers")
    return dtype


@transfer("sqrt", "rsqrt", "reciprocal", "exp", "log", "log2", "log10", "log1p")
@transfer("sin", "cos", "tan", "sinh", "cosh", "tanh", "degrees", "radians")
@transfer("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")
@transfer("asin", "acos", "atan", "asinh", "acosh", "atanh")
@transfer(*map(_method, ("sqrt", "rsqrt", "reciprocal", "exp", "log", "log2", "log10", "log1p")))
@transfer(_method("sin"), _method("cos"))
def to_floating(requirements: Requirements, a: object) -> object:
    """``mx.exp`` and the like: floating or complex."""
    return ShapedArray(operand(requirements, a).shape, floating(dtype_of(a)))


@transfer("expm1", "erf", "erfinv", "sigmoid")
def to_real_floating(requirements: Requirements, a: object) -> object:
    """``mx.sigmoid`` and the like: not for complex numbers."""
    shape = operand(requirements, a).shape
    return ShapedArray(shape, _real_only(requirements, floating(dtype_of(a))))


@transfer("square", "sign", "conj", "conjugate", _method("square"), _method("conj"))
def unchanged(requirements: Requirements, a: object) -> object:
    """``mx.square`` and the like: the shape and dtype of the argument."""
    return ShapedArray(operand(requirements, a).shape, dtype_of(a))


@transfer("stop_gradient", "positive", _method("__pos__"))
@transfer(_method("__copy__"), _method("__deepcopy__"))
def unchanged_array(requirements: Requirements, a: object, memo: object = None) -> object:
    """``mx.stop_gradient`` and the like: for arrays alone."""
    return array_argument(requirements, a)


@transfer("contiguous")
def contiguous(requirements: Requirements, a: object, allow_col_major: object = False) -> object:
    """``mx.contiguous``."""
    return array_argument(requirements, a)


@transfer("floor", "ceil")
def rounded(requirements: Requirements, a: object) -> object:
    """``mx.floor`` and the like: not for complex numbers."""
    return ShapedArray(operand(requirements, a).shape, _real_only(requirements, dtype_of(a)))


@transfer("trunc")
def truncated(requirements: Requirements, a: object) -> object:
    """``mx.trunc``: for real arrays."""
    return rounded(requirements, array_argument(requirements, a))


@transfer("round", _method("round"))
def round_(requirements: Requirements, a: object, decimals: object = 0) -> object:
    """``mx.round``."""
    return ShapedArray(operand(requirements, a).shape, dtype_of(a))


@transfer("negative", _method("__neg__"))
def negative(requirements: Requirements, a: object) -> object:
    """``mx.negative``: not for bool."""
    if dtype_of(a) == BOOL:
        requirements.fail("bool has no negative")
    return ShapedArray(operand(requirements, a).shape, dtype_of(a))


@transfer("abs", "real", "imag", _method("abs"), _method("__abs__"))
@transfer(_method("real"), _method("imag"))
def to_real(requirements: Requirements, a: object) -> object:
    """``mx.abs`` and the like: float32 for complex64, else the dtype of the argument."""
    dtype = dtype_of(a)
    if not isinstance(dtype, str) and not is_floating(dtype):
        dtype = None
    return ShapedArray(operand(requirements, a).shape, "float32" if dtype == "complex64" else dtype)


@transfer("logical_not")
def to_bool(requirements: Requirements, a: object) -> object:
    """``mx.logical_not``: bool."""
    return ShapedArray(operand(requirements, a).shape, BOOL)


@transfer("isnan", "isinf", "isfinite", "isneginf", "isposinf")
def is_special(requirements: Requirements, a: object, stream: object = None) -> object:
    """``mx.isnan`` and the like: bool."""
    return ShapedArray(operand(requirements, a).shape, BOOL)


@transfer("bitwise_invert", _method("__invert__"))
def invert(requirements: Requirements, a: object, stream: object = None) -> object:
    """``mx.bitwise_invert``: for integers and bool."""
    return ShapedArray(operand(requirements, a).shape, integral(requirements, dtype_of(a)))


@transfer("nan_to_num")
def nan_to_num(
    requirements: Requirements,
    a: object,
    nan: object = 0,
    posinf: object = None,
    neginf: object = None,
) -> object:
    """``mx.nan_to_num``: complex numbers need both replacements."""
    shape = operand(requirements, a).shape
    if posinf is None or neginf is None:
        _real_only(requirements, dtype_of(a))
    return ShapedArray(shape, dtype_of(a))


@transfer("clip")
def clip(requirements: Requirements, a: object, a_min: object, a_max: object) -> object:
    """``mx.clip``: one bound at least."""
    array = result = array_argument(requirements, a)
    if a_min is None and a_max is None:
        requirements.fail("both bounds are None")
    for bound in (a_min, a_max):
        kind = weak_kind(bound)
        if kind is not None:  # it takes the array's dtype first, whatever the other bound has
            bound = ShapedArray(ArrayShape(), promote_weak(array.dtype, kind))  # noqa: PLW2901
        if bound is not None:
            result = broadcast(requirements, result, bound)
    return result


@transfer("where")
def where(requirements: Requirements, condition: object, x: object, y: object) -> object:
    """``mx.where``: the dtype that the values promote to."""
    arrays = [operand(requirements, value) for value in (condition, x, y)]
    shape = requirements.broadcast(*(array.shape for array in arrays))
    return ShapedArray(shape, meeting_dtype((x, y)))


@transfer("astype", _method("astype"))
def astype(requirements: Requirements, a: object, dtype: object, stream: object = None) -> object:
    """``x.astype``."""
    if dtype is None:
        requirements.refuse("None isn't a dtype")
    shape = array_argument(requirements, a).shape
    return ShapedArray(shape, dtype_argument(requirements, dtype, None))


def _with_other_last(shape: ArrayShape) -> ArrayShape:
    if shape.middle is not None and not shape.tail:
        return unknown_shape()
    return shape if shape.rank == 0 else with_last(without_last(shape), ANY_INT)


@transfer("view", _method("view"))
def view(requirements: Requirements, a: object, dtype: object, stream: object = None) -> object:
    """``x.view``: the last size changes with the size of elements."""
    array = operand(requirements, a)
    new = dtype_argument(requirements, dtype, None)
    old = dtype_of(a)
    if new == old and new is not None:
        return ShapedArray(array.shape, new)
    if not isinstance(new, str) or not isinstance(old, str):
        return ShapedArray(_with_other_last(array.shape), new)
    before, after = ITEM_SIZES[old], ITEM_SIZES[new]
    if before == after:
        return ShapedArray(array.shape, new)
    if array.shape.rank == 0:
        requirements.fail(f"the elements of {old} and {new} have {before} and {after} bytes")
    last = array.shape.size(-1)
    if before > after:
        return ShapedArray(
            with_last(without_last(array.shape), multiply(last, before // after)), new
        )
    many = after // before
    part = exact_quotient(last, many)
    if part is None:
        part = floor_divide(last, many)
        reason = f"the last size of {array.shape} isn't a multiple of {many}"
        requirements.equal(multiply(part, many), last, reason)
    return ShapedArray(with_last(without_last(array.shape), part), new)


@transfer("to_fp8")
def to_fp8(requirements: Requirements, x: object) -> object:
    """``mx.to_fp8``: for floating arrays, words of uint8."""
    array = array_argument(requirements, x)
    if isinstance(array.dtype, str) and not is_floating(array.dtype):
        requirements.fail(f"{array.dtype} isn't a floating dtype")
    return ShapedArray(array.shape, "uint8")


@transfer("from_fp8")
def from_fp8(requirements: Requirements, x: object, dtype: object = None) -> object:
    """``mx.from_fp8``: from words of uint8 to a floating dtype."""
    array = array_argument(requirements, x)
    if is_floating(array.dtype) or (isinstance(array.dtype, str) and array.dtype != "uint8"):
        requirements.fail(f"the dtype is {array.dtype}, not uint8")
    made = dtype_argument(requirements, dtype, "bfloat16")
    if isinstance(made, str) and not is_floating(made):
        requirements.fail(f"{made} isn't a floating dtype")
    return ShapedArray(array.shape, made)


@transfer("result_type")
def result_type(requirements: Requirements, *arrays_and_dtypes: object) -> object:
    """``mx.result_type``: the dtype that arrays and dtypes promote to."""
    found: list[object] = [
        ShapedArray(ArrayShape(), value.dtype) if isinstance(value, DTypeValue) else value
        for value in arrays_and_dtypes
    ]
    if not found or any(weak_kind(value) is not None for value in found):
        requirements.refuse("there are no arrays or dtypes")
    return DTypeValue(meeting_dtype(tuple(found)))
