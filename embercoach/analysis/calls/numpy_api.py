"""Results of NumPy's functions, where they matter: arrays, scalars, kinds."""

from __future__ import annotations

from embercoach.analysis.values.facts import (
    Argument,
    first_value,
    keyword_value,
    pulls_of_arguments,
)
from embercoach.analysis.values.lattice import (
    INT,
    NONE,
    NUMPY,
    SHAPE,
    UNKNOWN,
    BoundMember,
    LibraryObject,
    Number,
    NumberKind,
    Numpy,
    Pulls,
    Sequence,
    Symbol,
    Value,
    any_item,
    as_array,
    as_number,
    parts_of,
)

#: Functions that ask about types, files or settings and pull no data.
NO_DATA = frozenset(
    (
        *("iinfo", "finfo", "dtype", "errstate", "seterr", "set_printoptions", "printoptions"),
        *("get_printoptions", "can_cast", "result_type", "promote_types", "issubdtype", "shape"),
        *("ndim", "size", "load", "isscalar"),
    )
)
#: Functions that only call methods of their argument: of an mx.array they stay lazy in MLX.
LAZY = frozenset(
    [
        *("squeeze", "swapaxes", "moveaxis", "rollaxis", "flip", "real", "imag", "isreal", "split"),
        *("array_split", "hsplit", "vsplit", "dsplit", "unstack", "transpose", "permute_dims"),
        "iterable",
    ]
)
#: Functions that raise a TypeError for an mx.array: NumPy hands them arguments MLX doesn't take.
RAISING = frozenset(
    ["sum", "mean", "max", "min", "prod", "any", "all", "std", "var", "amax", "amin"]
)
#: Functions that turn a value into an ndarray.
CONVERSIONS = frozenset(
    {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "from_dlpack"}
    | {"frombuffer", "copy", "asarray_chkfinite"}
)
#: Functions whose result is a NumPy scalar where their arguments are Python numbers.
_INT_RESULTS = frozenset(
    {"argmax", "argmin", "argsort", "searchsorted", "nonzero", "bincount", "flatnonzero"}
)
_LISTS = frozenset(["split", "array_split", "hsplit", "vsplit", "dsplit", "unstack"])
_TUPLES = frozenset({"nonzero", "unravel_index", "broadcast_arrays", "meshgrid", "split"})


def scalar_kind(name: str) -> NumberKind | None:
    """Return the kind of a scalar type such as ``numpy.float32``; None if it is none."""
    return _SCALAR_KINDS.get(name.rpartition(".")[2].rstrip("_0123456789"))


_SCALAR_KINDS: dict[str, NumberKind] = {
    "float": "float",
    "half": "float",
    "single": "float",
    "double": "float",
    "int": "int",
    "intc": "int",
    "intp": "int",
    "uint": "int",
    "complex": "complex",
    "bool": "bool",
}


