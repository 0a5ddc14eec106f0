"""The table of transfer functions: what MLX returns for shapes and dtypes, and what it refuses.

Each module registers those of one kind of operation, by MLX's full names. They are tested against
MLX itself: tests/analysis/shapes draws calls and compares.

A transfer function has MLX's parameters, after ``requirements``, and gets values:

- ``ShapedArray`` for an array, ``UNKNOWN`` for a value of which nothing is known, not even whether
  it is an array;
- ``int``, ``SizeExpr`` or ``ANY_INT`` for an integer, ``float``, ``Ratio``, ``bool``, ``str``,
  ``AnyScalar`` for other scalars, ``None``;
- ``tuple``, ``list`` and ``dict`` of values, ``DTypeValue`` for a dtype, a ``slice`` of values.

It returns a value, raises ``ShapeError`` (through ``requirements``) where MLX raises for all values
of the symbols, and ``UNKNOWN`` or an array of an unknown shape where it can't decide. What Python
can't bind (a keyword that the function doesn't have) raises ``TypeError``: the caller of a transfer
function takes that for an unknown result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

#: The attributes of a layer, by their names.
LayerValues = dict[str, Any]

#: By MLX's name (``mlx.core.reshape``; ``mlx.core.array.reshape`` for a method, self first).
TRANSFERS: dict[str, Callable[..., Any]] = {}
#: What the constructor of a layer sets.
LAYERS: dict[str, Callable[..., LayerValues]] = {}
#: What calling a layer returns: ``(requirements, attributes, *arguments)``.
LAYER_CALLS: dict[str, Callable[..., Any]] = {}


def transfer(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under names of ``mlx.core``, or under full names."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TRANSFERS[name if name.startswith("mlx") else f"mlx.core.{name}"] = function
        return function

    return register


def layer(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the constructor of a layer, which returns its attributes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        LAYERS[name if "." in name else f"mlx.nn.{name}"] = function
        return function

    return register


def layer_call(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what calling layers returns."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            LAYER_CALLS[name if "." in name else f"mlx.nn.{name}"] = function
        return function

    return register


@cache
def load() -> None:
    """Import the modules of the table, which registers their functions."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
