"""Activations of ``mlx.nn``, as functions and as layers: the shape stays."""

from __future__ import annotations

from collections.abc import Callable

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    DType,
    ShapedArray,
    floating,
    promote_weak,
)
from embercoach.analysis.shapes.requirements import Requirements, array_of
from embercoach.analysis.shapes.table import (
    LAYER_CALLS,
    LAYERS,
    LayerValues,
    layer,
    layer_call,
    reduction_shapes,
    transfer,
)
from embercoach.analysis.shapes.table.elementwise import array_argument, broadcast, meeting_dtype
from embercoach.analysis.shapes.table.layer_shapes import keeping, parameter, size_of
from embercoach.analysis.shapes.table.products import divisible
from embercoach.analysis.shapes.table.reduction_shapes import axes_argument, axis_argument, replaced


def of_dtype(x: object, dtype: Callable[[DType], DType]) -> object:
    """Return an array like ``x``."""
    given = array_of(x)
    return UNKNOWN if given is None else ShapedArray(given.shape, dtype(meeting_dtype((x,))))


def with_int(dtype: DType) -> DType:
    """Return the dtype of an array combined with a Python integer."""
    return promote_weak(dtype, "int")


_FLOATING = ("relu6", "softplus", "softsign", "gelu_approx", "selu", "mish", "tanh", "hardswish")
_REAL = ("sigmoid", "silu", "gelu", "gelu_fast_approx")


def not_of(requirements: Requirements, x: object, dtype: str) -> None:
    """Fail for an array of a dtype that a function doesn't take."""
    if isinstance(x, ShapedArray) and x.dtype == dtype:
        requirements.fail(f"the input is {dtype}")


@transfer(*(f"mlx.nn.{name}" for name in _FLOATING))
def floating_activation(requirements: Requirements, x: object) -> object:
    """``nn.tanh`` and the like: floating."""
    return of_dtype(x, floating)


@transfer(*(f"mlx.nn.{name}" for name in _REAL))
def real_activation(requirements: Requirements, x: object) -> object:
    """``nn.gelu`` and the like: floating, not complex."""
    not_of(requirements, x, "complex64")
    return of_dtype(x, floating)


@transfer("mlx.nn.log_sigmoid")
def log_sigmoid(requirements: Requirements, x: object) -> object:
    """``nn.log_sigmoid``: bools have no sign."""
    not_of(requirements, x, "bool")
    return of_dtype(x, floating)


@transfer("mlx.nn.relu", "mlx.nn.relu2")
def relu(requirements: Requirements, x: object) -> object:
    """``nn.relu``: the dtype of ``x``."""
    return of_dtype(x, with_int)


@transfer("mlx.nn.leaky_relu")
def leaky_relu(requirements: Requirements, x: object, negative_slope: object = 0.01) -> object:
    """``nn.leaky_relu``."""
    return broadcast(requirements, x, negative_slope)


@transfer("mlx.nn.elu", "mlx.nn.celu")
def elu(requirements: Requirements, x: object, alpha: object = 1.0) -> object:
    """``nn.elu`` and ``nn.celu``."""
    return of_dtype(x, floating)


@transfer("mlx.nn.softshrink")
def softshrink(requirements: Requirements, x: object, lambd: object = 0.5) -> object:
    """``nn.softshrink``."""
    return of_dtype(x, floating)


@transfer("mlx.nn.hard_shrink")
def hard_shrink(requirements: Requirements, x: object, lambd: object = 0.5) -> object:
    """``nn.hard_shrink``."""
    return of_dtype(x, with_int)


@transfer("mlx.nn.hard_tanh")
def hard_tanh(
    requirements: Requirements, x: object, min_val: object = -1.0, max_val: object = 1.0
) -> object:
    """``nn.hard_tanh``."""
    found = broadcast(requirements, x, min_val)
    return broadcast(requirements, found, max_val)


@transfer("mlx.nn.step")
def step(requirements: Requirements, x: object, threshold: object = 0.0) -> object:
    """``nn.step``: 0 or 1."""
    return ShapedArray(broadcast(requirements, x, threshold).shape, "int32")


@transfer("mlx.nn.softmax")
def softmax(requirements: Requirements, x: object, axis: object = -1) -> object:
    """``nn.softmax``: the same as ``mx.softmax``."""
    return reduction_shapes.softmax(requirements, array_argument(requirements, x), axis)


