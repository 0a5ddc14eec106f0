"""Products of matrices: the inner sizes agree, the axes ahead of them broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from embercoach.analysis.shapes.arrays import (
    FLOATS,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    DType,
    DTypeValue,
    ShapedArray,
    chained,
    is_floating,
    promote,
    unknown_shape,
    with_last,
    without_first,
    without_last,
)
from embercoach.analysis.shapes.requirements import (
    Requirements,
    integers_of,
    is_among,
    shape_of,
)
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    ceil_divide,
    compare,
    floor_divide,
    multiply,
)
from embercoach.analysis.shapes.table import transfer
from embercoach.analysis.shapes.table.elementwise import array_argument, operand
from embercoach.analysis.shapes.table.joining_shapes import fits
from embercoach.analysis.shapes.table.reduction_shapes import summed_dtype
from embercoach.analysis.values.promotion import INTEGERS


def optional_array(requirements: Requirements, value: object) -> ShapedArray | None:
    """Return the array that an argument is, None for none."""
    return None if value is None else array_argument(requirements, value)


def real_floating(requirements: Requirements, dtype: DType) -> DType:
    """Require a dtype to be floating, and not complex."""
    if isinstance(dtype, str) and dtype not in FLOATS:
        requirements.fail(f"the dtype is {dtype}, which is not floating")
    return dtype


def inexact(requirements: Requirements, dtype: DType) -> DType:
    """Require a dtype to be floating or complex."""
    return dtype if dtype == "complex64" else real_floating(requirements, dtype)


def is_real(dtype: DType) -> bool | None:
    """Return whether a dtype is not complex, None if that is unknown."""
    if isinstance(dtype, str):
        return dtype != "complex64"
    return is_floating(dtype)


def integral(requirements: Requirements, array: ShapedArray | None) -> None:
    """Require an array to hold integers."""
    if array is not None and isinstance(array.dtype, str) and array.dtype not in INTEGERS:
        requirements.fail(f"the indices are {array.dtype}")


def divisible(requirements: Requirements, size: Integer, divisor: Integer, reason: str) -> Integer:
    """Require a size to be a multiple of another one, and return the quotient."""
    if type(divisor) is int and divisor == 0:
        requirements.fail(reason)
    part = floor_divide(size, divisor)
    if part is not ANY_INT:
        requirements.equal(multiply(part, divisor), size, reason)
    return part


def matmul_shape(
    requirements: Requirements, a: ArrayShape, b: ArrayShape, *, is_layer: bool = True
) -> ArrayShape:
    """Return the shape of ``a @ b``.

    Args:
        requirements: get what the call requires.
        a: the shape on the left.
        b: the shape on the right.
        is_layer: that one is a layer's weight, which may give as many features as it should take.
    """
    if a.rank == 0 or b.rank == 0:
        requirements.fail(f"the shapes are {a} and {b}, and an array without axes has no product")
    rows = b.head[0] if b.rank == 1 else b.size(-2)
    if b.rank is None and b.least_rank < 2 and not b.tail[1:]:
        # It may be a vector, whose only axis is the inner one.
        return ArrayShape((), AxesSymbol(), (ANY_INT,) * max(a.least_rank - 1, 0))
    reason = f"the inner sizes of {a} and {b} are {a.size(-1)} and {rows}"
    # ``images @ texts`` of features each, in place of ``images @ texts.T``.
    is_pair = not is_layer and b.rank != 1 and isinstance(rows, SizeExpr)
    is_unmeant = is_among(rows, (*a.head, *a.tail)[:-1]) or (is_pair and a.size(-1) == b.size(-1))
    requirements.equal(a.size(-1), rows, reason, is_unmeant=is_unmeant)
    if b.rank == 1:
        return without_last(a)
    if a.rank == 1:
        return with_last(without_last(b, 2), b.size(-1))
    if b.rank == 2:
        return with_last(without_last(a), b.head[1])
    if a.rank is None and a.least_rank < 2:
        return ArrayShape((), AxesSymbol(), (*(ANY_INT,) * (b.least_rank - 2), b.size(-1)))
    batch = requirements.broadcast(without_last(a, 2), without_last(b, 2))
    return with_last(batch, a.size(-2), b.size(-1))


def weighted(requirements: Requirements, x: object, weight: object) -> object:
    """Return the product of a layer's input with its weight."""
    left, right = array_argument(requirements, x), array_argument(requirements, weight)
    dtype = inexact(requirements, promote(left.dtype, right.dtype))
    return ShapedArray(matmul_shape(requirements, left.shape, right.shape), dtype)


