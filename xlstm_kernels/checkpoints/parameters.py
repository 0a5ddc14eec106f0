"""Read the parameters of a model from the weights of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

_LISTED = 3


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a parameter."""

    key: str  # its name in the checkpoint
    shapes: tuple[tuple[int, ...], ...]  # the accepted shapes there
    read: Callable[[mx.array], mx.array] | None = None  # makes the parameter of the weight


def parameter_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of a model's parameters by name; nothing is evaluated."""
    parameters: dict[str, mx.array] = dict(tree_flatten(model.parameters()))
    return {name: parameter.shape for name, parameter in parameters.items()}


def gather(sources: Mapping[str, Source], weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Read parameters by their sources from the weights of a checkpoint; nothing is evaluated.

    Raise a ValueError for missing, unexpected and misshapen weights.
    """
    keys = {source.key for source in sources.values()}
    _refuse("missing", sorted(keys - weights.keys()))
    _refuse("unexpected", sorted(weights.keys() - keys))
    parameters = {}
    for name, source in sources.items():
        weight = weights[source.key]
        if weight.shape not in source.shapes:
            raise ValueError(
                f"checkpoint: {source.key!r} must have shape "
                f"{' or '.join(map(str, source.shapes))}, got {weight.shape}"
            )
        parameters[name] = weight if source.read is None else source.read(weight)
    return parameters


def require_parameters(weights: Mapping[str, mx.array], model: nn.Module) -> None:
    """Accept weights with the names and shapes of a model's parameters; else raise a ValueError."""
    shapes = parameter_shapes(model)
    gather({name: Source(name, (shape,)) for name, shape in shapes.items()}, weights)


def _refuse(kind: str, keys: list[str]) -> None:
    if keys:
        more = f" and {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
        listed = ", ".join(map(repr, keys[:_LISTED]))
        raise ValueError(f"checkpoint: {kind} weights: {listed}{more}")
