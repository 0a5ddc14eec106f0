"""Compare the weights of a checkpoint with the parameters of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlx.utils import tree_flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import mlx.core as mx
    from mlx import nn

_LISTED = 3


def require_parameters(
    weights: Mapping[str, mx.array],
    model: nn.Module,
    name_of: Callable[[str], str] = lambda name: name,
) -> None:
    """Raise a ValueError if weights are not those of a model.

    Args:
        weights: by the names of the model's parameters.
        model: with the expected names and shapes; none of its parameters is evaluated.
        name_of: the name in the checkpoint for the name of a parameter.
    """
    parameters = dict(tree_flatten(model.parameters()))
    _refuse("missing", (name_of(name) for name in parameters if name not in weights))
    _refuse("unexpected", (name for name in weights if name not in parameters))
    for name, parameter in parameters.items():
        if weights[name].shape != parameter.shape:
            raise ValueError(
                f"checkpoint: {name_of(name)!r} must have shape {parameter.shape}, "
                f"got {weights[name].shape}"
            )


def _refuse(kind: str, names: Iterable[str]) -> None:
    found = list(names)
    if found:
        listed = ", ".join(map(repr, found[:_LISTED]))
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise ValueError(f"checkpoint: {kind} weights: {listed}{more}")