@transfer("matmul", "array.__matmul__")
def matmul(requirements: Requirements, a: object, b: object) -> object:
    """``mx.matmul``: a vector is a row on the left and a column on the right."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = inexact(requirements, promote(left.dtype, right.dtype))
    shape = matmul_shape(requirements, left.shape, right.shape, is_layer=False)
    return ShapedArray(shape, dtype)


@transfer("addmm")
def addmm(
    requirements: Requirements,
    c: object,
    a: object,
    b: object,
    alpha: object = 1.0,
    beta: object = 1.0,
) -> object:
    """``mx.addmm``: ``c`` broadcasts to the shape of the product."""
    added = array_argument(requirements, c)
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = inexact(requirements, promote(promote(left.dtype, right.dtype), added.dtype))
    shape = matmul_shape(requirements, left.shape, right.shape)
    if not is_real(dtype):
        # A complex product is added to, and may grow.
        if dtype == "complex64":
            inexact(requirements, promote(left.dtype, right.dtype))
        return ShapedArray(requirements.broadcast(shape, added.shape), dtype)
    reason = f"{added.shape} doesn't broadcast to the product's shape {shape}"
    fits(requirements, added.shape, shape, reason)
    if right.shape.rank == 1 and added.shape.rank == 1 and left.shape.least_rank > 2:
        # The product of many rows with a vector is a column, which a vector isn't added to.
        requirements.equal(added.shape.head[0], 1, reason)
    return ShapedArray(shape, dtype)


@transfer("inner")
def inner(requirements: Requirements, a: object, b: object) -> object:
    """``mx.inner``: a sum over the last axes."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = promote(left.dtype, right.dtype)
    if left.shape.rank == 0 or right.shape.rank == 0:
        return ShapedArray(requirements.broadcast(left.shape, right.shape), dtype)
    if not left.shape.least_rank or not right.shape.least_rank:
        return ShapedArray(unknown_shape(), dtype)
    m, n = left.shape.size(-1), right.shape.size(-1)
    reason = f"the last sizes of {left.shape} and {right.shape} are {m} and {n}"
    requirements.equal(m, n, reason)
    shape = chained(without_last(left.shape), without_last(right.shape))
    return ShapedArray(shape, inexact(requirements, dtype))


@transfer("outer")
def outer(requirements: Requirements, a: object, b: object) -> object:
    """``mx.outer``: the arrays are flattened."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    shape = ArrayShape((left.shape.elements, right.shape.elements))
    return ShapedArray(shape, promote(left.dtype, right.dtype))


@transfer("tensordot")
def tensordot(requirements: Requirements, a: object, b: object, axes: object = 2) -> object:
    """``mx.tensordot``: the last axes of ``a`` with the first of ``b``, or pairs of axes."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = inexact(requirements, promote(left.dtype, right.dtype))
    if isinstance(axes, (tuple, list)):
        shape = _tensordot_axes(requirements, left.shape, right.shape, axes)
        return ShapedArray(shape, dtype)
    if type(axes) is not int:
        return ShapedArray(unknown_shape(), dtype)
    ranks = [shape.rank for shape in (left.shape, right.shape) if shape.rank is not None]
    if axes < 0 or axes > min(ranks, default=axes):
        requirements.fail(f"{axes} axes of {left.shape} and {right.shape} can't be contracted")
    known = max(left.shape.least_rank, right.shape.least_rank)
    for at in range(axes) if axes <= known else ():
        _contracted(requirements, left.shape, right.shape, at - axes, at)
    shape = chained(without_last(left.shape, axes), without_first(right.shape, axes))
    return ShapedArray(shape, dtype)


