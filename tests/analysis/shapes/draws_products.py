"""Draws of products, convolutions, transforms, linear algebra, quantization and ``mx.fast``."""

from __future__ import annotations

from typing import Any

from embercoach.analysis.shapes.arrays import DTypeValue, ShapedArray
from tests.analysis.shapes.oracle import Call, Draw, Size, draws

#: Dtypes of products: integers now and then.
KINDS = ("float32", "float32", "float16", "float32", "bfloat16", "float16", "int32", "complex64")


def kind(draw: Draw) -> str:
    """The dtype of a factor."""
    return draw.choice(KINDS)


def near(draw: Draw, number: int) -> int:
    """The number, or now and then another one."""
    return draw.length() if draw.chance(0.05) else number


def factors(draw: Draw, least: int = 0) -> tuple[ShapedArray, ShapedArray]:
    """Two factors of a product of matrices, or of vectors."""
    m, k, n = draw.length(), max(draw.length(), least), draw.length()
    batch = draw.shape(0, 2) if draw.chance(0.5) else ()
    left: tuple[int, ...] = (*batch, m, k)
    right: tuple[int, ...] = (*draw.broadcasting(batch), near(draw, k), n)
    if draw.chance(0.1):
        left = left[-1:]
    if draw.chance(0.1):
        right = right[-2:-1]
    if draw.chance(0.04):
        left = ()
    return draw.array(left, kind(draw)), draw.array(right, kind(draw))


