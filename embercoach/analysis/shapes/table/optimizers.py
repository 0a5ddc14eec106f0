"""``mlx.optimizers``: updates keep shapes, and schedules give one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape, ShapedArray
from embercoach.analysis.shapes.table.transfers import (
    LAYERS,
    layer,
    layer_call,
    transfer,
)

if TYPE_CHECKING:
    from embercoach.analysis.shapes.requirements import Requirements

Attributes = dict[str, Any]
_NAMES = (
    *("SGD", "RMSprop", "Adagrad", "AdaDelta", "Adam", "AdamW", "Adamax", "Lion", "Adafactor"),
    *("Muon", "MultiOptimizer"),
)


def optimizer(requirements: Requirements, *args: object, **kwargs: object) -> Attributes:
    """An optimizer, whose state is not followed."""
    return {"learning_rate": UNKNOWN, "state": UNKNOWN, "step": ShapedArray(ArrayShape(), "uint64")}


for _name in _NAMES:
    LAYERS[f"mlx.optimizers.{_name}"] = optimizer


@transfer(*(f"mlx.optimizers.{name}.update" for name in _NAMES))
@transfer(*(f"mlx.optimizers.{name}.init" for name in _NAMES))
def update(
    requirements: Requirements, attributes: Attributes, model: object, gradients: object = None
) -> object:
    """``optimizer.update``: the parameters keep their shapes."""
    return None


@transfer(*(f"mlx.optimizers.{name}.apply_gradients" for name in _NAMES))
def apply_gradients(
    requirements: Requirements, attributes: Attributes, gradients: object, parameters: object
) -> object:
    """``optimizer.apply_gradients``: parameters like those that have a gradient."""
    return updated(gradients, parameters)


def updated(gradients: object, parameters: object) -> object:
    """The parameters in the structure of the gradients."""
    if isinstance(gradients, dict) and isinstance(parameters, dict):
        return {
            key: updated(value, parameters.get(key, UNKNOWN)) for key, value in gradients.items()
        }
    return parameters if isinstance(parameters, ShapedArray) else UNKNOWN


@transfer("mlx.optimizers.clip_grad_norm")
def clip_grad_norm(requirements: Requirements, grads: object, max_norm: object) -> object:
    """``clip_grad_norm``: gradients of the same shapes, and the norm."""
    return grads, ShapedArray(ArrayShape())


@layer("mlx.optimizers.exponential_decay")
@layer("mlx.optimizers.step_decay")
@layer("mlx.optimizers.cosine_decay")
@layer("mlx.optimizers.linear_schedule")
@layer("mlx.optimizers.join_schedules")
def schedule(requirements: Requirements, *args: object, **kwargs: object) -> Attributes:
    """A function of the step."""
    return {}


@layer_call(
    "mlx.optimizers.cosine_decay", "mlx.optimizers.linear_schedule", "mlx.optimizers.join_schedules"
)
def scheduled(requirements: Requirements, attributes: Attributes, step: object) -> object:
    """The learning rate of a step."""
    shape = step.shape if isinstance(step, ShapedArray) else ArrayShape()
    return UNKNOWN if step is UNKNOWN else ShapedArray(shape)
