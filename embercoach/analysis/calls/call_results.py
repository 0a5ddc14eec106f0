"""Results of MLX calls by the API table: the kind and the dtype, also of layers of a set dtype."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.mlx_api.result_expressions import Result, parse_result
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values import promotion
from embercoach.analysis.values.facts import Argument, first_value, match
from embercoach.analysis.values.gradient_marks import ZERO_GRADIENT, with_zero_gradient
from embercoach.analysis.values.lattice import (
    ARRAY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NO_PULLS,
    NONE,
    NUMPY,
    SHAPE,
    STR,
    TREE,
    UNKNOWN,
    Array,
    Bytes,
    Callable,
    Dict,
    DType,
    LibraryObject,
    Number,
    Sequence,
    Tree,
    Union,
    Value,
    any_item,
    as_array,
    is_traced,
    join_all,
    pulls_of,
    with_parts,
)
from embercoach.analysis.values.memo import remembered
from embercoach.analysis.values.promotion import FLOATING, HALF

if TYPE_CHECKING:
    from embercoach.analysis.mlx_api import ApiEntry
    from embercoach.analysis.project.module import Module

#: Layers whose result has the promoted dtype of the input and the weights.
_WEIGHTED = frozenset(
    (
        *("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d"),
        *("RMSNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "BatchNorm"),
    )
)
#: Layers whose result has the dtype of the input.
_PLAIN = frozenset(
    (
        *("ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "ELU", "LeakyReLU", "Mish", "Identity"),
        *("Dropout", "Dropout2d", "Dropout3d", "MaxPool1d", "MaxPool2d", "AvgPool1d", "AvgPool2d"),
    )
)


def layer_dtype(module: Module, layer: str, arguments: tuple[Argument, ...]) -> str | None:
    """Return the dtype of a layer's result, None if unknown.

    Args:
        module: the file that calls the layer.
        layer: the qualified name of its class.
        arguments: those of the call.
    """
    name = layer.removeprefix("mlx.nn.")
    given = as_array(arguments[0].value) if arguments else None
    dtype = None if given is None or given.dtype not in FLOATING else given.dtype
    if name in _PLAIN:
        return dtype
    weights = model_dtype(module)
    if name == "Embedding":
        return weights
    if weights is None or dtype is None or name not in _WEIGHTED:
        return None
    return dtype if dtype == weights else "float32"


def weight_dtype(module: Module, layer: str) -> str | None:
    """Return the dtype of a layer's weights, None if unknown; quantized ones are integers."""
    name = layer.removeprefix("mlx.nn.")
    return model_dtype(module) if name in _WEIGHTED or name == "Embedding" else None


@lru_cache(maxsize=2)
def model_dtype(module: Module) -> str | None:
    """Return the one dtype that a file sets for its models, if it is half precision.

    By ``model.set_dtype(mx.bfloat16)`` or ``model.apply(lambda p: p.astype(mx.bfloat16))``. A
    parameter is its default, and what is passed under its name.
    """
    if ".set_dtype" not in module.source and ".apply" not in module.source:
        return None
    nodes = list(walk(module.tree))
    calls = [node for node in nodes if type(node) is cst.Call]
    found = {dotted(one) or "" for call in calls if (one := _set_by(call)) is not None}
    names = {name for name in found if "." not in name}
    own = (call for call in calls if (dotted(call.func) or "").partition(".")[0] not in _LIBRARIES)
    passed = (argument for call in own if names for argument in call.args)
    given = [a.value for a in passed if a.keyword is not None and a.keyword.value in names]
    given += [
        p.default for p in nodes if type(p) is cst.Param and p.name.value in names and p.default
    ]
    found = (found - names if given else found).union(dotted(node) or "" for node in given)
    dtypes = {name.rpartition(".")[2] for name in found}
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= set(HALF) else None


#: Modules under their usual names, whose functions take a dtype too.
_LIBRARIES = frozenset(("mx", "np", "numpy"))


def _set_by(node: cst.Call) -> cst.BaseExpression | None:
    """Return the dtype that a call sets for a model."""
    if not isinstance(node.func, cst.Attribute) or not node.args:
        return None
    first, name = node.args[0].value, node.func.attr.value
    if name == "set_dtype":
        return first
    cast = first.body if name == "apply" and isinstance(first, cst.Lambda) else None
    is_cast = isinstance(cast, cst.Call) and (dotted(cast.func) or "").endswith(".astype")
    return cast.args[0].value if isinstance(cast, cst.Call) and is_cast and cast.args else None


_ATOMS: dict[str, Value] = {
    "array": ARRAY,
    "leaf": ARRAY,
    "tree": TREE,
    "none": NONE,
    "int": INT,
    "float": FLOAT,
    "bool": BOOL,
    "complex": COMPLEX,
    "str": STR,
    "bytes": Bytes(),
    "shape": SHAPE,
    "dtype": DType(None),
    "numpy": NUMPY,
    "device": LibraryObject("mlx.core.Device"),
    "stream": LibraryObject("mlx.core.Stream"),
    "callable": Callable(ARRAY),
}