def product_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """About the shape of a product."""
    longer = left[:-2] if len(left) >= len(right) else right[:-2]
    return (*longer, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


@draws("matmul", "array.__matmul__")
def matmul(draw: Draw) -> Call:
    """Two factors; now and then a number."""
    a, b = factors(draw)
    return ((a, 2.0) if draw.chance(0.02) else (a, b)), {}


@draws("addmm", may_raise=True)
def addmm(draw: Draw) -> Call:
    """What is added broadcasts to the product; an empty inner axis is refused now and then."""
    a, b = factors(draw, 1)
    shape = draw.broadcasting(product_shape(a.shape.head, b.shape.head))
    return (draw.array(shape, kind(draw)), a, b), draw.maybe(0.2, alpha=2.0)


@draws("inner")
def inner(draw: Draw) -> Call:
    a = draw.array(dtype=kind(draw))
    last = a.shape.head[-1:]
    shape = (*draw.shape(0, 2), *(near(draw, n) for n in last)) if draw.chance(0.93) else ()
    return (a, draw.array(shape, kind(draw))), {}


@draws("outer")
def outer(draw: Draw) -> Call:
    return (draw.array(most=3), draw.array(most=3)), {}


@draws("tensordot")
def tensordot(draw: Draw) -> Call:
    common, count = draw.shape(0, 3), 0
    first, last = draw.shape(0, 2), draw.shape(0, 2)
    count = len(common) if draw.chance(0.93) else draw.randint(-1, 4)
    if draw.chance(0.5):
        a = (*first, *(near(draw, n) for n in common))
        arrays = draw.array(a, kind(draw)), draw.array((*common, *last), kind(draw))
        return (*arrays, count), {}
    left, right = list(enumerate(common, 10)), list(enumerate(common, 10))
    left += list(enumerate(first, 20))
    right += list(enumerate(last, 30))
    draw.shuffle(left)
    draw.shuffle(right)
    shapes = tuple(n for _, n in left), tuple(near(draw, n) for _, n in right)
    axes = [
        [[at for at, _ in side].index(10 + i) for i in range(len(common))] for side in (left, right)
    ]
    if axes[0] and draw.chance(0.1):
        axes[0][0] = draw.axis(len(left))
    if draw.chance(0.05):
        axes[1].append(0)
    if draw.chance(0.3):
        axes[0] = [at - len(left) for at in axes[0]]
    arrays = draw.array(shapes[0], kind(draw)), draw.array(shapes[1], kind(draw))
    return (*arrays, axes if draw.chance(0.7) else tuple(axes)), {}


@draws("einsum", may_raise=True)
def einsum(draw: Draw) -> Call:
    letters = "ijkabB"[: draw.randint(2, 6)]
    sizes = {letter: draw.length() or 2 for letter in letters}  # 0 and 1 depend on the order
    wide = tuple(size or 2 for size in draw.shape(0, 2))
    parts, arrays = [], []
    dtype = draw.choice(("float32", "float16", "int32", "int8", "bool", "complex64", ""))
    for _ in range(draw.choice((1, 2, 2, 2, 3))):
        chosen = [draw.choice(letters) for _ in range(draw.randint(0, 3))]
        if not draw.chance(0.2):
            chosen = list(dict.fromkeys(chosen))
        shape = [1 if draw.chance(0.07) else near(draw, sizes[letter]) or 3 for letter in chosen]
        text = "".join(chosen)
        if draw.chance(0.3):
            at = draw.randint(0, len(chosen))
            shape[at:at] = filled(draw.broadcasting(wide))
            text = f"{text[:at]}...{text[at:]}"
        parts.append(text)
        # Pairs of integers in a sum of three depend on the order of contractions.
        arrays.append(draw.array(tuple(shape), dtype or draw.choice(("float32", "float16"))))
    text = ",".join(parts)
    if draw.chance(0.7):
        used = sorted(set("".join(parts)) - {"."})
        result = "".join(draw.sample(used, draw.randint(0, len(used))))
        dots = "..." if "..." in text and draw.chance(0.9) else ""
        at = draw.randint(0, len(result))
        text += f"->{result[:at]}{dots}{result[at:]}"
        if draw.wrong():
            text += draw.choice("ijz")
    if draw.chance(0.03):
        text += ",i"
    return (text, *arrays), {}


def batched_indices(draw: Draw, shape: tuple[int, ...]) -> ShapedArray:
    """Indices of matrices."""
    dtype = "float32" if draw.chance(0.03) else draw.choice(("uint32", "int32", "int64"))
    return draw.array(shape, dtype)


@draws("gather_mm")
def gather_mm(draw: Draw) -> Call:
    a, b = factors(draw)
    chosen = draw.shape(0, 2)
    kwargs = draw.maybe(0.4, lhs_indices=batched_indices(draw, chosen))
    if draw.chance(0.8):
        if len(a.shape.head) > 2 and "lhs_indices" not in kwargs and draw.chance(0.8):
            chosen = a.shape.head[:-2]
        kwargs["rhs_indices"] = batched_indices(draw, draw.broadcasting(chosen))
    return (a, b), kwargs


@draws("segmented_mm")
def segmented_mm(draw: Draw) -> Call:
    a = draw.array(draw.shape(2, 2) if draw.chance(0.93) else None, kind(draw))
    b = draw.array(draw.shape(2, 2), kind(draw))
    segments = batched_indices(draw, (*draw.shape(0, 2), 2 if draw.chance(0.9) else 3))
    return (a, b, segments), {}


@draws("block_masked_mm", may_raise=True)
def block_masked_mm(draw: Draw) -> Call:
    m, k, n = (draw.choice((32, 33, 64, 65, 100)) for _ in range(3))
    batch = draw.shape(0, 1)
    a, b = draw.array((*batch, m, k), "float32"), draw.array((near(draw, k), n), "float32")
    block = draw.choice((32, 64))
    rows, between, columns = (-(-size // block) for size in (m, k, n))
    masks = [(rows, columns), (rows, between), (between, columns)]
    given = [
        draw.array(draw.broadcasting(mask), "bool") if draw.chance(0.6) else None for mask in masks
    ]
    return (a, b, block, *given), {}


@draws("hadamard_transform")
def hadamard_transform(draw: Draw) -> Call:
    """Sizes that are taken: MLX checks when it evaluates, and can break then."""
    last = draw.choice((1, 2, 4, 8, 12, 20, 24, 28, 16, 32, 40, 0))
    return (draw.array((*draw.shape(0, 2), last)),), {}


# Convolutions


def channels(draw: Draw) -> tuple[int, int, int]:
    """Input channels of a group, groups, and output channels."""
    groups = draw.choice((1, 1, 1, 2, 3))
    outer = groups * draw.randint(1, 3) if draw.chance(0.95) else draw.randint(1, 5)
    return draw.randint(1, 3), groups, outer


def option(draw: Draw, axes: int, *among: int) -> Any:
    """An option of a convolution: one for all axes, or a tuple."""
    if axes > 1 and draw.chance(0.4):
        count = axes + 1 if draw.chance(0.04) else axes
        return tuple(draw.choice(among) for _ in range(count))
    return draw.choice(among)


def convolved(draw: Draw, axes: int) -> tuple[ShapedArray, ShapedArray, int]:
    """An input and a weight, and groups."""
    inner, groups, outer = channels(draw)
    # Where less than one stride is missing, MLX returns garbage: kernels fit, or not at all.
    spatial = (draw.randint(5, 9) for _ in range(axes))
    x = (draw.randint(0, 3), *spatial, near(draw, inner * groups) or 1)
    kernel = tuple(17 if draw.chance(0.02) else draw.randint(1, 3) for _ in range(axes))
    if draw.chance(0.04):
        x = x[1:]
    dtype = draw.choice(("float32", "float32", "float16", "bfloat16", "int32"))
    other = dtype if draw.chance(0.8) else draw.choice(("float32", "int32"))
    return draw.array(x, dtype), draw.array((outer, *kernel, inner), other), groups


def convolution(axes: int) -> Any:
    """A draw for ``mx.conv1d`` to ``mx.conv3d``."""

    def draw_call(draw: Draw) -> Call:
        x, weight, groups = convolved(draw, axes)
        stride, padding = option(draw, axes, 1, 1, 2, 3), option(draw, axes, 0, 0, 1, 2)
        kwargs = draw.maybe(0.4, dilation=option(draw, axes, 1, 2, 2, int(draw.chance(0.9))))
        return (x, weight, stride, padding), kwargs | ({"groups": groups} if groups != 1 else {})

    return draw_call


def transposed(axes: int) -> Any:
    """A draw for ``mx.conv_transpose1d`` to ``mx.conv_transpose3d``."""

    def draw_call(draw: Draw) -> Call:
        x, weight, groups = convolved(draw, axes)
        stride, padding = option(draw, axes, 1, 2, 2, 3), option(draw, axes, 0, 0, 1, 2)
        added, dilation = option(draw, axes, 0, 1), option(draw, axes, 1, 2)
        kwargs = draw.maybe(0.4, output_padding=added, dilation=dilation)
        return (x, weight, stride, padding), kwargs | ({"groups": groups} if groups != 1 else {})

    return draw_call


for _axes in (1, 2, 3):
    draws(f"conv{_axes}d", may_raise=True)(convolution(_axes))
    draws(f"conv_transpose{_axes}d", may_raise=True)(transposed(_axes))


@draws("conv_general", may_raise=True)
def conv_general(draw: Draw) -> Call:
    axes = draw.randint(1, 3)
    x, weight, groups = convolved(draw, axes)
    padding = option(draw, axes, 0, 1, 2)
    if draw.chance(0.3):
        padding = tuple([draw.randint(0, 2) for _ in range(axes)] for _ in range(2))
    names = ("stride", "kernel_dilation", "input_dilation")
    options = draw.maybe(0.5, **{name: option(draw, axes, 1, 2) for name in names})
    return (x, weight), {"groups": groups, "padding": padding, **options}


@draws("convolve", may_raise=True)
def convolve(draw: Draw) -> Call:
    dtype = draw.choice(("float32", "float16", "int32"))
    shapes = [(draw.length(),) if draw.chance(0.95) else draw.shape() for _ in range(2)]
    mode = draw.choice(("full", "same", "valid", "full", "other" if draw.wrong() else "full"))
    return (*(draw.array(shape, dtype) for shape in shapes), mode), {}


# Fourier transforms


def _one_axis(draw: Draw) -> Call:
    x = draw.array(least=0 if draw.wrong() else 1)
    return (x,), draw.maybe(0.5, n=draw.size(), axis=draw.axis(x))


def _several_axes(draw: Draw) -> Call:
    x = draw.array(least=1 if draw.wrong() else 2)
    axes = draw.axes(x)
    kwargs = draw.maybe(0.6, axes=(axes,) if isinstance(axes, int) else axes)
    count = len(kwargs.get("axes") or (0, 1))
    return (x,), kwargs | draw.maybe(0.3, s=tuple(Size(draw.randint(1, 6)) for _ in range(count)))


for _name in ("fft", "ifft", "rfft", "irfft"):
    draws(f"fft.{_name}", may_raise=True)(_one_axis)
    draws(f"fft.{_name}2", f"fft.{_name}n", may_raise=True)(_several_axes)


@draws("fft.fftfreq", "fft.rfftfreq", may_raise=True)
def frequencies(draw: Draw) -> Call:
    return (draw.size(),), draw.maybe(0.3, d=draw.choice((0.5, 2.0, 0.0)))


@draws("fft.fftshift", "fft.ifftshift")
def shifted(draw: Draw) -> Call:
    x = draw.array()
    return (x, draw.axes(x)), {}


@draws("fft.stft", may_raise=True)
def stft(draw: Draw) -> Call:
    """A signal, long enough mostly."""
    n_fft = draw.choice((8, 9, 16))
    signal = (*draw.shape(0, 2), draw.choice((40, 64, 100, 7)))
    hop, center, onesided = draw.choice((3, 4, 8)), draw.chance(), draw.chance()
    kwargs = draw.maybe(0.5, hop_length=hop, center=center, onesided=onesided)
    x = draw.array(signal, draw.choice(("float32", "float32", "complex64")))
    return (x,), {"n_fft": n_fft, "pad_mode": "constant", **kwargs}


# Linear algebra


def matrices(draw: Draw, *, is_square: bool) -> ShapedArray:
    """Matrices of a dtype that is taken, mostly."""
    rows, columns = draw.length() or 1, draw.length() or 1
    if is_square and not draw.wrong():
        columns = rows
    shape = (*draw.shape(0, 2), rows, columns)
    dtype = "float32" if draw.chance(0.85) else draw.dtype()
    return draw.array(shape[-1:] if draw.chance(0.05) else shape, dtype)


for _name in ("qr", "svd", "pinv", "lu", "lu_factor"):
    draws(f"linalg.{_name}")(lambda draw: ((matrices(draw, is_square=False),), {}))
for _name in (
    *("inv", "tri_inv", "cholesky", "cholesky_inv", "eig", "eigh"),
    *("eigvals", "eigvalsh", "det", "slogdet"),
):
    draws(f"linalg.{_name}", may_raise="det" in _name)(
        lambda draw: ((matrices(draw, is_square=True),), {})
    )


@draws("linalg.solve", "linalg.solve_triangular")
def solve(draw: Draw) -> Call:
    a = matrices(draw, is_square=True)
    shape = a.shape.head
    right: tuple[int, ...] = (near(draw, shape[-1]), draw.length())
    if draw.chance(0.6):
        right = (*draw.broadcasting(shape[:-2]), *right)
    if draw.chance(0.2):
        right = right[-2:-1]
    return (a, draw.array(right, "float32" if draw.chance(0.8) else draw.dtype())), {}


@draws("linalg.cross", may_raise=True)
def cross(draw: Draw) -> Call:
    shape = list(draw.shape(1, 4))
    axis = draw.randrange(len(shape))
    shape[axis] = draw.choice((3, 3, 3, 2, 2, 4))
    other = list(shape)
    if draw.chance(0.3):
        other[axis] = draw.choice((2, 3))
    kept = draw.broadcasting(tuple(other))
    arrays = draw.array(tuple(shape)), draw.array(kept)
    if draw.chance(0.5):
        arrays = arrays[::-1]
    # An axis from the start of arrays of different ranks is not always the same one.
    is_first = len(kept) == len(shape) and draw.chance()
    return arrays, {"axis": axis if is_first else axis - len(shape)}


@draws("linalg.norm", may_raise=True)
def norm(draw: Draw) -> Call:
    """An order that fits the axes, mostly."""
    # The greatest of no elements is refused.
    shape = filled(draw.shape())
    x = draw.array(shape, draw.choice(("float32", "float16", "int32", "bool")))
    # Axes that are named twice or don't exist are not refused for all orders of matrices.
    axes, rank = draw.axes(x), len(shape)
    if isinstance(axes, (tuple, list)):
        axes = tuple({axis % rank: axis for axis in axes if -rank <= axis < rank}.values())
    # The norm by singular values is for float32 alone.
    order = draw.choice((1, 2 if x.dtype == "float32" else 1, 3, "fro", 0.5, float("inf")))
    return (x,), draw.maybe(0.6, axis=axes) | draw.maybe(0.4, keepdims=draw.chance(), ord=order)


# Quantization

MODES = ("affine", "affine", "affine", "mxfp4", "nvfp4", "mxfp8")


def settings(draw: Draw) -> tuple[dict[str, Any], int, int]:
    """Keywords, the group size and the bits."""
    mode = draw.choice(MODES)
    # An odd number of groups of 16 is refused on the CPU.
    groups, bits = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (32, 4), "mxfp8": (32, 8)}[mode]
    kwargs: dict[str, Any] = {} if mode == "affine" and draw.chance() else {"mode": mode}
    if draw.chance(0.5) and mode == "affine":
        kwargs["group_size"] = groups = draw.choice((32, 64, 128))
    if draw.chance(0.5) and mode == "affine":
        kwargs["bits"] = bits = draw.choice((1, 2, 3, 4, 5, 6, 8))
    if draw.chance(0.04):
        kwargs[draw.choice(("bits", "group_size"))] = draw.choice((7, 16, 100))
    if draw.chance(0.03):
        kwargs["mode"] = "other"
    return kwargs, groups, bits


@draws("quantize")
def quantize(draw: Draw) -> Call:
    kwargs, groups, _ = settings(draw)
    last = groups * draw.randint(0, 3) if draw.chance(0.9) else 40
    dtype = draw.choice(("float32", "float16", "bfloat16", "float32", "int32"))
    shape = (*filled(draw.shape(0 if draw.wrong() else 1, 3)), last or groups)
    return (draw.array(shape, dtype),), kwargs


def filled(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without empty axes, which some modes of quantization refuse."""
    return tuple(size or 1 for size in shape)


def quantized(
    draw: Draw, kwargs: dict[str, Any], shape: tuple[int, ...], groups: int, bits: int
) -> tuple[ShapedArray, ...]:
    """The words, scales and biases of a matrix."""
    *rest, last = shape
    words = near(draw, last * bits // 32)
    packed = draw.array((*rest, words), "uint32" if draw.chance(0.97) else "int32")
    is_affine = kwargs.get("mode", "affine") == "affine"
    dtype = draw.choice(("float32", "float16", "bfloat16")) if is_affine else "uint8"
    parts = last // (16 if kwargs.get("mode") == "nvfp4" else groups)
    scales = draw.array((*rest, parts), dtype)
    return (packed, scales, scales) if is_affine != draw.chance(0.03) else (packed, scales)


@draws("dequantize", may_raise=True)
def dequantize(draw: Draw) -> Call:
    """Words and scales that fit, mostly."""
    kwargs, groups, bits = settings(draw)
    shape = (*filled(draw.shape(1, 3)), groups * draw.randint(1, 3))
    dtype = DTypeValue(draw.choice(("float16", "float32")))
    return quantized(draw, kwargs, shape, groups, bits), kwargs | draw.maybe(0.2, dtype=dtype)


@draws("quantized_matmul", may_raise=True)
def quantized_matmul(draw: Draw) -> Call:
    """An input that fits the matrix, mostly."""
    kwargs, groups, bits = settings(draw)
    rows, columns = draw.randint(1, 5), groups * draw.randint(1, 2)
    batch = draw.shape(1, 2) if draw.chance(0.2) else ()
    parts = quantized(draw, kwargs, (*batch, rows, columns), groups, bits)
    kwargs |= draw.maybe(0.2, transpose=False)
    inner = rows if "transpose" in kwargs else columns
    ahead = (*draw.broadcasting(batch), draw.length()) if batch else draw.shape(0, 3)
    x = draw.array((*ahead, near(draw, inner)), draw.choice(("float32", "float16", "int32")))
    return (x, *parts), kwargs


@draws("gather_qmm", may_raise=True)
def gather_qmm(draw: Draw) -> Call:
    kwargs, groups, bits = settings(draw)
    columns = groups * draw.randint(1, 2)
    parts = quantized(draw, kwargs, (3, draw.randint(1, 5), columns), groups, bits)
    chosen = draw.shape(0, 2)
    ahead = draw.broadcasting(chosen) if draw.chance(0.5) else ()
    x = draw.array(
        (*ahead, draw.length(), near(draw, columns)), draw.choice(("float32", "float16"))
    )
    return (x, *parts), kwargs | draw.maybe(0.9, rhs_indices=batched_indices(draw, chosen))


@draws("qqmm", may_raise=True)
def qqmm(draw: Draw) -> Call:
    inner = 32 * draw.randint(1, 2)
    x = draw.array((*draw.shape(1, 3), near(draw, inner)), draw.choice(("float32", "float16")))
    return (x, draw.array((draw.randint(1, 5), inner), x.dtype)), {}


# mx.fast


@draws("fast.rms_norm")
def rms_norm(draw: Draw) -> Call:
    x = draw.array(least=0 if draw.wrong() else 1, dtype=kind(draw))
    last = x.shape.head[-1] if x.shape.head else 1
    weight = draw.array((near(draw, last),), kind(draw)) if draw.chance(0.8) else None
    return (x, weight, 1e-5), {}


@draws("fast.layer_norm")
def layer_norm(draw: Draw) -> Call:
    (x, weight, eps), _ = rms_norm(draw)
    last = x.shape.head[-1] if x.shape.head else 1
    bias = draw.array((near(draw, last),), kind(draw)) if draw.chance(0.8) else None
    return (x, weight, bias, eps), {}


@draws("fast.rope", may_raise=True)
def rope(draw: Draw) -> Call:
    dims = draw.choice((2, 4, 4, 6, 3 if draw.wrong() else 2, 0 if draw.wrong() else 2))
    last = dims + draw.choice((0, 0, 2)) if draw.chance(0.9) else 3
    x = draw.array((*draw.shape(1 if draw.wrong() else 2, 3), last), kind(draw))
    options: dict[str, Any] = {"traditional": draw.chance(), "scale": 1.0, "base": 1e4, "offset": 0}
    if draw.chance(0.3):
        options["base"] = None if draw.chance(0.9) else 1e4
        options["freqs"] = draw.array((near(draw, dims // 2),), "float32")
    if draw.chance(0.4):
        # With an empty batch, an offset for each of its elements is refused.
        is_alone = not x.shape.head[0] or draw.chance(0.3)
        shape = () if is_alone else (near(draw, x.shape.head[0]) or 1,)
        options["offset"] = draw.array(shape, "int32" if draw.chance(0.95) else "float32")
    elif draw.chance(0.3):
        options["offset"] = draw.size()
    return (x, Size(dims)), options


@draws("fast.scaled_dot_product_attention", may_raise=True)
def attention(draw: Draw) -> Call:
    """Heads that divide, and masks that broadcast, mostly."""
    batch, steps, length, size = (draw.length() or 1 for _ in range(4))
    heads, groups = draw.randint(1, 3), draw.randint(1, 3)
    dtype = draw.choice(("float32", "float16", "bfloat16", "float32", "int32"))
    queries = (batch, near(draw, heads * groups) or 1, steps, size)
    keys = (near(draw, batch), heads, length, near(draw, size))
    values = (batch, near(draw, heads), near(draw, length), draw.randint(1, 5))
    shapes = [shape[1:] if draw.chance(0.01) else shape for shape in (queries, keys, values)]
    arrays = [draw.array(shape, dtype if draw.chance(0.95) else "float16") for shape in shapes]
    options: dict[str, Any] = {"scale": 1.0}
    if draw.chance(0.6):
        mask = draw.broadcasting((*queries[:3], length))
        options["mask"] = draw.array(mask, "bool" if draw.chance() else dtype)
    elif draw.chance(0.5):
        options["mask"] = "causal" if draw.chance(0.8) else "other"
    sinks = draw.array((near(draw, queries[1]),), dtype)
    return tuple(arrays), options | draw.maybe(0.15, sinks=sinks)


@draws("fast.cross_entropy", may_raise=True)
def cross_entropy(draw: Draw) -> Call:
    logits = draw.array(least=0 if draw.wrong() else 1, dtype=kind(draw))
    targets = tuple(near(draw, n) for n in logits.shape.head[:-1])
    return (logits, draw.array(targets, draw.choice(("int32", "uint32", "int32", "float32")))), {}


@draws("distributed.all_sum", "distributed.all_max", "distributed.all_min")
def reduced(draw: Draw) -> Call:
    return (draw.array(),), {}


@draws("distributed.all_gather", "distributed.sum_scatter", open_sizes=True)
def gathered(draw: Draw) -> Call:
    return (draw.array(),), {}
