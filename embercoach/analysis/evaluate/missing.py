"""Members that MLX's modules and arrays lack, recorded where they are read, called or imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis import mlx_api
from embercoach.analysis.facts.facts import MissingMemberFact, PropertyCallFact
from embercoach.analysis.values.joins import without
from embercoach.analysis.values.lattice import Array, NoneValue, Symbol, Union, Value

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.evaluate.frame import Frame

#: Modules of which the table has every public name.
COMPLETE = frozenset(
    (
        *("mlx.core", "mlx.nn", "mlx.nn.init", "mlx.nn.losses", "mlx.optimizers", "mlx.utils"),
        *("mlx.core.cuda", "mlx.core.distributed", "mlx.core.fast", "mlx.core.fft"),
        *("mlx.core.linalg", "mlx.core.metal", "mlx.core.random"),
    )
)
#: Names that some of these modules import for their own use.
IMPORTED_BY_MLX = frozenset(
    (
        *("Any", "Callable", "Dict", "List", "Literal", "Optional", "Tuple", "Union"),
        *("Reduction", "defaultdict", "get_args", "math", "zip_longest"),
    )
)


def record_member(frame: Frame, node: cst.Attribute, owner: Value) -> None:
    """Record ``owner.name`` if the owner is a module of MLX or an array, without such a name."""
    kind = type(owner)
    if kind is Union:
        owner = without(owner, NoneValue)  # ``mx = None`` where MLX is not installed
        kind = type(owner)
    name = node.attr.value
    if kind is Symbol:
        if owner.name in COMPLETE and _lacks(owner.name, name):  # type: ignore[attr-defined]
            frame.add(MissingMemberFact(node, frame.place(), owner, name))
    elif kind is Array and not name.startswith("__") and mlx_api.array_member(name) is None:
        frame.add(MissingMemberFact(node, frame.place(), owner, name))


def record_import(frame: Frame, alias: cst.ImportAlias, module: str, name: str) -> None:
    """Record ``from mlx.core import name`` if there is no such name."""
    if module in COMPLETE and _lacks(module, name):
        frame.add(MissingMemberFact(alias, frame.place(), Symbol(module), name))


def record_property_call(frame: Frame, node: cst.Call, func: cst.Attribute) -> None:
    """Record ``x.size()``."""
    frame.add(PropertyCallFact(node, frame.place(), func.attr.value))


def _lacks(module: str, name: str) -> bool:
    if name.startswith("_") or name in IMPORTED_BY_MLX:
        return False
    return mlx_api.lookup(f"{module}.{name}") is None
