"""``nn.losses`` and ``mlx.optimizers``: what they check, and what reductions and updates leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    DType,
    ShapedArray,
    floating,
    promote,
    shape_of_rank,
)
from embercoach.analysis.shapes.table import (
    LAYERS,
    LayerValues,
    layer,
    layer_call,
    transfer,
)
from embercoach.analysis.shapes.table.activations import with_int
from embercoach.analysis.shapes.table.elementwise import array_argument, broadcast
from embercoach.analysis.shapes.table.fast import same_shape
from embercoach.analysis.shapes.table.layer_shapes import WITHOUT_DEFAULT, bound_options
from embercoach.analysis.shapes.table.products import integral
from embercoach.analysis.shapes.table.reduction_shapes import axis_argument, replaced, summed_dtype

if TYPE_CHECKING:
    from embercoach.analysis.shapes.requirements import Requirements

_NAMES = (
    *("SGD", "RMSprop", "Adagrad", "AdaDelta", "Adam", "AdamW", "Adamax", "Lion", "Adafactor"),
    *("Muon", "MultiOptimizer"),
)


def optimizer(requirements: Requirements, *args: object, **kwargs: object) -> LayerValues:
    """Return an optimizer, whose state is not followed."""
    return {"learning_rate": UNKNOWN, "state": UNKNOWN, "step": ShapedArray(ArrayShape(), "uint64")}


for _name in _NAMES:
    LAYERS[f"mlx.optimizers.{_name}"] = optimizer


@transfer(*(f"mlx.optimizers.{name}.update" for name in _NAMES))
@transfer(*(f"mlx.optimizers.{name}.init" for name in _NAMES))
def update(
    requirements: Requirements, attributes: LayerValues, model: object, gradients: object = None
) -> object:
    """``optimizer.update``: the parameters keep their shapes."""
    return None


@transfer(*(f"mlx.optimizers.{name}.apply_gradients" for name in _NAMES))
def apply_gradients(
    requirements: Requirements, attributes: LayerValues, gradients: object, parameters: object
) -> object:
    """``optimizer.apply_gradients``: parameters like those that have a gradient."""
    return updated(gradients, parameters)


def updated(gradients: object, parameters: object) -> object:
    """Return the parameters in the structure of the gradients."""
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
def schedule(requirements: Requirements, *args: object, **kwargs: object) -> LayerValues:
    """Return a function of the step."""
    return {}


@layer_call(
    "mlx.optimizers.cosine_decay", "mlx.optimizers.linear_schedule", "mlx.optimizers.join_schedules"
)
def scheduled(requirements: Requirements, attributes: LayerValues, step: object) -> object:
    """Return the learning rate of a step."""
    shape = step.shape if isinstance(step, ShapedArray) else ArrayShape()
    return UNKNOWN if step is UNKNOWN else ShapedArray(shape)


def losses(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under names of ``nn.losses``."""
    return transfer(*(f"mlx.nn.losses.{name}" for name in names))


def reduced(requirements: Requirements, loss: ShapedArray, reduction: object) -> object:
    """Return the loss, or its mean or sum."""
    if reduction == "none":
        return loss
    if reduction == "mean":
        return ShapedArray(ArrayShape(), floating(loss.dtype))
    if reduction == "sum":
        return ShapedArray(ArrayShape(), summed_dtype(loss.dtype))
    if reduction is None:
        requirements.fail("the reduction is None")
    requirements.one_of("reduction", reduction, ("none", "mean", "sum"))
    return UNKNOWN


def alike(requirements: Requirements, first: object, *others: object) -> ShapedArray:
    """Require arrays of one shape, and return it with the dtype that they promote to."""
    result = array_argument(requirements, first)
    for other in others:
        array = array_argument(requirements, other)
        reason = f"the shapes {result.shape} and {array.shape} differ"
        shape = same_shape(requirements, result.shape, array.shape, reason)
        result = ShapedArray(shape, promote(result.dtype, array.dtype))
    return result


def weighted(requirements: Requirements, loss: ShapedArray, weights: object) -> ShapedArray:
    """Return the loss times weights of its shape."""
    return loss if weights is None else alike(requirements, loss, weights)


def removed(requirements: Requirements, shape: ArrayShape, axis: object) -> ArrayShape:
    """Return the shape without one axis."""
    at = axis_argument(requirements, axis, shape)
    if at is None:
        return shape_of_rank(shape.rank or None, -1)
    return replaced(shape, (at,), (None,))


@losses("cross_entropy")
def cross_entropy(
    requirements: Requirements,
    logits: object,
    targets: object,
    weights: object = None,
    axis: object = -1,
    label_smoothing: object = 0.0,
    reduction: object = "none",
) -> object:
    """``nn.losses.cross_entropy``: targets are classes, or probabilities of the logits' shape."""
    if type(label_smoothing) in (int, float) and not 0 <= label_smoothing < 1:  # type: ignore[operator]
        requirements.fail(f"label_smoothing is {label_smoothing}, not in [0, 1)")
    given, wanted = array_argument(requirements, logits), array_argument(requirements, targets)
    reason = f"the shape of the targets is {wanted.shape}, and that of the logits {given.shape}"
    dtype = floating(given.dtype)
    rest = removed(requirements, given.shape, axis)
    ranks = given.shape.rank, wanted.shape.rank
    if None in ranks:
        # Whether the targets are classes is not known.
        is_class = isinstance(wanted.dtype, str) and "int" in wanted.dtype
        if is_class and wanted.shape.rank is not None and given.shape.least_rank:
            rest = wanted.shape
        loss = ShapedArray(rest, dtype if is_class else None)
    elif ranks[0] == ranks[1]:
        same_shape(requirements, given.shape, wanted.shape, reason)
        loss = ShapedArray(rest, floating(promote(given.dtype, wanted.dtype)))
    else:
        rest = same_shape(requirements, rest, wanted.shape, reason)
        integral(requirements, wanted)
        loss = ShapedArray(rest, dtype)
    return reduced(requirements, weighted(requirements, loss, weights), reduction)


