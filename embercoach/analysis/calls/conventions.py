"""Values of parameters without annotations, by MLX's own conventions.

A method that overrides one of MLX's classes, or one that mlx-lm's loader calls, is called with
known kinds of arguments, whoever calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.evaluate.dispatch import left_in
from embercoach.analysis.syntax.trees import walk
from embercoach.analysis.values.inheritance import (
    find_method,
    is_layer,
    library_bases,
)
from embercoach.analysis.values.lattice import (
    ARRAY,
    TREE,
    UNKNOWN,
    Array,
    Class,
    Dict,
    Instance,
    LibraryObject,
    Value,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo

#: Names that configuration objects go by: what they hold is host data.
SETTING_NAMES = frozenset({"config", "cfg", "args", "hparams", "configuration", "settings"})
TRACED = Array(traced=True)
OPTIMIZER = "mlx.optimizers.Optimizer"
STATE = Dict(UNKNOWN)

#: Overrides of ``mlx.optimizers.Optimizer``: parameters after ``self``.
_OPTIMIZER_METHODS: dict[str, tuple[Value, ...]] = {
    "init_single": (TRACED, STATE),
    "apply_single": (TRACED, TRACED, STATE),
    "apply_gradients": (TREE, TREE),
}


def assumed_parameter(info: FunctionInfo, index: int, name: str) -> Value | None:
    """Return a parameter's value by its method's role; None without a convention."""
    if name == "optimizer" and "torch" not in info.module.source:
        return LibraryObject(OPTIMIZER)
    cls = info.cls
    if cls is None or index == 0:
        return None
    if is_layer(cls):
        if info.name == "__call__" and index == 1 and name not in info.denied_arrays:
            return None if name in SETTING_NAMES or _is_unpacked(info, name) else ARRAY
        if info.name == "sanitize" and index == 1:
            # mlx-lm's loader hands a checkpoint's arrays by name.
            return Dict(ARRAY)
        if info.name == "__init__" and name in ("args", "config"):
            return _model_arguments(info)
        return None
    known = _OPTIMIZER_METHODS.get(info.name)
    if known is None or index > len(known):
        return None
    if not any(base.startswith("mlx.optimizers.") for base in library_bases(cls)):
        return None
    return _initial_state(info) if known[index - 1] is STATE else known[index - 1]


def _is_unpacked(info: FunctionInfo, name: str) -> bool:
    """Test whether a body assigns the items of a parameter to names: it is a tuple."""
    return any(
        isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Name)
        and node.value.value == name
        and any(isinstance(target.target, (cst.Tuple, cst.List)) for target in node.targets)
        for node in walk(info.node.body)
    )


def _initial_state(info: FunctionInfo) -> Value:
    """Return the result of ``init_single``, the state that ``apply_single`` takes."""
    assert info.cls is not None
    maker = find_method(info.cls, "init_single")
    if maker is None or maker is info or len(maker.parameters) < 3:
        return Dict(UNKNOWN)
    return left_in(maker, maker.parameters[2].name)


def _model_arguments(info: FunctionInfo) -> Value | None:
    """mlx-lm's and mlx-vlm's loaders build a file's ``Model`` from its ``ModelArgs``."""
    for name in ("ModelArgs", "ModelConfig"):
        value = info.module.frame.names.get(name)
        if isinstance(value, Class):
            return Instance(value.info)
    return None
