"""``mx.fast``: normalization, rotary positions and attention."""

from __future__ import annotations

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    DType,
    ShapedArray,
    promote,
    unknown_shape,
    without_last,
)
from embercoach.analysis.shapes.requirements import Requirements, is_integer
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Integer,
    at_least,
    floor_divide,
    subtract,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import array_argument
from embercoach.analysis.shapes.table.joining_shapes import fits
from embercoach.analysis.shapes.table.products import (
    divisible,
    integral,
    optional_array,
    real_floating,
)


def _normalized(
    requirements: Requirements, x: ShapedArray, parameters: dict[str, ShapedArray | None]
) -> DType:
    """Check the parameters of a normalization, and return the dtype that they promote to."""
    if x.shape.rank == 0:
        requirements.fail("the input has no axes")
    dtype = x.dtype
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        reason = f"the shape of the {name} is {parameter.shape}, and the input's is {x.shape}"
        (size,) = requirements.rank(parameter, 1, reason)
        requirements.last_equal(x.shape, size, reason)
        # The dtype of a bias counts only with a weight.
        if parameters["weight"] is not None:
            dtype = promote(dtype, parameter.dtype)
    return real_floating(requirements, dtype)


@transfer("fast.rms_norm")
def rms_norm(requirements: Requirements, x: object, weight: object, eps: object) -> object:
    """``mx.fast.rms_norm``: the weight has the last size of ``x``."""
    given = array_argument(requirements, x)
    dtype = _normalized(requirements, given, {"weight": optional_array(requirements, weight)})
    return ShapedArray(given.shape, dtype)


@transfer("fast.layer_norm")
def layer_norm(
    requirements: Requirements, x: object, weight: object, bias: object, eps: object
) -> object:
    """``mx.fast.layer_norm``: weight and bias have the last size of ``x``."""
    given = array_argument(requirements, x)
    parameters = {
        "weight": optional_array(requirements, weight),
        "bias": optional_array(requirements, bias),
    }
    return ShapedArray(given.shape, _normalized(requirements, given, parameters))


@transfer("fast.rope")
def rope(
    requirements: Requirements,
    a: object,
    dims: object,
    *,
    traditional: object,
    base: object,
    scale: object,
    offset: object,
    freqs: object = None,
) -> object:
    """``mx.fast.rope``: turns the first ``dims`` elements of the last axis."""
    x = array_argument(requirements, a)
    requirements.least_rank(x, 3, f"{x.shape} has fewer than 3 axes")
    real_floating(requirements, x.dtype)
    frequencies = optional_array(requirements, freqs)
    if base is None and freqs is None:
        requirements.fail("neither base nor freqs is given")
    if freqs is not None and freqs is not UNKNOWN and base is not None and base is not UNKNOWN:
        requirements.fail("base and freqs are both given")
    if is_integer(dims):
        _rotated(requirements, dims, x, frequencies)
    if isinstance(offset, ShapedArray):
        integral(requirements, offset)
        if offset.shape.least_rank > 1:
            requirements.fail(f"the shape of offset is {offset.shape}")
        if offset.shape.rank == 1:
            reason = f"the shape of offset is {offset.shape}, and that of the input {x.shape}"
            fits(requirements, offset.shape, ArrayShape((x.shape.size(0),)), reason)
    return ShapedArray(x.shape, x.dtype)


def _rotated(
    requirements: Requirements, dims: Integer, x: ShapedArray, frequencies: ShapedArray | None
) -> None:
    """Check how many elements are turned."""
    last = x.shape.size(-1)
    if type(dims) is int and dims <= 0:
        requirements.fail(f"dims is {dims}, which is not positive")
    if exceeds(dims, last):
        requirements.fail(f"dims is {dims}, and the last size of {x.shape} only {last}")
    half = divisible(requirements, dims, 2, f"dims is {dims}, which is odd")
    if frequencies is not None:
        reason = f"the shape of freqs is {frequencies.shape}, not ({half},)"
        (size,) = requirements.rank(frequencies, 1, reason)
        requirements.equal(size, half, reason)


def exceeds(a: Integer, b: Integer) -> bool:
    """Return whether a size is certainly greater than another one."""
    if a is ANY_INT or b is ANY_INT:
        return False
    return at_least(subtract(a, b), 1)


