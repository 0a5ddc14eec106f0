"""Layers of ``mlx.nn``: what their constructors set, and what calling them returns."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from embercoach.analysis.shapes.arrays import (
    ANY_BOOL,
    FLOATS,
    PARAMETERS,
    UNKNOWN,
    AnyScalar,
    ArrayShape,
    AxesSymbol,
    DType,
    DTypeValue,
    Ratio,
    ShapedArray,
    floating,
    is_floating,
    promote,
    unknown_shape,
    with_last,
    without_first,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    multiply,
    not_below_zero,
    product,
    subtract,
)
from embercoach.analysis.shapes.table import (
    LAYER_CALLS,
    LAYERS,
    LayerValues,
    layer,
    layer_call,
    transfer,
)
from embercoach.analysis.shapes.table.elementwise import array_argument, broadcast
from embercoach.analysis.shapes.table.fast import layer_norm, rms_norm, rope
from embercoach.analysis.shapes.table.joining_shapes import fits
from embercoach.analysis.shapes.table.products import addmm, divisible, inexact, integral, weighted

FLOAT32 = DTypeValue("float32")


class MadeLayer(Struct):
    """A layer that the constructor of another one makes.

    name: its class in full (``mlx.nn.Linear``); attributes: as ``LAYERS`` returns them.
    """

    name: str
    attributes: LayerValues = field(default_factory=dict)


def call_made(requirements: Requirements, made: object, *args: object) -> object:
    """Return the result of calling a layer in an attribute, ``UNKNOWN`` if it was replaced."""
    name, attributes = getattr(made, "name", None), getattr(made, "attributes", None)
    call = LAYER_CALLS.get(name) if isinstance(name, str) else None
    if call is None or not isinstance(attributes, dict):
        return UNKNOWN
    return call(requirements, attributes, *args)


def size_of(requirements: Requirements, value: object, name: str) -> Integer:
    """Return the size that an argument of a constructor is."""
    if is_integer(value):
        if type(value) is int and value < 0:
            requirements.fail(f"{name} is {value}, which is negative")
        return value
    is_other = value is None or isinstance(value, (float, Ratio, str, tuple, list, AnyScalar))
    if is_other and value != ANY_BOOL:
        requirements.refuse(f"{name} is {_shown(value)}, not an integer")
    return ANY_INT


def _shown(value: object) -> str:
    """Return a value in a message."""
    if isinstance(value, AnyScalar):
        return f"a {value.kind}"
    if isinstance(value, Ratio):
        return f"the float {value.numerator} / {value.denominator}"
    return repr(value)


def positive(requirements: Requirements, value: object, name: str) -> Integer:
    """Return a size that a constructor divides by."""
    size = size_of(requirements, value, name)
    if size == 0:
        requirements.fail(f"{name} is 0")
    return size


def is_set(flag: object) -> bool:
    """Return whether a flag is set; one that isn't known is taken for set."""
    return bool(flag) if isinstance(flag, (bool, int, float)) or flag is None else True


def or_default(value: object, default: object) -> object:
    """Return an argument of a constructor, or what stands for none and for 0."""
    return default if value is None or value == 0 else value


def parameter(*sizes: Integer) -> ShapedArray:
    """Return a parameter of a layer."""
    return ShapedArray(ArrayShape(sizes), PARAMETERS)


#: The default of a parameter that has none.
WITHOUT_DEFAULT = object()


def bound_options(
    defaults: dict[str, object], args: tuple[object, ...], kwargs: dict[str, object]
) -> dict[str, object]:
    """Get the values of parameters, by position or name; raises ``TypeError`` where Python does."""
    given = dict(zip(defaults, args, strict=False))
    found = {**defaults, **given, **kwargs}
    is_known = len(args) <= len(defaults) and not kwargs.keys() & given.keys()
    if not is_known or kwargs.keys() - defaults.keys() or WITHOUT_DEFAULT in found.values():
        raise TypeError(defaults)
    return found