def _contracted(requirements: Requirements, a: ArrayShape, b: ArrayShape, i: int, j: int) -> None:
    m, n = a.size(i), b.size(j)
    requirements.equal(m, n, f"axis {i} of {a} is {m}, and axis {j} of {b} is {n}")


def _tensordot_axes(
    requirements: Requirements, a: ArrayShape, b: ArrayShape, axes: Sequence[object]
) -> ArrayShape:
    """Return the shape where pairs of axes are contracted."""
    if len(axes) != 2:
        requirements.refuse(f"axes={axes!r} is not a pair of lists")
    if not all(isinstance(part, (tuple, list)) for part in axes):
        if any(type(part) is int for part in axes):
            requirements.refuse(f"axes={axes!r} is not a pair of lists")
        return unknown_shape()
    first, second = integers_of(axes[0]), integers_of(axes[1])
    if len(axes[0]) != len(axes[1]):  # type: ignore[arg-type]
        requirements.fail(f"the axes {first} and {second} are not as many")
    if a.rank is None or b.rank is None or first is None or second is None:
        return unknown_shape()
    left = [requirements.axis(axis, a) for axis in first]
    right = [requirements.axis(axis, b) for axis in second]
    if None in left or None in right:
        rank = a.rank + b.rank - 2 * len(left)
        return ArrayShape((ANY_INT,) * rank) if rank >= 0 else unknown_shape()
    if len(set(left)) < len(left) or len(set(right)) < len(right):
        requirements.fail(f"the axes {first} and {second} name one twice")
    for i, j in zip(left, right, strict=True):
        _contracted(requirements, a, b, i or 0, j or 0)
    kept = [n for at, n in enumerate(a.head) if at not in left]
    kept += [n for at, n in enumerate(b.head) if at not in right]
    return ArrayShape(tuple(kept))


def batch_indices(
    requirements: Requirements, a: ArrayShape, b: ArrayShape, lhs: object, rhs: object
) -> ArrayShape:
    """The batch axes of a product of gathered matrices: those of indices, else the operand's."""
    parts: list[ArrayShape] = []
    for shape, value in ((a, lhs), (b, rhs)):
        indices = optional_array(requirements, value)
        integral(requirements, indices)
        parts.append(without_last(shape, 2) if indices is None else indices.shape)
    return requirements.broadcast(*parts)


