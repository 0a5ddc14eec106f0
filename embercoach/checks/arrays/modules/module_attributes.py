"""NN: attributes of modules that are trained by accident, or never."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.facts.scopes import Expression, scope_of
from embercoach.analysis.syntax.trees import evaluated, walk
from embercoach.analysis.values.inheritance import is_layer, lineage
from embercoach.analysis.values.joins import any_item
from embercoach.analysis.values.lattice import Array, Instance, LibraryObject, Sequence
from embercoach.analysis.values.promotion import SIGNED
from embercoach.checks.arrays.modules.constant_tables import (
    WAVES,
    is_fixed_projection,
    is_host_table,
)
from embercoach.checks.arrays.modules.table_sources import functions_of
from embercoach.checks.registry import Report, check
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo
    from embercoach.analysis.facts.facts import AttributeFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Characters of a name that a message quotes.
MOST_QUOTED = 24
#: Functions that make tables of constants: positions, masks, frequencies.
TRIANGLES = frozenset(f"mlx.core.{name}" for name in ("tri", "tril", "triu"))
TABLES = TRIANGLES | {"mlx.core.arange", "mlx.core.linspace"}
#: Functions in the initial values of parameters, such as the logarithms of Mamba's decay rates.
STARTS = frozenset(f"mlx.core.{name}" for name in ("random", "log", "zeros", "ones", "full"))
#: What a file that trains calls.
TRAINING = "value_and_grad"
#: Layers of MLX without parameters.
BARE = frozenset(
    f"mlx.nn.{name}"
    for name in (
        *("ALiBi", "AvgPool1d", "AvgPool2d", "AvgPool3d", "CELU", "Dropout", "Dropout2d"),
        *("Dropout3d", "ELU", "GELU", "GLU", "HardShrink", "HardTanh", "Hardswish", "Identity"),
        *("LeakyReLU", "LogSigmoid", "LogSoftmax", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish"),
        *("ReLU", "ReLU2", "ReLU6", "RoPE", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmin"),
        *("SinusoidalPositionalEncoding", "Softplus", "Softshrink", "Softsign", "Step", "Tanh"),
        "Upsample",
    )
)


@check("NN-002")
def constant_parameter(fact: AttributeFact, module: Module) -> Iterator[Report]:
    """``self.positions = mx.arange(n)`` in ``__init__``."""
    value = fact.value
    if fact.name.startswith("_") or type(value) is not Array or value.traced:
        return
    if not _is_built(fact) or not _is_table(fact, value, module):
        return
    if _is_frozen(fact.owner, fact.name):
        return
    yield Report.at(
        fact,
        "NN-002",
        message=f"constant array `{quoted(fact.name, MOST_QUOTED)}` is a trainable parameter",
        help="Begin its name with `_`, or call `self.freeze(keys=[...], recurse=False)`",
        context="avoidable" if TRAINING in module.source else "minor",
    )


def _is_built(fact: AttributeFact) -> bool:
    """Return whether the attribute is set while the module is built."""
    function = fact.place.function
    return function is not None and function.name == "__init__"


def _is_frozen(owner: ClassInfo, name: str) -> bool:
    """Return whether a class or a base freezes parameters, or mentions that one in a string."""
    return any(not _texts(cls).isdisjoint(("", name)) for cls in lineage(owner))


@lru_cache(maxsize=8)
def _texts(cls: ClassInfo) -> frozenset[str]:
    """The strings in a class; the empty one if it calls ``freeze``."""
    found: set[str] = set()
    for node in walk(cls.node):
        if isinstance(node, cst.SimpleString):
            found.add(str(evaluated(node)) or '""')
        elif isinstance(node, cst.Attribute) and node.attr.value == "freeze":
            found.add("")
    return frozenset(found)


def _is_table(fact: AttributeFact, value: Array, module: Module) -> bool:
    """Return whether an array is a table of constants: integers, masks, positions, frequencies."""
    statement = fact.place.statement
    given = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    if given is None:
        return False
    if value.dtype in SIGNED or value.dtype == "bool":
        return True
    symbols = functions_of(Expression(given, scope_of(module, fact.place.function)), module)
    if not TABLES.isdisjoint(symbols):
        starts = STARTS & symbols
        if symbols >= WAVES:  # positions of a transformer, with the logarithm of their periods
            return "mlx.core.random" not in starts
        return not starts or not TRIANGLES.isdisjoint(symbols)
    if "mlx.core.random" in symbols:
        return is_fixed_projection(fact, module)
    return is_host_table(given, symbols)


@check("NN-003")
def layers_in_tuple(fact: AttributeFact, module: Module) -> Iterator[Report]:
    """``self.layers = (nn.Linear(2, 2), nn.Linear(2, 2))``."""
    if fact.name.startswith("_") or not _holds_tuple(fact.value):
        return
    if _is_held_elsewhere(fact):
        return
    yield Report.at(
        fact,
        "NN-003",
        message="layers in a tuple are not found by parameters(): never trained or loaded",
        help="Use a list",
    )


def _holds_tuple(value: Value, depth: int = 3) -> bool:
    """Return whether layers with parameters are in a tuple or a set, in a list or not."""
    if type(value) is not Sequence or depth == 0:
        return False
    items = value.items if value.items is not None else (any_item(value),)
    if value.kind in ("tuple", "set"):
        return any(map(has_parameters, items))
    return value.kind == "list" and any(_holds_tuple(item, depth - 1) for item in items)


def has_parameters(value: Value) -> bool:
    """Return whether a value is a layer that certainly has parameters."""
    if type(value) is LibraryObject:
        return mlx_api.is_layer(value.cls) and value.cls not in BARE
    if type(value) is not Instance or not is_layer(value.info):
        return False
    attributes = (v for cls in lineage(value.info) for v in cls.attributes.values())
    return any(type(v) is LibraryObject and has_parameters(v) for v in attributes)


def _is_held_elsewhere(fact: AttributeFact) -> bool:
    """Return whether the layers may have separate names: ``(self.up, self.down)``."""
    statement = fact.place.statement
    given = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    if isinstance(given, cst.Tuple):
        return not all(isinstance(element.value, cst.Call) for element in given.elements)
    if given is None:
        return True
    plain = ("affine", "False")  # a norm without parameters
    return not any(isinstance(node, cst.Call) for node in walk(given)) or any(
        isinstance(node, cst.Arg)
        and node.keyword is not None
        and (node.keyword.value, getattr(node.value, "value", None)) == plain
        for node in walk(given)
    )


@check("NN-004")
def private_layer(fact: AttributeFact, module: Module) -> Iterator[Report]:
    """``self._head = nn.Linear(2, 2)``."""
    statement = fact.place.statement
    if not fact.name.startswith("_") or not _is_built(fact):
        return
    if not isinstance(statement, cst.Assign) or _is_held_elsewhere(fact):
        return
    if has_parameters(fact.value) or _lists_layers(fact.value):
        yield Report.at(
            fact,
            "NN-004",
            message="layer under a private name is not found by parameters()",
            help="Drop the underscore, unless the layer is never trained, saved or loaded",
        )


def _lists_layers(value: Value) -> bool:
    if type(value) is not Sequence or value.kind != "list":
        return False
    return any(map(has_parameters, value.items or (any_item(value),)))