@transfer("mlx.nn.softmin")
def softmin(requirements: Requirements, x: object, axis: object = -1) -> object:
    """``nn.softmin``: bools have no sign."""
    not_of(requirements, x, "bool")
    return softmax(requirements, x, axis)


@transfer("mlx.nn.log_softmax")
def log_softmax(requirements: Requirements, x: object, axis: object = -1) -> object:
    """``nn.log_softmax``: floating."""
    given = array_argument(requirements, x)
    axes_argument(requirements, axis, given.shape)
    return of_dtype(given, floating)


@transfer("mlx.nn.glu")
def glu(requirements: Requirements, x: object, axis: object = -1) -> object:
    """``nn.glu``: one half of an axis times the sigmoid of the other."""
    given = array_argument(requirements, x)
    not_of(requirements, given, "complex64")
    shape, at = given.shape, axis_argument(requirements, axis, given.shape)
    dtype = floating(given.dtype)
    if at is None:
        return UNKNOWN
    half = divisible(requirements, shape.size(at), 2, f"axis {axis} of {shape} has no two halves")
    return ShapedArray(replaced(shape, (at,), (half,)), dtype)


@transfer("mlx.nn.prelu")
def prelu(requirements: Requirements, x: object, alpha: object) -> object:
    """``nn.prelu``: ``alpha`` broadcasts."""
    given = of_dtype(x, with_int)
    return broadcast(requirements, given, alpha)


# Layers

_LAYERS = {
    "Sigmoid": real_activation,
    "Mish": floating_activation,
    "ReLU": relu,
    "ReLU2": relu,
    "ReLU6": floating_activation,
    "Softmax": softmax,
    "Softplus": floating_activation,
    "Softsign": floating_activation,
    "SiLU": real_activation,
    "LogSoftmax": log_softmax,
    "LogSigmoid": log_sigmoid,
    "Tanh": floating_activation,
    "Hardswish": floating_activation,
    "SELU": floating_activation,
    "HardTanh": hard_tanh,
    "Softmin": softmin,
}


#: Layers that pass one argument of their constructor on: its name and default, the attribute that
#: keeps it, and the function.
_WITH_ONE: dict[str, tuple[str, object, str, Callable[..., object]]] = {
    "LeakyReLU": ("negative_slope", 0.01, "_negative_slope", leaky_relu),
    "ELU": ("alpha", 1.0, "_alpha", elu),
    "CELU": ("alpha", 1.0, "_alpha", elu),
    "Softshrink": ("lambd", 0.5, "lambd", softshrink),
    "HardShrink": ("lambd", 0.5, "lambd", hard_shrink),
    "Step": ("threshold", 0.0, "threshold", step),
    "GLU": ("axis", -1, "axis", glu),
}


def _called(function: Callable[..., object], *names: str) -> Callable[..., object]:
    """Call a function with the input and some attributes."""

    def call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
        return function(requirements, x, *(attributes.get(name, UNKNOWN) for name in names))

    return call


for _name, _function in _LAYERS.items():
    LAYERS[f"mlx.nn.{_name}"] = keeping({}, {})
    LAYER_CALLS[f"mlx.nn.{_name}"] = _called(_function)
for _name, (_parameter, _default, _attribute, _function) in _WITH_ONE.items():
    LAYERS[f"mlx.nn.{_name}"] = keeping({_parameter: _default}, {_attribute: _parameter})
    LAYER_CALLS[f"mlx.nn.{_name}"] = _called(_function, _attribute)


@layer("GELU")
def gelu_layer(requirements: Requirements, approx: object = "none") -> LayerValues:
    """``nn.GELU``: of one of four kinds."""
    if isinstance(approx, str) and approx not in ("none", "precise", "tanh", "fast"):
        requirements.fail(f"approx is {approx!r}")
    return {"_approx": approx}


@layer_call("GELU")
def gelu_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``nn.gelu`` or an approximation."""
    if attributes.get("_approx") in ("none", "fast"):
        return real_activation(requirements, x)
    return floating_activation(requirements, x)


@layer("PReLU")
def prelu_layer(
    requirements: Requirements, num_parameters: object = 1, init: object = 0.25
) -> LayerValues:
    """``nn.PReLU``: a weight of (num_parameters,)."""
    return {"weight": parameter(size_of(requirements, num_parameters, "num_parameters"))}


LAYER_CALLS["mlx.nn.PReLU"] = _called(prelu, "weight")