@losses("binary_cross_entropy")
def binary_cross_entropy(
    requirements: Requirements,
    inputs: object,
    targets: object,
    weights: object = None,
    with_logits: object = True,
    reduction: object = "mean",
) -> object:
    """``nn.losses.binary_cross_entropy``: of arrays of one shape."""
    found = alike(requirements, inputs, targets)
    given, wanted = array_argument(requirements, inputs), array_argument(requirements, targets)
    loss = ShapedArray(found.shape, promote(floating(given.dtype), wanted.dtype))
    return reduced(requirements, weighted(requirements, loss, weights), reduction)


@losses("nll_loss")
def nll_loss(
    requirements: Requirements,
    inputs: object,
    targets: object,
    axis: object = -1,
    reduction: object = "none",
) -> object:
    """``nn.losses.nll_loss``: classes choose along an axis; other axes broadcast."""
    given, classes = array_argument(requirements, inputs), array_argument(requirements, targets)
    integral(requirements, classes)
    rest = removed(requirements, given.shape, axis)
    if None not in (rest.rank, classes.shape.rank) and rest.rank != classes.shape.rank:
        requirements.fail(
            f"the shape of the targets is {classes.shape}, and that of the inputs {given.shape}"
        )
    shape = requirements.broadcast(rest, classes.shape)
    return reduced(requirements, ShapedArray(shape, given.dtype), reduction)


@losses("kl_div_loss")
def kl_div_loss(
    requirements: Requirements,
    inputs: object,
    targets: object,
    axis: object = -1,
    reduction: object = "none",
) -> object:
    """``nn.losses.kl_div_loss``: a sum over an axis."""
    found = broadcast(requirements, inputs, targets)
    loss = ShapedArray(removed(requirements, found.shape, axis), floating(found.dtype))
    return reduced(requirements, loss, reduction)


@losses("triplet_loss")
def triplet_loss(  # noqa: PLR0913, PLR0917
    requirements: Requirements,
    anchors: object,
    positives: object,
    negatives: object,
    axis: object = -1,
    p: object = 2,
    margin: object = 1.0,
    eps: object = 1e-6,
    reduction: object = "none",
) -> object:
    """``nn.losses.triplet_loss``: distances along an axis."""
    near, far = (
        broadcast(requirements, anchors, positives),
        broadcast(requirements, anchors, negatives),
    )
    distances = [
        ShapedArray(removed(requirements, one.shape, axis), floating(one.dtype))
        for one in (near, far)
    ]
    return reduced(requirements, broadcast(requirements, *distances), reduction)


def _elementwise(
    combine: Callable[..., ShapedArray],
    arrays: str,
    dtype: Callable[[DType], DType],
    **others: object,
) -> Callable[..., object]:
    """Make a loss of elements.

    Args:
        combine: what requires the arrays to have one shape, or to broadcast.
        arrays: the names of their parameters.
        dtype: that of the loss, for the one that the arrays promote to.
        others: the defaults of the other parameters, in order.
    """
    names = arrays.split()
    defaults = dict.fromkeys(names, WITHOUT_DEFAULT) | others

    def loss(requirements: Requirements, *args: object, **kwargs: object) -> object:
        options = bound_options(defaults, args, kwargs)
        found = combine(requirements, *(options[name] for name in names))
        made = ShapedArray(found.shape, dtype(found.dtype))
        return reduced(requirements, made, options["reduction"])

    return loss


_PAIR = "inputs targets"
_PREDICTED = _elementwise(alike, "predictions targets", lambda dtype: dtype, reduction="mean")
losses("l1_loss", "mse_loss")(_PREDICTED)
losses("smooth_l1_loss")(
    _elementwise(alike, "predictions targets", floating, beta=1.0, reduction="mean")
)
losses("gaussian_nll_loss")(
    _elementwise(alike, f"{_PAIR} vars", floating, full=False, eps=1e-6, reduction="mean")
)
losses("hinge_loss")(_elementwise(broadcast, _PAIR, with_int, reduction="none"))
losses("huber_loss")(_elementwise(broadcast, _PAIR, floating, delta=1.0, reduction="none"))
losses("log_cosh_loss")(_elementwise(broadcast, _PAIR, floating, reduction="none"))


@losses("cosine_similarity_loss")
def cosine_similarity_loss(
    requirements: Requirements,
    x1: object,
    x2: object,
    axis: object = 1,
    eps: object = 1e-08,
    reduction: object = "none",
) -> object:
    """``nn.losses.cosine_similarity_loss``: along an axis."""
    first, second = array_argument(requirements, x1), array_argument(requirements, x2)
    norms = broadcast(
        requirements,
        *(
            ShapedArray(removed(requirements, one.shape, axis), one.dtype)
            for one in (first, second)
        ),
    )
    found = broadcast(requirements, first, second)
    products = ShapedArray(removed(requirements, found.shape, axis), floating(found.dtype))
    return reduced(requirements, broadcast(requirements, products, norms), reduction)


@losses("margin_ranking_loss")
def margin_ranking_loss(
    requirements: Requirements,
    inputs1: object,
    inputs2: object,
    targets: object,
    margin: object = 0.0,
    reduction: object = "none",
) -> object:
    """``nn.losses.margin_ranking_loss``: of arrays of one shape."""
    found = alike(requirements, inputs1, inputs2, targets)
    dtype = floating(found.dtype) if type(margin) is float else None
    return reduced(requirements, ShapedArray(found.shape, dtype), reduction)