@transfer("gather_mm")
def gather_mm(
    requirements: Requirements,
    a: object,
    b: object,
    lhs_indices: object = None,
    rhs_indices: object = None,
    *,
    sorted_indices: object = False,
) -> object:
    """``mx.gather_mm``: indices choose matrices of both operands."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    dtype = promote(left.dtype, right.dtype)
    if lhs_indices is None and rhs_indices is None:
        return matmul(requirements, left, right)
    if left.shape.rank == 0 or right.shape.rank == 0:
        requirements.fail(f"the shapes are {left.shape} and {right.shape}")
    real_floating(requirements, dtype)
    if any(one.shape.rank is None and one.shape.least_rank < 2 for one in (left, right)):
        return ShapedArray(unknown_shape(), dtype)
    left_vector, right_vector = left.shape.rank == 1, right.shape.rank == 1
    x = ArrayShape((1, *left.shape.head)) if left_vector else left.shape
    w = ArrayShape((*right.shape.head, 1)) if right_vector else right.shape
    reason = f"the inner sizes of {x} and {w} are {x.size(-1)} and {w.size(-2)}"
    requirements.equal(x.size(-1), w.size(-2), reason)
    batch = batch_indices(requirements, x, w, lhs_indices, rhs_indices)
    rows = () if left_vector else (x.size(-2),)
    columns = () if right_vector else (w.size(-1),)
    return ShapedArray(with_last(batch, *rows, *columns), dtype)


@transfer("segmented_mm")
def segmented_mm(requirements: Requirements, a: object, b: object, segments: object) -> object:
    """``mx.segmented_mm``: a product for each pair of offsets into the inner axis."""
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    given = array_argument(requirements, segments)
    dtype = promote(left.dtype, right.dtype)
    rows, _ = requirements.rank(left, 2, f"{left.shape} is not a matrix")
    _, columns = requirements.rank(right, 2, f"{right.shape} is not a matrix")
    real_floating(requirements, dtype)
    integral(requirements, given)
    if given.shape.rank == 0:
        requirements.fail("the segments have no axes")
    reason = f"the last size of the segments {given.shape} is not 2"
    requirements.equal(given.shape.size(-1), 2, reason)
    return ShapedArray(with_last(without_last(given.shape), rows, columns), dtype)


@transfer("block_masked_mm")
def block_masked_mm(
    requirements: Requirements,
    a: object,
    b: object,
    block_size: object = 64,
    mask_out: object = None,
    mask_lhs: object = None,
    mask_rhs: object = None,
) -> object:
    """``mx.block_masked_mm``: masks have an element for each block."""
    found = matmul(requirements, a, b)
    left, right = array_argument(requirements, a), array_argument(requirements, b)
    masks = [optional_array(requirements, mask) for mask in (mask_out, mask_lhs, mask_rhs)]
    if not isinstance(found, ShapedArray) or masks == [None, None, None]:
        return found
    if type(block_size) is int and block_size not in (16, 32, 64):
        requirements.fail(f"block_size is {block_size}, not 32 or 64")
    for mask, of in zip(masks, (found, left, right), strict=True):
        if mask is None or of.shape.least_rank < 2 or type(block_size) is not int:
            continue
        reason = f"the mask {mask.shape} doesn't fit the blocks of {of.shape}"
        blocks = tuple(ceil_divide(of.shape.size(at), block_size) for at in (-2, -1))
        batch = without_last(found.shape, 2)
        fits(requirements, mask.shape, with_last(batch, *blocks), reason)
    return found


@transfer("hadamard_transform")
def hadamard_transform(
    requirements: Requirements, a: object, scale: object = None, stream: object = None
) -> object:
    """``mx.hadamard_transform``: the last size is a power of 2, times 1, 12, 20 or 28."""
    x = array_argument(requirements, a)
    size = x.shape.size(-1) if x.shape.rank != 0 else 1
    if x.shape.elements == 0 or (type(size) is int and not _is_transformed(size)):
        requirements.fail(f"the last size of {x.shape} isn't a power of 2 times 1, 12, 20 or 28")
    if is_floating(x.dtype) or size == 1:
        return x
    is_known = isinstance(x.dtype, str) and type(size) is int
    return ShapedArray(x.shape, "float32" if is_known else None)


def _is_transformed(size: int) -> bool:
    """Return whether a size is a power of 2 times 1, 12, 20 or 28."""
    odd = size
    while odd and odd % 2 == 0:
        odd //= 2
    return odd == 1 or (odd in (3, 5, 7) and size % 4 == 0)


@transfer("distributed.all_sum", "distributed.all_max", "distributed.all_min")
def all_reduced(requirements: Requirements, x: object, *, group: object = None) -> object:
    """``mx.distributed.all_sum`` and the like: the shape stays."""
    return x


@transfer("distributed.all_gather", "distributed.sum_scatter")
def gathered(requirements: Requirements, x: object, *, group: object = None) -> object:
    """``mx.distributed.all_gather``: the first size times or by the number of processes."""
    array = operand(requirements, x)
    if array.shape.rank:
        return ShapedArray(ArrayShape((ANY_INT, *array.shape.head[1:])), array.dtype)
    return ShapedArray(unknown_shape(), array.dtype)


@transfer("distributed.send")
def send(requirements: Requirements, x: object, dst: object, *, group: object = None) -> object:
    """``mx.distributed.send``: the array that is sent."""
    return x


@transfer("distributed.recv_like")
def receive_like(
    requirements: Requirements, x: object, src: object, *, group: object = None
) -> object:
    """``mx.distributed.recv_like``: an array like another one."""
    return x


@transfer("distributed.recv")
def receive(
    requirements: Requirements, shape: object, dtype: object, src: object, *, group: object = None
) -> object:
    """``mx.distributed.recv``: an array of a shape and dtype."""
    found = shape_of(shape)
    given = dtype.dtype if isinstance(dtype, DTypeValue) else None
    return ShapedArray(unknown_shape() if found is None else found, given)


#: Longer subscripts are not parsed.
LONGEST = 200


class Subscript(Struct, frozen=True):
    """The letters of one operand or of the result: those ahead of an ellipsis, and the rest.

    ``behind``: None without an ellipsis.
    """

    ahead: str
    behind: str | None = None

    @property
    def letters(self) -> str:
        """All letters."""
        return self.ahead + (self.behind or "")


def parsed(requirements: Requirements, text: str) -> Subscript:
    """Return the subscript of one operand."""
    ahead, dots, behind = text.partition("...")
    for letter in ahead + behind:
        if not (letter.isascii() and letter.isalpha()):
            requirements.fail(f"the subscript {text!r} has {letter!r}, which is not a letter")
    return Subscript(ahead, behind if dots else None)


def subscripts_of(requirements: Requirements, text: str) -> tuple[list[Subscript], Subscript]:
    """Return the subscripts of the operands, and that of the result."""
    left, arrow, right = text.replace(" ", "").partition("->")
    inputs = [parsed(requirements, part) for part in left.split(",")]
    if arrow:
        output = parsed(requirements, right)
    else:
        letters = "".join(one.letters for one in inputs)
        once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
        has_ellipsis = any(one.behind is not None for one in inputs)
        output = Subscript("", once) if has_ellipsis else Subscript(once)
    if len(set(output.letters)) < len(output.letters):
        requirements.fail(f"the result's subscript {right!r} has a letter twice")
    for letter in output.letters:
        if not any(letter in one.letters for one in inputs):
            requirements.fail(f"no operand has the result's subscript {letter!r}")
    return inputs, output


@transfer("einsum")
def einsum(requirements: Requirements, subscripts: object, *operands: object) -> object:
    """``mx.einsum``: letters of one operand are summed, those of several are contracted."""
    if not isinstance(subscripts, str) or len(subscripts) > LONGEST:
        if isinstance(subscripts, ShapedArray):
            requirements.fail("the first argument is an array, not the subscripts")
        return ShapedArray(unknown_shape())
    arrays = [array_argument(requirements, value) for value in operands]
    inputs, output = subscripts_of(requirements, subscripts)
    if len(inputs) != len(arrays):
        requirements.fail(
            f"{subscripts!r} is for {len(inputs)} arrays, and {len(arrays)} are given"
        )
    sizes: dict[str, Integer] = {}
    ellipsis, wide, is_open = ArrayShape(), 0, False
    for one, array in zip(inputs, arrays, strict=True):
        own, between = _read(requirements, one, array, subscripts)
        ellipsis = requirements.broadcast(ellipsis, between)
        wide += between.rank != 0
        is_open = is_open or between.rank is None
        for letter, size in own.items():
            reason = f"{letter!r} of {subscripts!r} is {sizes.get(letter)} and {size}"
            others = tuple(n for at, n in own.items() if at != letter)
            sizes[letter] = meeting(requirements, sizes.get(letter, 1), size, reason, others)
    dtype = _dtype(requirements, arrays, inputs, output)
    if wide and output.behind is None:
        # The axes of ellipses are summed, or contracted like letters.
        if is_open:
            dtype = dtype if isinstance(dtype, str) and dtype in FLOATS else None
        else:
            dtype = summed_dtype(dtype) if wide == 1 else inexact(requirements, dtype)
    shape = ArrayShape(tuple(sizes[letter] for letter in output.ahead))
    if output.behind is not None:
        shape = with_last(chained(shape, ellipsis), *(sizes[letter] for letter in output.behind))
    return ShapedArray(shape, dtype)


def _read(
    requirements: Requirements, subscript: Subscript, array: ShapedArray, text: str
) -> tuple[dict[str, Integer], ArrayShape]:
    """Return the sizes of an operand's letters, and the axes of its ellipsis."""
    shape, letters = array.shape, subscript.letters
    reason = f"the subscript {letters!r} of {text!r} doesn't fit the shape {shape}"
    between = ArrayShape()
    if subscript.behind is None:
        values = requirements.rank(array, len(letters), reason)
    else:
        requirements.least_rank(array, len(letters), reason)
        first, last = len(subscript.ahead), len(subscript.behind)
        values = (
            *(shape.size(at) for at in range(first)),
            *(shape.size(at) for at in range(-last, 0)),
        )
        between = _between(shape, first, last)
    sizes: dict[str, Integer] = {}
    for letter, size in zip(letters, values, strict=True):
        said = f"{letter!r} of {text!r} is {sizes.get(letter)} and {size} in {shape}"
        sizes[letter] = requirements.equal(sizes.get(letter, size), size, said)
    return sizes, between