def call(name: str, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of calling ``numpy.<...>``."""
    short = name.rpartition(".")[2]
    pulls = pulls_of_arguments(arguments)
    values = [argument.value for argument in arguments]
    kind = scalar_kind(name)
    if kind is not None and name.count(".") == 1:
        return _scalar(kind, short, arguments, pulls)
    fixed = _FIXED.get(short)
    if fixed is not None:
        return fixed
    if (
        short in ("prod", "ceil", "floor")
        and arguments
        and all(as_number(value) is not None or holds_numbers_alone(value) for value in values)
    ):
        return Numpy("int" if short == "prod" else "float", True, pulls)
    if short in LAZY and arguments and as_array(arguments[0].value) is not None:
        return arguments[0].value if short not in _LISTS else Sequence("list", arguments[0].value)
    if short in NO_DATA or short[:1].isupper():
        return UNKNOWN
    if short in _TUPLES:
        return Sequence("tuple", NUMPY)
    if arguments and all(as_number(value) is not None for value in values):
        return _of_numbers(short, arguments, pulls)
    return _of_arrays(name, short, arguments, pulls)


#: Functions whose result does not depend on what they are given.
_FIXED: dict[str, Value] = {
    "default_rng": LibraryObject("numpy.random.Generator"),
    "RandomState": LibraryObject("numpy.random.Generator"),
    "shape": SHAPE,
    "ndim": INT,
    "size": INT,
}


def _scalar(kind: NumberKind, short: str, arguments: tuple[Argument, ...], pulls: Pulls) -> Value:
    """``numpy.float32(x)``: a scalar of a number, an array of an array."""
    value = first_value(arguments)
    scalar = as_number(value) is not None or not arguments
    # float64 is a Python float, and MLX takes it as one.
    if short in ("float64", "double", "float_") and scalar:
        return Numpy("float", True, pulls, "float64")
    return Numpy(kind, scalar or as_array(value) is not None, pulls, short)


def _of_numbers(short: str, arguments: tuple[Argument, ...], pulls: Pulls) -> Value:
    """Return a function of Python numbers alone: ``np.sqrt(2)``, ``np.arange(n)``."""
    kind = _result_kind(short, arguments)
    if short in _FLAT or (short in _DRAWN and len(arguments) == _DRAWN[short]):
        dtype = _DTYPES.get(kind or "") if short in _FLAT else None
        return Numpy(kind, False, pulls, dtype, True)
    return Numpy(kind, short in _UFUNCS, pulls, "float64" if kind == "float" else None)


def _of_arrays(name: str, short: str, arguments: tuple[Argument, ...], pulls: Pulls) -> Value:
    """Return a function of anything else: a comparison, an effect, or an array."""
    if short in ("allclose", "array_equal", "isclose"):
        return Numpy("bool", short != "isclose", pulls)
    if short.startswith(("save", "test")) or short in ("assert_allclose", "seed"):
        return NONE
    if name.startswith("numpy.testing."):
        return NONE
    kept = _kept(short, arguments)
    if kept is not None:
        return Numpy(kept.kind, False, pulls, kept.dtype)
    kind = _array_kind(short, arguments)
    flat = short in _FLAT or (short in CONVERSIONS and _is_flat(arguments))
    dtype = _dtype_name(keyword_value(arguments, "dtype"))
    if dtype is None and kind == "int" and short in CONVERSIONS and len(arguments) == 1:
        dtype = "int64" if isinstance(arguments[0].value, Sequence) else None
    return Numpy(kind, False, pulls, dtype, flat)


#: Functions that move the numbers of arrays, which keep their dtype.
_MOVING = frozenset(("stack", "concatenate", "vstack", "hstack", "dstack"))


def _kept(short: str, arguments: tuple[Argument, ...]) -> Numpy | None:
    """The arrays that a function joins, if they are of one dtype and it is asked for no other."""
    given = arguments[0].value if arguments and short in _MOVING else UNKNOWN
    if not isinstance(given, Sequence) or any(a.keyword == "dtype" for a in arguments):
        return None
    items = set(given.items or (any_item(given),))
    arrays = [item for item in items if isinstance(item, Numpy) and item.dtype is not None]
    same = len({item.dtype for item in arrays}) == 1 and len(arrays) == len(items)
    return arrays[0] if same else None


#: Functions that make arrays of float64 unless they are given a dtype, which comes second.
_FLOAT64 = frozenset(
    f"numpy.{name}"
    for name in (
        *("zeros", "ones", "empty", "eye", "linspace", "loadtxt", "genfromtxt"),
        *(f"random.{drawn}" for drawn in ("rand", "randn", "random", "normal", "uniform")),
        *("random.random_sample", "random.standard_normal"),
    )
)


def is_float64(name: str, arguments: tuple[Argument, ...]) -> bool:
    """Return whether a function makes an array of float64, as none asks for another dtype."""
    if name not in _FLOAT64 or any(a.keyword == "dtype" or a.star for a in arguments):
        return False
    return not any(isinstance(a.value, Symbol) for a in arguments)


def _is_flat(arguments: tuple[Argument, ...]) -> bool:
    """Return whether the first argument is a list of numbers."""
    value = first_value(arguments)
    if not isinstance(value, Sequence) or value.kind not in ("list", "tuple"):
        return False
    return isinstance(any_item(value), Number)


#: The dtypes of ranges of numbers.
_DTYPES = {"int": "int64", "float": "float64"}
#: Functions whose result is one-dimensional, of so many numbers.
_DRAWN = {"permutation": 1, "choice": 2}
_FLAT = frozenset({"arange", "linspace", "logspace", "flatnonzero"})
_UFUNCS = frozenset(
    [
        *("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "arctan", "arctan2"),
        *("power", "abs", "absolute", "square", "sign", "floor", "ceil", "round", "maximum"),
        *("minimum", "sum", "mean", "prod", "std", "var", "max", "min", "dot", "expm1", "log1p"),
    ]
)


def _result_kind(short: str, arguments: tuple[Argument, ...]) -> NumberKind | None:
    if short in ("arange", "abs", "absolute", "maximum", "minimum", "square", "sign", "full"):
        kinds = [n.kind for a in arguments if (n := as_number(a.value)) is not None]
        return "float" if "float" in kinds else "int"
    if short in ("zeros", "ones", "empty", "linspace", "eye") or short in _UFUNCS:
        return "float"
    return "int" if short in _DRAWN else None


def _array_kind(short: str, arguments: tuple[Argument, ...]) -> NumberKind | None:
    dtype = keyword_value(arguments, "dtype")
    if isinstance(dtype, Symbol):
        return scalar_kind(dtype.name)
    if short in _INT_RESULTS:
        return "int"
    if short in ("zeros", "ones", "linspace", "eye", "rand", "randn", "normal", "uniform"):
        return "float"
    if short in CONVERSIONS and arguments:
        value = arguments[0].value
        if isinstance(value, Numpy):
            return value.kind
        if isinstance(value, Sequence):
            number = as_number(any_item(value))
            return number.kind if number is not None else None
    return None


def _dtype_name(dtype: Value | None) -> str | None:
    if not isinstance(dtype, Symbol):
        return None
    return _PYTHON_DTYPES.get(dtype.name) or dtype.name.rpartition(".")[2]


#: The dtypes that Python's types stand for, on the systems that MLX runs on.
_PYTHON_DTYPES = {"builtins.int": "int64", "builtins.float": "float64", "numpy.int_": "int64"}


def holds_numbers_alone(value: Value) -> bool:
    """Return whether a value is a list of Python numbers, or of such lists."""
    if not isinstance(value, Sequence):
        return False
    items = parts_of(value)
    return bool(items) and all(as_number(i) is not None or holds_numbers_alone(i) for i in items)


def member(owner: Numpy, name: str) -> Value:
    """Return an attribute of an ndarray or NumPy scalar."""
    if name == "shape":
        return SHAPE
    if name in ("size", "ndim", "itemsize", "nbytes"):
        return INT
    if name in ("T", "real", "imag", "flat"):
        return owner
    if name == "dtype":
        return UNKNOWN
    return BoundMember(owner, name)


def method(owner: Numpy, name: str, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of a method of an ndarray."""
    pulls = owner.pulls
    if name == "item":
        kind = owner.kind or "float"
        return Number(kind, None, None, pulls)
    if name == "tolist":
        number = UNKNOWN if owner.kind is None else Number(owner.kind, None, None, pulls)
        return number if owner.scalar else Sequence("list", number, None, pulls)
    if name in ("tobytes", "tofile", "dump", "dumps", "sort", "fill", "setflags"):
        return UNKNOWN
    if name == "astype":
        dtype = first_value(arguments)
        kind = scalar_kind(dtype.name) if isinstance(dtype, Symbol) else None  # type: ignore[assignment]
        return Numpy(kind, owner.scalar, pulls, _dtype_name(dtype))
    if name in ("argmax", "argmin", "argsort", "nonzero", "searchsorted"):
        return Numpy("int", name.startswith("argm") and not arguments, pulls)
    if name in ("any", "all"):
        return Numpy("bool", not arguments, pulls)
    whole = not arguments
    if name in ("mean", "std", "var"):
        return Numpy("float", whole, pulls)
    if name in ("sum", "prod", "max", "min", "ptp", "trace"):
        return Numpy(owner.kind, whole, pulls, owner.dtype)
    return Numpy(owner.kind, False, pulls, owner.dtype)


def takes_data(name: str) -> bool:
    """Return whether calling a function reads the data of an array given to it."""
    short = name.rpartition(".")[2]
    return short not in NO_DATA and short not in LAZY
