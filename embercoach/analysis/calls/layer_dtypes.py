"""Dtypes of what layers return, in files that set the dtype of their models."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.promotion import FLOATING, HALF

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import Argument
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
    """The dtype of a layer's result, None if unknown.

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
    """The dtype of a layer's weights, None if unknown; quantized ones are integers."""
    name = layer.removeprefix("mlx.nn.")
    return model_dtype(module) if name in _WEIGHTED or name == "Embedding" else None


@lru_cache(maxsize=2)
def model_dtype(module: Module) -> str | None:
    """The one dtype that a file sets for its models, if it is half precision.

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
    """The dtype that a call sets for a model."""
    if not isinstance(node.func, cst.Attribute) or not node.args:
        return None
    first, name = node.args[0].value, node.func.attr.value
    if name == "set_dtype":
        return first
    cast = first.body if name == "apply" and isinstance(first, cst.Lambda) else None
    is_cast = isinstance(cast, cst.Call) and (dotted(cast.func) or "").endswith(".astype")
    return cast.args[0].value if isinstance(cast, cst.Call) and is_cast and cast.args else None