@cache
def result_value(expression: str) -> Value:
    """Return the value that a result expression of the table stands for."""
    return _value(parse_result(expression))


def _value(result: Result) -> Value:
    if result.head == "instance":
        return LibraryObject(result.target)
    parts = [_value(item) for item in result.items]
    if result.head == "list":
        return Sequence("list", parts[0])
    if result.head == "tuple":
        return Sequence(
            "tuple",
            parts[0] if result.variadic else None,
            None if result.variadic else tuple(parts),
        )
    if result.head == "dict":
        return Dict(parts[-1])
    if result.head == "union":
        return join_all(parts)
    return _ATOMS.get(result.head, UNKNOWN)


def api_result(
    entry: ApiEntry, arguments: tuple[Argument, ...], receiver: Array | None = None
) -> Value:
    """Return the result of an MLX function or method, with its dtype if known."""
    if entry.returns == "same":
        return receiver if receiver is not None else first_value(arguments)
    value = result_value(entry.returns)
    for name, result in entry.given:
        if any(a.keyword == name for a in arguments):
            value = result_value(result)
    if not _mentions_array(value):
        return value
    return _fill(value, entry, arguments, receiver)


def named_result(name: str, arguments: tuple[Argument, ...]) -> Value:
    """Return the result of a function of MLX by its qualified name; ``UNKNOWN`` for others."""
    entry = mlx_api.lookup(name)
    return UNKNOWN if entry is None else api_result(entry, arguments)


def _fill(
    value: Value, entry: ApiEntry, arguments: tuple[Argument, ...], receiver: Array | None
) -> Value:
    arrays = [receiver] if receiver is not None else []
    weak: list[Number] = []
    pulls = receiver.pulls if receiver is not None else NO_PULLS
    given: Value | None = None
    from_numbers = entry.dtype_rule.endswith("from_value")
    for param, argument in match(entry, arguments):
        if not param.takes_only_ints:
            pulls |= pulls_of(argument.value)
        if param.name == "dtype":
            given = argument.value
        if entry.dtype_from and param.name not in entry.dtype_from:
            continue
        for inner in _spread(argument.value):
            array = as_array(inner)
            if array is not None:
                arrays.append(array)
            elif isinstance(inner, Number) and (from_numbers or "scalar" in param.accepts):
                weak.append(inner)
    traced = any(a.traced for a in arrays) or any(is_traced(a.value) for a in arguments)
    dtype = _dtype(entry.dtype_rule, entry, arrays, weak, given)
    literal = all(a.literal for a in arrays) and entry.name not in _NOT_LITERAL
    name = entry.name.rpartition(".")[2]
    if pulls and name in ZERO_GRADIENT:
        pulls = with_zero_gradient(pulls, name)
    return _replace_arrays(value, Array(dtype, literal, False, traced, pulls))


#: Results that hold data from elsewhere although no array is passed.
_NOT_LITERAL = frozenset({"mlx.core.load", "mlx.core.array", "mlx.core.asarray"})


def _spread(value: Value) -> tuple[Value, ...]:
    """Return a list of arrays counts as its items."""
    if isinstance(value, Sequence):
        return value.items or (any_item(value),)
    return (value,)


@remembered
def _mentions_array(value: Value) -> bool:
    return _replace_arrays(value, Array("bool")) != value


def _replace_arrays(value: Value, array: Array) -> Value:
    if isinstance(value, Array):
        return array
    if isinstance(value, Tree):
        return Tree(array.traced)
    return (
        value if type(value) is Union else with_parts(value, partial(_replace_arrays, array=array))
    )


def _dtype(
    rule: str, entry: ApiEntry, arrays: list[Array], weak: list[Number], given: Value | None
) -> str | None:
    """Apply a dtype rule of the table (see ``mlx_api``)."""
    if rule.startswith("param:dtype="):
        if given is not None and given is not NONE:
            return given.name if isinstance(given, DType) else None
        rule = rule.removeprefix("param:dtype=")
    if rule in promotion.DTYPES:
        return rule
    if rule in ("same", "each"):
        return _excepted(entry, arrays[0].dtype) if arrays else None
    if rule in ("promote", "float"):
        if not arrays:
            dtype = _of_numbers(weak)
            return promotion.floating(dtype) if rule == "float" else dtype
        dtype = arrays[0].dtype
        for array in arrays[1:]:
            dtype = promotion.promote(dtype, array.dtype)
        for number in weak:
            dtype = promotion.promote_weak(dtype, number.kind)
        return _excepted(entry, promotion.floating(dtype) if rule == "float" else dtype)
    if rule == "from_value":
        if arrays:
            return arrays[0].dtype
        return _of_numbers(weak)
    return None


def _of_numbers(numbers: list[Number]) -> str | None:
    """Return the dtype of an array made from Python numbers alone; none if there are none."""
    return promotion.dtype_of_numbers({number.kind for number in numbers})


def _excepted(entry: ApiEntry, dtype: str | None) -> str | None:
    for given, result in entry.dtype_exceptions:
        matches = given == dtype or (given == "integer" and dtype in promotion.INTEGERS)
        if matches:
            return result if result in promotion.DTYPES else None
    return dtype