def keeping(defaults: dict[str, object], kept: dict[str, str]) -> Callable[..., LayerValues]:
    """Make a constructor that keeps parameters as attributes.

    Args:
        defaults: of the parameters, in order.
        kept: by the name of an attribute that of the parameter.
    """

    def construct(requirements: Requirements, *args: object, **kwargs: object) -> LayerValues:
        options = bound_options(defaults, args, kwargs)
        return {name: options[parameter] for name, parameter in kept.items()}

    return construct


def with_bias(attributes: LayerValues, bias: object, *sizes: Integer) -> LayerValues:
    """Return the attributes of a layer, with a bias if it has one."""
    return {**attributes, "bias": parameter(*sizes)} if is_set(bias) else attributes


def biased(requirements: Requirements, attributes: LayerValues, result: object) -> object:
    """``result + self.bias`` where the layer has one."""
    if "bias" not in attributes:
        return result
    return broadcast(requirements, result, attributes["bias"])


def scaled_and_shifted(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``self.weight * x + self.bias`` where the layer has them."""
    if "weight" not in attributes:
        return x
    found = broadcast(requirements, attributes["weight"], x)
    return broadcast(requirements, found, attributes.get("bias", UNKNOWN))


# Linear layers


@layer("Linear")
def linear(
    requirements: Requirements, input_dims: object, output_dims: object, bias: object = True
) -> LayerValues:
    """``nn.Linear``: a weight of (output_dims, input_dims)."""
    inner = positive(requirements, input_dims, "input_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    return with_bias({"weight": parameter(outer, inner)}, bias, outer)


def transposed(weight: object) -> object:
    """``weight.T``."""
    if not isinstance(weight, ShapedArray):
        return UNKNOWN
    shape = weight.shape
    return ShapedArray(
        ArrayShape(shape.tail[::-1], shape.middle, shape.head[::-1])
        if shape.middle
        else ArrayShape(shape.head[::-1]),
        weight.dtype,
    )


@layer_call("Linear", "AllToShardedLinear")
def linear_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``x @ weight.T + bias``."""
    weight = transposed(attributes.get("weight"))
    if "bias" in attributes:
        return addmm(requirements, attributes["bias"], x, weight)
    return weighted(requirements, x, weight)


def _sharded(*, is_output: bool) -> Callable[..., LayerValues]:
    """Make a linear layer whose output or input is divided by the number of processes."""

    def construct(
        requirements: Requirements,
        input_dims: object,
        output_dims: object,
        bias: object = True,
        group: object = None,
    ) -> LayerValues:
        made = linear(requirements, input_dims, output_dims, bias)
        outer, inner = made["weight"].shape.head
        weight = parameter(ANY_INT, inner) if is_output else parameter(outer, ANY_INT)
        if is_output and "bias" in made:
            made["bias"] = parameter(ANY_INT)
        return {**made, "weight": weight, "group": UNKNOWN}

    return construct


LAYERS["mlx.nn.AllToShardedLinear"] = _sharded(is_output=True)
LAYERS["mlx.nn.ShardedToAllLinear"] = _sharded(is_output=False)


@layer_call("ShardedToAllLinear")
def sharded_to_all_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``x @ weight.T``, summed over processes, and the bias."""
    found = weighted(requirements, x, transposed(attributes.get("weight")))
    return biased(requirements, attributes, found)


@layer("Bilinear")
def bilinear(
    requirements: Requirements,
    input1_dims: object,
    input2_dims: object,
    output_dims: object,
    bias: object = True,
) -> LayerValues:
    """``nn.Bilinear``: a weight of (output_dims, input2_dims, input1_dims)."""
    first = positive(requirements, input1_dims, "input1_dims")
    second = size_of(requirements, input2_dims, "input2_dims")
    outer = size_of(requirements, output_dims, "output_dims")
    return with_bias({"weight": parameter(outer, second, first)}, bias, outer)


@layer_call("Bilinear")
def bilinear_call(
    requirements: Requirements, attributes: LayerValues, x1: object, x2: object
) -> object:
    """Combine rows of ``x1`` and ``x2`` one by one."""
    weight = array_argument(requirements, attributes.get("weight"))
    a, b = array_argument(requirements, x1), array_argument(requirements, x2)
    reason = f"the weight is {weight.shape}, and the inputs are {a.shape} and {b.shape}"
    outer, second, first = requirements.rank(weight, 3, reason)
    if a.shape.rank == 0:
        requirements.fail(reason)
    requirements.equal(a.shape.size(-1), first, reason)
    rest = without_last(a.shape)
    rows = divisible(requirements, b.shape.elements, second, reason)
    fits(requirements, ArrayShape((rows,)), ArrayShape((rest.elements,)), reason)
    dtype = inexact(requirements, promote(promote(a.dtype, weight.dtype), b.dtype))
    return biased(requirements, attributes, ShapedArray(with_last(rest, outer), dtype))


@layer("Identity")
def identity(requirements: Requirements, *args: object, **kwargs: object) -> LayerValues:
    """``nn.Identity`` takes any arguments."""
    return {}


@layer_call("Identity")
def identity_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return the input."""
    return x


@layer("Embedding")
def embedding(requirements: Requirements, num_embeddings: object, dims: object) -> LayerValues:
    """``nn.Embedding``: a weight of (num_embeddings, dims)."""
    rows = size_of(requirements, num_embeddings, "num_embeddings")
    return {"weight": parameter(rows, positive(requirements, dims, "dims"))}


def rows_of(requirements: Requirements, weight: object, indices: object) -> object:
    """``weight[indices]``, for indices that are an array or an integer."""
    table = array_argument(requirements, weight)
    if is_integer(indices):
        return ShapedArray(without_first(table.shape), table.dtype)
    rest = without_first(table.shape)
    if rest.middle is not None:
        return ShapedArray(unknown_shape(), table.dtype)
    given = indices if isinstance(indices, ShapedArray) else ShapedArray(unknown_shape())
    integral(requirements, given)
    return ShapedArray(with_last(given.shape, *rest.head), table.dtype)


@layer_call("Embedding")
def embedding_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``weight[x]``."""
    return rows_of(requirements, attributes.get("weight"), x)


@transfer("mlx.nn.Embedding.as_linear")
def embedding_as_linear(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``x @ weight.T``."""
    return weighted(requirements, x, transposed(attributes.get("weight")))


@transfer("mlx.nn.Linear.to_quantized", "mlx.nn.Embedding.to_quantized")
def to_quantized(
    requirements: Requirements, attributes: LayerValues, *args: object, **kwargs: object
) -> object:
    """Return a layer that isn't followed."""
    return UNKNOWN


# Normalization


def _check_eps(requirements: Requirements, eps: object) -> None:
    if type(eps) in (int, float) and eps <= 0:  # type: ignore[operator]
        requirements.fail(f"eps is {eps}, which is not positive")


@layer("LayerNorm")
def layer_norm_layer(
    requirements: Requirements,
    dims: object,
    eps: object = 1e-05,
    affine: object = True,
    bias: object = True,
) -> LayerValues:
    """``nn.LayerNorm``: weight and bias of (dims,)."""
    _check_eps(requirements, eps)
    attributes: LayerValues = {"eps": eps, "dims": dims}
    if is_set(affine):
        size = size_of(requirements, dims, "dims")
        attributes["weight"] = parameter(size)
        if is_set(bias):
            attributes["bias"] = parameter(size)
    return attributes


@layer_call("LayerNorm")
def layer_norm_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``mx.fast.layer_norm`` with the parameters."""
    weight, bias = attributes.get("weight"), attributes.get("bias")
    return layer_norm(requirements, x, weight, bias, attributes.get("eps"))


@layer("RMSNorm")
def rms_norm_layer(requirements: Requirements, dims: object, eps: object = 1e-05) -> LayerValues:
    """``nn.RMSNorm``: a weight of (dims,)."""
    _check_eps(requirements, eps)
    return {"weight": parameter(size_of(requirements, dims, "dims")), "eps": eps}


@layer_call("RMSNorm")
def rms_norm_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """``mx.fast.rms_norm`` with the weight."""
    return rms_norm(requirements, x, attributes.get("weight", UNKNOWN), attributes.get("eps"))


@layer("InstanceNorm")
def instance_norm(
    requirements: Requirements, dims: object, eps: object = 1e-05, affine: object = False
) -> LayerValues:
    """``nn.InstanceNorm``: weight and bias of (dims,) if affine."""
    _check_eps(requirements, eps)
    attributes: LayerValues = {"dims": dims, "eps": eps}
    if affine is not False and is_set(affine):
        size = size_of(requirements, dims, "dims")
        attributes |= {"weight": parameter(size), "bias": parameter(size)}
    return attributes


@layer_call("InstanceNorm")
def instance_norm_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return the shape of ``x``, which is (N, ..., C)."""
    given = array_argument(requirements, x)
    requirements.least_rank(given, 3, f"{given.shape} has fewer than 3 axes")
    if isinstance(given.dtype, str) and given.dtype not in FLOATS:
        requirements.fail(f"the input is {given.dtype}")
    return scaled_and_shifted(requirements, attributes, given)


@layer("GroupNorm")
def group_norm(
    requirements: Requirements,
    num_groups: object,
    dims: object,
    eps: object = 1e-05,
    affine: object = True,
    pytorch_compatible: object = False,
) -> LayerValues:
    """``nn.GroupNorm``: the groups divide the features."""
    _check_eps(requirements, eps)
    groups, size = (
        positive(requirements, value, name)
        for value, name in ((num_groups, "num_groups"), (dims, "dims"))
    )
    divisible(requirements, size, groups, f"{groups} groups don't divide {size} features")
    attributes: LayerValues = {"num_groups": num_groups, "dims": dims, "eps": eps}
    attributes["pytorch_compatible"] = pytorch_compatible
    if is_set(affine):
        attributes |= {"weight": parameter(size), "bias": parameter(size)}
    return attributes


@layer_call("GroupNorm")
def group_norm_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return the shape of ``x``, whose features are last."""
    given = array_argument(requirements, x)
    requirements.least_rank(given, 2, f"{given.shape} has fewer than 2 axes")
    groups = attributes.get("num_groups")
    if is_integer(groups) and given.shape.rank is not None:
        inner = product(given.shape.head[1:])
        reason = f"the sizes of {given.shape} can't be divided into {groups} groups"
        divisible(requirements, inner, groups, reason)
    found = ShapedArray(given.shape, floating(given.dtype))
    return scaled_and_shifted(requirements, attributes, found)


@layer("BatchNorm")
def batch_norm(
    requirements: Requirements,
    num_features: object,
    eps: object = 1e-05,
    momentum: object = 0.1,
    affine: object = True,
    track_running_stats: object = True,
) -> LayerValues:
    """``nn.BatchNorm``: parameters and statistics of (num_features,)."""
    _check_eps(requirements, eps)
    attributes: LayerValues = {"num_features": num_features, "eps": eps, "momentum": momentum}
    attributes["track_running_stats"] = track_running_stats
    size = ANY_INT
    if is_set(affine) or is_set(track_running_stats):
        size = size_of(requirements, num_features, "num_features")  # type: ignore[assignment]
    if is_set(affine):
        attributes |= {"weight": parameter(size), "bias": parameter(size)}
    if is_set(track_running_stats):
        attributes |= {"running_mean": parameter(size), "running_var": parameter(size)}
    return attributes


@layer_call("BatchNorm")
def batch_norm_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return the shape of ``x``, which has 2 to 4 axes, features last."""
    given = array_argument(requirements, x)
    requirements.least_rank(given, 2, f"{given.shape} has fewer than 2 axes")
    if given.shape.least_rank > 4:
        requirements.fail(f"{given.shape} has more than 4 axes")
    dtype: DType = floating(given.dtype)
    if "running_mean" in attributes:
        # While it is trained, the statistics of the input are used, which have its dtype.
        statistics = array_argument(requirements, attributes["running_mean"])
        requirements.broadcast(statistics.shape, ArrayShape((given.shape.size(-1),)))
        if promote(dtype, PARAMETERS) != dtype:
            dtype = None if "weight" not in attributes else dtype
    return scaled_and_shifted(requirements, attributes, ShapedArray(given.shape, dtype))


# Dropout, positions


@layer("Dropout")
@layer("Dropout2d")
@layer("Dropout3d")
def dropout(requirements: Requirements, p: object = 0.5) -> LayerValues:
    """``nn.Dropout``: a probability below 1."""
    if type(p) in (int, float) and not 0 <= p < 1:  # type: ignore[operator]
        requirements.fail(f"p is {p}, which is not in [0, 1)")
    if isinstance(p, (str, tuple, list)) or p is None:
        requirements.fail(f"p is {p!r}")
    return {"_p_1": 1 - p if type(p) in (int, float) else UNKNOWN}  # type: ignore[operator]


def _dropped(x: ShapedArray, attributes: LayerValues) -> ShapedArray:
    """Return the input, floating while the layer is trained."""
    if is_floating(x.dtype) or x.dtype == "complex64" or attributes.get("_p_1") == 1:
        return x
    return ShapedArray(x.shape)


@layer_call("Dropout")
def dropout_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return the shape of ``x``."""
    if not isinstance(x, ShapedArray):
        return UNKNOWN
    return _dropped(x, attributes)


def _dropout_call(axes: int) -> Callable[..., object]:
    """Make the call of a layer that drops channels: ``x`` has so many axes, or one more."""

    def call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
        given = array_argument(requirements, x)
        reason = f"{given.shape} has neither {axes} nor {axes + 1} axes"
        requirements.least_rank(given, axes, reason)
        if given.shape.least_rank > axes + 1:
            requirements.fail(reason)
        return _dropped(given, attributes)

    return call


LAYER_CALLS["mlx.nn.Dropout2d"] = _dropout_call(3)
LAYER_CALLS["mlx.nn.Dropout3d"] = _dropout_call(4)


_ROPE = {"dims": WITHOUT_DEFAULT, "traditional": False, "base": 10000, "scale": 1.0}
rope_layer = keeping(_ROPE, {name: name for name in _ROPE})
LAYERS["mlx.nn.RoPE"] = rope_layer


@layer_call("RoPE")
def rope_call(
    requirements: Requirements, attributes: LayerValues, x: object, offset: object = 0
) -> object:
    """``mx.fast.rope`` with the attributes."""
    return rope(
        requirements,
        x,
        attributes.get("dims", UNKNOWN),
        traditional=False,
        base=attributes.get("base", UNKNOWN),
        scale=1.0,
        offset=offset,
    )


@layer("SinusoidalPositionalEncoding")
def sinusoidal(
    requirements: Requirements,
    dims: object,
    min_freq: object = 0.0001,
    max_freq: object = 1,
    scale: object = None,
    cos_first: object = False,
    full_turns: object = False,
) -> LayerValues:
    """``nn.SinusoidalPositionalEncoding``: an even number of positive dims."""
    size = positive(requirements, dims, "dims")
    half = divisible(requirements, size, 2, f"dims is {size}, which is odd")
    # A name that begins with an underscore isn't a parameter: its dtype stays.
    sigmas = ShapedArray(ArrayShape((half,)), "float32")
    return {"_sigmas": sigmas, "scale": UNKNOWN if scale is None else scale, "cos_first": cos_first}


@layer_call("SinusoidalPositionalEncoding")
def sinusoidal_call(requirements: Requirements, attributes: LayerValues, x: object) -> object:
    """Return one more axis, of dims."""
    given, sigmas = (
        array_argument(requirements, x),
        array_argument(requirements, attributes.get("_sigmas")),
    )
    size = multiply(2, sigmas.shape.size(-1))
    return ShapedArray(with_last(given.shape, size), promote(given.dtype, sigmas.dtype))


LAYERS["mlx.nn.ALiBi"] = keeping({}, {})


@layer_call("ALiBi")
def alibi_call(
    requirements: Requirements,
    attributes: LayerValues,
    attention_scores: object,
    offset: object = 0,
    mask: object = None,
) -> object:
    """Return the shape of the scores, (B, H, S, T)."""
    scores = array_argument(requirements, attention_scores)
    requirements.least_rank(scores, 2, f"{scores.shape} has fewer than 2 axes")
    shape = scores.shape
    heads = shape.size(1) if shape.rank is not None or len(shape.head) > 1 else ANY_INT
    if heads == 0:
        requirements.fail(f"the scores {shape} have no heads")
    slopes = ShapedArray(ArrayShape((1, heads, shape.size(-2), shape.size(-1))), scores.dtype)
    added: object = slopes if mask is None else broadcast(requirements, slopes, mask)
    if shape.middle is not None and mask is None:
        if shape.least_rank >= 4:
            return scores
        return ShapedArray(ArrayShape((), AxesSymbol(), shape.tail[-2:]), scores.dtype)
    return broadcast(requirements, scores, added)


@transfer("mlx.nn.ALiBi.create_alibi_matrix")
def alibi_matrix(
    requirements: Requirements,
    q_sequence_length: object,
    k_sequence_length: object,
    num_heads: object,
    offset: object = 0,
    dtype: object = FLOAT32,
) -> object:
    """(1, H, S, T); the queries are counted from the offset."""
    given = (q_sequence_length, k_sequence_length, num_heads, offset)
    sizes: list[Integer] = [value if is_integer(value) else ANY_INT for value in given]
    rows, columns, heads, ahead = sizes
    length = not_below_zero(subtract(rows, ahead))
    shape = ArrayShape((1, heads, length, columns))
    return ShapedArray(shape, dtype.dtype if isinstance(dtype, DTypeValue) else None)


# Initializers


def _initialized(attributes: LayerValues, a: ShapedArray) -> ShapedArray:
    dtype = attributes.get("dtype")
    return ShapedArray(a.shape, dtype.dtype if isinstance(dtype, DTypeValue) else None)


def initialized(requirements: Requirements, attributes: LayerValues, a: object) -> object:
    """Return an array like the argument."""
    return _initialized(attributes, array_argument(requirements, a))


def initialized_matrix(requirements: Requirements, attributes: LayerValues, a: object) -> object:
    """Return a matrix like the argument."""
    given = array_argument(requirements, a)
    sizes = requirements.rank(given, 2, f"{given.shape} is not a matrix")
    return _initialized(attributes, ShapedArray(ArrayShape(sizes)))


def initialized_identity(requirements: Requirements, attributes: LayerValues, a: object) -> object:
    """Return a square matrix like the argument."""
    given = array_argument(requirements, a)
    reason = f"{given.shape} is not a square matrix"
    rows, columns = requirements.rank(given, 2, reason)
    size = requirements.equal(rows, columns, reason)
    return _initialized(attributes, ShapedArray(ArrayShape((size, size))))


def initialized_by_fan(
    requirements: Requirements,
    attributes: LayerValues,
    a: object,
    *args: object,
    **kwargs: object,
) -> object:
    """Return an array like the argument, of 2 or more axes."""
    given = array_argument(requirements, a)
    requirements.least_rank(given, 2, f"{given.shape} has fewer than 2 axes")
    return _initialized(attributes, given)


#: By the name of an initializer: what it takes ahead of the dtype, and what it makes.
_INITIALIZERS: dict[str, tuple[dict[str, object], Callable[..., object]]] = {
    "constant": ({"value": WITHOUT_DEFAULT}, initialized),
    "normal": ({"mean": 0.0, "std": 1.0}, initialized),
    "uniform": ({"low": 0.0, "high": 1.0}, initialized),
    "orthogonal": ({"gain": 1.0}, initialized_matrix),
    "sparse": ({"sparsity": WITHOUT_DEFAULT, "mean": 0.0, "std": 1.0}, initialized_matrix),
    "identity": ({}, initialized_identity),
    **{
        f"{name}_{kind}": ({}, initialized_by_fan)
        for name in ("glorot", "he")
        for kind in ("normal", "uniform")
    },
}
for _name, (_options, _call) in _INITIALIZERS.items():
    LAYERS[f"mlx.nn.init.{_name}"] = keeping({**_options, "dtype": FLOAT32}, {"dtype": "dtype"})
    LAYER_CALLS[f"mlx.nn.init.{_name}"] = _call