def _between(shape: ArrayShape, first: int, last: int) -> ArrayShape:
    """Return the axes that an ellipsis stands for."""
    if shape.middle is None:
        return ArrayShape(shape.head[first : len(shape.head) - last])
    if len(shape.head) < first or len(shape.tail) < last:
        return unknown_shape()
    return ArrayShape(shape.head[first:], shape.middle, shape.tail[: len(shape.tail) - last])


def meeting(
    requirements: Requirements,
    m: Integer,
    n: Integer,
    reason: str,
    others: tuple[Integer, ...] = (),
) -> Integer:
    """Return the size of a letter in two operands, which are equal unless one is 1.

    Args:
        requirements: get the condition.
        m: in one operand.
        n: in another one.
        reason: why they raise.
        others: the sizes of other letters in the other operand.
    """
    if type(m) is int and m == 1:
        return n
    if type(n) is int and n == 1:
        return m
    if compare(m, n) is Comparison.EQUAL:
        return m
    if m is not ANY_INT and n is not ANY_INT:
        if type(m) is int and type(n) is int:
            requirements.fail(reason)
        requirements.equal_unless_one(m, n, reason, is_unmeant=is_among(m, others))
    known = [size for size in (m, n) if type(size) is int and size > 1]
    return known[0] if known else ANY_INT


def _dtype(
    requirements: Requirements,
    arrays: list[ShapedArray],
    inputs: list[Subscript],
    output: Subscript,
) -> DType:
    """Return the dtype of the result: contractions need a floating one."""
    letters = [set(one.letters) for one in inputs]
    found: list[DType] = []
    for own, array in zip(letters, arrays, strict=True):
        others = [one for one in letters if one is not own]
        alone = own.difference(*others, output.letters)
        found.append(summed_dtype(array.dtype) if alone else array.dtype)
    dtype = found[0] if found else None
    for one in found[1:]:
        dtype = promote(dtype, one)
    gone = set().union(*letters).difference(output.letters)
    if any(sum(letter in own for own in letters) > 1 for letter in gone):
        return inexact(requirements, dtype)
    return dtype


@transfer("einsum_path")
def einsum_path(requirements: Requirements, subscripts: object, *operands: object) -> object:
    """``mx.einsum_path``: an order, which isn't followed."""
    return UNKNOWN
