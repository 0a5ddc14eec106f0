"""Layers that compute something else in training than in evaluation, and the models with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.evaluate.members import member
from embercoach.analysis.facts.scopes import made_in_init
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.inheritance import is_layer, lineage
from embercoach.analysis.values.joins import any_item
from embercoach.analysis.values.lattice import Instance, LibraryObject, Sequence

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import ClassInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Layers that compute something else in training.
NAMES = ("Dropout", "BatchNorm")
_DROPOUT = "mlx.nn.Dropout"
#: How deep layers are searched for others.
DEEPEST = 4


def changes_by_mode(
    cls: ClassInfo,
    module: Module,
    depth: int,
    *,
    certain: bool = False,
    names: tuple[str, ...] = NAMES,
) -> bool:
    """Return whether a layer holds one that computes something else in training.

    Args:
        cls: the class of the layer.
        module: the file that is checked.
        depth: how deep layers are searched.
        certain: a dropout counts if its rate is a literal above 0.
        names: how the names of the layers begin.
    """
    if depth == 0 or not is_layer(cls):
        return False
    for name in {name for base in lineage(cls) for name in base.setters}:
        value = member(module.frame, Instance(cls), name)
        if certain and type(value) is LibraryObject and value.cls.startswith(_DROPOUT):
            if _drops(made_in_init(cls, name)):
                return True
        elif is_by_mode(value, module, depth, certain=certain, names=names) or (
            _is_in_sequence(cls, name, certain=certain, names=names)
        ):
            return True
    return False


def _drops(made: cst.CSTNode | None) -> bool:
    """Test for ``nn.Dropout()`` and ``nn.Dropout(0.1)``."""
    if not isinstance(made, cst.Call):
        return False
    rate = made.args[0].value if made.args else None
    return rate is None or (isinstance(rate, cst.Float) and rate.evaluated_value > 0)


def _is_in_sequence(
    cls: ClassInfo, name: str, *, certain: bool, names: tuple[str, ...] = NAMES
) -> bool:
    """``self.layers = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5))``."""
    made = made_in_init(cls, name)
    if not isinstance(made, cst.Call) or not (dotted(made.func) or "").endswith("Sequential"):
        return False
    for inner in (a.value for a in made.args if isinstance(a.value, cst.Call)):
        kind = (dotted(inner.func) or "").rpartition(".")[2]
        if kind.startswith(names) and not (
            certain and kind.startswith("Dropout") and not _drops(inner)
        ):
            return True
    return False


def is_by_mode(
    value: Value,
    module: Module,
    depth: int,
    *,
    certain: bool = False,
    names: tuple[str, ...] = NAMES,
) -> bool:
    """Return whether a value is, or holds, a layer that computes something else in training."""
    if type(value) is LibraryObject:
        is_layer_of_them = value.cls.startswith("mlx.nn.") and value.cls[7:].startswith(names)
        return is_layer_of_them and not (certain and value.cls.startswith(_DROPOUT))
    if type(value) is Instance:
        return changes_by_mode(value.info, module, depth - 1, certain=certain, names=names)
    if type(value) is Sequence and depth:
        items = value.items if value.items is not None else (any_item(value),)
        return any(
            is_by_mode(item, module, depth - 1, certain=certain, names=names) for item in items
        )
    return False