@transfer("fast.scaled_dot_product_attention")
def scaled_dot_product_attention(
    requirements: Requirements,
    q: object,
    k: object,
    v: object,
    *,
    scale: object,
    mask: object = None,
    sinks: object = None,
    force_fused: object = False,
) -> object:
    """``mx.fast.scaled_dot_product_attention``: (B, H, S, D), with as many or fewer key heads."""
    names = ("queries", "keys", "values")
    arrays = [array_argument(requirements, value) for value in (q, k, v)]
    queries, keys, values = (
        requirements.rank(array, 4, f"the shape of the {name} is {array.shape}, which is not 4-d")
        for name, array in zip(names, arrays, strict=True)
    )
    shown = "queries {}, keys {}, values {}".format(*(array.shape for array in arrays))
    batch = requirements.equal(queries[0], keys[0], f"the batches differ: {shown}")
    requirements.equal(queries[0], values[0], f"the batches differ: {shown}")
    requirements.equal(queries[3], keys[3], f"the head sizes of queries and keys differ: {shown}")
    requirements.equal(keys[1], values[1], f"the heads of keys and values differ: {shown}")
    times = floor_divide(queries[1], keys[1])
    if keys[1] == 0 or (times == 0 and queries[1] != 0):
        requirements.fail(f"the heads of queries aren't a multiple of those of keys: {shown}")
    reason = f"the heads of queries aren't a multiple of those of keys: {shown}"
    divisible(requirements, queries[1], keys[1], reason)
    requirements.equal(keys[2], values[2], f"the lengths of keys and values differ: {shown}")
    dtype = arrays[0].dtype
    for array in arrays[1:]:
        dtype = promote(dtype, array.dtype)
    real_floating(requirements, dtype)
    _mask(requirements, mask, ArrayShape((batch, *queries[1:3], keys[2])), dtype)
    _sinks(requirements, optional_array(requirements, sinks), queries[1], dtype)
    return ShapedArray(ArrayShape((batch, queries[1], queries[2], values[3])), dtype)


def _mask(requirements: Requirements, mask: object, scores: ArrayShape, dtype: DType) -> None:
    """Check a mask."""
    if isinstance(mask, str):
        if mask != "causal":
            requirements.fail(f"the mask is {mask!r}, not 'causal' or an array")
        return
    if not isinstance(mask, ShapedArray):
        return
    reason = f"the mask {mask.shape} doesn't broadcast to the scores {scores}"
    fits(requirements, mask.shape, scores, reason)
    _promotes_into(requirements, "mask", mask.dtype, dtype)


def _promotes_into(requirements: Requirements, name: str, given: DType, dtype: DType) -> None:
    """Require a dtype to promote to that of the output."""
    known = isinstance(given, str) and isinstance(dtype, str)
    if known and promote(given, dtype) != dtype:
        requirements.fail(f"the {name} is {given}, and the output {dtype}")


def _sinks(
    requirements: Requirements, sinks: ShapedArray | None, heads: Integer, dtype: DType
) -> None:
    """Check the sinks of attention."""
    if sinks is None:
        return
    reason = f"the shape of the sinks is {sinks.shape}, not ({heads},)"
    (size,) = requirements.rank(sinks, 1, reason)
    requirements.equal(size, heads, reason)
    _promotes_into(requirements, "sinks", sinks.dtype, dtype)


@transfer("fast.cross_entropy")
def cross_entropy(requirements: Requirements, logits: object, targets: object) -> object:
    """``mx.fast.cross_entropy``: float32, of the shape of the targets."""
    given, classes = array_argument(requirements, logits), array_argument(requirements, targets)
    if given.shape.rank == 0:
        requirements.fail("the logits have no axes")
    if given.shape.elements == 0:
        requirements.fail(f"the logits {given.shape} have no elements")
    rest = without_last(given.shape)
    reason = f"the targets {classes.shape} don't fit the logits {given.shape}"
    shape = same_shape(requirements, rest, classes.shape, reason)
    real_floating(requirements, given.dtype)
    integral(requirements, classes)
    return ShapedArray(shape, "float32")


def same_shape(requirements: Requirements, a: ArrayShape, b: ArrayShape, reason: str) -> ArrayShape:
    """Require two shapes to be equal, and return the one of which more is known."""
    if a.middle is not None and b.middle is not None:
        if a.middle is b.middle and len(a.head) == len(b.head) and len(a.tail) == len(b.tail):
            for m, n in zip((*a.head, *a.tail), (*b.head, *b.tail), strict=True):
                requirements.equal(m, n, reason)
        return a if a.least_rank >= b.least_rank else b
    known, other = (a, b) if a.middle is None else (b, a)
    sizes = requirements.rank(ShapedArray(other), len(known.head), reason)
    return ArrayShape(
        tuple(requirements.equal(m, n, reason) for m, n in zip(known.head, sizes, strict=True))
    )


@transfer("fast.gated_delta_update")
def gated_delta_update(
    requirements: Requirements,
    q: object,
    k: object,
    v: object,
    gamma: object,
    beta: object,
    initial_state: object = None,
    mask: object = None,
) -> object:
    """``mx.fast.gated_delta_update``: the output and the last state."""
    queries, values = array_argument(requirements, q), array_argument(requirements, v)
    sizes = [array.shape.head if array.shape.rank == 4 else None for array in (queries, values)]
    state, output = unknown_shape(), values.shape
    if sizes[0] is not None and sizes[1] is not None:
        batch, _, heads, size = sizes[1]
        state = ArrayShape((batch, heads, size, sizes[0][3]))
    return [ShapedArray(output), ShapedArray(state)]


@transfer("fast.metal_kernel", "fast.cuda_kernel", "fast.precompiled_cuda_kernel")
def kernel(requirements: Requirements, *args: object, **kwargs: object) -> object:
    """Return a kernel, which is called by the interpreter."""
    return UNKNOWN
